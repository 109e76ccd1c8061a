#!/usr/bin/env python3
"""Trunks of four lanes under load while lanes are cut and rejoined; the shortest queue among hops; marking behind
a slow port; and the bound on a node's own packets."""

import os

import cases
import lab as labs
from cases import wait_until

LANES = ("l0", "l1", "l2", "l3")
FLOWS = 64
# Of a link so slow that a frame takes longer than the timers would wait.
SLOW_TIMERS = ("link { timers { replay_timeout_us: 3000000 nack_interval_us: 3000000 dead_interval_us: 60000000 "
               "adaptive: false } } ")


class FourLanes(cases.LabCase):
    """Two switches joined by a trunk of four cables, an endpoint on a slot of each, and traffic that goes on until
    told."""

    def start(self, spread, more="", slot=""):
        self.lab.netns("sw1", "sw2")
        for lane in LANES:
            self.lab.veth(("sw1", lane), ("sw2", lane))
        self.switches = []
        for number in (1, 2):
            lanes = [labs.port(i, lane, 3 - number) for i, lane in enumerate(LANES)]
            trunk = f'trunks {{ name: "up" ports: [0, 1, 2, 3] spread: {spread} }}\n'
            config = labs.node(number, *lanes, labs.slot(4, 10 + number, slot), trunk, more,
                               labs.line((1, [11]), (2, [12])))
            self.switches.append(self.lab.switch(f"sw{number}", config).start())
        for switch in self.switches:
            switch.wait_up(0, 1, 2, 3)
        self.pair = [self.lab.perf(f"e{n}", ["--socket", self.switches[n - 1].socket, "--peer", 13 - n, "--time", 600,
                                             "--rate", 3000, "--size", "32-1400", "--flows", FLOWS,
                                             "--patience", 60], ns=f"sw{n}") for n in (1, 2)]
        self.wait_carried(0, 1, 2, 3)
        self.early = [switch.drops() for switch in self.switches]

    def trunk(self, switch):
        (trunk,) = switch.json("show", "trunks")["trunks"]
        return trunk

    def wait_carried(self, *lanes):
        """Until each of these lanes has been given packets, and has had them acknowledged, that it had not before."""
        def counts():
            return [(self.trunk(switch)["lanes"][n]["packets"], switch.link(n)["packets_acked"])
                    for switch in self.switches for n in lanes]

        before = counts()
        wait_until(f"lanes {lanes} carry", lambda: all(
            now > was + 10 for new, old in zip(counts(), before) for now, was in zip(new, old)))

    def reports(self):
        for process in self.pair:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(labs.signal.SIGTERM)
        return [process.report() for process in self.pair]

    def assert_well(self):
        """All arrived, each flow in order, nothing was dropped, and the books balance."""
        back = sum(link["packets_back"] for switch in self.switches for link in switch.links().values())
        for report in self.reports():
            self.assert_all_arrived(report, copies=back)
            self.assertEqual((0, 0), (report["total"]["refused"], report["total"]["out_of_order_in_flow"]), report)
        for switch, early in zip(self.switches, self.early):
            self.assertEqual(early, switch.drops(), "something was dropped")
        self.assert_books(*self.switches)
        return back

    def cut_and_rejoin(self):
        """Carrier lost at one cable and at two, a port disabled by hand, and a cable that loses everything."""
        for lost in (("l1",), ("l0", "l2"), ("l3",)):
            numbers = [LANES.index(lane) for lane in lost]
            for lane in lost:
                self.lab.link("sw1", lane, "down")
            for switch in self.switches:
                switch.wait_not_up(*numbers)
                self.assertEqual([n not in numbers for n in range(4)],
                                 [lane["usable"] for lane in self.trunk(switch)["lanes"]])
            self.wait_carried(*(n for n in range(4) if n not in numbers))
            for lane in lost:
                self.lab.link("sw1", lane, "up")
            for switch in self.switches:
                switch.wait_up(*numbers)
            self.wait_carried(0, 1, 2, 3)
        self.switches[0].ctl("port", "down", "l0")
        self.wait_carried(1, 2, 3)
        self.switches[0].ctl("port", "up", "l0")
        for switch in self.switches:
            switch.wait_up(0)
        for switch in self.switches:
            switch.ctl("impair", "l2", "--drop", 100)
        for switch in self.switches:
            switch.wait_not_up(2)
        self.wait_carried(0, 1, 3)
        for switch in self.switches:
            switch.ctl("impair", "l2", "--clear")
        for switch in self.switches:
            switch.wait_up(2)
        self.wait_carried(0, 1, 2, 3)

    def test_lanes_cut_and_rejoined_cost_neither_delivery_nor_order(self):
        self.start("FLOW")
        self.assertIn("trunk up weight 4", self.switches[0].ctl("show", "routes").stdout)
        self.cut_and_rejoin()
        trunks = [self.trunk(switch) for switch in self.switches]
        self.assertGreater(self.assert_well(), 0, "no packet was under way when a lane went: the case showed little")
        for trunk in trunks:
            self.assertEqual("flow", trunk["spread"])
            self.assertGreater(trunk["forced_moves"], 0)
            self.assertGreater(trunk["moves"], trunk["forced_moves"], "no flow went back to its lane")

    def test_by_the_shortest_queue_likewise(self):
        self.start("SHORTEST_QUEUE")
        self.cut_and_rejoin()
        trunks = [self.trunk(switch) for switch in self.switches]
        self.assert_well()
        for trunk in trunks:
            self.assertEqual("shortest_queue", trunk["spread"])
            self.assertGreater(trunk["moves"], trunk["forced_moves"])

    def test_between_two_workers_likewise(self):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        if len(cpus) < 2:
            self.skipTest("this process may use one CPU only: there cannot be two workers")
        # By turns the first lane, and with it the trunk, is the first worker's, and the slot, the fifth port, too:
        # the slot is put with the other.
        self.start("FLOW", f"runtime {{ cpus: {cpus} }}\n", "worker: 1 ")
        self.assertEqual([0, 0, 0, 0, 1], [self.switches[0].port(n)["worker"] for n in range(5)])
        self.cut_and_rejoin()
        self.assert_well()


