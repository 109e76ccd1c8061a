#!/usr/bin/env python3
"""Each rule of the wire protocol (P, L, N, T, C) is shown by a test that names it, and each of sections
1 to 5 has a mutation that such a test kills. Prints the table: rule, tests, traces, mutations.

A test names a rule in its own name (TEST(Link, L13_DeliversInOrder)) or by a comment above it
(// Rules: L13 L15). A trace names its rules in pcap/NAME.json."""

import json
import re

import tree

RULES = ([f"P{i}" for i in range(1, 5)]
         + [r for i in range(1, 28) for r in ([f"L{i}"] + (["L18a"] if i == 18 else []))]
         + [f"N{i}" for i in range(1, 14)]
         + [f"T{i}" for i in range(1, 39)] + [f"C{i}" for i in range(1, 6)])
MUTATED = [r for r in RULES if r[0] != "C"]  # sections 1 to 5; C rules are about traces themselves

# C5 binds whoever writes a trace, not the code: that nothing is left to chance shows in every trace
# passing with its ports on one shard and on two, which take turns differently.
WITHOUT_TEST = {"C5"}

TOKEN = re.compile(r"(?<![A-Za-z0-9])([PLNTC][0-9]{1,2}a?)(?![A-Za-z0-9])")
TEST = re.compile(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)"
                  r"\s*\(\s*(\w+)\s*,\s*(\w+)", re.MULTILINE)
COMMENT = re.compile(r"^\s*(?://|#)\s*Rules:(.*)$", re.MULTILINE)


def rules_in(text):
    # '_' parts the words of a test's name, and is a word character to re.
    return [t for t in TOKEN.findall(text.replace("_", " ")) if t in RULES]


def tests_of(path, text):
    """{rule: {test}} of one source file under test/."""
    found = {}
    tests = [(m.start(), f"{m.group(1)}.{m.group(2)}") for m in TEST.finditer(text)]
    for _, name in tests:
        for rule in rules_in(name):
            found.setdefault(rule, set()).add(name)
    for match in COMMENT.finditer(text):
        # Names the test that follows; in a script, or at a file's end, the file.
        name = next((n for start, n in tests if start > match.start()), path)
        for rule in rules_in(match.group(1)):
            found.setdefault(rule, set()).add(name)
    return found


def gather(root, files):
    tests, traces = {}, {}
    for path in files:
        if path.startswith("test/") and path.endswith((".cc", ".py", ".sh")):
            if path.startswith(("test/structure/", "test/mutation/")):
                continue
            for rule, names in tests_of(path, (root / path).read_text()).items():
                tests.setdefault(rule, set()).update(names)
        elif path.startswith("pcap/") and path.endswith(".json"):
            for rule in json.loads((root / path).read_text()).get("rules", []):
                traces.setdefault(rule, set()).add(path[5:-5])
    return tests, traces


def gather_mutations(text):
    """{rule: count}, {rule: why it has none}."""
    content = json.loads(text)
    counts = {}
    for mutation in content["mutations"]:
        for rule in mutation["rules"]:
            counts[rule] = counts.get(rule, 0) + 1
    return counts, content.get("without", {})


def unnamed(tests, traces):
    return [r for r in RULES if r not in WITHOUT_TEST and not tests.get(r) and not traces.get(r)]


def unmutated(counts, without):
    return [r for r in MUTATED if not counts.get(r) and not without.get(r)]


def unknown(*tables):
    return sorted({r for table in tables for r in table} - set(RULES))


def self_test(report):
    report.expect("there are 88 rules", len(RULES) == 4 + 27 + 1 + 13 + 38 + 5)
    text = ("TEST(Link, L13_DeliversInOrder) {}\n// Rules: L18a N7\nTEST_F(Node, Routes) {}\n"
            "RC_GTEST_PROP(Seq, L10_Wraps, (int n)) {}\n")
    found = tests_of("x.cc", text)
    report.expect("finds a rule in a test's name", found.get("L13") == {"Link.L13_DeliversInOrder"})
    report.expect("finds a rule in a comment", found.get("L18a") == {"Node.Routes"} == found.get("N7"))
    report.expect("finds a property", found.get("L10") == {"Seq.L10_Wraps"})
    report.expect("does not take L1 for L13 or L18a", "L1" not in found and "L18" not in found)
    report.expect("does not take a word for a rule", not rules_in("crc32 P10 URL2 L130 XN7"))
    every = {r: {"T"} for r in RULES}
    report.expect("is content with all", not unnamed(every, {}) and not unmutated(dict.fromkeys(RULES, 1), {}))
    less = {r: t for r, t in every.items() if r != "L22"}
    report.expect("misses a rule without a test", unnamed(less, {}) == ["L22"])
    report.expect("lets a trace stand for a test", not unnamed(less, {"L22": {"over_credit"}}))
    report.expect("misses a rule without a mutation",
                  unmutated({r: 1 for r in RULES if r != "N9"}, {}) == ["N9"])
    report.expect("sees a rule that does not exist", unknown({"L99": 1}) == ["L99"])


def table(tests, traces, counts, without):
    print("rule  tests traces mutations  e.g.")
    for rule in RULES:
        example = next(iter(sorted(tests.get(rule, []))), "") or next(iter(sorted(traces.get(rule, []))), "-")
        mutations = str(counts.get(rule, "-" if rule[0] == "C" else 0))
        note = f"  (no mutation: {without[rule]})" if rule in without else ""
        print(f"{rule:5} {len(tests.get(rule, [])):5} {len(traces.get(rule, [])):6} {mutations:>9}  {example}{note}")


def main():
    report = tree.Report()
    self_test(report)
    files = tree.tracked()
    tests, traces = gather(tree.ROOT, files)
    counts, without = gather_mutations((tree.ROOT / "test/mutation/mutations.json").read_text())
    table(tests, traces, counts, without)
    report.check("every rule is named by a test or a trace", unnamed(tests, traces))
    replayed = any(p.startswith("test/conformance/") and p.endswith(".cc") for p in files)
    report.check("the traces are replayed", [] if replayed or not traces else ["no test in test/conformance"])
    report.check("every rule of sections 1 to 5 has a mutation", unmutated(counts, without))
    report.check("no excuse for a rule that has a mutation", sorted(set(without) & set(counts)))
    report.check("no unknown rules", unknown(traces, counts, without))
    report.exit()


if __name__ == "__main__":
    main()
