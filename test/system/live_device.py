#!/usr/bin/env python3
"""The example device of pcap/ on a Linux interface, and its owner: a stimulus command of `mtreplay live` that is the device as
well. With --wrong it breaks one rule.

    live_device.py --interface eth0 [--wrong peer_nonce]"""

import argparse
import json
import os
import pathlib
import random
import select
import socket
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "pcap"))
import example_device  # noqa: E402  (found by the line above)
from example_device import ECHO, INIT, ORDER, STATUS, Link  # noqa: E402

ETHER_TYPE = 0x88B5
MANY = 1000  # bring-ups; more than any trace has


class PeerNonce(Link):
    """L6: never tells the nonce that it got."""

    def frame(self, now, kind, body, flags=0):
        super().frame(now, kind, body[:4] + bytes(4) + body[8:] if kind == INIT else body, flags)


class SameEpoch(Link):
    """L4: asks for the epoch of last time."""

    def begin(self, now):
        self.port["epochs"] = [self.port["epochs"][0]] * MANY
        super().begin(now)


class Padding(Link):
    """P4: an INIT that answers is as short as any."""

    def frame(self, now, kind, body, flags=0):
        send = self.send
        self.send = lambda at, port, made: send(at, port, made[:70] if kind == INIT else made)
        super().frame(now, kind, body, flags)
        self.send = send


class Echo(Link):
    """L19: echoes the peer's clock without the time that has gone since."""

    def frame(self, now, kind, body, flags=0):
        if kind == STATUS and flags & ECHO:
            body = body[:20] + self.last_status[0].to_bytes(4, "big")
        super().frame(now, kind, body, flags)


class Hasty(Link):
    """L4: repeats its INIT twice as often."""

    def expire(self, now, timer):
        super().expire(now, timer)
        if timer == "init":
            self.due["init"] = now + self.timers["init_interval"] // 2

    def begin(self, now):
        super().begin(now)
        self.due["init"] = now + self.timers["init_interval"] // 2


class Tagged(Link):
    """P1: its frames have an 802.1Q tag, of VLAN 5."""

    def frame(self, now, kind, body, flags=0):
        send = self.send
        self.send = lambda at, port, made: send(at, port, made[:12] + bytes((0x81, 0, 0, 5)) + made[12:])
        super().frame(now, kind, body, flags)
        self.send = send


class Mtu(Link):
    """Tells another mtu than it is configured to have."""

    def frame(self, now, kind, body, flags=0):
        super().frame(now, kind, body[:12] + (1000).to_bytes(2, "big") + body[14:] if kind == INIT else body, flags)


class Dies(Link):
    """Ends with the first frame that it gets."""

    def receive(self, now, frame):
        os._exit(1)


WRONG = {"tagged": Tagged, "mtu": Mtu, "dies": Dies, "peer_nonce": PeerNonce, "same_epoch": SameEpoch, "padding": Padding, "echo": Echo, "hasty": Hasty}


class Device:
    """One port. Its time is the host's."""

    def __init__(self, interface, kind):
        self.kind = kind
        self.link = None
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHER_TYPE))
        self.socket.bind((interface, ETHER_TYPE))

    def configure(self, line):
        beyond = [need for need in line["needs"] if need not in ("enable", "disable", "counters")]
        ports = line["dut"]["ports"]
        if beyond or len(ports) != 1:
            return {"ok": False, "why": f"cannot {', '.join(beyond)}" if beyond else "has one port"}
        port = dict(ports[0])
        # What it would draw; the trace's are its own.
        port["nonces"] = [random.randrange(1, 2**32) for _ in range(MANY)]
        port["epochs"] = [1 + (i * 7 + random.randrange(7)) % 255 for i in range(MANY)]
        self.link = self.kind(port, line["dut"]["node"], lambda _, __, frame: self.socket.send(frame))
        return {"ok": True, "pid": os.getpid()}

    def do(self, line):
        if line["do"] == "configure":
            return self.configure(line)
        if line["do"] == "results":
            return {"ok": True, "counters": {"0": self.link.counters} if self.link.counters else {}}
        self.link.owner(time.monotonic_ns(), line["do"])
        return {"ok": True}

    def due(self):
        """(time, timer) of what expires next, or None."""
        if self.link is None or not self.link.due:
            return None
        return min((at, ORDER.index(timer), timer) for timer, at in self.link.due.items())[::2]

    def run(self, lines):
        while True:
            due = self.due()
            left = None if due is None else max(due[0] - time.monotonic_ns(), 0) / 1e9
            ready, _, _ = select.select([lines, self.socket], [], [], left)
            if self.socket in ready:
                frame = self.socket.recv(65535)
                if self.link is not None:
                    self.link.receive(time.monotonic_ns(), frame)
            elif lines in ready:
                text = lines.readline()
                if not text:
                    return
                print(json.dumps(self.do(json.loads(text))), flush=True)
            elif due is not None and time.monotonic_ns() >= due[0]:
                self.link.expire(time.monotonic_ns(), due[1])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--interface", required=True)
    options.add_argument("--wrong", choices=WRONG)
    chosen = options.parse_args()
    kind = WRONG[chosen.wrong] if chosen.wrong else example_device.Link
    with open(0, "rb", buffering=0) as lines:
        Device(chosen.interface, kind).run(lines)


if __name__ == "__main__":
    main()
