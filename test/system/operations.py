#!/usr/bin/env python3
"""Memory and message semantics between processes on slots of two switches that a trunk of two cables joins: every mode of mtperf
with its contents compared, cables cut under load, a server that is killed."""

import json
import time

import cases
import lab as labs
from cases import wait_until

MODES = {"write": [1, 8, 4096, 100_000], "read": [1, 8, 4096, 100_000], "send": [1, 8, 4096, 100_000], "store": [8, 64],
         "load": [8, 64], "atomic": [8]}
MTU = 1484  # of the trunk; that of the slots is 9000
PEER_TIMEOUT = 5  # seconds (section 5 of the protocol's page)


class Operations(cases.LabCase):
    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2")
        for lane in ("l0", "l1"):
            self.lab.veth(("sw1", lane), ("sw2", lane))
        trunk = 'trunks { name: "up" ports: [0, 1] }\n'
        slots = {1: (11, 13), 2: (12, 14)}
        self.switches = [self.lab.switch(f"sw{n}", labs.node(
            n, *(labs.port(i, f"l{i}", 3 - n) for i in (0, 1)), *(labs.slot(2 + i, node) for i, node in enumerate(slots[n])),
            trunk, labs.line((1, slots[1]), (2, slots[2])))).start() for n in (1, 2)]
        for switch in self.switches:
            switch.wait_up(0, 1)

    def serve(self, node=12, *options):
        server = self.lab.start(f"serve{node}", [self.lab.program("mtperf"), "serve", "--socket", self.switches[1].socket,
                                                 "--node", node, *options], ns="sw2")
        wait_until("it serves", lambda: "serves" in server.out.read_text() or not server.alive())
        return server

    def client(self, mode, *options, node=11, peer=12):
        return self.lab.perf(f"{mode}{node}", ["--socket", self.switches[0].socket, "--node", node, "--peer", peer,
                                               *(() if "--mtu" in options else ("--mtu", MTU)), *options],
                             ns="sw1", what=mode)

    def well(self, process, **expected):
        """Its report: all complete, contents right."""
        report = process.report()
        self.assertTrue(report["ok"], report.get("faults"))
        self.assertEqual(0, process.wait())
        for row in report["rows"]:
            self.assertEqual(0, row.get("altered", 0))
            self.assertGreater(row["operations"], 0)
        for name, value in expected.items():
            self.assertEqual(value, report[name])
        return report

    def test_every_mode_with_its_contents_compared(self):
        server = self.serve()
        for mode, sizes in MODES.items():
            report = self.well(self.client(mode, "--verify", "--count", 500, "--size", ",".join(map(str, sizes))), mode=mode)
            self.assertEqual(sizes, [row["size"] for row in report["rows"]])
        for mode in ("write", "send"):
            self.well(self.client(mode, "--latency", "--count", 100), to_and_fro=True)
        for mode in ("write", "read", "send"):
            report = self.well(self.client(mode, "--bidirectional", "--verify", "--count", 500), both=True)
            self.assertEqual(1000, report["rows"][0]["operations"])
        self.well(self.client("send", "--connections", 8, "--verify", "--count", 500, "--size", 1000), connections=8)
        server.signal(labs.signal.SIGTERM)
        self.assertEqual(0, server.wait())
        self.assert_books(*self.switches)

    def test_two_clients_of_one_server_do_not_meet(self):
        self.serve()
        clients = [self.client("write", "--verify", "--time", 2, node=11), self.client("send", "--verify", "--time", 2, node=13)]
        for process in clients:
            self.well(process)

    def cut(self, *lanes):
        for lane in lanes:
            self.lab.link("sw1", lane, "down")
        for switch in self.switches:
            switch.wait_not_up(*(int(lane[1]) for lane in lanes))

    def join(self, *lanes):
        for lane in lanes:
            self.lab.link("sw1", lane, "up")
        for switch in self.switches:
            switch.wait_up(*(int(lane[1]) for lane in lanes))

    def test_cables_cut_under_load_cost_nothing(self):
        self.serve(12)
        self.serve(14)
        running = [self.client("send", "--verify", "--time", 8, "--size", 20_000, node=11),
                   self.client("atomic", "--verify", "--depth", 64, "--time", 8, node=13, peer=14)]
        wait_until("both are under way", lambda: all(
            switch.link(0)["packets_acked"] + switch.link(1)["packets_acked"] > 1000 for switch in self.switches))
        self.cut("l0")
        self.join("l0")
        self.cut("l1")
        self.join("l1")
        self.cut("l0", "l1")  # no way at all, for less than a peer is waited for
        self.join("l0", "l1")
        for process in running:
            self.well(process)

    def test_a_server_that_is_killed_is_an_error_in_time(self):
        server = self.serve()
        running = self.client("write", "--time", 60, "--size", 4096)
        wait_until("it is under way", lambda: self.switches[1].link(2)["packets_acked"] > 100)
        server.signal(labs.signal.SIGKILL)
        begin = time.monotonic()
        report = running.report()
        self.assertLess(time.monotonic() - begin, PEER_TIMEOUT + 15)
        self.assertEqual(1, running.wait())
        self.assertIn("the connection to node 12 ended: dead", report["faults"][0])
        self.serve()  # on the slot that it left
        self.well(self.client("write", "--verify", "--count", 100))

    def test_an_end_or_a_switch_that_stands_still_costs_nothing(self):
        server = self.serve()
        for stopped in ("client", "server", "switch"):
            with self.subTest(stopped):
                before = self.switches[1].link(2)["packets_acked"]
                client = self.client("send", "--verify", "--time", 2)
                wait_until("it is under way", lambda: self.switches[1].link(2)["packets_acked"] > before + 100)
                process = {"client": client, "server": server, "switch": self.switches[0].process}[stopped]
                process.signal(labs.signal.SIGSTOP)
                time.sleep(3)  # the links of what stands still die; connections live for PEER_TIMEOUT
                process.signal(labs.signal.SIGCONT)
                self.well(client)

    def test_one_ctrl_c_ends_the_row_and_it_is_told(self):
        self.serve()
        for options in ((), ("--latency",), ("--verify",)):
            client = self.client("write", "--time", 60, *options)
            time.sleep(1)
            client.signal(labs.signal.SIGINT)
            self.well(client)

    def test_packets_too_long_for_the_way_are_told_as_the_cause(self):
        self.serve()
        process = self.client("write", "--mtu", 9000)
        self.assertEqual(1, process.wait())
        self.assertIn("carry packets of 9000 bytes? --mtu", process.report()["faults"][0])

    def test_what_cannot_be_is_said(self):
        program, socket = self.lab.program("mtperf"), ["--socket", self.switches[0].socket]
        for arguments, text in ((["store", "--size", 65], "store: --size is 1 to 64"),
                                (["atomic", "--size", 4], "atomic: --size is 8"),
                                (["load", "--latency"], "--latency"),
                                (["write", "--latency", "--verify"], "--verify"),
                                (["write", "--size", 1 << 30, "--depth", 2], "--size times --depth"),
                                (["write", "--all", "--size", 4], "--all"),
                                (["atomic", "--bidirectional"], "--bidirectional"),
                                (["write", "--size", 0], "--size"),
                                (["write", "--count", -5], "--count"),
                                (["write", "--count", 0], "--count"),
                                (["write", "--time", "nan"], "--time"),
                                (["write", "--seed", -1], "--seed"),
                                (["write", "--histogram"], "--histogram requires --json"),
                                (["write", "--peer", 11], "that is this endpoint itself")):
            peer = [] if "--peer" in arguments else ["--peer", 12]
            process = self.lab.start("wrong", [program, *arguments, *peer, *socket, "--node", 11], ns="sw1")
            self.assertEqual(2, process.wait(), arguments)
            self.assertIn(text, process.err.read_text())
        nobody = self.client("write", "--patience", 1)
        self.assertEqual(1, nobody.wait())
        (fault,) = json.loads(nobody.out.read_text())["faults"]
        self.assertIn("does `mtperf serve` of this version run", fault)


if __name__ == "__main__":
    cases.main()
