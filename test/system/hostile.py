#!/usr/bin/env python3
"""Somebody else on the wire, or in a slot: counted by name, and nothing changes for those who behave."""

import pathlib
import sys

import cases
import lab as labs
from cases import wait_until

INTRUDER = pathlib.Path(__file__).with_name("intruder.py")
COUNT = 300


class Wire(cases.LabCase):
    """A switch, and two hosts that exchange datagrams; the intruder sits on the cable of the first."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw", "a", "b")
        self.lab.veth(("sw", "p0"), ("a", "eth0"))
        self.lab.veth(("sw", "p1"), ("b", "eth0"))
        self.switch = self.lab.switch("sw", labs.node(1, labs.port(0, "p0", 11), labs.port(1, "p1", 12))).start()
        forever = ("--time", 600, "--rate", 200)
        self.pair = [self.lab.perf(ns, ["--interface", "eth0", "--node", n, "--peer", 23 - n, *forever], ns=ns)
                     for ns, n in (("a", 11), ("b", 12))]
        self.switch.wait_up(0, 1)
        self.own = self.switch.link(0)["mac"]
        self.host = self.switch.link(0)["peer_mac"]

    def intrude(self, ns, *arguments):
        return self.lab.run([sys.executable, INTRUDER, *map(str, arguments)], ns=ns).stdout.strip()

    def frames(self, source, what, *epoch):
        self.intrude("a", "frames", "eth0", source, self.own, what, COUNT, *epoch)

    def wait_count(self, name, count):
        wait_until(f"{name} counts {count}: {self.switch.drops(0)}", lambda: self.switch.drops(0).get(name, 0) >= count)

    def of_strangers(self):
        """The port's drops, without what the own peer may be the cause of where CPUs are short: replays."""
        return {name: count for name, count in self.switch.drops(0).items() if name != "duplicate"}

    def end(self):
        """Traffic had gone on, and all of it arrived."""
        base = self.switch.link(0)["packets_in"]
        wait_until("traffic flows", lambda: self.switch.link(0)["packets_in"] > base + 50)
        for process in self.pair:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(labs.signal.SIGTERM)
        for process in self.pair:
            report = process.report()
            self.assert_all_arrived(report)
            self.assertEqual(1, report["link_ups"])
        self.assertEqual(1, self.switch.link(0)["ups"])
        self.assert_books(self.switch)

    def test_frames_of_strangers_are_foreign_whatever_they_hold(self):
        """P2, and L7: an INIT of another source does not restart the link."""
        for i, what in enumerate(("random", "malformed", "init"), 1):
            self.frames("02:00:00:00:66:66", what)
            self.wait_count("foreign", i * COUNT)
        self.assertEqual({"foreign": 3 * COUNT}, self.of_strangers())
        self.end()

    def test_frames_that_claim_to_be_the_peer_s_are_dropped_by_the_first_check_that_fails(self):
        """L3, in its order."""
        epoch = self.intrude("sw", "epoch", "p0", self.host)
        before = self.of_strangers()
        for what in ("malformed", "bad_header_crc", "stale"):
            self.frames(self.host, what, epoch)
            self.wait_count(what, before.get(what, 0) + COUNT)
        self.assertEqual({what: COUNT + before.get(what, 0) for what in ("malformed", "bad_header_crc", "stale")},
                         self.of_strangers())
        self.end()

    def test_noise_changes_nothing(self):
        before = sum(self.of_strangers().values())
        self.frames(self.host, "random")
        wait_until("every frame of noise is counted", lambda: sum(self.of_strangers().values()) == before + COUNT)
        self.assertLessEqual(set(self.of_strangers()), {"malformed", "bad_header_crc", "stale"})
        self.end()


class Slot(cases.LabCase):
    def test_noise_in_a_slot_s_memory_harms_nobody_else(self):
        self.lab.netns("sw")
        switch = self.lab.switch("sw", labs.node(1, *(labs.slot(i, 11 + i) for i in range(3)))).start()

        def endpoint(name, number, peer, *options):
            return self.lab.perf(name, ["--socket", switch.socket, "--node", number, "--peer", peer, *options], ns="sw")

        pair = [endpoint(f"e{n}", n, 23 - n, "--time", 600, "--rate", 500) for n in (11, 12)]
        switch.wait_up(0, 1)
        for turn in range(3):
            scribbler = self.lab.start(f"scribbler-{turn}", [sys.executable, INTRUDER, "scribble", switch.socket, 13, 1],
                                       "sw")
            self.assertEqual(0, scribbler.wait(), scribbler.err.read_text())
        base = switch.link(0)["packets_in"]
        wait_until("traffic flows", lambda: switch.link(0)["packets_in"] > base + 50)
        # The slot is as good as new for the next one.
        guest = endpoint("guest", 13, 11, "--patience", 600)
        switch.wait_up(2)
        guest.kill()
        for process in pair:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(labs.signal.SIGTERM)
        for process in pair:
            report = process.report()
            self.assert_all_arrived(report)
            self.assertEqual(1, report["link_ups"])
        self.assert_books(switch)


if __name__ == "__main__":
    cases.main()
