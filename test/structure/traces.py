#!/usr/bin/env python3
"""pcap/index.md says which traces, tests and mutations there are for each rule, and what each trace shows. This makes it, and
as a test it fails when the page is not what the tree has, or when a trace's own words do not hold.

usage: traces.py            check
       traces.py --write    write pcap/index.md anew"""

import json
import re
import struct
import sys

import rules
import tree

PAGE = "pcap/index.md"
VECTORS = {"pcap/vectors.json", "pcap/transport-vectors.json"}
HEAD = """# Traces by rule, and rules by trace

Made by `test/structure/traces.py --write`; do not edit. The rules in full, and what the names of drops mean: the protocol
page, [docs/protocol.md](../docs/protocol.md). How to use the traces: [README.md](README.md).
"""


def titles(page):
    """{rule: its first sentence}, of the protocol page in docs/."""
    text = re.sub(r"\s*\n\s+", " ", page.replace("\n- ", "\n\n- "))
    found = {}
    for rule, words in re.findall(r"\*\*([PLNCT][0-9]{1,2}a?)\*\*((?:(?!\*\*[PLNCT][0-9]|\n\n).)*)", text, re.DOTALL):
        sentence = re.split(r"(?<=[a-z0-9`)])[.;:](?:\s|$)", " ".join(words.split()), maxsplit=1)[0].rstrip(".")
        found.setdefault(rule, sentence if len(sentence) <= 100 else sentence[:100].rsplit(" ", 1)[0] + " ...")
    return found


def frames_in(capture):
    """[(nanoseconds, bytes)] of a pcap with nanosecond times; a ValueError if it is none."""
    if len(capture) < 24 or struct.unpack_from("<I", capture)[0] != 0xA1B23C4D:
        raise ValueError("no pcap with nanosecond times")
    found, at = [], 24
    while at < len(capture):
        seconds, nanoseconds, captured, length = struct.unpack_from("<4I", capture, at)
        if captured != length or at + 16 + captured > len(capture):
            raise ValueError("a frame is cut short")
        found.append((seconds * 10**9 + nanoseconds, capture[at + 16:at + 16 + captured]))
        at += 16 + captured
    return found


def sources(trace):
    """{MAC: whether it is one of the device's own}."""
    found = {}
    for port in trace["dut"]["ports"]:
        found[port["mac"]] = True
        for other in [port["peer_mac"], *port.get("other_macs", [])]:
            found[other] = False
    return found


def faults_of(name, trace, capture):
    """What a trace says of itself and does not keep."""
    found, known = [], sources(trace)
    for wanted in ("about", "rules", "dut", "stimuli", "end", "delivered", "counters"):
        if wanted not in trace:
            found.append(f"{name}: no '{wanted}'")
    if not trace.get("rules"):
        found.append(f"{name}: names no rule")
    found += [f"{name}: unknown rule {rule}" for rule in trace.get("rules", []) if rule not in rules.RULES]
    before = 0
    for number, (time, frame) in enumerate(capture, 1):
        source = frame[6:12].hex(":")
        if source not in known:
            found.append(f"{name}: frame {number} is of nobody: {source}")
        if time < before or time > trace["end"]:
            found.append(f"{name}: frame {number} is out of order, or after the end")
        before = time
    return found


def read_traces(files):
    traces, faults = {}, []
    names = {p[5:-5] for p in files if re.fullmatch(r"pcap/[^/]+\.(json|pcap)", p) and p not in VECTORS}
    for name in sorted(names):
        try:
            trace = json.loads((tree.ROOT / "pcap" / (name + ".json")).read_text())
            capture = frames_in((tree.ROOT / "pcap" / (name + ".pcap")).read_bytes())
        except (OSError, ValueError) as error:
            faults.append(f"{name}: {error}")
            continue
        faults += faults_of(name, trace, capture)
        traces[name] = (trace, capture)
    return traces, faults


def caught_by(mutations):
    """{rule: traces that fail when it is broken}, {rule: files that are broken for it}."""
    traces, files = {}, {}
    for mutation in mutations:
        for rule in mutation["rules"]:
            traces.setdefault(rule, set()).update(mutation.get("traces", "").split())
            files.setdefault(rule, set()).add(mutation["file"])
    return traces, files


def test_files(paths):
    found = {}
    for path in paths:
        ours = path.startswith("test/") and not path.startswith(("test/structure/", "test/mutation/"))
        if ours and path.endswith((".cc", ".py")):
            for rule in rules.tests_of(path, (tree.ROOT / path).read_text()):
                found.setdefault(rule, set()).add(path)
    return found


def links(names):
    return ", ".join(f"[{name}]({name}.json)" for name in sorted(names)) or "-"


def code(paths, prefix):
    return ", ".join(f"`{path.removeprefix(prefix)}`" for path in sorted(paths)) or "-"


