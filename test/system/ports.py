#!/usr/bin/env python3
"""Ports and slots that come and go by `mtctl reload` while others carry traffic: none of that is lost, no other link
notices, nothing is left behind; and files that cannot be taken over change nothing."""

import os
import pathlib
import signal

import cases
import lab as labs
from cases import wait_until

CYCLES = 100 if "MTL_LONG" in os.environ else 30
WARM = 10  # cycles in which everything has been allocated once


def on(number, kind, device, peer=None, more=""):
    """A port of a node on a device of this kind."""
    peer_text = "" if peer is None else f"peer_node: {peer}"
    return f'ports {{ port: {number} name: "{kind}{number}" {kind} {{ {device} }} {peer_text} {more} }}\n'


class Reloads(cases.LabCase):
    """A switch with slots for 11 and 12, which exchange datagrams all the time, on two workers where the machine has
    them; what else it has, each case says."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2")
        cpus = sorted(os.sched_getaffinity(0))[:2]
        self.base = (labs.slot(0, 11), labs.slot(1, 12), f"runtime {{ cpus: {cpus} }}\n", cases.PATIENT)
        self.first = self.lab.switch("sw1", labs.node(1, *self.base)).start()
        self.endpoints = [self.lab.perf(f"e{n}", ["--socket", self.first.socket, "--node", n, "--peer", 23 - n,
                                                  "--time", 3000, "--size", "32-1400", "--rate", 2000,
                                                  "--patience", 120], ns="sw1") for n in (11, 12)]
        self.first.wait_up(0, 1)

    def has(self, *parts, switch=None, options=()):
        """Gives the first switch the base and these parts, and what it said of it."""
        switch = switch or self.first
        switch.configure(labs.node(1, *self.base, *parts))
        return switch.ctl("reload", *options).stdout

    def refused(self, *parts):
        self.first.configure(labs.node(1, *parts))
        done = self.first.ctl("reload", check=False)
        self.assertEqual(1, done.returncode, done.stdout)
        return done.stderr

    def numbers(self):
        return sorted(entry["port"] for entry in self.first.json("show", "ports")["ports"])

    def finish(self, copies=0):
        """The endpoints end: all that was ever sent between them arrived, once, and their links never went down."""
        for number in (0, 1):
            self.assertEqual(1, self.first.link(number)["ups"])
        for process in self.endpoints:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(signal.SIGTERM)
        for process in self.endpoints:
            report = process.report(limit=180)
            self.assert_all_arrived(report, copies)
            self.assertEqual(1, report["link_ups"])
            print(f"longest gap {report['total']['longest_gap_us'] / 1e3:.1f} ms of "
                  f"{report['total']['received']} datagrams")
        self.assert_books(self.first)

    def second(self, *parts):
        return self.lab.switch("sw2", labs.node(2, *parts, cases.PATIENT)).start()


class Kinds(Reloads):
    def come_and_go(self, number, text, peer=None):
        """The port comes, twice, its link with it if there is a peer; and goes."""
        for _ in range(2):
            self.assertIn(f"port {number} (", self.has(text))
            self.assertEqual([0, 1, number], self.numbers())
            if peer is not None:
                self.first.wait_up(number)
                self.assertIn("3 received", self.first.ctl("ping", peer, "-c", 3, "-i", "10ms").stdout)
            said = self.has()
            self.assertRegex(said, rf"port {number} \(.*\) removed\n")
            self.assertNotIn("leaving", said)
            self.assertEqual([0, 1], self.numbers())

    def test_af_packet(self):
        self.lab.veth(("sw1", "t0"), ("sw2", "t0"))
        second = self.second(labs.port(0, "t0", 1))
        self.come_and_go(2, labs.port(2, "t0", 2), 2)
        wait_until("the peer was told twice", lambda: second.downs(0) == {"peer_close": 2})
        self.finish()

    def test_pcap(self):
        self.lab.veth(("sw1", "t0"), ("sw2", "t0"))
        second = self.second(on(0, "pcap", 'interface: "t0"', 1))
        self.come_and_go(2, on(2, "pcap", 'interface: "t0"', 2), 2)
        wait_until("the peer was told twice", lambda: second.downs(0) == {"peer_close": 2})
        self.finish()

    def test_memif(self):
        path = f"{self.lab.directory}/m.sock"
        # In sw1's namespace or not, the socket is a file.
        second = self.second(on(0, "memif", f'socket: "{path}" role: CLIENT', 1))
        self.come_and_go(2, on(2, "memif", f'socket: "{path}"', 2), 2)
        self.assertFalse(pathlib.Path(path).exists())
        self.assertEqual(2, sum(second.downs(0).values()), second.downs(0))
        self.finish()

    def test_memif_client(self):
        path = f"{self.lab.directory}/m.sock"
        second = self.second(on(0, "memif", f'socket: "{path}"', 1))
        self.come_and_go(2, on(2, "memif", f'socket: "{path}" role: CLIENT', 2), 2)
        self.assertEqual(2, sum(second.downs(0).values()), second.downs(0))
        self.finish()

    def test_tap(self):
        def interfaces():
            return self.lab.run(["ip", "-br", "link"], ns="sw1").stdout
        self.come_and_go(7, on(7, "tap", 'interface: "mt0"'))
        self.assertNotIn("mt0", interfaces())
        self.has(on(7, "tap", 'interface: "mt0"'))
        self.assertIn("mt0", interfaces())
        self.finish()

    def test_af_xdp(self):
        self.lab.veth(("sw1", "t0"), ("sw2", "t0"))
        self.second(on(0, "af_packet", 'interface: "t0"', 1))
        self.first.configure(labs.node(1, *self.base, on(2, "af_xdp", 'interface: "t0"', 2)))
        done = self.first.ctl("reload", check=False)
        if done.returncode != 0 and "kernel" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(0, done.returncode, done.stderr)
        self.has()
        self.come_and_go(2, on(2, "af_xdp", 'interface: "t0"', 2), 2)
        self.finish()

    def test_ring(self):
        cable = on(2, "ring", 'name: "r"') + on(3, "ring", 'name: "r"')
        for _ in range(2):
            self.has(cable)
            self.first.wait_up(2, 3)
            self.has()
            self.assertEqual([0, 1], self.numbers())
        self.finish()

    def test_several_ports_on_one_new_device(self):
        self.lab.veth(("sw1", "t0"), ("sw2", "t0"))
        self.second(*(on(n, "af_packet", 'interface: "t0"', 1, f"vlan: {5 + n}") for n in range(2)))
        both = [on(2 + n, "af_packet", 'interface: "t0"', 2, f"vlan: {5 + n}") for n in range(2)]
        self.has(*both)
        self.first.wait_up(2, 3)
        self.assertEqual(self.first.port(2)["worker"], self.first.port(3)["worker"])
        self.assertIn("is on interface t0 with port af_packet3", self.refused(*self.base, both[0]))
        self.has()
        self.has(both[1])
        self.first.wait_up(3)
        self.assertIn("is on interface t0, as port af_packet3", self.refused(*self.base, *both))
        self.finish()

    def test_a_slot(self):
        self.has(labs.slot(4, 14, 'name: "extra"'))
        claimant = self.lab.perf("e14", ["--socket", self.first.socket, "--node", 14, "--peer", 11, "--patience", 2,
                                         "--rate", 100, "--time", 2], ns="sw1")
        self.first.wait_up(4)
        self.assertIn("port 4 (extra) removed", self.has())
        self.assertEqual([0, 1], self.numbers())
        report = claimant.report()
        self.assertIn("the slot was lost", " ".join(report["faults"]))
        self.assertIn('slot "extra" does not exist on sw1: add it to `slots`', " ".join(report["faults"]))
        # The same again, claimed again.
        self.has(labs.slot(4, 14, 'name: "extra"'))
        again = self.lab.perf("e14-2", ["--socket", self.first.socket, "--node", 14, "--peer", 12, "--patience", 2,
                                        "--count", 1], ns="sw1")
        self.first.wait_up(4)
        again.kill()
        self.finish()


class Traffic(Reloads):
    def setUp(self):
        super().setUp()
        for trunk in ("t0", "t1"):
            self.lab.veth(("sw1", trunk), ("sw2", trunk))
        self.shape = labs.line((1, [11, 12, 15]), (2, [13]))
        self.trunks = [labs.port(2, "t0", 2), labs.port(3, "t1", 2)]
        self.other = self.second(labs.port(0, "t0", 1), labs.port(1, "t1", 1), labs.slot(2, 13), self.shape)
        self.slot = labs.slot(5, 15)

    def test_what_a_removed_port_held_goes_on_elsewhere(self):
        self.has(*self.trunks, self.slot, self.shape)
        self.first.wait_up(2, 3)
        ends = [self.lab.perf(f"x{a}", ["--socket", switch.socket, "--node", a, "--peer", b, "--rate", 2000, "--time", 3000,
                                        "--patience", 120], ns=switch.ns)
                for switch, a, b in ((self.first, 15, 13), (self.other, 13, 15))]
        for turn in range(6):
            gone = turn % 2
            before = self.other.link(2)["packets_in"]
            wait_until("traffic flows", lambda: self.other.link(2)["packets_in"] > before + 500)
            self.has(self.trunks[1 - gone], self.slot, self.shape)
            self.assertEqual([0, 1, 3 - gone, 5], self.numbers())
            self.has(*self.trunks, self.slot, self.shape)
            self.first.wait_up(2, 3)
            self.other.wait_up(0, 1)
        for process in ends:
            process.signal(signal.SIGTERM)
        for process in ends:
            report = process.report(limit=180)
            # What a link had sent and its peer not acknowledged goes a second time (L9).
            self.assert_all_arrived(report, copies=report["total"]["received"])
            self.assertEqual(1, report["link_ups"])
        self.assert_books(self.other)
        self.finish()

    def test_a_port_leaves_when_what_came_in_on_it_has_gone(self):
        self.has(self.trunks[0], self.slot, self.shape)
        self.first.wait_up(2)
        end = self.lab.perf("x15", ["--socket", self.first.socket, "--node", 15, "--peer", 13, "--rate", 2000,
                                    "--time", 3000, "--patience", 60], ns="sw1")
        peer = self.lab.perf("x13", ["--socket", self.other.socket, "--node", 13, "--peer", 15, "--rate", 2000,
                                     "--time", 3000, "--patience", 60], ns="sw2")
        self.first.wait_up(5)
        before = self.other.link(2)["packets_in"]
        wait_until("traffic flows", lambda: self.other.link(2)["packets_in"] > before + 100)
        os.kill(self.other.process.pid, signal.SIGSTOP)  # it is the switch itself: ip execs
        try:
            wait_until("packets wait", lambda: self.first.link(2)["unacknowledged"] > 10)
            said = self.has(self.trunks[0], self.shape.replace(", 15", ""))
            self.assertIn("port 5 (slot5) is leaving still", said)
            self.assertIn("packets that came in on it wait", self.first.port(5)["fault"])
            again = self.refused(*self.base, self.trunks[0], self.slot, self.shape)
            self.assertIn("port 5 (slot5) cannot be added yet", again)
            self.assertIn("is being removed", self.first.ctl("port", "move", 5, 0, check=False).stderr)
            routes = pathlib.Path(self.lab.directory) / "routes.textproto"
            routes.write_text("routes { dst: 15 tiers { hops { port: 5 } } }\n")
            set_routes = self.first.ctl("routes", "set", routes, check=False).stderr
            self.assertIn("the route to node 15 goes by port 5, which is being removed", set_routes)
            # Other reloads go on.
            self.assertIn("port 6 (slot6) added", self.has(self.trunks[0], labs.slot(6, 16)))
            self.assert_books(self.first)
        finally:
            os.kill(self.other.process.pid, signal.SIGCONT)
        wait_until("the port is gone", lambda: 5 not in self.numbers())
        for process in (end, peer):
            process.kill()
        self.has(self.trunks[0], self.slot, self.shape)
        self.assertEqual([0, 1, 2, 5], self.numbers())
        self.finish()

    def test_a_restart_has_what_the_last_reload_gave(self):
        self.has(self.trunks[1], self.slot, self.shape)
        self.first.wait_up(3)
        self.assertEqual([0, 1, 3, 5], self.numbers())
        self.first.process.kill()
        self.first.start()
        self.first.wait_up(0, 1, 3)
        self.assertEqual([0, 1, 3, 5], self.numbers())
        self.has(*self.trunks, self.shape.replace(", 15", ""))
        self.first.wait_up(0, 1, 2, 3)


class Cycles(Reloads):
    def state(self):
        proc = pathlib.Path(f"/proc/{self.first.process.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return {"descriptors": len(list((proc / "fd").iterdir())), "threads": len(list((proc / "task").iterdir())),
                "mappings": len((proc / "maps").read_text().splitlines()), "rss_kib": int(status["VmRSS"].split()[0]),
                "pool_buffers": self.first.json("show", "memory")["memory"]["pool_buffers"]}

    def test_many_cycles_leave_nothing_behind(self):
        self.lab.veth(("sw1", "t0"), ("sw2", "t0"))
        parts = (labs.port(2, "t0", 2), labs.slot(3, 13), on(4, "tap", 'interface: "mt0"'),
                 on(5, "memif", f'socket: "{self.lab.directory}/m.sock"'),
                 on(6, "ring", 'name: "r"'), on(7, "ring", 'name: "r"'))
        before = self.state()
        for cycle in range(CYCLES):
            self.has(*parts)
            self.has()
            if cycle == WARM:
                warm = self.state()
        wait_until("all buffers of the last are back",
                   lambda: self.state()["pool_buffers"] == before["pool_buffers"])
        # A connection of mtctl's may just be ending.
        after = wait_until("there are no more descriptors than after the first cycles",
                           lambda: (now := self.state()) and now["descriptors"] <= warm["descriptors"] and now)
        print(f"before {before}\nafter {WARM} cycles {warm}\nafter {CYCLES} cycles {after}")
        self.assertEqual(before["threads"], after["threads"])
        # A pool of one port alone has 2 MiB.
        self.assertLess(after["rss_kib"] - warm["rss_kib"], 3072)
        self.assertLess(after["mappings"] - warm["mappings"], 20)
        self.assertEqual(6 * CYCLES, self.first.json("show")["removed"]["ports"])
        self.finish()


class Refusals(Reloads):
    def test_change_nothing(self):
        self.lab.veth(("sw1", "t0"), ("sw2", "t0"))
        self.has(labs.port(2, "t0", 2))
        base = (*self.base, labs.port(2, "t0", 2))
        sent = pathlib.Path(self.lab.directory) / "sent.pcap"
        for parts, *words in (
                (("ports { port: 3 ",), "sw1.textproto:"),
                ((*base, labs.port(3, "t9", 3), labs.slot(4, 11)), 'there is no interface "t9"', "which slots[0] has"),
                ((*base, labs.slot(256, 13)), "slots[2].port is 256; it must be 0..255"),
                ((self.base[0], labs.slot(1, 19), *base[2:]), "slots[1].node differs from that of port 1 that runs",
                 "take it out and reload"),
                ((*base, "hop_limit: 3\n"), "hop_limit differs from what the node runs with", "restart mtswitchd"),
                ((*base, labs.slot(4, 14), on(5, "ethdev", 'devargs: "net_nonesuch0"')), "port ethdev5: "),
                ((*base, labs.slot(4, 14), on(5, "ethdev", 'devargs: "0000:ff:1f.7"')), "0000:ff:1f.7"),
                ((*base, on(4, "pcap", f'send_file: "{sent}"'), on(5, "ethdev", 'devargs: "net_nonesuch0"')),
                 "port ethdev5: "),
                ((*self.base, labs.port(3, "t0", 2)), "is on interface t0, which port t0 has that this reload removes"),
                ((*base, "trunks { ports: [2, 2] }\n"), "trunks"),
                (("name_it: 3",), "name_it")):
            said = self.refused(*parts)
            for word in words:
                self.assertIn(word, said)
            # The same as at a start, where it would be refused there, too.
            self.assertEqual([0, 1, 2], self.numbers())
        self.assertFalse(sent.exists())
        os.remove(self.first.config)
        self.assertIn("sw1.textproto", self.first.ctl("reload", check=False).stderr)
        self.assertEqual([0, 1, 2], self.numbers())
        would = self.has(labs.slot(9, 19), options=["--dry-run"])
        self.assertIn("port 9 (slot9) would be added\n", would)
        self.assertIn("port 2 (t0) would be removed\n", would)
        self.assertEqual([0, 1, 2], self.numbers())
        self.finish()

    def test_an_interface_that_is_lost_keeps_nobody_from_another_port(self):
        self.lab.veth(("sw1", "t0"), ("sw2", "t0"))
        base = labs.port(2, "t0", 2)
        self.has(base)
        self.lab.run(["ip", "link", "delete", "t0"], ns="sw1")
        wait_until("the loss is seen", lambda: self.first.port(2)["fault"])
        self.assertIn("port 3 (slot3) added", self.has(base, labs.slot(3, 13)))
        self.assertIn("port 3 (slot3) removed", self.has(base))
        self.assertIn("port 2 (t0) removed", self.has())
        self.assertIn('there is no interface "t0"', self.refused(*self.base, base))
        self.finish()

    def test_the_text_is_that_of_check(self):
        parts = labs.node(1, *self.base, labs.port(3, "t9", 3))
        self.first.configure(parts)
        check = self.lab.run(self.first.command("--check"), ns="sw1", check=False).stderr
        self.assertIn("t9", check)
        self.assertEqual(check.replace("mtswitchd: ", "").strip(),
                         self.first.ctl("reload", check=False).stderr.replace("mtctl: ", "").strip())
        self.finish()


if __name__ == "__main__":
    cases.main()
