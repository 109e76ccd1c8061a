#!/usr/bin/env python3
"""scripts/lib/run_tests.py counts test cases, and counts what went wrong as failed: a tally that shows
too few failures hides them all."""

import hashlib
import pathlib
import sys
import tempfile

import tree

sys.path.insert(0, str(tree.ROOT / "scripts" / "lib"))
sys.dont_write_bytecode = True
import run_tests  # noqa: E402  (found by the lines above)

CASE = '<testcase name="{}" classname="Link" status="{}" result="{}">{}</testcase>'
TEST = {"name": "link-x", "cmd": ["/build/link-x", "--seed=1"], "workdir": None}


def counted(result, cases=None, stdout=""):
    """What the tally makes of one meson test: its result, its XML if any, what it printed."""
    with tempfile.TemporaryDirectory() as directory:
        results = pathlib.Path(directory)
        if cases is not None:
            name = hashlib.sha1(b"/build/link-x\0--seed=1\0").hexdigest()
            (results / (name + ".xml")).write_text(cases)
        return run_tests.cases({"result": result, "stdout": stdout}, TEST, results, 0)[:3]


def xml(*cases):
    return "<testsuites><testsuite>" + "".join(CASE.format(*c) for c in cases) + "</testsuite></testsuites>"


def main():
    report = tree.Report()
    good = ("A", "run", "completed", "")
    bad = ("B", "run", "completed", "<failure/>")
    report.expect("a program of two cases counts two", counted("OK", xml(good, good)) == (2, 0, 0))
    report.expect("a failed case counts", counted("FAIL", xml(good, bad)) == (1, 1, 0))
    report.expect("a failed case counts even if the program ended well", counted("OK", xml(good, bad)) == (1, 1, 0))
    report.expect("a bad end after good cases counts (a leak)", counted("FAIL", xml(good)) == (1, 1, 0))
    report.expect("a crash, without results, counts", counted("FAIL") == (0, 1, 0))
    report.expect("half a result file counts", counted("FAIL", "<testsuites><test") == (0, 1, 0))
    report.expect("a time-out counts", counted("TIMEOUT") == (0, 1, 0))
    report.expect("what was not run is not passed", counted("OK", xml(("A", "notrun", "suppressed", ""))) == (0, 0, 1))
    report.expect("a skipped case is not passed", counted("OK", xml(("A", "run", "skipped", ""))) == (0, 0, 1))
    report.expect("a script's own count is taken", counted("OK", None, "x\n7 passed, 0 failed\n") == (7, 0, 0))
    report.expect("a script's failures are taken", counted("FAIL", None, "7 passed, 2 failed\n") == (7, 2, 0))
    report.expect("a script that denies its failure is not believed",
                  counted("FAIL", None, "7 passed, 0 failed\n") == (7, 1, 0))
    report.expect("a plain program counts one", counted("OK") == (1, 0, 0))
    report.exit()


if __name__ == "__main__":
    main()
