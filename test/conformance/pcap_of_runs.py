#!/usr/bin/env python3
"""What mtsim writes as a capture, mtreplay judges: nothing is found in what links sent, nothing
certain in what arrived.

usage: pcap_of_runs.py MTSIM MTREPLAY"""

import pathlib
import subprocess
import sys
import tempfile

failed = passed = 0


def expect(what, holds, output=""):
    global failed, passed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: {what}\n{output}")


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=120, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def main():
    mtsim, mtreplay = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        capture = pathlib.Path(folder) / "run.pcap"
        for kind, seed in (("pair", "1"), ("pair", "2"), ("ring", "1"), ("mesh", "3")):
            one = ("--kind", kind, "--seeds", seed, "--pcap", str(capture))
            for place, judge in (("sent", ("--complete",)), ("arrived", ())):
                code, out = run(mtsim, *one, "--pcap-at", place)
                expect(f"mtsim writes {kind} {seed} {place}", code == 0, out)
                code, out = run(mtreplay, "judge", *judge, str(capture))
                expect(f"nothing is found in {kind} {seed} {place}", code == 0, out)
                expect("every wire is a link", "link 0" in out, out)
            code, out = run(mtsim, *one, "--pcap-wire", "0")
            expect("mtsim writes one wire", code == 0, out)
            code, out = run(mtreplay, "judge", "--complete", str(capture))
            expect("one wire is one link", code == 0 and "link 0" in out and "link 1" not in out, out)
        code, out = run(mtsim, "--seeds", "1..2", "--pcap", str(capture))
        expect("a capture is of one seed", code == 2 and "one seed" in out, out)
        code, out = run(mtsim, "--seeds", "1", "--pcap", str(capture), "--pcap-wire", "99")
        expect("a wire that is not there is an error", code == 2 and "wire 99" in out, out)
        code, out = run(mtsim, "--seeds", "1", "--pcap", str(pathlib.Path(folder) / "none" / "run.pcap"))
        expect("a capture that cannot be written is an error", code == 2 and "none/run.pcap" in out, out)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
