#!/usr/bin/env python3
"""Checks any implementation of the protocol against the traces of this folder, in virtual time. Needs Python 3.9, and
nothing else of the project; README.md says what the implementation has to do.

usage: check.py [--write FOLDER] [--seconds N] TRACE... -- COMMAND [ARGUMENT]...

  TRACE           a NAME.json with its NAME.pcap beside it; NAME alone, or a folder of them, will do
  COMMAND         the device under test: run once for each trace, with what happens to it on its standard input, as JSON; it
                  writes what it did to its standard output
  --write FOLDER  write what the device was sent and what it sent to FOLDER/NAME.pcap, for Wireshark
  --seconds N     give the device so long for each trace (60)

Exit status: 0 all conform; 1 at least one does not; 2 an argument or a trace cannot be used."""

import argparse
import hashlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys

KINDS = {0: "DATA", 1: "STATUS", 2: "NACK", 3: "INIT", 4: "CLOSE"}
# Of the link header behind its first byte: name, offset in the frame, bytes.
FIELDS = (("epoch", 15, 1), ("length", 16, 2), ("seq", 18, 2), ("ack", 20, 2), ("vc and credit_vc", 22, 1), ("flags", 23, 1),
          ("credit", 24, 2), ("header CRC", 26, 4))


class Unusable(Exception):
    """An argument or a trace that cannot be used."""


# Traces.

def read_pcap(path):
    """[(nanoseconds, bytes)]."""
    data = path.read_bytes()
    if len(data) < 24 or struct.unpack_from("<I", data)[0] != 0xA1B23C4D:
        raise Unusable(f"{path}: not a pcap with nanosecond times")
    frames, at = [], 24
    while at < len(data):
        if at + 16 > len(data):
            raise Unusable(f"{path}: ends within a frame")
        seconds, nanoseconds, captured, _ = struct.unpack_from("<4I", data, at)
        if at + 16 + captured > len(data):
            raise Unusable(f"{path}: ends within a frame")
        frames.append((seconds * 10**9 + nanoseconds, data[at + 16:at + 16 + captured]))
        at += 16 + captured
    return frames


