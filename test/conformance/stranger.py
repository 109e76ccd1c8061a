#!/usr/bin/env python3
"""pcap/check.py judges a device that is none of this project's: the example device passes what it claims, one that does what
the traces say passes them all, and whatever a device does otherwise is found.

usage: test/conformance/stranger.py [Class.test_name]
       test/conformance/stranger.py --device WHAT    be a device that does what the trace says, but for WHAT"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = ROOT / "pcap"
sys.dont_write_bytecode = True
sys.path.insert(0, str(TRACES))
import check  # noqa: E402  (found by the line above)

EXAMPLE_PASSES = ("bringup_dut_first bringup_incompatible bringup_looped bringup_lost_confirm_of_peer bringup_lost_init "
                  "bringup_lost_status bringup_peer_first bringup_simultaneous bringup_wrong_peer clock_wrap configured_mac "
                  "dead_from_up learned_mac long_frames_lost_in").split()


# The device of these tests: it knows the answer, and gives another where asked to.

def change_nothing(_):
    pass


def change_frame(answer, **fields):
    answer["frames"][3].update(fields)


def flip(answer, at):
    frame = bytearray.fromhex(answer["frames"][3]["frame"])
    frame[at] ^= 0x01
    answer["frames"][3]["frame"] = frame.hex()


CHANGES = {
    "nothing": change_nothing,
    "no-frame": lambda answer: answer["frames"].pop(),
    "frame-too-many": lambda answer: answer["frames"].append(answer["frames"][-1]),
    "later": lambda answer: change_frame(answer, at=answer["frames"][3]["at"] + 1),
    "other-port": lambda answer: change_frame(answer, port=5),
    "other-ack": lambda answer: flip(answer, 21),
    "other-body": lambda answer: flip(answer, 31),
    "other-destination": lambda answer: flip(answer, 5),
    "no-padding": lambda answer: change_frame(answer, frame=answer["frames"][3]["frame"][:-2]),
    "no-delivery": lambda answer: answer["delivered"].pop(),
    "other-delivery": lambda answer: answer["delivered"][0].update(vc=7),
    "other-packet": lambda answer: answer["delivered"][0].update(packet="00" * 20),
    "counter": lambda answer: answer["counters"].update({"0": {"duplicate": 9}}),
    "zero-counter": lambda answer: answer["counters"].update({"node": {"duplicate": 0}}),
    "no-key": lambda answer: answer.pop("delivered"),
    "not-hex": lambda answer: change_frame(answer, frame="xyz"),
}


def be_a_device(what):
    told = json.load(sys.stdin)
    if what == "hang":
        time.sleep(1000)
    if what == "crash":
        sys.exit(3)
    if what == "silent":
        return
    trace = check.Trace(TRACES / (told["name"] + ".json"))
    frames = [{"at": at, "port": port, "frame": frame.hex()} for port, sent in trace.sent.items() for _, at, frame in sent]
    delivered = trace.delivered
    if isinstance(delivered, dict):  # told by its digest: what came in, in order of seq, once each
        packets = {}
        for event in told["events"]:
            frame = bytes.fromhex(event.get("frame", ""))
            if len(frame) > 30 and frame[14] & 15 == 0:
                packets[frame[18:20]] = frame[30:30 + int.from_bytes(frame[16:18], "big")].hex()
        delivered = [{"at": 0, "port": 0, "vc": 0, "packet": packets[seq]} for seq in sorted(packets)]
    answer = {"frames": frames, "delivered": delivered, "counters": trace.counters}
    CHANGES[what](answer)
    json.dump(answer, sys.stdout)


def run_check(*arguments):
    command = [sys.executable, TRACES / "check.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def device(what):
    return ["--", sys.executable, __file__, "--device", what]


class Stranger(unittest.TestCase):
    def expect(self, status, text, done):
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        self.assertIn(text, done.stdout + done.stderr)

    def test_the_example_passes_what_it_claims(self):
        done = run_check(*(TRACES / name for name in EXAMPLE_PASSES), "--", TRACES / "example_device.py")
        self.expect(0, f"{len(EXAMPLE_PASSES)} passed, 0 failed", done)

    def test_the_example_fails_where_data_goes(self):
        done = run_check(TRACES / "loss_one.json", TRACES / "bringup_looped.pcap", "--", TRACES / "example_device.py")
        self.expect(1, "1 passed, 1 failed", done)
        self.assertIn("port 0: frame 7 of the pcap (version 1 DATA) was not sent", done.stdout)
        self.assertIn("rules: L13, L15, L17", done.stdout)

    def test_a_device_that_does_what_the_traces_say_passes_all(self):
        count = len(list(TRACES.glob("*.pcap")))
        self.assertGreater(count, 50)
        self.expect(0, f"{count} passed, 0 failed", run_check(TRACES, *device("nothing")))

    def test_each_difference_is_found(self):
        """loss_one: frame 7 is the device's fourth, a DATA, at 6.050 us."""
        for what, text in {
            "no-frame": "was not sent", "frame-too-many": "a frame too many", "other-port": "port 5: there is none",
            "later": "time: 0.000006050 s, got 0.000006051 s", "other-ack": "ack: 0, got 1", "other-body": "from its byte 1 on",
            "other-destination": "destination: 02:00:00:00:ee:00, got 02:00:00:00:ee:01", "no-padding": "the body or padding",
            "no-delivery": "12 deliveries, got 11", "other-delivery": "delivery 1 differs",
            "other-packet": "delivery 1 differs", "counter": "counters: {}, got {'0': {'duplicate': 9}}",
            "no-key": "not as README.md says", "not-hex": "not as README.md says",
            "crash": "ended with status 3", "silent": "not as README.md says",
        }.items():
            done = run_check(TRACES / "loss_one", *device(what))
            self.expect(1, text, done)
            self.expect(1, "0 passed, 1 failed", done)
        self.expect(0, "1 passed", run_check(TRACES / "loss_one", *device("zero-counter")))

    def test_a_trace_may_be_named_by_either_half(self):
        for names in (["loss_one"], ["loss_one.pcap"], ["loss_one.json", "loss_one.pcap", "loss_one"]):
            self.expect(0, "1 passed, 0 failed", run_check(*(TRACES / name for name in names), *device("nothing")))

    def test_a_digest_is_compared(self):
        self.expect(1, "deliveries: ", run_check(TRACES / "delivered_digest", *device("other-packet")))
        self.expect(1, "deliveries: ", run_check(TRACES / "delivered_digest", *device("no-delivery")))

    def test_a_device_that_hangs_is_ended(self):
        self.expect(1, "no answer within 1.0 s", run_check("--seconds", "1", TRACES / "loss_one", *device("hang")))

    def test_what_cannot_be_used(self):
        with tempfile.TemporaryDirectory() as folder:
            self.expect(2, "no trace (NAME.json and NAME.pcap) in it", run_check(folder, *device("nothing")))
            half = pathlib.Path(folder) / "half.json"
            half.write_text((TRACES / "loss_one.json").read_text())
            self.expect(2, "half.pcap: no such file", run_check(half, *device("nothing")))
            (pathlib.Path(folder) / "half.pcap").write_bytes((TRACES / "loss_one.pcap").read_bytes()[:-3])
            self.expect(2, "ends within a frame", run_check(half, *device("nothing")))
            half.write_text("{}")
            self.expect(2, "not a trace: KeyError('dut')", run_check(half, *device("nothing")))
        self.expect(2, "which device?", run_check(TRACES / "loss_one"))
        self.expect(2, "/nowhere: No such file", run_check(TRACES / "loss_one", "--", "/nowhere"))
        self.expect(2, "not a folder", run_check("--write", "/nowhere", TRACES / "loss_one", *device("nothing")))

    def test_what_was_sent_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            self.expect(0, "1 passed", run_check("--write", folder, TRACES / "loss_one", *device("nothing")))
            written = check.read_pcap(pathlib.Path(folder) / "loss_one.pcap")
            self.assertEqual(sorted(check.read_pcap(TRACES / "loss_one.pcap")), sorted(written))


def main():
    if sys.argv[1:2] == ["--device"]:
        return be_a_device(sys.argv[2])
    loader, module = unittest.defaultTestLoader, sys.modules["__main__"]
    chosen = loader.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:] else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(chosen)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    return sys.exit(1 if failed or result.testsRun == 0 else 0)


if __name__ == "__main__":
    main()
