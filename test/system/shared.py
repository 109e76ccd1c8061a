#!/usr/bin/env python3
"""Several links on one interface (P3): a full mesh of eight over one interface each, and VLANs on a cable."""

import pathlib
import signal
import sys

import cases
import lab as labs
from cases import wait_until

INTRUDER = pathlib.Path(__file__).with_name("intruder.py")
EIGHT = range(1, 9)


def address(number):
    return f"02:00:00:00:00:{number:02x}"


class Mesh(cases.LabCase):
    """Eight hosts on a Linux bridge, each with one interface and on it a link to each of the seven others."""

    def setUp(self):
        super().setUp()
        self.lab.netns("bridge", *(f"h{n}" for n in EIGHT))
        for n in EIGHT:
            self.lab.veth((f"h{n}", "eth0"), ("bridge", f"b{n}"))
            self.lab.link(f"h{n}", "eth0", "address", address(n))
        self.lab.bridge("bridge", "br0", *(f"b{n}" for n in EIGHT))
        shape = "fabric { shape: FULL_MESH " + "".join(
            f"nodes {{ node: {n} endpoints: {10 + n} }} " for n in EIGHT) + "}\n"
        self.switches = []
        for n in EIGHT:
            peers = [m for m in EIGHT if m != n]
            ports = [labs.port(i, "eth0", m, f'peer_mac: "{address(m)}"').replace('name: "eth0"', f'name: "to{m}"')
                     for i, m in enumerate(peers)]
            config = labs.node(n, *ports, labs.slot(7, 10 + n), shape, "defaults { mtu: 1400 }\n")
            self.switches.append(self.lab.switch(f"h{n}", config).start())
        for switch in self.switches:
            switch.wait_up(*range(7))

    def endpoints(self, *options):
        return [self.lab.perf(f"e{n}", ["--socket", switch.socket, "--size", "32-1300", "--peer",
                                        ",".join(str(10 + m) for m in EIGHT if m != n), *options], ns=f"h{n}")
                for n, switch in zip(EIGHT, self.switches)]

    def test_eight_peers_on_one_interface_behind_a_bridge(self):
        # Each finds its peer, and no other: the link to node m leads there.
        for n, switch in zip(EIGHT, self.switches):
            self.assertEqual([m for m in EIGHT if m != n], [switch.link(i)["peer_node"] for i in range(7)])
        for process in self.endpoints("--count", 100, "--rate", 200, "--patience", 60):
            report = process.report(limit=240)
            self.assert_all_arrived(report)
            self.assertEqual(700, report["total"]["received"])
        self.assert_books(*self.switches)
        for switch in self.switches:
            links = switch.links()
            # By its own link, not through others: a full mesh has a direct way to each.
            self.assertTrue(all(links[i]["packets_in"] >= 100 for i in range(7)), links)
            self.assertNotIn("foreign", switch.device_drops("eth0"))

    def test_a_stranger_is_foreign_and_nobody_suffers(self):
        self.lab.netns("stranger")
        self.lab.veth(("stranger", "eth0"), ("bridge", "b9"))
        self.lab.link("bridge", "b9", "master", "br0")
        self.lab.run([sys.executable, INTRUDER, "frames", "eth0", address(99), address(1), "bad_header_crc", "100"],
                     ns="stranger")
        first = self.switches[0]
        wait_until("the stranger's frames are counted", lambda: first.device_drops("eth0").get("foreign", 0) >= 100)
        self.assertEqual(["up"] * 7, [first.state(i) for i in range(7)])
        self.assertEqual([1] * 7, [first.link(i)["ups"] for i in range(7)])
        self.assert_books(first)


