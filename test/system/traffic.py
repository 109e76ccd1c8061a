#!/usr/bin/env python3
"""Datagrams between real processes through one switch or two: over AF_PACKET, over slots, and over links
that lose, damage, repeat and reorder frames."""

import os

import cases
import lab as labs
from cases import wait_until

AT_LEAST = 50  # packets that show that traffic flows


class OneSwitch(cases.LabCase):
    def hosts_and_switch(self, more=""):
        """Two hosts on Ethernet at a switch, which runs."""
        self.lab.netns("sw", "a", "b")
        self.lab.veth(("sw", "p0"), ("a", "eth0"))
        self.lab.veth(("sw", "p1"), ("b", "eth0"))
        config = labs.node(1, labs.port(0, "p0", 11), labs.port(1, "p1", 12), more)
        return self.lab.switch("sw", config).start()

    def host(self, name, number, peer, *options):
        return self.lab.perf(name, ["--interface", "eth0", "--node", number, "--peer", peer, *options], ns=name)

    def test_hosts_on_ethernet_exchange_datagrams(self):
        switch = self.hosts_and_switch()
        options = ("--count", 2000, "--size", "32-1400", "--rate", 4000)
        reports = [p.report() for p in (self.host("a", 11, 12, *options), self.host("b", 12, 11, *options))]
        for report in reports:
            self.assert_all_arrived(report)
            self.assertEqual(2000, report["total"]["received"])
        wait_until("both hosts have said CLOSE", lambda: all(switch.downs(n) == {"peer_close": 1} for n in (0, 1)))
        for number in (0, 1):
            self.assertGreaterEqual(switch.link(number)["packets_in"], 2000)
            self.assertGreater(switch.port(number)["frames_in"], 2000)
        self.assert_books(switch)

    def test_two_workers_pass_packets_to_each_other(self):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        if len(cpus) < 2:
            print("this process may use one CPU only: there cannot be two workers")
            return
        switch = self.hosts_and_switch(f"runtime {{ cpus: {cpus} }}\n")
        self.assertEqual([0, 1], [switch.port(n)["worker"] for n in (0, 1)])
        options = ("--count", 2000, "--size", "32-1400", "--rate", 4000)
        reports = [p.report() for p in (self.host("a", 11, 12, *options), self.host("b", 12, 11, *options))]
        for report in reports:
            self.assert_all_arrived(report)
            self.assertEqual(2000, report["total"]["received"])
        self.assert_books(switch)

    def test_ping_and_trace_answer_by_name(self):
        switch = self.hosts_and_switch()
        self.host("a", 11, 12, "--patience", 600)  # waits for a peer that never comes, and answers
        switch.wait_up(0)
        *answers, end = switch.json_lines("ping", 11, "-c", 3, "-i", "10ms", "-W", "30s")
        self.assertEqual([("reply", 11)] * 3, [(a["outcome"], a["from"]) for a in answers])
        self.assertEqual((3, 0), (end["summary"]["received"], end["summary"]["lost"]))
        lost = switch.ctl("ping", 12, "-c", 1, "-W", "5s", check=False)
        self.assertEqual(1, lost.returncode)
        self.assertIn("node 12 unreachable", lost.stdout)
        self.assertIn("no_route", switch.drops())
        trace = switch.ctl("trace", 11)
        self.assertRegex(trace.stdout, r"(?m)^ *1 +node 11 ")
        self.assertEqual("init", switch.state(1))  # carrier, but nobody there
        self.assert_books(switch)

    def test_an_endpoint_that_was_killed_on_ethernet_comes_back(self):
        switch = self.hosts_and_switch()
        forever = ("--time", 600, "--rate", 200)
        first = self.host("a", 11, 12, *forever)
        second = self.host("b", 12, 11, *forever)
        wait_until("traffic flows", lambda: switch.link(0)["packets_in"] > AT_LEAST)
        first.kill()
        second.kill()
        options = ("--count", 200)
        pair = self.host("a", 11, 12, *options), self.host("b", 12, 11, *options)
        for process in pair:
            self.assert_all_arrived(process.report())
        # Either the new one's INIT came first, or it was noticed that nobody answers.
        self.assertTrue({"peer_restart", "replay_exhausted", "dead"} & set(switch.downs(0)), switch.downs(0))
        self.assert_books(switch)


