#!/usr/bin/env python3
"""Draws seeds for a fuzz target: make_seeds.py TARGET FOLDER."""

import json
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def frames(path):
    """(time, bytes) of each frame of a classic capture with nanosecond times."""
    content = path.read_bytes()
    order = "<" if content[:4] == struct.pack("<I", 0xA1B23C4D) else ">"
    at = 24
    while at < len(content):
        seconds, nanoseconds, length = struct.unpack(order + "III", content[at:at + 12])
        yield seconds * 10**9 + nanoseconds, content[at + 16:at + 16 + length]
        at += 16 + length


def node_frames():
    """What the peers of each short trace send and how often its node does, in the form that
    node_frames.cc reads: put into our session and checksummed by it."""
    for path in sorted((ROOT / "pcap").glob("*.json")):
        trace = json.loads(path.read_text())
        if "dut" not in trace:
            continue
        ours = {port["mac"] for port in trace["dut"]["ports"]}
        submits = [s["at"] for s in trace["stimuli"] if s["do"] == "submit"]
        seed = b""
        for time, frame in frames(path.with_suffix(".pcap")):
            while submits and submits[0] < time:
                submits.pop(0)
                seed += bytes([4, 8, 0, 4, 1, 2, 3, 4])  # a request to node 8, of four bytes
            if ":".join(f"{b:02x}" for b in frame[6:12]) in ours or frame[12:14] != b"\x88\xb5":
                continue
            body = frame[14:14 + 1020]
            body += bytes(-len(body) % 4)
            seed += bytes([0x70, len(body) // 4]) + body + bytes([0xF5, 0x40])  # then time passes
        if 0 < len(seed) <= 4096:
            yield seed


def capture():
    """Short captures as they are, one of them as a pcapng of two interfaces."""
    for path in sorted((ROOT / "pcap").glob("*.pcap")):
        content = path.read_bytes()
        if len(content) < 4096:
            yield bytes([len(content) % 4]) + content

    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    pcapng = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    pcapng += 2 * block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3x", 9, 1, 9))
    for number, (time, frame) in enumerate(frames(ROOT / "pcap" / "loss_one.pcap")):
        pcapng += block(6, struct.pack("<IIIII", number % 2, 0, time, len(frame), len(frame)) + frame)
    yield bytes([3]) + pcapng


def traced():
    """Each different frame of the traces, longest ones aside."""
    seen = set()
    for path in sorted((ROOT / "pcap").glob("*.pcap")):
        for _, frame in frames(path):
            key = (frame[14] & 15 if len(frame) > 14 else None, frame[16:18], frame[44:50])
            if key not in seen and len(frame) < 1000:
                seen.add(key)
                yield frame


def frame():
    for number, content in enumerate(traced()):
        if number % 8 == 0:
            yield bytes([1]) + content


def packet():
    """What the DATA of the traces carry, and the packets of the vectors of transport and echo."""
    for number, content in enumerate(traced()):
        length = int.from_bytes(content[16:18], "big")
        if len(content) > 30 and content[14] & 15 == 0 and 16 <= length <= len(content) - 30 and number % 8 == 0:
            yield content[30:30 + length]

    def texts(value):
        if isinstance(value, dict):
            for inner in value.values():
                yield from texts(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from texts(inner)
        elif isinstance(value, str) and 32 <= len(value) < 2000 and len(value) % 2 == 0 \
                and set(value) <= set("0123456789abcdef"):
            yield bytes.fromhex(value)

    for path in sorted((ROOT / "pcap").glob("*vectors.json")):
        yield from texts(json.loads(path.read_text()))


def trace_json():
    for path in sorted((ROOT / "pcap").glob("*.json")):
        content = path.read_bytes()
        if len(content) < 4096 and b'"dut"' in content:
            yield content


def control_message():
    """Each call, empty and with a number and a text in it."""
    for call in range(1, 32):
        key = bytes([call << 3 & 0x7F | 2]) if call < 16 else bytes([call << 3 & 0x7F | 0x82, call >> 4])
        yield key + bytes([0])
        yield key + bytes([2, 8, 1])
        yield key + bytes([4, 10, 2]) + b"p0"


def link_pair():
    # Bring-up: what either sent arrives; then packets, faults, answers, time.
    up = 3 * bytes([0xF2, 0xFA])
    work = bytes([0x30]) + bytes([0, 20, 1, 50, 0, 100, 3, 4]) + bytes([0x08, 2, 9])
    for mode in (0, 1):
        yield bytes([mode]) + up + work + 2 * bytes([0xF2, 0xFA, 0x16, 0x1E])
        for fault in range(4):
            yield bytes([mode]) + up + 2 * (work + bytes([4, fault, 0, 0, 99]) + 3 * bytes([0xF2, 0xFA, 0x55, 200]))
    data = bytes([0x10, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 4]) + bytes(40)
    yield bytes([1]) + up + bytes([4, 0x3C, len(data) // 2]) + data + bytes([0xF2, 0xFA])
    yield bytes([0]) + up + work + bytes([7, 1, 0x95, 255, 7, 0]) + up + work


def transport_pair():
    up = 2 * bytes([0xF2, 0xFA])
    work = bytes([0, 0, 16, 40, 0, 1, 16, 40, 0, 2, 32, 7, 8, 0, 64, 200, 0, 3, 0, 0])
    for mode in (0, 1):
        yield bytes([mode]) + up + work + 4 * bytes([0xF2, 0xFA, 0x95, 200])
        for fault in range(3):
            yield bytes([mode]) + up + 2 * (work + bytes([6, fault, 0, 14, fault, 0]) + 4 * bytes([0xF2, 0xFA, 0x95, 250]))
    yield bytes([1]) + up + work + bytes([7, 1, 0, 0, 30, 99]) + 4 * bytes([0xF2, 0xFA])


def config_file():
    yield (b'node: 1 name: "a" hop_limit: 16 ports { port: 0 af_packet { interface: "eth1" } peer_node: 2 '
           b'link { mtu: 1500 capacity: 64 timers { profile: FAST adaptive: false } } edge { nodes: 3 } '
           b'impairment { drop_ppm: 10 seed: 1 } }\nslots { port: 1 node: 11 }\n'
           b'routes { dst: 2 tiers { hops { port: 0 weight: 2 } hops { port: 1 raise: 1 } } }\n'
           b'fabric { shape: RING nodes { node: 1 endpoints: 11 } }\nruntime { cpus: 1 }\n# end')
    yield (b'{"node": 1, "ports": [{"port": 0, "afPacket": {"interface": "eth1"}, "peerNode": 2}], '
           b'"routes": [{"dst": 2, "tiers": [{"hops": [{"port": 0}]}]}], "control": {"logFormat": "JSON"}}')


def local_port():
    record = struct.pack("<II", 60, 0) + bytes(55)
    yield bytes([2, 0, 63]) + record[:63] + bytes([1, 0, 8]) + struct.pack("<Q", 72)
    yield bytes([1, 0, 8]) + struct.pack("<Q", 1 << 63) + bytes([9, 2, 8]) + struct.pack("<Q", 8)


def memif_port():
    # A descriptor of the first ring (60 bytes at 4096), then its head; a chain; an index too far.
    yield bytes([1, 0, 16]) + struct.pack("<HHIII", 0, 0, 60, 4096, 0) + bytes([0, 0, 4]) + struct.pack("<HH", 0, 1)
    yield bytes([1, 0, 16]) + struct.pack("<HHIII", 1, 0, 60, 4096, 0) + bytes([0, 0, 4]) + struct.pack("<HH", 0, 2)
    yield bytes([0, 1, 4]) + struct.pack("<HH", 0, 16) + bytes([8, 1, 4]) + struct.pack("<HH", 0, 99)


def memif_session():
    def say(descriptors, kind, fields=b""):
        return bytes([descriptors, kind, len(fields)]) + fields

    init = say(0, 3, struct.pack("<HIB", 0x0200, 0, 0))
    region = say(1, 4, struct.pack("<HQ", 0, 1 << 20))
    rings = [say(1, 5, struct.pack("<HHHIB", flag, 0, 0, offset, 10)) for flag, offset in ((1, 0), (0, 1 << 19))]
    yield bytes([1]) + init + region + b"".join(rings) + say(0, 6)
    hello = say(0, 2, bytes(32) + struct.pack("<HHHHHB", 0x0200, 0x0200, 63, 0, 0, 14))
    yield bytes([0]) + hello + 4 * say(0, 1) + say(0, 7)


def main():
    target, folder = sys.argv[1:]
    drawn = {draw.__name__: draw for draw in (
        capture, config_file, control_message, frame, link_pair, local_port, memif_port, memif_session, node_frames,
        packet, trace_json, transport_pair)}[target]
    count = 0
    for count, seed in enumerate(drawn(), 1):
        (pathlib.Path(folder) / f"seed{count}").write_bytes(seed)
    if count == 0:
        sys.exit(f"no seeds for {target}")


if __name__ == "__main__":
    main()
