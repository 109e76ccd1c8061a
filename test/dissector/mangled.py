#!/usr/bin/env python3
"""Whatever is in a frame, the dissector has no error of Lua: frames cut short on the wire and in the capture, frames with
altered bytes whose CRCs are made right again, so that they are looked at in earnest, and noise. The seeds are fixed.

usage: test/dissector/mangled.py [Class.test_name]"""

import json
import os
import random
import struct
import sys

sys.dont_write_bytecode = True
import tshark  # noqa: E402
import wire  # noqa: E402
from report import Case, main  # noqa: E402
from scenes import Link, Talk  # noqa: E402

TRACES = tshark.ROOT / "pcap"
AMOUNT = 10 if os.environ.get("MTL_LONG") == "1" else 1


def good_frames():
    """Some frames of each kind, and each packet of the transport's vectors, on one link."""
    link = Link()
    link.up()
    link.nack(link.b, (0, 3), (9, 1))
    vectors = json.loads((TRACES / "transport-vectors.json").read_text())
    for seq, vector in enumerate(vectors["packets"] + vectors["refused"]):
        packet = bytes.fromhex(vector["packet"])
        link.data(link.a, seq, packet, vc=(packet[2] >> 4) * 4)
    for kind in (1, 2, 3, 4, 7):
        link.data(link.b, kind, wire.packet(bytes([kind]) + bytes(45), src=2, dst=1, proto=2))
    Talk(link).up()
    link.close(link.a, 1)
    return [frame for _, frame in link.frames]


def mended(frame):
    """The frame with both CRCs right, if it has the shape for it."""
    body = bytearray(frame[14:])
    length = struct.unpack_from(">H", body, 2)[0]
    if len(body) < 16 + length:
        return frame
    data = body[0] & 15 == wire.DATA
    if data and length >= 16:
        body[16 + length - 4:16 + length] = struct.pack(">I", wire.crc32c(body[18:16 + length - 4]))
    covered = body[16:28] if data else body[16:16 + length]
    body[12:16] = struct.pack(">I", wire.crc32c(bytes(body[:12] + covered)))
    return frame[:14] + bytes(body)


class Mangled(Case):
    def survives(self, frames, **how):
        """In one pass, where an error shows, with all the tree; and nothing is left out."""
        path = self.path()
        wire.write_pcap(path, [(10**9 + 1000 * i, frame) for i, frame in enumerate(frames)], **how)
        text = tshark.run(path, "-V", "-Y", "mtlink")
        self.assertEqual(sum(len(frame) > 14 for frame in frames), text.count("\nMTLink Link"))

    def test_cut_on_the_wire(self):
        self.survives([frame[:length] for frame in good_frames() for length in range(15, len(frame), 7)])

    def test_cut_in_the_capture(self):
        frames = [frame for frame in good_frames() if len(frame) < 400]
        for snap in (15, 31, 45, 57, 70, 90):
            self.survives(frames, snap=snap)

    def test_altered_bytes(self):
        chance, frames, good = random.Random(1), [], good_frames()
        for _ in range(1500 * AMOUNT):
            frame = bytearray(chance.choice(good))
            for _ in range(chance.randint(1, 4)):
                value = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                frame[chance.randrange(14, min(len(frame), 90))] = value
            frames.append(mended(bytes(frame)) if chance.random() < 0.8 else bytes(frame))
        self.survives(frames)

    def test_operations_of_noise(self):
        """Operations with opcodes that exist and everything else by chance."""
        chance, link = random.Random(2), Link()
        link.a.init["mtu"] = link.b.init["mtu"] = 9000
        link.up()
        talk = Talk(link)
        talk.up()
        opcodes = {0: (1, 2, 3, 4, 5, 6, 7), 1: (16, 17, 18, 19, 20, 21)}
        for psn in range(800 * AMOUNT):
            klass, body = psn % 2, b""
            for _ in range(chance.randint(1, 6)):
                flags = chance.choice((0, 0, 1, 2, 4, 16, 48, 128, chance.randrange(256)))
                body += bytes([chance.choice(opcodes[klass]), flags])
                body += chance.choice((0, 1, 4, 8, chance.randrange(65536))).to_bytes(2, "big")
                body += chance.randbytes(4 * chance.randint(0, 6))
            talk.packet(chance.choice("ab"), chance.choice((3, 3, 3, 4)), body, klass=klass, ack=chance.randrange(2**32),
                        psn=chance.choice((psn, 2**32 - 1 - psn)), flags=chance.randrange(16))
        self.survives([frame for _, frame in link.frames])

    def test_numbers_by_chance(self):
        """Well-made frames of one link with seq, ack, credit, ranges and nonces from a small set, so that they meet."""
        chance, link = random.Random(3), Link()
        link.up()
        few = (0, 1, 2, 3, 5, 100, 16384, 32767, 32768, 32769, 65535)
        for _ in range(1500 * AMOUNT):
            side = chance.choice((link.a, link.b))
            numbers = {"seq": chance.choice(few), "ack": chance.choice(few)}
            if chance.random() < 0.1:
                numbers["epoch"] = chance.choice((11, 12, 22, 23))
            kind = chance.randrange(12)
            if kind < 6:
                link.data(side, vc=chance.choice((0, 4)), credit_vc=chance.choice((0, 7, 15)), credit=chance.choice(few),
                          flags=chance.randrange(2), **numbers)
            elif kind < 8:
                link.status(side, [chance.choice(few) for _ in range(8)], t_tx=chance.choice(few), t_echo=chance.choice(few),
                            flags=chance.randrange(8), **numbers)
            elif kind < 10:
                link.nack(side, *((chance.choice(few), chance.choice(few)) for _ in range(chance.randint(1, 32))), **numbers)
            elif kind == 10:
                link.close(side, chance.randrange(4))
            else:
                side.nonce, side.epoch = chance.choice((1, 2, 0xAAAA0001)), chance.choice((11, 12, 22))
                link.init(side, chance.choice((0, 1, 2, 0xAAAA0001)), known=chance.random() < 0.7, padded=chance.random() < 0.7,
                          node=chance.choice((1, 2)), window=chance.choice((0, 1, 4, 16384)))
        self.survives([frame for _, frame in link.frames])

    def test_noise(self):
        chance = random.Random(4)
        head = good_frames()[0][:14]
        self.survives([head + chance.randbytes(chance.randint(1, 200)) for _ in range(600 * AMOUNT)])


class Watch(Case):
    """The checks above can fail."""

    def test_an_error_of_lua_is_noticed(self):
        broken = self.path()
        text = tshark.DISSECTOR.read_text()
        self.assertEqual(1, text.count("local info = show_link(frame, tvb, root)"))
        broken.write_text(text.replace("local info = show_link(frame, tvb, root)", "local info = nothing.at_all"))
        with self.assertRaisesRegex(AssertionError, "Lua Error: .*nothing"):
            tshark.run(TRACES / "loss_one.pcap", "-V", dissector=broken)

    def test_mended_frames_are_good(self):
        for frame in good_frames():
            if len(frame) > 70:
                altered = frame[:16] + frame[16:20] + b"\x12\x34" + frame[22:]
                self.assertNotEqual(altered, mended(altered))
                self.assertEqual([1], wire.expected_fields(mended(altered)).get("mtlink.header_crc.status", [1]))


if __name__ == "__main__":
    main()
