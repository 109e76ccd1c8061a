#!/usr/bin/env python3
"""Builds and runs meson tests, and counts test cases rather than programs.

usage: run_tests.py --build DIR --tally FILE --label TEXT [--suite S]... [--name REGEX]
                    [--multiplier N] [--processes N]
       run_tests.py --build DIR --build-only [--suite S]... [--name REGEX] [--processes N]

A test belongs if it is in one of the suites, or its name matches. GoogleTest's programs are counted
by their own XML; a program that prints 'N passed, N failed' by that; any other as one. A program that
dies, or ends badly though each of its cases passed, counts as one failed case more. The sums are
appended to FILE as 'label<tab>passed<tab>failed<tab>skipped<tab>seconds'."""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed", re.MULTILINE)
GOOD = {"OK", "EXPECTEDFAIL", "SKIP"}


def introspect(build, what):
    run = subprocess.run(["meson", "introspect", what, build], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def select(build, suites, pattern):
    """The tests asked for. A test's suites are listed as 'project:suite'."""
    tests = []
    for test in introspect(build, "--tests"):
        mine = {s.split(":")[-1] for s in test["suite"]}
        if mine & set(suites) or (pattern and re.search(pattern, test["name"])):
            tests.append(test)
    return tests


def make(build, tests, processes):
    """Builds what the tests need and nothing else; the exit status."""
    files = {t["id"]: t["filename"] for t in introspect(build, "--targets")}
    wanted = {f for test in tests for d in test["depends"] for f in files.get(d, [])}
    targets = sorted(os.path.relpath(f, build) for f in wanted)
    return subprocess.run(["ninja", "-C", build, "-j", str(processes), *targets], check=False).returncode


def cases_in_xml(path):
    """(passed, failed, skipped, names of the failed) of a GoogleTest result file."""
    passed = skipped = 0
    failed = []
    for case in ElementTree.parse(path).iter("testcase"):
        if case.get("status") == "notrun" or case.get("result") == "suppressed":
            skipped += 1
        elif case.find("failure") is not None:
            failed.append(f"{case.get('classname')}.{case.get('name')}")
        elif case.get("result") == "skipped":
            skipped += 1
        else:
            passed += 1
    return passed, len(failed), skipped, failed


def cases(record, test, results, started):
    """(passed, failed, skipped, failed names) of one meson test."""
    good = record["result"] in GOOD
    own = results / (hashlib.sha1("".join(a + "\0" for a in test["cmd"]).encode()).hexdigest() + ".xml")
    by_meson = pathlib.Path(test["workdir"] or ".") / (test["name"] + ".xml")
    for path in (own, by_meson):
        if path.exists() and path.stat().st_mtime >= started:
            try:
                passed, failed, skipped, names = cases_in_xml(path)
            except ElementTree.ParseError:
                break
            if not good and failed == 0:
                return passed, 1, skipped, [f"{test['name']} ({record['result']})"]
            return passed, failed, skipped, names
    plain = PLAIN.findall(record.get("stdout", ""))
    if plain:
        passed, failed = map(int, plain[-1])
        if not good and failed == 0:
            failed = 1
        return passed, failed, 0, [test["name"]] if failed else []
    if record["result"] == "SKIP":
        return 0, 0, 1, []
    return (1, 0, 0, []) if good else (0, 1, 0, [f"{test['name']} ({record['result']})"])


def run(build, tests, multiplier, processes):
    """Runs the tests; (passed, failed, skipped, failed names)."""
    results = pathlib.Path(tempfile.mkdtemp(prefix="mtl-results."))
    started = time.time()
    log = "testlog-counted"
    subprocess.run(
        ["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--logbase", log,
         "--timeout-multiplier", str(multiplier), "--num-processes", str(processes),
         "--wrapper", str(HERE / "with-results"), *sorted({t["name"] for t in tests})],
        env={**os.environ, "MTL_RESULTS": str(results)}, check=False)
    records = {}
    # meson adds the wrapper's name to the log's.
    path = pathlib.Path(build) / "meson-logs" / (log + "-with-results.json")
    if path.exists() and path.stat().st_mtime >= started:
        for line in path.read_text().splitlines():
            record = json.loads(line)
            records[record["name"].split(" / ")[-1]] = record
    passed = failed = skipped = 0
    names = []
    for test in tests:
        record = records.get(test["name"])
        if record is None:  # the runner itself died before it came to it
            counted = 0, 1, 0, [test["name"] + " (not run)"]
        else:
            counted = cases(record, test, results, started)
        passed, failed, skipped = passed + counted[0], failed + counted[1], skipped + counted[2]
        names += counted[3]
    shutil.rmtree(results)
    return passed, failed, skipped, names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--tally")
    parser.add_argument("--label")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--name", default="")
    parser.add_argument("--multiplier", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if not options.build_only and not (options.tally and options.label):
        parser.error("--tally and --label are needed, unless --build-only is given")
    began = time.monotonic()
    tests = select(options.build, options.suite, options.name)
    if options.build_only:
        sys.exit(make(options.build, tests, options.processes))
    if not tests:
        counted = 0, 1, 0, [f"there is no test in {' '.join(options.suite)} {options.name}".rstrip()]
    elif make(options.build, tests, options.processes) != 0:
        counted = 0, 1, 0, [f"{options.label}: does not build"]
    else:
        counted = run(options.build, tests, options.multiplier, options.processes)
    for name in counted[3]:
        print(f"FAILED {options.label}: {name}")
    with open(options.tally, "a", encoding="utf-8") as tally:
        tally.write("\t".join([options.label, *map(str, counted[:3]), str(round(time.monotonic() - began))]) + "\n")
    sys.exit(1 if counted[1] else 0)


if __name__ == "__main__":
    main()
