#!/usr/bin/env python3
"""A stimulus command of `mtreplay live` for mtswitchd: for each trace it starts a switch that is configured as the trace says,
does by mtctl what the trace's owner does, and reads the counters. docs/mtreplay.md says what passes on standard input and
output. Run it where the switch's interfaces are (as root, in their network namespace):

    live_mtswitchd.py --interface 0=va0 [--interface 1=va1] [--programs build/src/tools]"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

LONGEST_TIMER_US = 3_600_000_000  # what mtswitchd takes; beyond the end of any trace that is run
PATIENCE = 30.0  # seconds
CAN = ["enable", "disable", "carrier_down", "carrier_up", "counters"]


class Cannot(Exception):
    """Why something cannot be done: the trace is then not run."""


def run(*command):
    """A command's standard output; Cannot if it failed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Cannot(f"{pathlib.Path(str(command[0])).name}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


# --- the trace's configuration in mtswitchd's terms ---

def timers_text(timers):
    text = "adaptive: false"
    for name, value in timers.items():
        if name in ("ack_every", "replay_limit"):
            text += f" {name}: {value}"
        else:
            text += f" {name}_us: {min(max(value // 1000, 1), LONGEST_TIMER_US)}"
    return f"timers {{ {text} }}"


def port_text(port, interface, ether_type):
    text = f'port: {port["port"]} af_packet {{ interface: "{interface}" }} mac: "{port["mac"]}" enabled: false'
    text += f" ether_type: {ether_type}"
    if port["fixed_peer_mac"]:
        text += f' peer_mac: "{port["peer_mac"]}"'
    for ours, theirs in (("expect_node", "peer_node"), ("expect_port", "peer_port")):
        if ours in port:
            text += f" {theirs}: {port[ours]}"
    if "edge" in port:
        text += f' edge {{ nodes: {port["edge"]["nodes"]} partitions: {port["edge"]["partitions"]} }}'
    link = f'mtu: {port["mtu"]} cell: {port["cell"]} window: {port["window"]} capacity: {port["capacity"]} mark_bytes: 0'
    return f'ports {{ {text} link {{ {link} {timers_text(port["timers"])} }} }}\n'


def route_text(route):
    tiers = ""
    for tier in route["tiers"]:
        hops = {}  # one that stands there k times has weight k
        for hop in tier:
            key = (hop["port"], hop["raise"])
            hops[key] = hops.get(key, 0) + 1
        tiers += " tiers { " + " ".join(
            f"hops {{ port: {port} raise: {raised} weight: {weight} }}" for (port, raised), weight in hops.items()) + " }"
    return f'routes {{ dst: {route["dst"]}{tiers} }}\n'


def node_text(dut, interfaces, socket, ether_type):
    return (f'node: {dut["node"]}\ncontrol {{ socket: "{socket}" }}\n'
            + "".join(port_text(port, interfaces[port["port"]], ether_type) for port in dut["ports"])
            + "".join(route_text(route) for route in dut["routes"]))


# --- the switch ---

class Switch:
    def __init__(self, programs, interfaces, folder):
        self.programs, self.interfaces, self.folder = programs, interfaces, folder
        self.socket = folder / "socket"
        self.process = None

    def program(self, name):
        return self.programs / name / name if self.programs else name

    def ctl(self, *arguments):
        return run(self.program("mtctl"), "-s", self.socket, *arguments)

    def shown(self, view):
        return json.loads(self.ctl("-j", "show", view))[view]

    def configure(self, line):
        """Starts it, its ports disabled. A trace before, or a run that was killed, may have left an interface down."""
        dut = line["dut"]
        beyond = [need for need in line["needs"] if need not in CAN]
        if beyond:
            raise Cannot(f"no command of mtctl does this to mtswitchd: {', '.join(beyond)}")
        if not dut["consume"]:
            raise Cannot("packets to mtswitchd itself leave its buffer at once (the trace has \"consume\": false)")
        missing = [port["port"] for port in dut["ports"] if port["port"] not in self.interfaces]
        if missing:
            raise Cannot(f"no --interface for port {missing[0]}")
        for interface in self.interfaces.values():
            run("ip", "link", "set", "dev", interface, "up")
        file = self.folder / "node.textproto"
        file.write_text(node_text(dut, self.interfaces, self.socket, line["ether_type"]))
        run(self.program("mtswitchd"), "--config", file, "--check")
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen([str(self.program("mtswitchd")), "--config", str(file)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait("the switch answers", self.answers)
        return {"ok": True, "pid": self.process.pid}

    def answers(self):
        if self.process.poll() is not None:
            raise Cannot(f"mtswitchd ended: {(self.folder / 'log').read_text().strip()[-500:]}")
        try:
            self.ctl("show", "node")
        except Cannot:
            return False
        return True

    @staticmethod
    def wait(what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise Cannot(f"waited in vain: {what}")
            time.sleep(0.01)

    def set_carrier(self, port, up):
        """By the interface of the switch's own side: to AF_PACKET one that is down has no carrier."""
        run("ip", "link", "set", "dev", self.interfaces[port], "up" if up else "down")
        self.wait("the switch notices", lambda: self.carrier(port) == up)

    def carrier(self, number):
        return any(port["port"] == number and port.get("carrier", False) for port in self.shown("ports"))

    def counters(self):
        counters = {}
        for entry in self.shown("drops"):
            place = {"link": str(entry.get("port")), "network": "node"}.get(entry["layer"])
            if place is not None and place != "None" and entry["count"]:
                drops = counters.setdefault(place, {})
                drops[entry["reason"]] = drops.get(entry["reason"], 0) + entry["count"]
        return counters

    def do(self, line):
        what = line["do"]
        if what == "configure":
            return self.configure(line)
        if what == "results":
            return {"ok": True, "counters": self.counters()}
        if what in ("enable", "disable"):
            self.ctl("port", "up" if what == "enable" else "down", line["port"])
        elif what in ("carrier_up", "carrier_down"):
            self.set_carrier(line["port"], what == "carrier_up")
        else:
            raise Cannot(f"{what} is nothing that mtctl can do")
        return {"ok": True}

    def end(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for interface in self.interfaces.values():  # a trace may end without its carrier
            subprocess.run(["ip", "link", "set", "dev", interface, "up"], capture_output=True, check=False)


def port_and_interface(text):
    port, _, interface = text.partition("=")
    return int(port), interface


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--interface", type=port_and_interface, action="append", required=True, metavar="PORT=NAME")
    options.add_argument("--programs", type=pathlib.Path, help="folder of mtswitchd/mtswitchd and mtctl/mtctl; else by PATH")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="mtl-live-") as folder:
        switch = Switch(chosen.programs, dict(chosen.interface), pathlib.Path(folder))
        try:
            for text in sys.stdin:
                try:
                    answer = switch.do(json.loads(text))
                except Cannot as why:
                    answer = {"ok": False, "why": str(why)}
                print(json.dumps(answer), flush=True)
        finally:
            switch.end()


if __name__ == "__main__":
    main()
