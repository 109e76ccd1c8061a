#!/usr/bin/env python3
"""scripts/demo as a stranger runs it: to its end, interrupted, and killed; nothing of it stays behind."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import types
import unittest

import cases
import lab as labs
from cases import wait_until

# By its path: it has this file's name.
SPEC = importlib.util.spec_from_file_location("scenario", cases.ROOT / "scripts" / "lib" / "demo.py")
scenario = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(scenario)
DEMO = cases.ROOT / "scripts" / "demo"
LIMIT = 300


class Demo(unittest.TestCase):
    def tearDown(self):
        subprocess.run([DEMO, "--clean"], check=False, capture_output=True)

    def start(self, *options, build=False):
        # scripts/demo itself looks into build/; the programs here may be of another directory.
        environment = {**os.environ, "MTL_BUILD_DIR": cases.build_directory()}
        return subprocess.Popen([DEMO, *([] if build else ["--no-build"]), *options], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True)

    def assert_nothing_left(self):
        self.assertEqual([], labs.namespaces("mtl-demo-"))
        self.assertFalse(pathlib.Path("/run/mtlink-demo").exists())

    def test_it_succeeds_and_leaves_nothing(self):
        # The step that builds, too, which has nothing left to do; but not as root in another's directory.
        mine = os.stat(cases.build_directory()).st_uid == os.geteuid()
        demo = self.start(build=mine and pathlib.Path(cases.build_directory()) == cases.ROOT / "build")
        output, _ = demo.communicate(timeout=LIMIT)
        print(output)
        self.assertEqual(0, demo.returncode)
        self.assertIn("every datagram arrived, unaltered", output)
        self.assert_nothing_left()

    def wait_traffic(self, demo):
        for line in demo.stdout:
            if "traffic: all to all" in line:
                return
        self.fail("it ended before there was traffic")

    def test_interrupted_under_load_it_cleans_up_and_can_run_again(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            demo = self.start()
            self.wait_traffic(demo)
            os.kill(demo.pid, number)
            demo.communicate(timeout=LIMIT)
            self.assertEqual(status, demo.returncode)
            self.assert_nothing_left()

    def scenario(self):
        """The processes of the inner part."""
        found = subprocess.run(["pgrep", "-f", "scripts/lib/demo[.]py"], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def test_what_a_killed_one_left_is_removed_by_the_next(self):
        demo = self.start()
        self.wait_traffic(demo)
        os.kill(demo.pid, signal.SIGKILL)
        for pid in self.scenario():
            os.kill(pid, signal.SIGKILL)
        demo.wait(LIMIT)
        self.assertNotEqual([], labs.namespaces("mtl-demo-"), "nothing was left: the case showed nothing")
        clean = subprocess.run([DEMO, "--clean"], capture_output=True, text=True, check=False, timeout=LIMIT)
        self.assertEqual(0, clean.returncode, clean.stdout + clean.stderr)
        self.assert_nothing_left()
        demo.stdout.close()
        wait_until("nothing of it runs", lambda: not self.scenario())


class Verdict(unittest.TestCase):
    """What the demo makes of reports: it fails for one datagram."""

    def setUp(self):
        self.demo = scenario.Demo.__new__(scenario.Demo)
        self.demo.problems = []
        self.link = {"downs": [{"name": "no_carrier", "count": 1}], "packets_back": 3}
        self.books = ""
        self.report = {"total": {"sent": 9, "received": 9, "lost": 0, "altered": 0, "refused": 0, "copies": 0,
                                 "finished": True}, "faults": []}

    def problems(self, **total):
        self.report["total"].update(total)
        switch = types.SimpleNamespace(name="sw", link=lambda _: self.link, links=lambda: {0: self.link},
                                       books=lambda: self.books)
        self.demo.switches = [switch]
        self.demo.judge({"host": self.report})
        self.demo.judge_copies({"host": self.report})
        self.demo.judge_books()
        return self.demo.problems

    def test_all_is_well(self):
        self.assertEqual([], self.problems())

    def test_one_lost(self):
        self.assertNotEqual([], self.problems(lost=1, received=8))

    def test_one_missing_though_nobody_says_lost(self):
        self.assertNotEqual([], self.problems(received=8))

    def test_one_altered(self):
        self.assertNotEqual([], self.problems(altered=1))

    def test_nothing_sent(self):
        self.assertNotEqual([], self.problems(sent=0, received=0))

    def test_one_that_did_not_finish(self):
        self.assertNotEqual([], self.problems(finished=False))

    def test_copies_that_deaths_explain(self):
        self.assertEqual([], self.problems(copies=3))

    def test_a_copy_that_no_death_explains(self):
        self.assertNotEqual([], self.problems(copies=4))

    def test_a_cut_that_nobody_noticed(self):
        self.link["downs"] = []
        self.assertNotEqual([], self.problems())

    def test_books_that_do_not_balance(self):
        self.books = "shard 0, packets: NOT BALANCED"
        self.demo.story = scenario.Story()
        self.assertNotEqual([], self.problems())


if __name__ == "__main__":
    cases.main()