class Slots(cases.LabCase):
    NODES = (11, 12, 13, 14)

    def setUp(self):
        super().setUp()
        self.lab.netns("sw")
        slots = [labs.slot(i, n) for i, n in enumerate(self.NODES)]
        self.switch = self.lab.switch("sw", labs.node(1, *slots)).start()

    def endpoint(self, name, number, peers, *options):
        return self.lab.perf(name, ["--socket", self.switch.socket, "--node", number, "--peer",
                                    ",".join(map(str, peers)), *options], ns="sw")

    def test_all_to_all(self):
        others = {n: [m for m in self.NODES if m != n] for n in self.NODES}
        processes = [self.endpoint(f"e{n}", n, others[n], "--count", 1000, "--size", "32-8000", "--rate", 3000)
                     for n in self.NODES]
        for process in processes:
            report = process.report()
            self.assert_all_arrived(report)
            self.assertEqual(3000, report["total"]["received"])
        wait_until("the slots are free again", lambda: not any(self.switch.port(i)["claimed"] for i in range(4)))
        self.assert_books(self.switch)

    def test_any_free_slot_and_no_slot_twice(self):
        self.endpoint("e11", 11, [12], "--patience", 600)
        self.switch.wait_up(0)
        twice = self.endpoint("twice", 11, [12])
        self.assertNotEqual(0, twice.wait())
        self.assertRegex(twice.err.read_text(), r"11|slot0")
        unknown = self.endpoint("unknown", 99, [12])
        self.assertNotEqual(0, unknown.wait())
        self.assertIn("99", unknown.err.read_text())
        self.switch.wait_up(0)

    def test_an_endpoint_killed_under_load_harms_nobody_else(self):
        forever = ("--time", 600, "--rate", 500, "--size", "32-4000")
        pair = self.endpoint("e11", 11, [12], *forever), self.endpoint("e12", 12, [11], *forever)
        for turn in range(5):
            # Both go at once: of each other they may lose what they like.
            killed = [self.endpoint(f"e{n}-{turn}", n, [27 - n], *forever) for n in (13, 14)]
            base = self.switch.link(2)["packets_in"]
            wait_until("traffic flows", lambda base=base: self.switch.link(2)["packets_in"] > base + AT_LEAST)
            for process in killed:
                process.kill()
        # Their slots can be claimed at once, and the new ones lose nothing.
        fresh = [self.endpoint(f"fresh{n}", n, [27 - n], "--count", 500) for n in (13, 14)]
        for process in fresh:
            self.assert_all_arrived(process.report())
        for process in pair:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(labs.signal.SIGTERM)
        for process in pair:
            report = process.report()
            self.assert_all_arrived(report)
            self.assertEqual(1, report["link_ups"])
        self.assert_books(self.switch)


class Partitions(cases.LabCase):
    def test_n5_who_is_in_another_partition_is_not_heard(self):
        self.lab.netns("sw")
        slots = [labs.slot(i, 11 + i, f"partitions: {p} ") for i, p in enumerate((1, 1, 2))]
        switch = self.lab.switch("sw", labs.node(1, *slots)).start()

        def endpoint(number, peer, partition, *options):
            return self.lab.perf(f"e{number}-{partition}", ["--socket", switch.socket, "--node", number, "--peer", peer,
                                                            "--partition", partition, *options], ns="sw")

        pair = [endpoint(n, 23 - n, 1, "--count", 500) for n in (11, 12)]
        for process in pair:
            self.assert_all_arrived(process.report())
        self.assertEqual({}, {k: v for k, v in switch.drops().items() if k != "no_route"})
        listener = endpoint(11, 12, 1, "--patience", 600)
        # Its own partition does not reach node 11; that of node 11 is not its own.
        for turn, partition in enumerate((2, 1), 1):
            stranger = endpoint(13, 11, partition, "--patience", 2)
            self.assertNotEqual(0, stranger.wait())
            self.assertIn("node 11 does not answer", " ".join(stranger.report()["faults"]))
            self.assertGreaterEqual(switch.drops().get("wrong_partition", 0), turn)
        self.assertTrue(listener.alive())
        self.assert_books(switch)


