#!/usr/bin/env python3
"""A device under test for check.py that can bring up a link and keep it, and nothing more: what README.md asks of a device,
shown in one file. It does rules P2, P4, L1 to L8 and L18a, and what of L21 and L23 concerns links without DATA; so it passes
the traces of bring-up, and fails where DATA comes or goes.

    check.py bringup_peer_first -- ./example_device.py"""

import json
import struct
import sys

DATA, STATUS, NACK, INIT, CLOSE = range(5)
ECHO, POLL = 2, 4
UNKNOWN_PEER = bytes.fromhex("034d544c0001")  # P2
DOWN, BRING_UP, UP = "DOWN", "INIT", "UP"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Link:
    """One port. Frames and the owner's calls come in by methods, with the time; frames go out by `send`."""

    def __init__(self, port, node, send):
        self.port, self.node, self.send = port, node, send
        self.own, self.timers = bytes.fromhex(port["mac"].replace(":", "")), port["timers"]
        self.fixed = bytes.fromhex(port["peer_mac"].replace(":", "")) if port["fixed_peer_mac"] else None
        self.enabled, self.carrier, self.state, self.bring_ups, self.counters = False, True, DOWN, 0, {}
        self.due = {}  # timer: time, in the order of C2

    def count(self, name):
        self.counters[name] = self.counters.get(name, 0) + 1

    # Frames out.

    def frame(self, now, kind, body, flags=0):
        epoch = 0 if kind == INIT else self.peer["epoch"]
        head = struct.pack(">BBHHHBBH", 0x10 | kind, epoch, len(body), 0, 0, 15, flags, 0)
        made = (self.fixed or self.learned or UNKNOWN_PEER) + self.own + b"\x88\xb5" + head
        made += struct.pack(">I", crc32c(head + body)) + body
        long = kind == INIT and self.peer is not None
        mtu = min(self.port["mtu"], self.peer["mtu"]) if long else 0
        self.send(now, self.port["port"], made.ljust(max(60, 30 + mtu if long else 0), b"\0"))  # P4
        self.due["keepalive"] = now + self.timers["keepalive_interval"]

    def send_init(self, now):
        peer_nonce = self.peer["nonce"] if self.peer else 0
        self.confirmed = self.confirmed or self.peer is not None
        port = self.port
        self.frame(now, INIT, struct.pack(">IIHHHBBHH8HI", self.nonce, peer_nonce, self.node, port["port"], port["mtu"],
                                          self.epoch, 8, port["cell"], port["window"], *port["capacity"], 0))

    def send_status(self, now, flags=0):
        echo = 0
        if self.last_status:
            flags, echo = flags | ECHO, (self.last_status[0] + now - self.last_status[1]) % 2**32  # L19
        self.frame(now, STATUS, struct.pack(">8HII", *self.port["capacity"], now % 2**32, echo), flags)

    # States (L4, L8).

    def begin(self, now):
        """Enters INIT."""
        self.nonce, self.epoch = self.port["nonces"][self.bring_ups], self.port["epochs"][self.bring_ups]
        self.bring_ups += 1
        self.state, self.peer, self.learned = BRING_UP, None, None
        self.heard, self.confirmed, self.last_status = False, False, None
        self.due = {"init": now + self.timers["init_interval"]}
        self.send_init(now)
        self.due.pop("keepalive")

    def leave(self):
        self.state, self.due = DOWN, {}

    def owner(self, now, what):
        before = self.enabled and self.carrier
        if what == "disable" and self.state == UP:
            self.frame(now, CLOSE, bytes([1, 0, 0, 0]))
        self.enabled = {"enable": True, "disable": False}.get(what, self.enabled)
        self.carrier = {"carrier_up": True, "carrier_down": False}.get(what, self.carrier)
        if not (self.enabled and self.carrier):
            self.leave()
        elif not before:
            self.begin(now)

    def up(self, now):
        if not self.confirmed:
            self.send_init(now)
        self.state = UP
        self.due = {"dead": now + self.timers["dead_interval"], "poll": now + self.timers["replay_timeout"]}
        self.send_status(now)

    # Frames in.

    def receive(self, now, frame):
        if frame[12:14] != b"\x88\xb5":
            return
        expected = self.fixed or (self.learned if self.state == UP else None)
        if expected and frame[6:12] != expected:
            return self.count("foreign")
        body = self.checked(frame[14:])
        if body is None:
            return
        kind, epoch = frame[14] & 15, frame[15]
        if self.state == DOWN or kind != INIT and (self.state != UP or epoch != self.epoch):
            return self.count("stale")
        if kind == INIT:
            return self.receive_init(now, frame[6:12], body)
        self.heard = True
        self.due["dead"] = now + self.timers["dead_interval"]
        self.due.pop("poll", None)
        if kind == CLOSE:
            return self.begin(now)
        if kind == STATUS:
            self.last_status = (struct.unpack_from(">I", body, 16)[0], now)
            if frame[23] & POLL:
                self.send_status(now)  # L18a

    def checked(self, frame):
        """The body, if the frame is well-formed and its header CRC good (L3)."""
        if len(frame) < 16:
            return self.count("malformed")
        first, _, length, _, _, vcs, _, _, crc = struct.unpack_from(">BBHHHBBHI", frame)
        legal = {DATA: 16 <= length <= self.port["mtu"], STATUS: length == 24, NACK: length % 4 == 0 and 4 <= length <= 128,
                 INIT: length == 40, CLOSE: length == 4}
        if (first >> 4 != 1 or not legal.get(first & 15) or 16 + length > len(frame) or vcs >> 4 > 7 or 8 <= vcs & 15 < 15):
            return self.count("malformed")
        body = frame[16:16 + length]
        if crc32c(frame[:12] + (body[:12] if first & 15 == DATA else body)) != crc:
            return self.count("bad_header_crc")
        return body

    def receive_init(self, now, source, body):
        names = ("nonce", "peer_nonce", "node", "port", "mtu", "epoch", "vcs", "cell", "window")
        values = struct.unpack(">IIHHHBBHH8HI", body)
        peer, capacity = dict(zip(names, values)), values[9:17]
        if peer["nonce"] == self.nonce:
            return self.count("looped")  # L5
        if self.state == UP and peer["nonce"] == self.peer["nonce"]:
            if not self.heard:  # L7
                self.send_init(now)
                self.send_status(now)
            return None
        if (peer["vcs"] != 8 or 0 in (peer["cell"], peer["epoch"], peer["nonce"]) or not 1 <= peer["window"] <= 16384
                or peer["mtu"] < 64 or sum(capacity) > 32767):
            return self.count("incompatible")
        if any(f"expect_{name}" in self.port and self.port[f"expect_{name}"] != peer[name] for name in ("node", "port")):
            return self.count("wrong_peer")
        if self.state == UP:
            self.begin(now)  # L7: the peer has restarted
        if self.peer and self.peer["nonce"] != peer["nonce"]:
            self.confirmed = False
        self.peer, self.learned = peer, source
        if peer["peer_nonce"] == self.nonce:
            return self.up(now)
        self.send_init(now)
        self.due = {"init": now + self.timers["init_interval"]}

    # Timers, in the order of C2.

    def expire(self, now, timer):
        del self.due[timer]
        if timer == "init":
            self.due["init"] = now + self.timers["init_interval"]
            self.send_init(now)
            self.due.pop("keepalive")
        elif timer == "dead":
            self.begin(now)
        elif timer == "poll":
            self.due["poll"] = now + self.timers["replay_timeout"]
            self.send_status(now, POLL)  # L21
        elif timer == "keepalive":
            self.send_status(now)


ORDER = ("init", "dead", "poll", "keepalive")


def run(told):
    frames = []

    def send(now, port, frame):
        frames.append({"at": now, "port": port, "frame": frame.hex()})

    links = {port["port"]: Link(port, told["dut"]["node"], send) for port in told["dut"]["ports"]}

    def timers_until(end):
        """Lets expire what is due before `end`, one after the other (C2)."""
        while True:
            due = [(time, port, ORDER.index(timer), timer) for port, link in links.items() for timer, time in link.due.items()]
            if not due or min(due)[0] >= end:
                return
            time, port, _, timer = min(due)
            links[port].expire(time, timer)

    for event in told["events"]:
        timers_until(event["at"])  # those of the same time come after it
        if "frame" in event:
            links[event["port"]].receive(event["at"], bytes.fromhex(event["frame"]))
        elif "port" in event:
            links[event["port"]].owner(event["at"], event["do"])
    timers_until(told["end"] + 1)  # events at the end still happen
    return {"frames": frames, "delivered": [], "counters": {str(port): link.counters for port, link in links.items()}}


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