class Vlans(cases.LabCase):
    """Two switches with one interface each on a bridge, and two links, on VLANs of their own."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2", "bridge")
        self.lab.veth(("sw1", "eth0"), ("bridge", "b1"))
        self.lab.veth(("sw2", "eth0"), ("bridge", "b2"))
        self.lab.bridge("bridge", "br0", "b1", "b2")

    def start(self, vlans_of_1, vlans_of_2):
        self.switches = []
        for n, vlans in ((1, vlans_of_1), (2, vlans_of_2)):
            ports = [labs.port(i, "eth0", 3 - n, f"vlan: {vlan}").replace('name: "eth0"', f'name: "vlan{vlan}"')
                     for i, vlan in enumerate(vlans)]
            config = labs.node(n, *ports, labs.slot(2, 10 + n), labs.line((1, [11]), (2, [12])))
            self.switches.append(self.lab.switch(f"sw{n}", config).start())

    def vlans_on_the_wire(self):
        """Of the next 40 frames of MTLink's that come out of the first switch, as the kernel sees them."""
        text = self.lab.run([sys.executable, INTRUDER, "vlans", "b1", 40], ns="bridge").stdout
        return set(text.split())

    def test_links_on_vlans_of_their_own(self):
        self.start((5, 4094), (5, 4094))
        for switch in self.switches:
            switch.wait_up(0, 1)
            # Frames as long as without a tag: 802.1Q lets them be 4 bytes longer.
            self.assertEqual([1484, 1484], [switch.link(i)["mtu"] for i in (0, 1)])
        pair = [self.lab.perf(f"e{n}", ["--socket", self.switches[n - 1].socket, "--peer", 13 - n, "--count", 600,
                                        "--rate", 500, "--size", "32-1400", "--patience", 60], ns=f"sw{n}")
                for n in (1, 2)]
        self.assertEqual({"5", "4094"}, self.vlans_on_the_wire())
        for process in pair:
            report = process.report(limit=180)
            self.assert_all_arrived(report)
            self.assertEqual(600, report["total"]["received"])
        for switch in self.switches:  # both links carry: two of one tier
            self.assertTrue(all(switch.link(i)["packets_in"] > 0 for i in (0, 1)), switch.links())
            self.assertNotIn("foreign", switch.device_drops("eth0"))
        self.assert_books(*self.switches)

    def test_another_vlan_is_foreign(self):
        self.start((5, 6), (5, 7))
        for switch in self.switches:
            switch.wait_up(0)
            wait_until("the other link's frames are foreign",
                       lambda s=switch: s.device_drops("eth0").get("foreign", 0) >= 3)
            self.assertEqual("init", switch.state(1))
            self.assertEqual(0, switch.port(1)["frames_in"])
        self.assert_books(*self.switches)

    def test_an_interface_made_anew_serves_all_its_links(self):
        self.start((5, 6), (5, 6))
        for switch in self.switches:
            switch.wait_up(0, 1)
        self.lab.delete_link("sw1", "eth0")
        for switch in self.switches:
            switch.wait_not_up(0, 1)
        self.lab.veth(("sw1", "eth0"), ("bridge", "b1"))
        self.lab.link("bridge", "b1", "master", "br0")
        for switch in self.switches:
            switch.wait_up(0, 1)
        self.assertEqual(["", ""], [self.switches[0].port(i).get("fault", "") for i in (0, 1)])
        self.assert_books(*self.switches)
        self.assertEqual([0, 0], [self.stop(switch) for switch in self.switches])

    def test_an_interface_renamed_and_named_back_serves_again(self):
        self.start((5, 6), (5, 6))
        for switch in self.switches:
            switch.wait_up(0, 1)
        for name, new in (("eth0", "away"), ("away", "eth0")):
            self.lab.link("sw1", name, "down")
            self.lab.link("sw1", name, "name", new)
        wait_until("the port says that it is gone", lambda: "gone" in self.switches[0].port(0).get("fault", ""))
        self.lab.link("sw1", "eth0", "up")
        for switch in self.switches:
            switch.wait_up(0, 1)
        self.assert_books(*self.switches)

    def stop(self, switch):
        switch.process.signal(signal.SIGTERM)
        return switch.process.wait()


if __name__ == "__main__":
    cases.main()
