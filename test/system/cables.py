#!/usr/bin/env python3
"""Cables pulled and plugged, and interfaces deleted and made anew, under load."""

import pathlib
import sys

import cases
import lab as labs
from cases import wait_until

INTRUDER = pathlib.Path(__file__).with_name("intruder.py")
TRUNKS = ("t0", "t1")


class Path(cases.LabCase):
    def test_p4_a_path_that_loses_long_frames_does_not_come_up(self):
        self.lab.netns("sw1", "sw2", "wire")
        self.lab.veth(("sw1", "trunk"), ("wire", "left"))
        self.lab.veth(("sw2", "trunk"), ("wire", "right"))
        self.lab.bridge("wire", "br0", "left", "right")
        self.lab.link("wire", "right", "mtu", "1400")  # the ends have 1500, and believe it
        switches = [self.lab.switch(f"sw{n}", labs.node(n, labs.port(0, "trunk", 3 - n))).start() for n in (1, 2)]
        # Whoever has heard the other one answers with long INITs alone: of those none arrives.
        wait_until("an INIT is heard, and many are sent", lambda: any(s.link(0)["frames_seen"] for s in switches)
                   and all(s.port(0)["frames_out"] > 20 for s in switches))
        self.assertEqual(["init", "init"], [switch.state(0) for switch in switches])
        self.assertEqual([0, 0], [switch.link(0)["ups"] for switch in switches])
        self.lab.link("wire", "right", "mtu", "1500")
        for switch in switches:
            switch.wait_up(0)
        self.assert_books(*switches)


class Refused(cases.LabCase):
    def test_what_refused_an_interface_goes_and_no_event_of_the_kernels_tells(self):
        index = 4321
        self.lab.netns("sw1", "wire")
        self.lab.veth(("sw1", "trunk"), ("wire", "far"))
        self.lab.veth(("sw1", "other"), ("wire", "far2"))
        switch = self.lab.switch("sw1", labs.node(1, labs.port(0, "trunk", 2))).start()
        self.lab.delete_link("sw1", "trunk")
        # The driver's fanout group: process number xor interface index. The kernel lets none span two interfaces.
        group = (switch.json("show", "node")["pid"] ^ index) & 0xFFFF
        holder = self.lab.start("holder", [sys.executable, INTRUDER, "fanout", "other", group], ns="sw1")
        wait_until("the group is held", lambda: "held" in holder.out.read_text())
        self.lab.veth(("sw1", "trunk"), ("wire", "far"), index=index)
        wait_until("the fault names the group", lambda: f"group {group}" in switch.port(0)["fault"])
        holder.kill()
        wait_until("the port works", lambda: switch.port(0)["fault"] == "" and switch.port(0)["carrier"])
        # It was tried again and again, and said once.
        self.assertEqual(1, switch.process.err.read_text().count("cannot be opened again"))


