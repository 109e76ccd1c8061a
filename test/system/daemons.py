#!/usr/bin/env python3
"""mtswitchd killed, restarted, asked to end, and started twice."""

import os
import signal
import socket
import subprocess
import time

import cases
import lab as labs
from cases import wait_until


class Pair(cases.LabCase):
    """Two switches on one cable, each with a slot; the first with a host on Ethernet, too."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2", "host")
        self.lab.veth(("sw1", "trunk"), ("sw2", "trunk"))
        self.lab.veth(("sw1", "p1"), ("host", "eth0"))
        shape = labs.line((1, [10, 11]), (2, [12]))
        self.first = self.lab.switch("sw1", labs.node(
            1, labs.port(0, "trunk", 2), labs.port(1, "p1", 10), labs.slot(2, 11), shape, cases.PATIENT))
        self.second = self.lab.switch("sw2", labs.node(
            2, labs.port(0, "trunk", 1), labs.slot(1, 12), shape, cases.PATIENT))
        self.first.start()
        self.second.start()
        self.first.wait_up(0)

    def endpoint(self, name, number, peers, *options):
        """An endpoint: 10 is the host's, 11 and 12 are the slots'."""
        switch = self.first if number == 11 else self.second
        where = ["--interface", "eth0"] if number == 10 else ["--socket", switch.socket]
        ns = {10: "host", 11: "sw1", 12: "sw2"}[number]
        return self.lab.perf(name, [*where, "--node", number, "--peer", ",".join(map(str, peers)),
                                    "--size", "32-1400", *options], ns=ns)

    def all_to_all(self, tag, *options):
        return [self.endpoint(f"{tag}{n}", n, {10, 11, 12} - {n}, *options) for n in (10, 11, 12)]

    def undisturbed_reports(self):
        """Of a run in which no link died. The host has the timers of the profile LAB, and one way only: what is under
        way when the machine does not run it for two seconds is lost, and is not what the case is about."""
        for turn in range(5):
            processes = self.all_to_all(f"new{turn}-", "--count", 500, "--rate", 2000, "--patience", 60)
            reports = [process.report(limit=180) for process in processes]
            if all(report["link_ups"] == 1 for report in reports):
                break
        return reports

    def test_killed_under_load_and_started_again(self):
        running = self.all_to_all("old", "--time", 600, "--rate", 300, "--patience", 20)
        wait_until("traffic flows", lambda: all(link["packets_in"] > 20 for link in self.first.links().values()))
        for turn in (1, 2):
            self.first.process.kill()
            self.assertTrue(self.first.socket.exists(), "the killed one leaves its socket, which is the case here")
            self.first.start()
            # By themselves: the switch, the host on Ethernet, and the slot, which its process claims again.
            self.first.wait_up(0, 1, 2)
            self.second.wait_up(0, 1)
            self.assertTrue(self.first.port(2)["claimed"])
            downs = self.second.downs(0)
            self.assertEqual(turn, sum(downs.values()), downs)
            # Its new INIT came before the repeats in vain were too many, or after.
            self.assertLessEqual(set(downs), {"peer_restart", "replay_exhausted"})
        for process in running:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(signal.SIGTERM)
        # What had no way while the switch was down is named where it was dropped; what went down with it
        # is missed by its receiver, and then that one's run has failed.
        reports = [process.report() for process in running]
        self.assertGreater(sum(report["dropped_here"] + report["total"]["lost"] for report in reports), 0)
        for report, process in zip(reports, running):
            self.assertFalse(report["ok"] and report["total"]["lost"] > 0, report)
            self.assertEqual(int(not report["ok"]), process.wait())
        for report in self.undisturbed_reports():
            self.assert_all_arrived(report)
            self.assertEqual(1000, report["total"]["received"])
        self.assert_books(self.first, self.second)

    def test_sigterm_says_close_to_every_peer(self):
        for number, process in enumerate(self.all_to_all("e", "--time", 600, "--rate", 100, "--patience", 600)):
            self.assertTrue(process.alive(), number)
        self.first.wait_up(0, 1, 2)
        began = time.monotonic()
        self.assertEqual(0, self.first.process.stop())
        seconds = time.monotonic() - began
        print(f"SIGTERM to the end: {seconds:.2f} s")
        self.assertLess(seconds, 10)  # a second, on a machine that has one for it
        self.assertFalse(self.first.socket.exists(), "a socket is left")
        wait_until("the peer counts the CLOSE", lambda: self.second.downs(0) == {"peer_close": 1})
        self.assertIn("peer_close", self.second.process.err.read_text())
        self.assertFalse(list(self.lab.directory.glob(f"dpdk/*{self.first.process.pid}*")), "EAL left a directory")
        self.first.start()
        self.first.wait_up(0, 1, 2)

    def test_readiness_is_told_to_the_service_manager(self):
        self.first.process.stop()
        path = self.lab.directory / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(path))
            notify.settimeout(labs.PATIENCE)
            self.lab.env["NOTIFY_SOCKET"] = str(path)
            self.first.start(ready=False)
            self.assertIn(b"READY=1", notify.recv(4096))
            # Whoever was told may use it at once.
            self.assertEqual(1, self.first.json("show", "node")["node"])
            self.first.process.signal(signal.SIGTERM)
            self.assertIn(b"STOPPING=1", notify.recv(4096))
        self.assertEqual(0, self.first.process.wait())

    def test_a_second_one_on_the_same_socket_is_refused(self):
        # With the same ports, too: it must not touch them before it knows.
        self.first.wait_up(0)
        twin = self.lab.start("twin", self.first.command(), "sw1")
        self.assertNotIn(twin.wait(), (0, -signal.SIGSEGV, -signal.SIGABRT))
        message = twin.err.read_text()
        self.assertIn("another mtswitchd", message)
        self.assertIn(str(self.first.socket), message)
        self.assertEqual(1, self.first.json("show", "node")["node"])
        self.assertNotIn("max_frame", message, "a port was opened")
        self.assertEqual([{}, {}], [self.first.downs(0), self.second.downs(0)])

    def test_a_file_in_the_socket_s_place_is_not_removed(self):
        path = self.lab.directory / "precious"
        path.write_text("mine")
        config = self.lab.directory / "careless.textproto"
        config.write_text(f'node: 3\n{labs.slot(0, 13)}control {{ socket: "{path}" }}\n')
        careless = self.lab.start("careless", [self.lab.program("mtswitchd"), "--config", config], "sw1")
        self.assertNotEqual(0, careless.wait())
        self.assertIn(str(path), careless.err.read_text())
        self.assertEqual("mine", path.read_text())


class Log(cases.LabCase):
    def test_a_reader_that_leaves_ends_nothing(self):
        self.lab.netns("sw")
        switch = self.lab.switch("sw", labs.node(1, labs.slot(0, 11)))
        reader, writer = os.pipe()
        daemon = subprocess.Popen(["ip", "netns", "exec", self.lab.full("sw"), *map(str, switch.command())],
                                  stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env=self.lab.env)
        self.addCleanup(daemon.kill)
        os.close(writer)
        wait_until("it answers", lambda: switch.ctl("-j", "show", "node", check=False).returncode == 0)
        os.close(reader)
        for _ in range(3):
            switch.ctl("rate", "0", "1M")  # each is a line of the log
        self.assertEqual(1, switch.json("show", "node")["node"])
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(0, daemon.wait(labs.PATIENCE))


class Starved(cases.LabCase):
    def test_a_switch_that_loses_its_cpu_keeps_its_links(self):
        """The profile LAB is for hosts that do: the dead interval ends a link, not some repeats in vain."""
        self.lab.netns("sw1", "sw2")
        self.lab.veth(("sw1", "trunk"), ("sw2", "trunk"))
        switches = [self.lab.switch(f"sw{n}", labs.node(
            n, labs.port(0, "trunk", 3 - n), labs.slot(1, 10 + n), labs.line((1, [11]), (2, [12])), cases.PATIENT)).start()
                    for n in (1, 2)]
        pair = [self.lab.perf(f"e{n}", ["--socket", switches[n - 1].socket, "--peer", 13 - n, "--time", 600,
                                        "--rate", 200, "--patience", 60], ns=f"sw{n}") for n in (1, 2)]
        first, second = switches
        wait_until("traffic flows", lambda: first.link(0)["packets_in"] > 50)
        before = first.link(0)["replay_timeouts"]
        second.process.signal(signal.SIGSTOP)
        wait_until("many repeats in vain", lambda: first.link(0)["replay_timeouts"] > before + 150 or first.downs(0))
        second.process.signal(signal.SIGCONT)
        for process in pair:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(signal.SIGTERM)
        for process in pair:
            report = process.report()
            self.assert_all_arrived(report)
            self.assertEqual(1, report["link_ups"])
        self.assertEqual([{}, {}], [switch.downs(0) for switch in switches])
        self.assert_books(*switches)


if __name__ == "__main__":
    cases.main()