def write_pcap(path, frames):
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    for time, frame in frames:
        parts.append(struct.pack("<4I", time // 10**9, time % 10**9, len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(parts))


def find_traces(names):
    found = []
    for name in map(pathlib.Path, names):
        if name.is_dir():
            inside = sorted(p for p in name.glob("*.json") if p.with_suffix(".pcap").exists())
            if not inside:
                raise Unusable(f"{name}: no trace (NAME.json and NAME.pcap) in it")
            found += inside
            continue
        path = name.with_suffix(".json") if name.suffix in (".json", ".pcap") else pathlib.Path(f"{name}.json")
        for half in (path, path.with_suffix(".pcap")):
            if not half.exists():
                raise Unusable(f"{half}: no such file; a trace is NAME.json and NAME.pcap")
        found.append(path)
    return list(dict.fromkeys(found))  # a pattern may have named both halves


class Trace:
    """What a device is told (`events`, in the order of C2), and what it must do (`sent`, `delivered`, `counters`)."""

    def __init__(self, path):
        self.name = path.stem
        try:
            self.json = json.loads(path.read_text())
            self.dut, self.counters, self.delivered = self.json["dut"], self.json["counters"], self.json["delivered"]
            own, others = {}, {}
            for port in self.dut["ports"]:
                own[port["mac"]] = port["port"]
                for mac in [port["peer_mac"], *port.get("other_macs", [])]:
                    others[mac] = port["port"]
            arrivals, self.sent = [], {port["port"]: [] for port in self.dut["ports"]}
            for number, (time, frame) in enumerate(read_pcap(path.with_suffix(".pcap")), 1):
                source = frame[6:12].hex(":")
                if source in own:
                    self.sent[own[source]].append((number, time, frame))
                else:
                    arrivals.append({"at": time, "port": others[source], "frame": frame.hex()})
            # Sorting keeps the order of what is at one time: frames, then what the owner does.
            self.events = sorted(arrivals + self.json["stimuli"], key=lambda event: event["at"])
            self.end = self.json["end"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unusable(f"{path}: not a trace: {error!r}") from error

    def told(self):
        return {"name": self.name, "dut": self.dut, "events": self.events, "end": self.end}


# The device.

class Failed(Exception):
    """The device did not answer as it should."""


def run_device(command, trace, seconds):
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    except OSError as error:
        raise Unusable(f"{command[0]}: {error.strerror}") from error
    try:
        out, _ = process.communicate(json.dumps(trace.told()), timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"no answer within {seconds} s") from None
    finally:
        if process.poll() is None:
            end_group(process)
    if process.returncode != 0:
        raise Failed(f"the device ended with status {process.returncode}")
    return out


def end_group(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def read_answer(text):
    """{port: [(time, frame)]}, deliveries, counters."""
    try:
        answer = json.loads(text)
        sent = {}
        for frame in answer["frames"]:
            sent.setdefault(frame["port"], []).append((frame["at"], bytes.fromhex(frame["frame"])))
        delivered = [{key: one[key] for key in ("at", "port", "vc", "packet")} for one in answer["delivered"]]
        counters = {str(port): {name: n for name, n in drops.items() if n} for port, drops in answer["counters"].items()}
        return sent, delivered, {port: drops for port, drops in counters.items() if drops}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failed(f"its answer is not as README.md says: {error!r}") from error


# Differences.

def field_differences(want, got):
    """Which fields of the link header differ, or where the rest does."""
    if len(want) < 30 or len(got) < 30:
        return [f"length of the frame: {len(want)}, got {len(got)}"]
    found = [f"{name}: {value}, got {other}" for name, value, other in
             (("destination", want[:6].hex(":"), got[:6].hex(":")), ("EtherType", want[12:14].hex(), got[12:14].hex()),
              ("version and kind", kind_of(want), kind_of(got))) if value != other]
    for name, at, size in FIELDS:
        value, other = (int.from_bytes(frame[at:at + size], "big") for frame in (want, got))
        if value != other:
            found.append(f"{name}: {value}, got {other}")
    if want[30:] != got[30:]:
        at = next((i for i, (a, b) in enumerate(zip(want[30:], got[30:])) if a != b), min(len(want), len(got)) - 30)
        found.append(f"the body or padding, from its byte {at} on")
    return found


def kind_of(frame):
    if len(frame) < 15:
        return "a short frame"
    return f"version {frame[14] >> 4} {KINDS.get(frame[14] & 15, frame[14] & 15)}"


def seconds(time):
    return f"{time // 10**9}.{time % 10**9:09} s"


def first_frame_difference(port, want, got):
    """(time, words) of the first difference on a port, or None."""
    for (number, time, frame), (at, other) in zip(want, got):
        if (time, frame) == (at, other):
            continue
        words = [f"port {port}: frame {number} of the pcap ({kind_of(frame)}) differs"]
        if time != at:
            words.append(f"time: {seconds(time)}, got {seconds(at)}")
        words += field_differences(frame, other) if frame != other else []
        if frame != other:
            words += ["expected " + frame.hex(), "got      " + other.hex()]
        return min(time, at), words
    if len(want) > len(got):
        number, time, frame = want[len(got)]
        return time, [f"port {port}: frame {number} of the pcap ({kind_of(frame)}) was not sent"]
    if len(got) > len(want):
        at, frame = got[len(want)]
        return at, [f"port {port}: a frame too many ({kind_of(frame)})", "got " + frame.hex()]
    return None


def delivery_difference(want, got):
    if isinstance(want, dict):
        digest = hashlib.sha256(b"".join(bytes.fromhex(one["packet"]) for one in got)).hexdigest()
        if (len(got), digest) == (want["delivered_count"], want["delivered_sha256"]):
            return None
        return None, [f"deliveries: {want['delivered_count']} with digest {want['delivered_sha256']}, got {len(got)}, {digest}"]
    for number, (one, other) in enumerate(zip(want, got), 1):
        if one != other:
            return min(one["at"], other["at"]), [f"delivery {number} differs", f"expected {one}", f"got      {other}"]
    if len(want) != len(got):
        return None, [f"{len(want)} deliveries, got {len(got)}"]
    return None


def differences(trace, answer):
    """What is wrong, earliest first; of each port, of the deliveries and of the counters the first."""
    sent, delivered, counters = answer
    found = [first_frame_difference(port, want, sent.get(port, [])) for port, want in trace.sent.items()]
    found += [(0, [f"port {port}: there is none"]) for port in sent if port not in trace.sent]
    found.append(delivery_difference(trace.delivered, delivered))
    if counters != trace.counters:
        found.append((None, [f"counters: {trace.counters}, got {counters}"]))
    return [words for _, words in sorted(filter(None, found), key=lambda d: (d[0] is None, d[0] or 0))]


def check(trace, command, limit, folder):
    """Prints a line, or what differs; whether the device conforms."""
    try:
        answer = read_answer(run_device(command, trace, limit))
        faults = differences(trace, answer)
        if folder:
            came = [(event["at"], bytes.fromhex(event["frame"])) for event in trace.events if "frame" in event]
            went = [frame for frames in answer[0].values() for frame in frames]
            write_pcap(folder / (trace.name + ".pcap"), sorted(came + went, key=lambda frame: frame[0]))
    except Failed as error:
        faults = [[str(error)]]
    if not faults:
        print(f"passed  {trace.name}", flush=True)
        return True
    print(f"FAILED  {trace.name}: {trace.json['about']}\n        rules: {', '.join(trace.json['rules'])}")
    for words in faults:
        print("    " + "\n      ".join(words), flush=True)
    return False


def main():
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0], description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=60, metavar="N")
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    options, command = parser.parse_args(arguments[:split]), arguments[split + 1:]
    try:
        if not command:
            raise Unusable("which device? The command stands behind '--'; see --help")
        if options.write and not options.write.is_dir():
            raise Unusable(f"{options.write}: not a folder")
        traces = [Trace(path) for path in find_traces(options.traces)]
        passed = [check(trace, command, options.seconds, options.write) for trace in traces]
    except Unusable as error:
        print(f"check.py: {error}", file=sys.stderr)
        return 2
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