class TwoHops(cases.LabCase):
    """Two switches, two cables that are no trunk, one of them slow."""

    def test_n8_by_the_shortest_queue_a_slow_link_gets_what_it_can_carry(self):
        self.lab.netns("sw1", "sw2")
        for cable in ("fast", "slow"):
            self.lab.veth(("sw1", cable), ("sw2", cable))
        switches = []
        for number in (1, 2):
            rate = f"{SLOW_TIMERS}rate {{ bps: 400000 }} " if number == 1 else SLOW_TIMERS
            config = labs.node(number, labs.port(0, "fast", 3 - number), labs.port(1, "slow", 3 - number, rate),
                               labs.slot(2, 10 + number), "hop_choice: SHORTEST_QUEUE\n",
                               labs.line((1, [11]), (2, [12])))
            switches.append(self.lab.switch(f"sw{number}", config).start())
        for switch in switches:
            switch.wait_up(0, 1)
        self.assertEqual("shortest_queue", switches[0].json("show", "node")["hop_choice"])
        pair = [self.lab.perf(f"e{n}", ["--socket", switches[n - 1].socket, "--peer", 13 - n, "--count", 1000, "--size",
                                        1400, "--rate", 300, "--patience", 60], ns=f"sw{n}") for n in (1, 2)]
        for process in pair:
            self.assert_all_arrived(process.report(limit=180))
        # 300 a second of 1400 bytes are 3.4 Mbit/s, and the slow link has 0.4: an even share would be half.
        fast, slow = (switches[0].link(n)["packets_acked"] for n in (0, 1))
        print(f"of 1000 packets {fast} took the fast link, {slow} the slow one")
        self.assertGreater(slow, 0)
        self.assertGreater(fast, 2 * slow)
        self.assert_books(*switches)


