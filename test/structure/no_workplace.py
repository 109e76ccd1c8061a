#!/usr/bin/env python3
"""The tree stands alone: no tracked file names the place where it was written, none has unfinished
work, disabled tests or catch-all files in it."""

import re

import tree

# Written in pieces, so that this file does not match itself.
PATTERNS = {
    "a path of the workplace": re.compile(r"\.\./sha" r"red\b|(?<![\w.])/wo" r"rk/|/fa" r"rm/|\.libr" r"ary\b"),
    "unfinished work": re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"),
    "a test that does not run, without a word why": re.compile(r"GTEST_SK" r"IP\(\)(?!\s*<<)|\bDISABL" r"ED_"),
    "a package registry's host": re.compile(
        r"\b(deb|registry|pypi|crates|files|proxy|index|security)\.[a-z]+\.(org|com|io|net)\b"),
    "a host's address": re.compile(r"https?://(?!localhost|127\.0\.0\.1|\[::1\])[\w.-]*(mirror|proxy|registry)"),
}
CATCH_ALL = re.compile(r"(^|/)(utils?|helpers?|misc|common)\.(h|cc|py)$")
BINARY = (".pcap", ".png", ".pcapng")
MAX_BYTES = 2_000_000


def faults_of(path, text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for what, pattern in PATTERNS.items():
            if pattern.search(line):
                found.append(f"{path}:{number}: {what}: {line.strip()[:100]}")
    return found


def self_test(report):
    bad = ["see ../sha" + "red/spec", "cd /wo" + "rk/main", "// TO" + "DO: later", "int x;  // XX" + "X",
           "GTEST_SK" + "IP();", "TEST(A, DISABL" + "ED_B)", "deb https://deb.debi" + "an.org/debian"]
    for text in bad:
        report.expect(f"sees '{text[:4]}...{text[-6:]}'", len(faults_of("x", text)) >= 1)
    good = ["mktemp -d /tmp/demo.XXXXXX", "the network/work/queue", "shared memory", "protoc.org"]
    for text in good:
        report.expect(f"lets '{text}' pass", not faults_of("x", text))
    report.expect("sees a catch-all file", CATCH_ALL.search("src/base/utils.h") is not None)
    report.expect("lets a named file pass", CATCH_ALL.search("src/base/serial.h") is None)


def main():
    report = tree.Report()
    self_test(report)
    files = tree.tracked()
    report.check("the tree was found", [] if len(files) > 20 else [f"only {len(files)} files"])
    found = []
    for path in files:
        if path.endswith(BINARY):
            continue
        found += faults_of(path, (tree.ROOT / path).read_text(errors="replace"))
    report.check(f"nothing that ties it to one place or is unfinished ({len(files)} files)", found)
    report.check("no catch-all files", [p for p in files if CATCH_ALL.search(p)])
    report.check("no large files", [p for p in files if (tree.ROOT / p).stat().st_size > MAX_BYTES])
    report.exit()


if __name__ == "__main__":
    main()