class OneTrunk(cases.LabCase):
    """Two switches, a trunk, and an endpoint on a slot of each."""

    def two_switches(self, fault=""):
        self.lab.netns("sw1", "sw2")
        self.lab.veth(("sw1", "trunk"), ("sw2", "trunk"))
        switches = []
        for number in (1, 2):
            port = labs.port(0, "trunk", 3 - number, fault and f"impairment {{ {fault} seed: {number} }} ")
            config = labs.node(number, port, labs.slot(1, 10 + number), labs.line((1, [11]), (2, [12])))
            switches.append(self.lab.switch(f"sw{number}", config).start())
        return switches

    def pair(self, switches, *options):
        return [self.lab.perf(f"e{n}", ["--socket", switches[n - 1].socket, "--peer", 13 - n, *options], ns=f"sw{n}")
                for n in (1, 2)]

    def test_packets_longer_than_the_path_are_no_success_and_the_cause_is_told(self):
        switches = self.two_switches()
        # The slots take 9000 bytes, the trunk between them 1484. Fewer a second than N11 lets a node tell of.
        for process in self.pair(switches, "--count", 200, "--size", 5000, "--rate", 200, "--patience", 60):
            report = process.report()
            total = report["total"]
            self.assertEqual((200, 200, 0, 0, 0), tuple(total[k] for k in (
                "sent", "refused", "delivered", "received", "lost")))
            self.assertFalse(report["ok"])
            self.assertEqual(1, process.wait())
            self.assertRegex(" ".join(report["faults"]), r"200 were refused.*no_route.*5016 bytes.*MTU.*--size")
        self.assert_books(*switches)

    def test_every_datagram_once_over_a_link_that_does_everything_wrong(self):
        switches = self.two_switches("drop_ppm: 50000 duplicate_ppm: 50000 reorder_ppm: 50000 "
                                     "corrupt_packet_ppm: 2000 corrupt_header_ppm: 5000 jitter_us: 50")
        pair = self.pair(switches, "--count", 3000, "--size", "32-1400", "--rate", 1500, "--patience", 60)
        reports = [process.report(limit=180) for process in pair]
        # L9: a copy needs a link's death, and a death under such faults is possible, if unlikely.
        back = sum(switch.link(0)["packets_back"] for switch in switches)
        for report in reports:
            self.assert_all_arrived(report, copies=back)
            self.assertEqual(3000, report["total"]["received"])
        for switch in switches:
            drops = switch.drops(0)
            for name in ("impaired", "duplicate", "bad_packet_crc", "bad_header_crc"):
                self.assertGreater(drops.get(name, 0), 0, f"{switch.name}: {drops}")
            self.assertGreater(switch.link(0)["replays"], 0)
        self.assert_books(*switches)


class Paced(cases.LabCase):
    RATE = 8_000_000
    # What a port that woke late may make up for, and a frame.
    BURST = RATE // 100 + 8 * 5000

    def wire_bits(self, port, way):
        """What the frames of a port take, with what Ethernet puts beside each."""
        return 8 * (port[f"bytes_{way}"] + 24 * port[f"frames_{way}"])

    def uptime(self):
        return self.switch.json("show", "node")["uptime_ns"] / 1e9

    def test_a_rate_is_kept_by_a_slot_and_its_endpoint_and_can_be_ended(self):
        self.lab.netns("sw")
        rate = f"rate {{ bps: {self.RATE} }} "
        slots = labs.slot(0, 11, rate), labs.slot(1, 12, rate)
        self.switch = self.lab.switch("sw", labs.node(1, *slots)).start()
        options = ("--count", 500, "--size", 4000, "--patience", 600)
        sender = self.lab.perf("e11", ["--socket", self.switch.socket, "--node", 11, "--peer", 12, *options], ns="sw")
        begin = self.uptime()
        base = [self.switch.port(n) for n in (0, 1)]
        receiver = self.lab.perf("e12", ["--socket", self.switch.socket, "--node", 12, "--peer", 11, *options], ns="sw")
        for process in sender, receiver:
            report = process.report(limit=180)
            self.assert_all_arrived(report)
            self.assertEqual(500, report["total"]["received"])
        ports = [self.switch.port(n) for n in (0, 1)]
        most = self.RATE * (self.uptime() - begin) + self.BURST
        for before, port in zip(base, ports):
            # 500 datagrams of 4000 bytes each way, in the time that they take at the rate.
            for way in ("in", "out"):
                bits = self.wire_bits(port, way) - self.wire_bits(before, way)
                self.assertGreater(bits, 500 * 4000 * 8)
                self.assertLess(bits, most, f"port {port['port']}, {way}")
            pace = port["pace"]
            self.assertEqual(self.RATE, pace["rate"]["bps"])
            self.assertEqual(port["bytes_out"] + 24 * port["frames_out"], pace["bytes"])
            # The last full interval: of a second, in which 10 ms at most were made up for.
            self.assertLess(pace["utilisation_ppm"], 1_020_000)
            self.assertLessEqual(pace.get("error_ppm", 0), 0)
            self.assertGreaterEqual(pace["backlogged_ns"], 500 * 4000 * 8 * 10**9 / self.RATE)
        self.assertRegex(self.switch.ctl("show", "ports").stdout, r"rate 8\.0 Mbit/s: ")
        self.assert_books(self.switch)
        self.assertEqual(2, self.switch.ctl("rate", "slot0", "0", check=False).returncode)
        self.switch.ctl("rate", "slot0", "off")
        self.assertNotIn("pace", self.switch.port(0))
        self.switch.ctl("rate", "slot0", "1.6T/10000")
        self.assertEqual(160_000_000, self.switch.port(0)["pace"]["rate"]["bps"])


if __name__ == "__main__":
    cases.main()
