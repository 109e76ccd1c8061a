"""The protocol page's formats in Python: frames made, and frames taken apart into the dissector's field names. Written from
the page alone, so that the dissector is measured by something else than itself."""

import struct

ETHERTYPE = 0x88B5
DATA, STATUS, NACK, INIT, CLOSE = range(5)
REPLAY, ECHO, POLL = 1, 2, 4
NO_CREDIT = 15
FIRST_MAC = "03:4d:54:4c:00:01"  # P2: until the peer is known


def _crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


CRC_TABLE = list(_crc_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the page's check value


# Captures.

def read_pcap(path):
    """[(nanoseconds, bytes)] of a capture with nanosecond times."""
    data = path.read_bytes()
    assert struct.unpack("<I", data[:4])[0] == 0xA1B23C4D, f"{path} is no pcap with nanosecond times"
    frames, at = [], 24
    while at < len(data):
        seconds, nanoseconds, captured, _ = struct.unpack_from("<4I", data, at)
        frames.append((seconds * 10**9 + nanoseconds, data[at + 16:at + 16 + captured]))
        at += 16 + captured
    return frames


def write_pcap(path, frames, snap=65535, linktype=1):
    """Writes [(nanoseconds, bytes)]; of each frame at most `snap` bytes. Link type 1 is Ethernet."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snap, linktype)]
    for time, frame in frames:
        kept = frame[:snap]
        parts.append(struct.pack("<4I", time // 10**9, time % 10**9, len(kept), len(frame)) + kept)
    path.write_bytes(b"".join(parts))


def write_pcapng(path, frames, interfaces):
    """Writes [(nanoseconds, interface number, bytes)]."""
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    nanoseconds = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    parts = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    parts += [block(1, struct.pack("<HHI", 1, 0, 0) + nanoseconds)] * interfaces
    for time, interface, frame in frames:
        head = struct.pack("<5I", interface, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame))
        parts.append(block(6, head + frame))
    path.write_bytes(b"".join(parts))


# Frames made.

def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def cooked(frame):
    """As a capture on all interfaces of Linux has it (link type 113): without destination."""
    return struct.pack(">HHH", 0, 1, 6) + frame[6:12] + bytes(2) + frame[12:]


def tagged(frame, vlan):
    return frame[:12] + struct.pack(">HH", 0x8100, vlan) + frame[12:]


def link_frame(kind, body, *, src, dst, epoch=0, seq=0, ack=0, vc=0, credit_vc=NO_CREDIT, credit=0, flags=0,
               ethertype=ETHERTYPE):
    head = struct.pack(">BBHHHBBH", 0x10 | kind, epoch, len(body), seq, ack, vc << 4 | credit_vc, flags, credit)
    crc = crc32c(head + (body[:12] if kind == DATA else body))
    frame = mac(dst) + mac(src) + struct.pack(">H", ethertype) + head + struct.pack(">I", crc) + body
    return frame.ljust(60, b"\0")


def init_body(nonce, peer_nonce, node, port, epoch, *, mtu=256, cell=64, window=64, capacity=(64,) * 8):
    return struct.pack(">IIHHHBBHH8HI", nonce, peer_nonce, node, port, mtu, epoch, 8, cell, window, *capacity, 0)


def status_body(allocation, t_tx=0, t_echo=0):
    return struct.pack(">8HII", *allocation, t_tx, t_echo)


def packet(payload, *, src, dst, klass=0, proto=1, hop_limit=16, entropy=0, partition=0, flags=0):
    head = struct.pack(">BBBBHHHH", hop_limit, flags, klass << 4 | proto, 0, dst, src, entropy, partition)
    return head + payload + struct.pack(">I", crc32c(head[2:] + payload))


def transport(kind, body=b"", *, connection, psn=0, ack=0, flags=0, window=8, marks=0):
    return struct.pack(">BBHIII", kind << 4 | flags, window, marks, connection, psn, ack) + body


# Frames taken apart: {field: [values]}, bytes as hexadecimal text.

def expected_fields(frame):
    """Of an untagged frame. Of one that is malformed (L3), the link header alone, if it is there."""
    body = frame[14:]
    if len(body) < 16:
        return {}
    first, epoch, length, seq, ack, vcs, flags, credit, crc = struct.unpack_from(">BBHHHBBHI", body)
    found = {"version": first >> 4, "kind": first & 15, "epoch": epoch, "length": length, "seq": seq, "ack": ack,
             "vc": vcs >> 4, "credit_vc": vcs & 15, "flags": flags, "flags.replay": flags & 1, "flags.echo": flags >> 1 & 1,
             "flags.poll": flags >> 2 & 1, "credit": credit, "header_crc": crc}
    found = {"mtlink." + name: [value] for name, value in found.items()}
    if malformed(first >> 4, first & 15, length, vcs >> 4, vcs & 15, len(body)):
        return found
    content, kind = body[16:16 + length], first & 15
    covered = body[:12] + (content[:12] if kind == DATA else content)
    found["mtlink.header_crc.status"] = [int(crc32c(covered) == crc)]
    if len(body) > 16 + length:
        found["mtlink.padding"] = [body[16 + length:].hex()]
    found.update({STATUS: status_fields, NACK: nack_fields, INIT: init_fields, CLOSE: close_fields,
                  DATA: packet_fields}[kind](content))
    if kind == DATA:
        found["mtnet.layer"] = [(vcs >> 4) % 4]
    return found


def malformed(version, kind, length, vc, credit_vc, room):
    """L3, as far as one frame tells."""
    legal = {DATA: length >= 16, STATUS: length == 24, NACK: 4 <= length <= 128 and length % 4 == 0, INIT: length == 40,
             CLOSE: length == 4}
    return (version != 1 or not legal.get(kind, False) or 16 + length > room or vc > 7
            or not (credit_vc < 8 or credit_vc == NO_CREDIT))


def status_fields(body):
    allocation = struct.unpack_from(">8H", body)
    found = {f"mtlink.status.allocation{vc}": [allocation[vc]] for vc in range(8)}
    t_tx, t_echo = struct.unpack_from(">II", body, 16)
    return found | {"mtlink.status.t_tx": [t_tx], "mtlink.status.t_echo": [t_echo]}


def nack_fields(body):
    ranges = list(struct.iter_unpack(">HH", body))
    return {"mtlink.nack.first": [first for first, _ in ranges], "mtlink.nack.count": [count for _, count in ranges],
            "mtlink.nack.frames": [sum(count for _, count in ranges)]}


def init_fields(body):
    names = ("nonce", "peer_nonce", "node", "port", "mtu", "epoch", "vcs", "cell", "window")
    values = struct.unpack(">IIHHHBBHH8HI", body)
    found = {f"mtlink.init.{name}": [value] for name, value in zip(names, values)}
    found |= {f"mtlink.init.capacity{vc}": [values[9 + vc]] for vc in range(8)}
    return found | {"mtlink.init.capabilities": [values[17]]}


def close_fields(body):
    return {"mtlink.close.reason": [body[0]], "mtlink.close.zero": [body[1:].hex()]}


def packet_fields(body):
    hop_limit, flags, both, zero, dst, src, entropy, partition = struct.unpack_from(">BBBBHHHH", body)
    crc = struct.unpack(">I", body[-4:])[0]
    found = {"hop_limit": hop_limit, "flags": flags, "flags.ce": flags & 1, "class": both >> 4, "proto": both & 15,
             "zero": zero, "dst": dst, "src": src, "entropy": entropy, "partition": partition, "length": len(body), "crc": crc,
             "crc.status": int(crc32c(body[2:-4]) == crc)}
    found = {"mtnet." + name: [value] for name, value in found.items()}
    payload = body[12:-4]
    if both & 15 == 2:
        return found | echo_fields(payload)
    if payload:
        found["mtnet.payload"] = [payload.hex()]
    return found


def echo_fields(payload):
    if len(payload) < 8:
        return {}
    kind, code, identity, number, zero = struct.unpack_from(">BBHHH", payload)
    found = {"type": kind, "code": code, "id": identity, "number": number, "zero": zero}
    data = payload[8:]
    if data and kind in (3, 4):
        found["dropped"] = data.hex()
        if len(data) >= 12:
            hop_limit, _, both, _, dst, src, entropy, partition = struct.unpack_from(">BBBBHHHH", data)
            found |= {"dropped.hop_limit": hop_limit, "dropped.class": both >> 4, "dropped.proto": both & 15,
                      "dropped.dst": dst, "dropped.src": src, "dropped.entropy": entropy, "dropped.partition": partition}
    elif data:
        found["data"] = data.hex()
    return {"mtecho." + name: [value] for name, value in found.items()}
