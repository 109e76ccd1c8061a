#!/usr/bin/env python3
"""One mtswitchd on two workers, each on a CPU of its own: slots and cables at both of them."""

import os
import re
import signal
import time

import cases
import lab as labs
from cases import wait_until


def two_cpus(case):
    """Of those that this process may use."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        case.skipTest("this process may use one CPU only: there cannot be two workers")
    return cpus


class TwoWorkers(cases.LabCase):
    """The first switch has two workers. By turns they own slot 11, slot 12, trunk t0, trunk t1; the trunks lead
    to a second switch, which has slot 13."""

    def setUp(self):
        super().setUp()
        self.cpus = cpus = two_cpus(self)
        self.lab.netns("sw1", "sw2")
        for trunk in ("t0", "t1"):
            self.lab.veth(("sw1", trunk), ("sw2", trunk))
        shape = labs.line((1, [11, 12]), (2, [13]))
        self.first = self.lab.switch("sw1", labs.node(
            1, labs.slot(0, 11), labs.slot(1, 12), labs.port(2, "t0", 2), labs.port(3, "t1", 2), shape,
            f"runtime {{ cpus: {cpus} }}\n")).start()
        self.second = self.lab.switch("sw2", labs.node(
            2, labs.port(0, "t0", 1), labs.port(1, "t1", 1), labs.slot(2, 13), shape)).start()
        self.assertEqual([0, 1, 0, 1], [self.first.port(n)["worker"] for n in range(4)])

    def endpoint(self, number, peers, *options):
        switch = self.second if number == 13 else self.first
        return self.lab.perf(f"e{number}", ["--socket", switch.socket, "--node", number, "--peer",
                                            ",".join(map(str, peers)), *options], ns=switch.ns)

    def workers(self):
        return self.first.json("show", "workers")["workers"]

    def test_traffic_crosses_from_worker_to_worker(self):
        # 11 and 12 are at different workers, and 13 is reached over both.
        processes = [self.endpoint(n, sorted({11, 12, 13} - {n}), "--count", 2000, "--size", "32-1400", "--rate", 3000)
                     for n in (11, 12, 13)]
        for process in processes:
            report = process.report()
            self.assert_all_arrived(report)
            self.assertEqual(4000, report["total"]["received"])
        workers = self.workers()
        self.assertEqual([0, 1], [w["worker"] for w in workers])
        self.assertEqual(self.cpus, [w["cpu"] for w in workers])
        for worker in workers:
            self.assertGreater(worker["busy_cycles"], 0, worker)
            self.assertGreater(worker["loops"], 1000, worker)
        passed = re.findall(r"passed_out (\d+)", self.first.ctl("stats").stdout)
        self.assertEqual(2, len([n for n in passed if int(n) > 0]), passed)
        self.assert_books(self.first, self.second)

    def test_workers_tell_where_their_cycles_go(self):
        self.assertEqual(0, self.first.ctl("workers", "measure", "on").returncode)
        # 11 is at worker 0 and 12 at worker 1, so buffers cross both rings.
        for process in [self.endpoint(n, [23 - n], "--count", 500, "--rate", 2000) for n in (11, 12)]:
            self.assert_all_arrived(process.report())
        self.assertEqual(0, self.first.ctl("workers", "measure", "off").returncode)
        workers = self.workers()
        for worker in workers:
            self.assertFalse(worker["measuring"])
            stages = {stage["stage"]: stage for stage in worker["stages"]}
            for stage in ("device_receive", "link_receive", "rings", "link_send", "device_send", "flush"):
                self.assertGreaterEqual(stages[stage]["frames"], 500, worker)
                self.assertGreater(stages[stage]["cycles"], 0, worker)
            self.assertLessEqual(sum(stage["cycles"] for stage in worker["stages"]), worker["busy_cycles"])
        text = self.first.ctl("show", "workers").stdout
        for worker in workers:
            self.assertIn(f"worker {worker['worker']}: {worker['measured_passes']} passes measured\n", text)
        print(text)
        # Nothing is measured any more.
        self.first.ctl("ping", "2", "-c", "1")
        self.assertEqual([w["measured_passes"] for w in workers], [w["measured_passes"] for w in self.workers()])

    def test_ports_move_under_traffic(self):
        processes = [self.endpoint(n, sorted({11, 12, 13} - {n}), "--time", 600, "--size", "32-1400", "--rate", 4000)
                     for n in (11, 12, 13)]
        self.first.wait_up(0, 1, 2, 3)
        before = self.first.link(0)["packets_in"]
        wait_until("traffic flows", lambda: self.first.link(0)["packets_in"] > before)
        for turn in range(50):  # each port, in an order of its own, to the worker that it is not at
            number = turn * 3 % 4
            to = 1 - self.first.port(number)["worker"]
            said = self.first.ctl("port", "move", number, to).stdout
            self.assertIn(f"moved from worker {1 - to} to worker {to}", said)
            self.assertEqual(to, self.first.port(number)["worker"])
        log = self.first.process.err.read_text()
        self.assertEqual(50, log.count("port moved by the operator"), log)
        for process in processes:
            self.assertTrue(process.alive(), process.err.read_text())
            process.signal(signal.SIGTERM)
        for process in processes:
            report = process.report()
            self.assert_all_arrived(report)
            self.assertEqual(1, report["link_ups"])
        for number in range(4):
            link = self.first.link(number)
            self.assertEqual(1, link["ups"], link)
        self.assert_books(self.first, self.second)

    def test_balancing_spreads_what_is_on_one_worker(self):
        for number in (0, 2):
            self.first.ctl("port", "move", number, 1)
        traffic = [self.endpoint(n, [23 - n], "--time", 600, "--size", 200) for n in (11, 12)]
        self.first.wait_up(0, 1, 2, 3)

        def busy():
            # Enough to be told from noise, and measured since the ports came to rest.
            now = self.workers()
            return now[1]["busy_ppm"] > 150_000 + 10 * now[0]["busy_ppm"] and now
        before = wait_until("worker 1 has all the work", busy)
        self.assertEqual([[], [0, 1, 2, 3]], [w.get("ports", []) for w in before])
        would = self.first.ctl("workers", "balance", "--dry-run").stdout
        self.assertRegex(would, r"port [01] would move from worker 1 to worker 0: the busier of them")
        self.assertEqual(1, self.first.port(0)["worker"])
        said = self.first.ctl("workers", "balance").stdout
        moved = re.findall(r"port ([01]) moved from worker 1 to worker 0", said)
        self.assertEqual(1, len(moved), said)
        self.assertEqual(0, self.first.port(int(moved[0]))["worker"])
        refused = self.first.ctl("workers", "balance", check=False)
        if refused.returncode:  # else a second has passed already
            self.assertIn("try again in two seconds", refused.stderr)
        # Each has a port that carries as much as the other; commands alone keep nobody busy for as long.
        a_tenth = before[1]["busy_ppm"] / 10
        wait_until("the load is shared", lambda: min(w["busy_ppm"] for w in self.workers()) > a_tenth)
        self.assertEqual([1, 1], [self.first.link(n)["ups"] for n in (0, 1)])
        for process in traffic:
            self.assertTrue(process.alive(), process.err.read_text())
        self.assert_books(self.first)

    def test_what_cannot_be_moved_is_named(self):
        self.assertIn("no worker 2: its workers are 0 to 1", self.first.ctl("port", "move", 0, 2, check=False).stderr)
        self.assertIn("has no port t7", self.first.ctl("port", "move", "t7", 1, check=False).stderr)
        self.assertIn("has one worker, 0: give runtime.cpus", self.second.ctl("port", "move", 0, 1, check=False).stderr)
        self.assertIn("is at worker 1 already", self.first.ctl("port", "move", 1, 1).stdout)
        self.assertNotIn("port moved", self.first.process.err.read_text())
        self.assertEqual([0, 1, 0, 1], [self.first.port(n)["worker"] for n in range(4)])

    def test_ports_on_one_device_move_together(self):
        switch = self.lab.switch("sw3", labs.node(
            3, *(f"ports {{ port: {n} af_packet {{ interface: \"t2\" }} vlan: {n + 5} }}\n" for n in range(2)),
            labs.slot(2, 31), f"runtime {{ cpus: {self.cpus} }}\n"))
        self.lab.netns("sw3", "sw4")
        self.lab.veth(("sw3", "t2"), ("sw4", "t2"))
        switch.start()
        before = [switch.port(n)["worker"] for n in range(3)]
        self.assertEqual(before[0], before[1])
        said = switch.ctl("port", "move", 1, 1 - before[1]).stdout
        self.assertIn("with it, of the same device or trunk: 0", said)
        self.assertEqual([1 - before[0], 1 - before[0], before[2]], [switch.port(n)["worker"] for n in range(3)])

    def test_sigterm_says_close_at_both_workers(self):
        pair = [self.endpoint(n, [23 - n], "--time", 600, "--rate", 200, "--patience", 600) for n in (11, 12)]
        self.first.wait_up(0, 1, 2, 3)
        began = time.monotonic()
        self.assertEqual(0, self.first.process.stop(), self.first.process.err.read_text())
        seconds = time.monotonic() - began
        print(f"SIGTERM to the end: {seconds:.2f} s")
        self.assertLess(seconds, 10)  # a second, on a machine that has one for it
        for number in (0, 1):
            wait_until(f"link {number} of the peer counts the CLOSE",
                       lambda number=number: self.second.downs(number) == {"peer_close": 1})
        for process in pair:
            self.assertTrue(process.alive(), process.err.read_text())

    def test_two_workers_with_nothing_to_do(self):
        # Each waits for a peer that never comes, and asks for it ten times a second.
        for number in (11, 12):
            self.endpoint(number, [99], "--patience", 600)
        self.first.wait_up(0, 1, 2, 3)
        share = self.share(self.first.process)
        print(f"an idle mtswitchd on two workers, four links UP: {share:.2f} % of a core (aim: under 2 %)")
        self.assertLess(share, 3 * 2)
        for worker in self.workers():
            self.assertGreater(worker["sleeps"], 0, worker)


class BalancedWorkers(cases.LabCase):
    """A switch that balances of its own accord. Both slots that have traffic are worker 1's."""

    LOOKS_EVERY = 5  # seconds
    LOAD = 30  # percent: what a worker gets of two CPUs beside two endpoints that send all they can

    def setUp(self):
        super().setUp()
        self.lab.netns("sw")
        slots = [labs.slot(n, 11 + n, "worker: 1 ") for n in range(2)]
        self.switch = self.lab.switch("sw", labs.node(
            1, *slots, f"runtime {{ cpus: {two_cpus(self)} balance: true balance_load: {self.LOAD} }}\n", cases.PATIENT)).start()

    def moves(self):
        return re.findall(r"port moved to balance the workers.*", self.switch.process.err.read_text())

    def busy(self):
        return [w["busy_ppm"] / 10_000 for w in self.switch.json("show", "workers")["workers"]]

    def test_a_port_moves_once_and_stays(self):
        traffic = [self.lab.perf(f"e{n}", ["--socket", self.switch.socket, "--node", n, "--peer", 23 - n, "--time", 600,
                                           "--size", 200], ns="sw") for n in (11, 12)]
        self.switch.wait_up(0, 1)
        wait_until("a port moves", self.moves, limit=120)
        print(f"{self.moves()[0]}; busy now: {self.busy()} %")
        self.assertEqual([0, 1], sorted(self.switch.port(n)["worker"] for n in range(2)))
        time.sleep(3 * self.LOOKS_EVERY)  # it looks two times at least
        self.assertEqual(1, len(self.moves()), self.moves())
        self.assertEqual([1, 1], [self.switch.link(n)["ups"] for n in range(2)])
        for process in traffic:
            self.assertTrue(process.alive(), process.err.read_text())
        self.assert_books(self.switch)


if __name__ == "__main__":
    cases.main()
