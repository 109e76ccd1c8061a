"""What the system tests share: each case is a unittest method with a lab of its own, which is removed
behind it whatever becomes of the case; also the labs of runs that were killed.

The build directory comes from MTL_BUILD_DIR (meson sets it). By hand:
    sudo MTL_BUILD_DIR=build test/system/cables.py [Class.test_name]"""

import atexit
import contextlib
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
sys.dont_write_bytecode = True
import lab as labs  # noqa: E402  (found by the lines above)
from lab import Lab, wait_until  # noqa: E402,F401  (wait_until: for the cases)

# So that a switch that the machine does not run for seconds keeps its links, however often it is sent something again in
# that time (replay_timeout may be 1 ms); its slots' endpoints have it from there.
PATIENT = "defaults { timers { dead_interval_us: 60000000 replay_limit: 100000 } }\n"
NAME = re.compile(r"mtltest-(\d+)-")


def build_directory():
    return os.environ.get("MTL_BUILD_DIR", str(ROOT / "build"))


def sweep():
    """Removes labs whose test is not there any more."""
    places = {*labs.namespaces("mtltest-"), *(p.name for p in pathlib.Path(tempfile.gettempdir()).glob("mtltest-*"))}
    for pid in {m[1] for m in map(NAME.match, places) if m}:
        if pathlib.Path(f"/proc/{pid}").exists():
            continue
        labs.remove(f"mtltest-{pid}-")
        for path in pathlib.Path(tempfile.gettempdir()).glob(f"mtltest-{pid}-*"):
            labs.shutil.rmtree(path, ignore_errors=True)


class LabCase(unittest.TestCase):
    """A case with a lab."""

    def setUp(self):
        prefix = f"mtltest-{os.getpid()}-"
        self.lab = Lab(prefix, tempfile.mkdtemp(prefix=prefix), build_directory())
        atexit.register(self.lab.close)  # a signal ends the run without tearDown
        self.addCleanup(atexit.unregister, self.lab.close)
        self.addCleanup(self.lab.close)

    def run(self, result=None):
        self.result = result
        return super().run(result)

    def tearDown(self):
        if any(case is self for case, _ in [*self.result.failures, *self.result.errors]):
            self.say_all()

    def say_all(self):
        """All that is known of the lab, before it is gone."""
        for switch in self.lab.switches.values():
            with contextlib.suppress(Exception):
                for view in ("links", "ports", "drops"):
                    print(f"--- {switch.name}: show {view}\n{switch.ctl('show', view).stdout}")
        print(self.lab.logs())

    # What several cases ask for.

    def assert_all_arrived(self, report, copies=0):
        """Of a report of mtperf: all is well, and at most so many copies."""
        total = report["total"]
        self.assertEqual([], report["faults"])
        self.assertTrue(report["ok"], report)
        self.assertEqual((0, 0), (total["lost"], total["altered"]), report)
        self.assertGreater(total["received"], 0, "nothing was received: the case showed nothing")
        self.assertLessEqual(total["copies"], copies, report)

    def share(self, *processes, seconds=5):
        """The CPU time of processes in percent of one core, together."""
        before = sum(p.cpu_seconds() for p in processes)
        began = time.monotonic()
        time.sleep(seconds)
        return 100 * (sum(p.cpu_seconds() for p in processes) - before) / (time.monotonic() - began)

    def assert_books(self, *switches):
        for switch in switches:
            self.assertEqual("", switch.books(), f"the books of {switch.name}")


def _interrupt(*_):
    raise KeyboardInterrupt


def become_root():
    """By sudo, if it asks nothing; else says what to do."""
    print("(as root, by sudo) network namespaces", flush=True)
    with contextlib.suppress(FileNotFoundError):
        os.execvp("sudo", ["sudo", "-n", "env", f"MTL_BUILD_DIR={build_directory()}", sys.executable, *sys.argv])
    print("network namespaces need root: run the tests as root, or install sudo", file=sys.stderr)
    sys.exit(1)


def main():
    """Runs the cases of the calling script and prints a line for each, and the sums for the tally."""
    if os.geteuid() != 0:
        become_root()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    sweep()
    suite = unittest.defaultTestLoader
    module = sys.modules["__main__"]
    chosen = suite.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:] else suite.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, failfast=False).run(chosen)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or result.testsRun == 0 else 0)
