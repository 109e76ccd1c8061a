#!/usr/bin/env python3
"""The scenario of scripts/demo, which builds, calls this, and cleans up behind it.

Two switches in namespaces of their own, joined by two cables, one of them through a Linux bridge in a
further namespace; two hosts at each, on Ethernet, and one process on a local port of each. All six
endpoints exchange numbered datagrams while the cables lose and damage frames, and while first one and then the other cable is cut.

Exit status: 0 every datagram arrived once and unaltered, copies were explained by a link's death, and
the books of both switches balance; 1 not so; 2 wrong usage."""

import argparse
import os
import pathlib
import signal
import sys
import time

import lab as labs
from lab import Failure, Lab, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
SWITCHES = {"sw1": 1, "sw2": 2}
HOSTS = {"host1": 11, "host2": 12, "host3": 21, "host4": 22}  # on Ethernet, two at each switch
LOCALS = {"local1": 13, "local2": 23}                          # on a local port of each switch
ENDPOINTS = {**HOSTS, **LOCALS}
LAST = "local2"  # starts last: the others wait for it, and can be looked at until then
CABLES = {0: "straight", 1: "bridged"}  # by port number, the same at both switches
PATIENCE = 30  # seconds that an endpoint waits for another


class Story:
    """What is told while it happens, with the time since the start."""

    def __init__(self):
        self.began = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.began

    def step(self, text):
        print(f"\n[{self.seconds():5.1f} s] {text}", flush=True)

    @staticmethod
    def show(text):
        print("\n".join("    " + line for line in text.rstrip().splitlines()), flush=True)


def configuration(number):
    """The file of switch 1 or 2."""
    other = 3 - number
    first, second, local = 10 * number + 1, 10 * number + 2, 10 * number + 3
    edge = "edge {{ nodes: {} }} "
    return labs.node(
        number,
        labs.port(0, "straight", other),
        labs.port(1, "bridged", other),
        labs.port(2, f"host{2 * number - 1}", first, edge.format(first)),
        labs.port(3, f"host{2 * number}", second, edge.format(second)),
        labs.slot(4, local),
        labs.line((1, (11, 12, 13)), (2, (21, 22, 23))))


def cable(lab):
    """The namespaces and the cables between them."""
    lab.netns(*SWITCHES, *HOSTS, "wire")
    lab.veth(("sw1", "straight"), ("sw2", "straight"))
    lab.veth(("sw1", "bridged"), ("wire", "left"))
    lab.veth(("sw2", "bridged"), ("wire", "right"))
    lab.bridge("wire", "br0", "left", "right")
    for i, host in enumerate(HOSTS):
        lab.veth((f"sw{1 + i // 2}", host), (host, "eth0"))