class TwoTrunks(cases.LabCase):
    """Two switches, two trunks, an endpoint on a slot of each, and traffic that goes on until told."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2")
        for trunk in TRUNKS:
            self.plug(trunk)
        self.switches = []
        for number in (1, 2):
            ports = [labs.port(i, trunk, 3 - number) for i, trunk in enumerate(TRUNKS)]
            config = labs.node(number, *ports, labs.slot(2, 10 + number), labs.line((1, [11]), (2, [12])))
            self.switches.append(self.lab.switch(f"sw{number}", config).start())
        for switch in self.switches:
            switch.wait_up(0, 1)
        self.pair = [self.lab.perf(f"e{n}", ["--socket", self.switches[n - 1].socket, "--peer", 13 - n, "--time", 600,
                                             "--rate", 200, "--size", "32-1400", "--patience", 60], ns=f"sw{n}")
                     for n in (1, 2)]
        self.wait_traffic(0, 1)
        # The first one's greetings met a slot that was still free.
        self.early = [switch.drops() for switch in self.switches]

    def plug(self, trunk):
        self.lab.veth(("sw1", trunk), ("sw2", trunk))

    def wait_traffic(self, *numbers):
        """Until packets came in over each of these links that had not come before."""
        before = [switch.links() for switch in self.switches]
        wait_until(f"traffic flows over links {numbers}", lambda: all(
            switch.link(n)["packets_in"] > b[n]["packets_in"] + 10
            for switch, b in zip(self.switches, before) for n in numbers))

    def back(self):
        """Packets that dead links handed back."""
        return sum(link["packets_back"] for switch in self.switches for link in switch.links().values())

    def reports(self):
        for process in self.pair:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(labs.signal.SIGTERM)
        return [process.report() for process in self.pair]

    def cut(self, *trunks):
        for trunk in trunks:
            self.lab.link("sw1", trunk, "down")
        for switch in self.switches:
            switch.wait_not_up(*(TRUNKS.index(t) for t in trunks))

    def restore(self, *trunks):
        for trunk in trunks:
            self.lab.link("sw1", trunk, "up")
        for switch in self.switches:
            switch.wait_up(*(TRUNKS.index(t) for t in trunks))

    def test_a_pulled_cable_loses_nothing(self):
        for trunk in ("t0", "t1", "t0"):
            self.cut(trunk)
            self.wait_traffic(1 - TRUNKS.index(trunk))
            self.restore(trunk)
            self.wait_traffic(0, 1)
        for report in self.reports():
            self.assert_all_arrived(report, copies=self.back())
            self.assertEqual(0, report["total"]["refused"])
        for switch, early in zip(self.switches, self.early):
            self.assertEqual(early, switch.drops(), "something was dropped")
            for number, pulled in ((0, 2), (1, 1)):
                downs = switch.downs(number)
                self.assertGreaterEqual(sum(downs.values()), pulled)
                # Carrier is told at once, but by a thread that may have to wait for a CPU longer than the link does.
                self.assertLessEqual(set(downs), {"no_carrier", "replay_exhausted", "dead"})
        self.assert_books(*self.switches)

    def test_no_way_at_all_is_named_counted_and_told_to_the_sender(self):
        self.cut(*TRUNKS)
        for switch in self.switches:
            wait_until(f"{switch.name} drops for want of a way",
                       lambda switch=switch: switch.drops().get("no_route", 0) > 20)
        self.restore(*TRUNKS)
        self.wait_traffic(0, 1)
        refused = 0
        for report in self.reports():
            self.assert_all_arrived(report, copies=self.back())
            self.assertGreater(report["total"]["refused"], 0)
            refused += report["total"]["refused"]
        dropped = sum(switch.drops()["no_route"] for switch in self.switches)
        self.assertLessEqual(refused, dropped)
        self.assert_books(*self.switches)

    def test_a_port_disabled_by_hand_says_close_and_loses_nothing(self):
        self.switches[0].ctl("port", "down", "t0")
        for switch in self.switches:
            switch.wait_not_up(0)
        self.wait_traffic(1)
        self.assertEqual({"disabled": 1}, self.switches[0].downs(0))
        self.assertEqual({"peer_close": 1}, self.switches[1].downs(0))
        self.switches[0].ctl("port", "up", "t0")
        for switch in self.switches:
            switch.wait_up(0)
        self.wait_traffic(0, 1)
        for report in self.reports():
            self.assert_all_arrived(report, copies=self.back())
        self.assert_books(*self.switches)

    def test_routes_replaced_while_traffic_flows(self):
        path = self.lab.directory / "routes.textproto"
        for hops in ("hops { port: 1 }", "hops { port: 0 } hops { port: 1 }"):
            for number, switch in enumerate(self.switches, 1):
                own, other = 10 + number, 13 - number
                path.write_text(f"routes {{ dst: {own} tiers {{ hops {{ port: 2 }} }} }}\n"
                                f"routes {{ dst: {other} tiers {{ {hops} }} }}\n")
                switch.ctl("routes", "set", path)
            if "port: 0" in hops:
                self.wait_traffic(0, 1)
                continue
            wait_until("what was on its way has arrived", lambda: all(
                switch.link(0)["unacknowledged"] + switch.link(0)["queued"] == 0 for switch in self.switches))
            before = [switch.link(0)["packets_in"] for switch in self.switches]
            self.wait_traffic(1)
            self.assertEqual(before, [switch.link(0)["packets_in"] for switch in self.switches])
        path.write_text("routes { dst: 11 tiers { hops { port: 7 } } }\n")
        refused = self.switches[0].ctl("routes", "set", path, check=False)
        self.assertEqual(1, refused.returncode)
        self.assertIn("7", refused.stderr)
        for report in self.reports():
            self.assert_all_arrived(report)
            self.assertEqual(0, report["total"]["refused"])
        self.assert_books(*self.switches)

    def test_an_interface_deleted_and_made_anew_is_found_again(self):
        self.lab.delete_link("sw1", "t0")
        for switch in self.switches:
            switch.wait_not_up(0)
            wait_until(f"{switch.name} says that t0 is gone", lambda switch=switch: switch.port(0)["fault"])
            self.assertIn("t0", switch.port(0)["fault"])
        self.wait_traffic(1)
        self.plug("t0")
        for switch in self.switches:
            switch.wait_up(0)
            self.assertEqual("", switch.port(0)["fault"])
        self.wait_traffic(0, 1)
        for report in self.reports():
            self.assert_all_arrived(report, copies=self.back())
        self.assert_books(*self.switches)


if __name__ == "__main__":
    cases.main()
