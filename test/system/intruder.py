#!/usr/bin/env python3
"""A hostile process, by hand: what hostile.py starts inside a namespace, or beside a switch.

usage: intruder.py epoch INTERFACE SOURCE             the epoch in the next frame that comes from SOURCE
       intruder.py frames INTERFACE SOURCE TARGET WHAT COUNT [EPOCH]
                   sends COUNT frames of EtherType 0x88B5; WHAT: random malformed bad_header_crc stale init
       intruder.py vlans INTERFACE COUNT              the VLAN of each of so many of our frames that come in; 0: none
       intruder.py fanout INTERFACE GROUP             holds a packet socket there in the fanout group, until it is ended
       intruder.py scribble SOCKET NODE SECONDS       claims a slot and writes noise into its memory

The bytes are those of the protocol page, made here, without the code that they are to be tried on."""

import mmap
import os
import random
import socket
import struct
import sys
import time

ETHER_TYPE = 0x88B5
VERSION, STATUS, INIT = 1, 1, 3
ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID = 3, 263, 8, 16  # linux/if_ether.h, if_packet.h
PACKET_FANOUT, PACKET_FANOUT_HASH = 18, 0


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def control_frame(kind, epoch, body, seq=0, credit_vcs=0x0F, version=VERSION, spoil=0):
    """A frame of a kind other than DATA, behind the Ethernet header (L1)."""
    head = struct.pack(">BBHHHBBH", version << 4 | kind, epoch, len(body), seq, 0, credit_vcs, 0, 0)
    return (head + struct.pack(">I", crc32c(head + body) ^ spoil) + body).ljust(46, b"\0")


def make(what, epoch, draw):
    status = draw.randbytes(24)
    if what == "random":
        return draw.randbytes(draw.randint(46, 1400))
    if what == "malformed":
        return control_frame(STATUS, epoch, status, version=2)
    if what == "bad_header_crc":
        return control_frame(STATUS, epoch, status, spoil=1 << draw.randrange(32))
    if what == "stale":
        return control_frame(STATUS, (epoch + draw.randint(1, 255)) % 256, status)
    if what == "init":
        # A right INIT of node 99: whoever takes it from the wrong one has lost its link.
        body = struct.pack(">IIHHHBBHH8HI", draw.randint(1, 2**32 - 1), 0, 99, 0, 1484, 7, 8, 256, 256, *[64] * 8, 0)
        return control_frame(INIT, 0, body, credit_vcs=0x0F)
    raise SystemExit(f"what is '{what}'?")


def open_raw(interface):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHER_TYPE))
    raw.bind((interface, ETHER_TYPE))
    return raw


def epoch_of(interface, source):
    raw = open_raw(interface)
    raw.settimeout(60)
    while True:
        frame = raw.recv(65536)
        kind = frame[14] & 0x0F
        if frame[6:12] == mac(source) and kind != INIT:
            return frame[15]


def vlans(interface, count):
    # Of all types: of a bridge's member the bridge takes the frames before those who want one alone.
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.bind((interface, ETH_P_ALL))
    raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    raw.settimeout(60)
    while count > 0:
        frame, ancillary, _, address = raw.recvmsg(65536, 256)
        if address[2] == socket.PACKET_OUTGOING or frame[12:14] != struct.pack(">H", ETHER_TYPE):
            continue
        count -= 1
        for level, kind, data in ancillary:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                # The kernel takes the tag off; its record tells what it was.
                status, _, _, _, _, tci, _ = struct.unpack("=IIIHHHH", data[:20])
                print(tci & 0xFFF if status & TP_STATUS_VLAN_VALID else 0)


def fanout(interface, group):
    raw = open_raw(interface)
    raw.setsockopt(SOL_PACKET, PACKET_FANOUT, group | PACKET_FANOUT_HASH << 16)
    print("held", flush=True)
    while True:
        time.sleep(3600)


def send_frames(interface, source, target, what, count, epoch):
    raw = open_raw(interface)
    draw = random.Random(what)
    head = mac(target) + mac(source) + struct.pack(">H", ETHER_TYPE)
    for _ in range(count):
        raw.send(head + make(what, epoch, draw))
        time.sleep(0.0005)  # so slow that no ring overflows: every frame is to be counted


def claim(path, node):
    """The memory of a slot (proto/mtlink/control.proto, ClaimSlot), as the endpoint library gets it."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.settimeout(60)
    control.connect(path)
    call = b"\x10" + bytes([node])                    # ClaimSlot.node
    request = b"\x42" + bytes([len(call)]) + call      # Request.claim_slot
    control.sendall(struct.pack(">I", len(request)) + request)
    answer, descriptors, _, _ = socket.recv_fds(control, 65536, 8)
    if not descriptors:
        raise SystemExit(f"no slot: {answer!r}")
    return control, descriptors


def scribble(path, node, seconds):
    control, descriptors = claim(path, node)
    size = os.fstat(descriptors[0]).st_size
    memory = mmap.mmap(descriptors[0], size)
    doorbell = socket.socket(fileno=descriptors[1])
    doorbell.setblocking(False)
    draw = random.Random(node)
    end = time.monotonic() + seconds
    writes = 0
    while time.monotonic() < end:
        # The words at the front (indices, sleep, attached) and what they point at, in turn.
        at = draw.randrange(1024) if writes % 2 else draw.randrange(size - 64)
        memory[at:at + 8] = draw.choice((draw.randbytes(8), bytes(8), b"\xff" * 8))
        writes += 1
        try:
            doorbell.send(b"x")
        except OSError:
            pass
    control.close()
    print(writes)


def main():
    assert crc32c(b"123456789") == 0xE3069283
    command, *rest = sys.argv[1:]
    if command == "epoch":
        print(epoch_of(*rest))
    elif command == "frames":
        interface, source, target, what, count, *epoch = rest
        send_frames(interface, source, target, what, int(count), int(epoch[0]) if epoch else 0)
    elif command == "vlans":
        vlans(rest[0], int(rest[1]))
    elif command == "fanout":
        fanout(rest[0], int(rest[1]))
    elif command == "scribble":
        scribble(rest[0], int(rest[1]), float(rest[2]))


if __name__ == "__main__":
    main()