def page(traces, mutations, tests, names):
    shown = {}
    for name, (trace, _) in traces.items():
        for rule in trace["rules"]:
            shown.setdefault(rule, set()).add(name)
    failing, broken = caught_by(mutations)
    lines = [HEAD, "## By rule", "",
             "*Shown by*: traces that are about the rule. *Also fail*: further ones that do not pass when the rule is broken",
             "in a small way, as `test/mutation/mutations.json` lists them.", "",
             "| rule | begins | shown by | also fail |", "| --- | --- | --- | --- |"]
    for rule in rules.RULES:
        lines.append(f"| {rule} | {names.get(rule, '')} | {links(shown.get(rule, ()))} | "
                     f"{links(failing.get(rule, set()) - shown.get(rule, set()))} |")
    lines += ["", "## Coverage in this tree", "",
              "Traces, files of `test/` with tests that name the rule, and files of `src/` in which mutations break it.",
              "`test/structure/rules.py` prints the numbers.", "", "| rule | traces | tests | mutated |",
              "| --- | --- | --- | --- |"]
    for rule in rules.RULES:
        lines.append(f"| {rule} | {len(shown.get(rule, ()))} | {code(tests.get(rule, ()), 'test/')} | "
                     f"{code(broken.get(rule, ()), 'src/')} |")
    lines += ["", "## By trace", "", "*Drops*: what the device counts, on ports and of the node.", "",
              "| trace | shows | rules | ports | frames in, out | drops |", "| --- | --- | --- | --- | --- | --- |"]
    for name, (trace, capture) in traces.items():
        own = sources(trace)
        out = sum(own.get(frame[6:12].hex(":"), False) for _, frame in capture)
        drops = sorted({drop for counters in trace["counters"].values() for drop in counters})
        lines.append(f"| [{name}]({name}.json) | {trace['about'].replace('|', '/')} | {', '.join(trace['rules'])} | "
                     f"{len(trace['dut']['ports'])} | {len(capture) - out}, {out} | {', '.join(drops) or '-'} |")
    return "\n".join(lines) + "\n"


def self_test(report):
    text = "- **L1** The CRC covers\n  all of it: really. More.\n- **L18** One thing. **L18a** Another\n  thing.\n\nNo rule."
    report.expect("takes a rule's first words", titles(text) == {"L1": "The CRC covers all of it", "L18": "One thing",
                                                                "L18a": "Another thing"})
    own = {"mac": "02:00:00:00:00:0a", "peer_mac": "02:00:00:00:00:0b"}
    good = {"about": "x", "rules": ["L1"], "dut": {"ports": [own]}, "stimuli": [], "end": 10, "delivered": [], "counters": {}}
    frame = bytes.fromhex("02000000000b02000000000a88b5") + bytes(46)
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    capture = head + struct.pack("<4I", 0, 5, 60, 60) + frame
    report.expect("reads a capture", frames_in(capture) == [(5, frame)])
    report.expect("is content with a good trace", not faults_of("t", good, [(5, frame)]))
    report.expect("sees a rule that does not exist", faults_of("t", good | {"rules": ["L99"]}, []))
    report.expect("sees a trace without rules", faults_of("t", good | {"rules": []}, []))
    report.expect("sees a frame of nobody", faults_of("t", good, [(5, frame[:6] + bytes(6) + frame[12:])]))
    report.expect("sees a frame after the end", faults_of("t", good, [(11, frame)]))
    report.expect("sees a frame out of order", faults_of("t", good, [(5, frame), (4, frame)]))
    for what, bad in (("another format", b"x" * 40), ("a frame cut short", capture[:-1])):
        try:
            frames_in(bad)
            report.expect(f"sees {what}", False)
        except ValueError:
            report.expect(f"sees {what}", True)


def main():
    files = tree.tracked()
    traces, faults = read_traces(files)
    mutations = json.loads((tree.ROOT / "test/mutation/mutations.json").read_text())["mutations"]
    names = titles((tree.ROOT / "docs/protocol.md").read_text())
    made = page(traces, mutations, test_files(files), names)
    if sys.argv[1:] == ["--write"]:
        (tree.ROOT / PAGE).write_text(made)
        print(f"{PAGE}: {len(traces)} traces, {len(rules.RULES)} rules")
        return
    report = tree.Report()
    self_test(report)
    report.check(f"the traces keep what they say ({len(traces)})", faults or ([] if len(traces) > 50 else ["too few traces"]))
    report.check("every rule has its words in docs/protocol.md", [rule for rule in rules.RULES if rule not in names])
    failing, _ = caught_by(mutations)
    report.check("mutations name traces that exist", sorted(set().union(*failing.values()) - set(traces)))
    written = (tree.ROOT / PAGE).read_text() if (tree.ROOT / PAGE).exists() else ""
    report.check(f"{PAGE} is what the tree has", [] if written == made else ["run test/structure/traces.py --write"])
    report.exit()


if __name__ == "__main__":
    main()