class SlowPort(cases.LabCase):
    """Two switches, a cable on which the first one sends slowly."""

    def start(self, bps, link="", more=""):
        self.lab.netns("sw1", "sw2")
        self.lab.veth(("sw1", "slow"), ("sw2", "slow"))
        self.switches = []
        for number in (1, 2):
            rate = f"{link}rate {{ bps: {bps} }} " if number == 1 else link
            config = labs.node(number, labs.port(0, "slow", 3 - number, rate), labs.slot(1, 10 + number),
                               more if number == 1 else "", labs.line((1, [11]), (2, [12])))
            self.switches.append(self.lab.switch(f"sw{number}", config).start())
        for switch in self.switches:
            switch.wait_up(0)

    def perf(self, *options):
        return [self.lab.perf(f"e{n}", ["--socket", self.switches[n - 1].socket, "--peer", 13 - n, "--patience", 60,
                                        *options], ns=f"sw{n}") for n in (1, 2)]

    def test_n12_what_queues_behind_a_slow_port_is_marked(self):
        self.start(4_000_000, "link { mark_bytes: 6000 } ")
        to_first, to_second = (process.report(limit=180) for process in self.perf("--count", 500, "--size", 1400))
        self.assert_all_arrived(to_first)
        self.assert_all_arrived(to_second)
        marked = to_second["total"]["marked"]
        # By far most of 500 packets, as fast as they go, find more than the mark before them.
        self.assertGreater(marked, 100)
        vcs = {(vc["port"], vc["vc"]): vc["marked"] for vc in self.switches[0].json("show", "vcs")["vcs"]}
        here = vcs.pop((0, 0))
        self.assertEqual({0}, set(vcs.values()), "VC 0 of the slow port alone")
        # What mtperf says at the end, over and over until it is answered, may be marked, too.
        self.assertLessEqual(marked, here)
        self.assertLess(here, marked + 50)
        self.assertRegex(self.switches[0].ctl("show", "links").stdout, rf"(?m)^ +0 +slow .* {here} ")
        self.assert_books(*self.switches)

    def test_n13_own_packets_beyond_the_bound_are_refused_or_dropped_and_transit_goes_on(self):
        # 1400 bytes take 0.29 s at this rate: pings that are sent together wait together.
        self.start(40_000, SLOW_TIMERS, "own_limit: 1\n")
        first, second = self.switches
        transit = self.perf("--count", 30, "--size", 32, "--rate", 10)
        ping = [self.lab.program("mtctl"), "-s"]

        def pings(switch, node):
            """Six at once; what they said."""
            processes = [self.lab.start(f"ping-{node}-{i}", [*ping, switch.socket, "ping", node, "-c", 1, "-s", 1400,
                                                             "-W", "3s"], ns=switch.ns) for i in range(6)]
            for process in processes:
                process.wait()
            return " ".join(process.err.read_text() for process in processes)

        refusals = wait_until("own pings are refused", lambda: "own_limit" in (text := pings(first, 2)) and text)
        self.assertIn("try again later", refusals)
        self.assertGreater(first.json("show", "node")["own_refused"], 0)
        self.assertRegex(first.ctl("show", "node").stdout, r"at most 1 in a queue; beyond, [1-9]\d* refused")
        wait_until("replies are dropped",
                   lambda: pings(second, 1) is not None and first.drops().get("own_queue_full", 0) > 0)
        for process in transit:
            report = process.report(limit=180)
            self.assert_all_arrived(report)
            self.assertEqual(30, report["total"]["received"])
        self.assertNotIn("own_queue_full", second.drops())
        self.assert_books(*self.switches)


if __name__ == "__main__":
    cases.main()