class Demo:
    def __init__(self, lab, options):
        self.lab = lab
        self.options = options
        self.story = Story()
        self.switches = []
        self.endpoints = {}
        self.problems = []

    # Bringing it up.

    def build(self):
        self.story.step("six namespaces: two switches, four hosts; two cables, one through a bridge in a seventh")
        cable(self.lab)
        for name, number in SWITCHES.items():
            self.switches.append(self.lab.switch(name, configuration(number)))
        self.story.step("mtswitchd --check reads the configurations, and starts nothing")
        for switch in self.switches:
            print(f"    {switch.config}")
            self.story.show(switch.check())
        self.story.step("the switches start")
        for switch in self.switches:
            switch.start()
        self.story.step("five endpoints start, and wait for the sixth")
        for name in ENDPOINTS:
            if name != LAST:
                self.start_endpoint(name)
        self.wait_up({0, 1, 2, 3, 4}, {0, 1, 2, 3})

    def start_endpoint(self, name):
        number = ENDPOINTS[name]
        peers = ",".join(str(n) for n in ENDPOINTS.values() if n != number)
        where = ["--interface", "eth0"] if name in HOSTS else ["--socket", self.switch_of(name).socket]
        self.endpoints[name] = self.lab.perf(
            name, [*where, "--node", number, "--peer", peers, "--rate", self.options.rate, "--size", "64-1400",
                   "--time", self.options.seconds, "--patience", PATIENCE, "--seed", self.options.seed],
            ns=name if name in HOSTS else self.switch_of(name).ns)

    def switch_of(self, name):
        return self.switches[ENDPOINTS[name] // 10 - 1]

    def wait_up(self, *ports):
        """Waits for links of each switch; an endpoint that ended says itself why."""
        def all_up():
            for name, endpoint in self.endpoints.items():
                if not endpoint.alive():
                    raise Failure(f"the endpoint of {name} ended: {endpoint.err.read_text().strip()}")
            return all(switch.state(n) == "up" for switch, numbers in zip(self.switches, ports) for n in numbers)
        wait_until("the links come UP", all_up)

    # Looking at it.

    def show(self, *what):
        for switch in self.switches:
            for view in what:
                print(f"    mtctl -s {switch.socket} show {view}")
                self.story.show(switch.ctl("show", view).stdout)

    def ping(self, nodes):
        """Pings nodes from the first switch."""
        for number in nodes:
            done = self.switches[0].ctl("ping", number, "-c", "2", "-i", "20ms", "-W", "5s", check=False)
            lines = done.stdout.splitlines()
            print("    " + (lines[1] if len(lines) > 1 else done.stderr.strip()))
            if done.returncode != 0:
                self.problems.append(f"node {number} does not answer a ping")

    def look(self):
        self.story.step("links and routes")
        self.show("links", "routes")
        self.story.step("ping from switch 1 to everybody who is there, and the path to a far host")
        self.ping([2, *(n for name, n in ENDPOINTS.items() if name != LAST)])
        done = self.switches[0].ctl("trace", HOSTS["host4"], check=False)
        self.story.show(done.stdout or done.stderr)
        if done.returncode != 0:
            self.problems.append(f"trace to node {HOSTS['host4']} failed")

    # Making it hard.

    def impair(self):
        self.story.step("from now on, of the frames on both cables and both ways, 1 % are lost and 0.1 % damaged")
        for i, switch in enumerate(self.switches):
            for number, name in CABLES.items():
                self.story.show(switch.ctl("impair", name, "--drop", "1", "--corrupt", "0.1", "--seed",
                                           self.options.seed + 10 * i + number).stdout)

    def traffic(self):
        self.story.step(f"the sixth endpoint starts, and with it the traffic: all to all, {self.options.rate} datagrams "
                        f"a second from each, 64 to 1400 bytes, for {self.options.seconds:g} s")
        self.start_endpoint(LAST)
        self.wait_up({0, 1, 2, 3, 4}, {0, 1, 2, 3, 4})
        before = self.forwarded()
        wait_until("traffic flows", lambda: self.forwarded() - before > self.options.rate)
        self.story.step("ping of the last one, under load")
        self.ping([ENDPOINTS[LAST]])

    def forwarded(self):
        return sum(link["packets_in"] for switch in self.switches for link in switch.links().values())

    def cut(self, number, where, interface, how):
        """Pulls the cable of a cable under load, and plugs it in again."""
        cable = CABLES[number]
        time.sleep(self.options.seconds / 8)
        self.story.step(f"the {cable} cable is cut ({how})")
        began = time.monotonic()
        self.lab.link(where, interface, "down")
        waiting = set(range(len(self.switches)))

        def noticed():
            for i in sorted(waiting):
                link = self.switches[i].link(number)
                if link["state"] != "up":
                    waiting.discard(i)
                    self.tell_death(self.switches[i].name, link, time.monotonic() - began)
            return not waiting
        wait_until(f"both ends notice that cable {cable} is cut", noticed)
        time.sleep(1)
        self.story.step("it is plugged in again")
        self.lab.link(where, interface, "up")
        self.wait_up({number}, {number})
        print("    UP at both ends, and carries traffic again")
        if not all(p.alive() for p in self.endpoints.values()):
            self.problems.append("the traffic ended before the cut was over: give it more --seconds")

    @staticmethod
    def tell_death(name, link, seconds):
        text = f"    {name} noticed within {seconds:.1f} s ({link['down_reason']}), {link['packets_back']} packets handed back"
        if link["reroute_ns"]:
            text += f", the first on its new way {ms(link['reroute_ns'])} later"
        print(text, flush=True)

    # Judging it.

    def end(self):
        self.story.step("waiting for the endpoints to account for every datagram")
        reports = {name: process.report(limit=self.options.seconds + 3 * PATIENCE)
                   for name, process in self.endpoints.items()}
        self.story.step("what became of it")
        self.endpoint_table(reports)
        self.cable_table()
        self.judge(reports)
        self.judge_copies(reports)
        self.judge_books()

    def endpoint_table(self, reports):
        head = ["endpoint", "node", "sent", "received", "lost", "altered", "copies removed", "longest gap"]
        rows = []
        for name, report in reports.items():
            total = report["total"]
            rows.append([name, report["node"], total["sent"], total["received"], total["lost"], total["altered"],
                         total["copies"], f"{total['longest_gap_us'] / 1000:.1f} ms"])
        sums = [sum(row[i] for row in rows) for i in range(2, 7)]
        rows.append(["all", "", *sums, max(rows, key=lambda r: float(r[7].split()[0]))[7]])
        self.story.show(table(head, rows))

    def cable_table(self):
        head = ["cable", "at", "packets in", "frames impaired", "replays", "NACKs sent", "deaths", "handed back",
                "rerouted in"]
        rows = []
        for number, name in CABLES.items():
            for switch in self.switches:
                link = switch.link(number)
                nacks = sum(k["out"] for k in link["kinds"] if k["kind"] == "NACK")
                rows.append([name, switch.name, link["packets_in"], switch.port(number)["impaired"], link["replays"],
                             nacks, deaths(link), link["packets_back"],
                             ms(link["reroute_ns"]) if link["reroute_ns"] else "-"])
        print()
        self.story.show(table(head, rows))

    def judge(self, reports):
        for name, report in reports.items():
            total = report["total"]
            for what in ("lost", "altered"):
                if total[what]:
                    self.problems.append(f"{name}: {total[what]} datagrams {what}")
            if total["refused"]:
                self.problems.append(f"{name}: {total['refused']} datagrams had no way, though one cable was always there")
            if not total["finished"]:
                self.problems.append(f"{name} did not finish")
            self.problems.extend(f"{name}: {fault}" for fault in report["faults"])
        sent, received = (sum(r["total"][k] for r in reports.values()) for k in ("sent", "received"))
        if sent == 0 or sent != received:
            self.problems.append(f"{sent} datagrams were sent and {received} received")
        if any(deaths(switch.link(n)) == 0 for switch in self.switches for n in CABLES):
            self.problems.append("a cut cable did not die at both ends: the scenario showed nothing")

    def judge_copies(self, reports):
        """L9: only what a dead link handed back may arrive twice."""
        copies = sum(report["total"]["copies"] for report in reports.values())
        back = sum(link["packets_back"] for switch in self.switches for link in switch.links().values())
        print(f"\n    {copies} copies were removed; links that died had handed back {back} packets")
        if copies > back:
            self.problems.append(f"{copies} copies arrived, but links that died explain at most {back}")

    def judge_books(self):
        for switch in self.switches:
            wrong = switch.books()
            print(f"    the books of {switch.name} " + ("do not balance" if wrong else "balance"))
            if wrong:
                self.story.show(wrong)
                self.problems.append(f"the books of {switch.name} do not balance")

    def run(self):
        self.build()
        self.look()
        self.impair()
        self.traffic()
        self.cut(0, "sw1", "straight", "ip link set straight down: both ends lose their carrier")
        self.cut(1, "wire", "right", "beyond the bridge: switch 1 keeps its carrier, and notices that nobody answers")
        self.end()
        for switch in self.switches:
            if switch.process.stop() != 0:
                self.problems.append(f"{switch.name} did not end well")
        for problem in self.problems:
            print(f"    FAILED: {problem}")
        verdict = "FAILED" if self.problems else "every datagram arrived, unaltered"
        self.story.step(f"{verdict}. The demo took {self.story.seconds():.0f} s.")
        return 1 if self.problems else 0


def deaths(link):
    """How often the link left UP."""
    return sum(down["count"] for down in link["downs"])


def ms(ns):
    return f"{ns / 1e6:.2f} ms"


def table(head, rows):
    """Columns right-aligned but the first."""
    cells = [head, *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
                     for row in cells)


def end_politely(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo", description="A fabric at work, and a cable cut.")
    parser.add_argument("--seconds", type=float, default=15, help="of sending (default 15)")
    parser.add_argument("--rate", type=int, default=2000, help="datagrams a second from each endpoint (default 2000)")
    parser.add_argument("--seed", type=int, default=1, help="of content, sizes and faults (default 1)")
    options = parser.parse_args()
    if options.seconds < 12 or options.rate < 1:
        parser.error("--seconds is at least 12, for two cuts and what follows; --rate at least 1")
    prefix, directory = os.environ.get("MTL_LAB_PREFIX"), os.environ.get("MTL_LAB_DIR")
    if not prefix or not directory:
        parser.error("this is the inner part: call scripts/demo")
    signal.signal(signal.SIGTERM, end_politely)
    signal.signal(signal.SIGINT, end_politely)
    build = os.environ.get("MTL_BUILD_DIR", str(ROOT / "build"))
    try:
        with Lab(prefix, directory, build) as lab:
            try:
                return Demo(lab, options).run()
            except Failure as failure:
                print(f"\nFAILED: {failure}\n{lab.logs()}", flush=True)
                return 1
    except KeyboardInterrupt:
        print("\ninterrupted: cleaning up", flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())
