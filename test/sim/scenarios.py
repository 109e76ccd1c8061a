#!/usr/bin/env python3
"""mtsim by file, as a user meets it: exit codes, what it says, and schedules that it shrinks.

usage: scenarios.py MTSIM"""

import pathlib
import resource
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "scenarios"
failed = passed = 0


def mtsim(*args, **more):
    run = subprocess.run([sys.argv[1], *map(str, args)], capture_output=True, text=True, timeout=300, check=False, **more)
    return run.returncode, run.stdout, run.stderr


def expect(what, holds, *shown):
    global failed, passed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: {what}", *shown, sep="\n")


def count(text, field):
    return sum(line.startswith(field + " {") for line in text.splitlines())


def main():
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)

        code, out, _ = mtsim("--scenario", EXAMPLES / "bad-cable.textproto", "--pcap", here / "run.pcap")
        expect("a scenario that holds ends with 0", code == 0 and "every check held" in out, code, out)
        expect("its frames are written", (here / "run.pcap").stat().st_size > 100_000)

        code, out, _ = mtsim("--scenario", EXAMPLES / "ring-deadlock.textproto")
        expect("a deadlock ends with 1, and is named", code == 1 and "deadlock: 4 VCs" in out, code, out)

        bad = here / "bad.textproto"
        bad.write_text("topology { shape: LINE switches: 2 }\nflows { from: 7 to: 1 count: 1 }\n")
        code, out, err = mtsim("--scenario", bad)
        expect("a bad file ends with 2, with place, value and remedy",
               code == 2 and not out and f"{bad}:2:9: flows[0].from: there is no node 7; nodes are 0 to 1" in err,
               code, out, err)
        code, _, err = mtsim("--scenario", here / "none.textproto")
        expect("so does one that is not there", code == 2 and "none.textproto" in err, code, err)
        code, _, err = mtsim("--scenario", bad, "--seeds", "1..2")
        expect("a file and seeds exclude each other", code != 0 and "--scenario" in err, code, err)

        small = here / "small.textproto"
        code, _, err = mtsim("--scenario", EXAMPLES / "bad-cable.textproto", "--shrink", small)
        expect("nothing to shrink ends with 2", code == 2 and "does not fail" in err and not small.exists(), code, err)
        code, out, err = mtsim("--scenario", EXAMPLES / "ring-deadlock.textproto", "--shrink", here / "no" / "x.textproto",
                               "--shrink-runs", 1)
        expect("a folder that is not there is named", code == 2 and "cannot be written" in err, code, err)

        code, out, err = mtsim("--scenario", EXAMPLES / "ring-deadlock.textproto", "--shrink", small)
        expect("a deadlock is shrunk", code == 1 and "shrunk to" in out, code, out, err)
        text = small.read_text()
        # A packet takes 4 of a buffer's 8 cells. In each of four buffers one holds too many for the next, which waits.
        expect("to the ring, its endpoints, and two packets for each buffer",
               count(text, "nodes") == 8 and count(text, "wires") == 8 and count(text, "packets") == 8
               and count(text, "faults") == 0, text[-3000:])
        code, out, _ = mtsim("--scenario", small, "--log")
        expect("what is left fails likewise", code == 1 and "deadlock: 4 VCs" in out, code, out[-3000:])
        mtsim("--scenario", EXAMPLES / "ring-deadlock.textproto", "--shrink", here / "again.textproto")
        expect("the same again is the same", (here / "again.textproto").read_text() == text)
        code, out, err = mtsim("--scenario", EXAMPLES / "ring-deadlock.textproto", "--shrink", here / "small.json")
        fails = mtsim("--scenario", here / "small.json") if code == 1 else (code, out)
        expect("the file's name tells the format", fails[0] == 1 and "deadlock: 4 VCs" in fails[1], code, out, err)
        code, _, err = mtsim("--scenario", small, "--shrink", here / ".." / here.name / small.name)
        expect("a scenario is not written over by what is left of it",
               code == 2 and "is the scenario itself" in err and small.read_text() == text, code, err)
        code, out, err = mtsim("--scenario", small, "--shrink", here / "small.txt")
        expect("a name that tells no format is refused before anything runs",
               code == 2 and not out and "does not tell the format" in err, code, out, err)
        code, out, err = mtsim("--scenario", small, "--shrink", here / "again.textproto",
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
        expect("one that cannot be written wholly leaves what was there; the failure stays the result",
               code == 1 and "cannot be written" in err and (here / "again.textproto").read_text() == text
               and sorted(path.name for path in here.glob("again*")) == ["again.textproto"], code, out, err)

        code, _, err = mtsim("--scenario", small, "--pcap", here / "none.pcap", "--pcap-wire", 99)
        expect("a capture without frames does not hide that a check failed", code == 1 and "no frame" in err, code, err)
        code, _, err = mtsim("--scenario", EXAMPLES / "bad-cable.textproto", "--pcap", here / "none.pcap", "--pcap-wire", 99)
        expect("and is an error where none did", code == 2 and "no frame" in err, code, err)
        code, out, err = mtsim("--seeds", 1, "--pcap", here / "no" / "run.pcap")
        expect("what cannot be written is told before anything runs",
               code == 2 and not out and "cannot be written" in err, code, out, err)

        moves = here / "moves.textproto"
        moves.write_text("nodes { shards: 2 ports {} }\nnodes { ports {} }\nwires { a { node: 0 } b { node: 1 } }\n"
                         "moves { node: 0 ports: 0 shard: 0 at_ns: 5 }\n")
        code, out, _ = mtsim("--scenario", moves)
        expect("a move that was not done is told",
               code == 0 and "not done: moves[0] at 5 ns, node 0: port 0 is there already" in out, code, out)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
