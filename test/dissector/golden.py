#!/usr/bin/env python3
"""The Wireshark dissector says of every frame what the protocol page says of its bytes, and of what frames mean for each other
what was worked out by hand here. Expected values are the page's (wire.py), the traces' and the vectors'.

usage: test/dissector/golden.py [Class.test_name]"""

import json
import re
import shutil
import sys
import unittest

sys.dont_write_bytecode = True
import tshark  # noqa: E402
import wire  # noqa: E402
from report import Case, main  # noqa: E402
from scenes import ADDRESS, ALLOCATION, Link, Talk, operation, u32  # noqa: E402

TRACES = tshark.ROOT / "pcap"

# Drops that a capture shows as well as the receiver sees them.
SEEN = ("malformed", "bad_header_crc", "bad_packet_crc", "incompatible", "looped", "bad_ack", "out_of_window", "over_credit",
        "wrong_class")

# Where a capture shows another number than the receiver counts, and why.
OTHERWISE = {
    ("malformed", "malformed"): (24, "one frame has nothing behind its Ethernet header: Wireshark hands it to nobody"),
    ("learned_mac", "malformed"): (1, "from a foreign MAC: the receiver drops it as foreign before L3"),
    ("learned_mac", "bad_header_crc"): (1, "from a foreign MAC"),
    ("over_credit", "bad_packet_crc"): (1, "L11 drops it as over_credit before L12 looks at its packet CRC"),
    ("occupied_restart", "over_credit"): (2, "the sender goes by room that no frame has told it of yet"),
    ("refused_init_in_up", "incompatible"): (13, "one has the known nonce: ignored by L7, before L6 is asked"),
    ("to_itself", "wrong_class"): (0, "the node's own packet, which is on no wire"),
    ("wrong_class", "wrong_class"): (6, "one is the node's own packet, which is on no wire"),
}


class AllTraces(Case):
    """Every trace, each in a VLAN of its own, in one capture: frame by frame, field by field."""

    @classmethod
    def setUpClass(cls):
        cls.names = sorted(p.stem for p in TRACES.glob("*.pcap"))
        assert len(cls.names) > 50, f"only {len(cls.names)} traces in {TRACES}"
        cls.of, cls.own, everything = {}, {}, []
        for vlan, name in enumerate(cls.names, 1):
            cls.own[name] = {wire.mac(port["mac"]) for port in cls.trace(name)["dut"]["ports"]}
            for time, frame in wire.read_pcap(TRACES / (name + ".pcap")):
                everything.append((vlan * 10**12 + time, wire.tagged(frame, vlan)))
                cls.of[len(everything)] = (name, frame)
        cls.seen = cls.scene(everything, transport=False)

    @staticmethod
    def trace(name):
        return json.loads((TRACES / (name + ".json")).read_text())

    def test_every_frame_of_the_ethertype_is_taken(self):
        ours = {n for n, (_, f) in self.of.items() if f[12:14] == b"\x88\xb5" and len(f) > 14}
        self.assertEqual(ours, set(self.seen))
        self.assertGreater(len(ours), 1000)

    def test_fields_are_those_of_the_page(self):
        for number, seen in self.seen.items():
            name, frame = self.of[number]
            for field, values in wire.expected_fields(frame).items():
                self.assertEqual(values, tshark.normal(seen.get(field, []), values), f"{name}: {field} of {frame.hex()}")

    def test_malformed_frames_are_those_of_the_page(self):
        for number, seen in self.seen.items():
            name, frame = self.of[number]
            body = frame[14:]
            if len(body) < 16 or wire.malformed(body[0] >> 4, body[0] & 15, int.from_bytes(body[2:4], "big"), body[8] >> 4,
                                                body[8] & 15, len(body)):
                self.assertIn("mtlink.malformed", seen, f"{name}: {frame.hex()}")

    def test_drops_are_those_that_the_traces_count(self):
        for name in self.names:
            counters = self.trace(name)["counters"].values()
            for drop in SEEN:
                counted = sum(port.get(drop, 0) for port in counters)
                counted, why = OTHERWISE.get((name, drop), (counted, "as the trace counts"))
                field = ("mtnet." if drop == "wrong_class" else "mtlink.") + drop
                shown = sum(field in seen for number, seen in self.seen.items()
                            if self.of[number][0] == name and self.of[number][1][6:12] not in self.own[name])
                self.assertEqual(counted, shown, f"{name}: {drop} ({why})")

    def test_nothing_wrong_is_found_in_what_the_device_under_test_sends(self):
        """The traces' frames of the device are right by definition."""
        wrong = ["mtlink." + w for w in ("malformed", "bad_header_crc", "stale", "bad_ack", "old_ack", "duplicate", "gap",
                                         "out_of_window", "over_credit", "incompatible", "looped", "other_peer",
                                         "short_padding", "deviation")]
        wrong += ["mtnet.wrong_class", "mtnet.deviation", "mtnet.bad_node"]
        for number, seen in self.seen.items():
            name, frame = self.of[number]
            if frame[6:12] in self.own[name]:
                self.assertEqual([], [w for w in wrong if w in seen], f"{name}: {seen}")


class LinkFrames(Case):
    """What frames of a link mean for each other."""

    def test_the_trace_loss_one(self):
        """Frame 11 is DATA 3 of the device, 24 the NACK for it, 25 the same again. The peer's DATA 3 is not in the capture
        before frame 30. Times are those of the capture."""
        seen = self.dissect(TRACES / "loss_one.pcap", transport=False)
        self.expect(seen[1], "mtlink", bring_up="")
        self.expect(seen[2], "mtlink", init__taken_in=3)
        self.expect(seen[3], "mtlink", init__peer_in=2, init__taken_in=4, sender="node 7 port 0", receiver="node 20 port 0")
        self.expect(seen[5], "mtlink", up="", link=0, session=1)
        self.expect(seen[11], "mtlink", sent_again_in=25, acks=10, acks__count=1, acks__time=6250 - 6180, replay=None)
        self.expect(seen[17], "mtlink", gap="", gap__count=1, seq=4)
        self.expect(seen[18], "mtlink", nack="", nack__frames=1, nack__of=None)
        self.expect(seen[24], "mtlink", nack__of=11)
        self.expect(seen[25], "mtlink", replay="", first_sent_in=11, first_sent_time=8680 - 6250, nacked_in=24)
        self.expect(seen[30], "mtlink", replay="", first_sent_in=None, nacked_in=None)
        self.expect(seen[33], "mtlink", acks=32)  # ack 11; DATA 10 of the peer is in frame 32
        self.expect(seen[8], "mtlink", acked_in=17)  # ack 2
        self.expect(seen[9], "mtlink", acked_in=20)  # ack 3

    def test_bring_up_and_restart(self):
        link = Link()
        link.up()
        self.assertEqual(6, link.close(link.a, 1))
        link.a.nonce, old_epoch, link.a.epoch = 0xAAAA0002, link.a.epoch, 12
        link.init(link.a, known=False)                                # 7
        link.status(link.b, epoch=old_epoch)                          # 8: stale
        link.b.nonce, link.b.epoch = 0xBBBB0002, 23
        link.init(link.b, link.a.nonce, padded=False)                 # 9
        link.init(link.a, link.b.nonce)                               # 10
        link.status(link.a)                                           # 11
        seen = self.scene(link.frames)
        self.expect(seen[1], "mtlink", bring_up="", link=None, init__taken_in=2)
        self.expect(seen[2], "mtlink", bring_up="", link=0, session=1, init__peer_in=1, short_padding=None)
        self.expect(seen[4], "mtlink", up="", receiver="node 2 port 20")
        self.expect(seen[6], "mtlink", close="", close__reason=1, session=1)
        self.expect(seen[7], "mtlink", bring_up="", link=0, session=2)
        self.expect(seen[8], "mtlink", stale="", up=None)
        self.expect(seen[9], "mtlink", short_padding="", init__peer_in=7, session=2)
        self.expect(seen[11], "mtlink", up="", stale=None, session=2)

    def test_an_init_that_is_repeated(self):
        link = Link()
        link.init(link.a, known=False)
        link.init(link.a, known=False, after=10**7)                   # 2: nobody answered
        for _ in range(3):
            link.init(link.b, link.a.nonce)                           # 3 to 5
        seen = self.scene(link.frames)
        self.expect(seen[1], "mtlink", bring_up="", init__taken_in=None)
        self.expect(seen[2], "mtlink", bring_up=None, init__taken_in=3)
        self.expect(seen[5], "mtlink", bring_up=None, init__peer_in=2, session=1)

    def test_inits_that_are_refused(self):
        link = Link()
        link.up()
        link.data(link.a, 0)
        mine = link.a.nonce
        link.a.nonce = 0xAAAA0003
        link.init(link.a, mtu=63)                                     # 7
        link.init(link.a, window=16385)                               # 8
        link.init(link.a, capacity=(4096,) * 8)                       # 9: 32768 cells
        link.init(link.a, capacity=(4096,) * 7 + (4095,), node=9)     # 10: 32767 are allowed, but node 9?
        link.a.nonce = mine
        link.data(link.a, 1)                                          # 11: the session goes on
        link.b.nonce = mine
        link.init(link.b)                                             # 12: looped
        seen = self.scene(link.frames)
        for number in (7, 8, 9):
            self.expect(seen[number], "mtlink", incompatible="", bring_up=None)
        self.expect(seen[10], "mtlink", incompatible=None, other_peer="", session=1)
        self.expect(seen[11], "mtlink", gap=None, replay=None, session=1, unacknowledged=2)
        self.expect(seen[12], "mtlink", looped="", bring_up=None)

    def test_sequence(self):
        """Windows of 4."""
        link = Link()
        link.up()
        for seq in range(4):
            link.data(link.a, seq)                                    # 6 to 9
        link.nack(link.b, (1, 2), (7, 0), ack=1)                      # 10: 1 and 2, and a range of none
        link.data(link.a, 1, flags=wire.REPLAY)                       # 11: asked for
        link.data(link.a, 2, flags=wire.REPLAY, after=500)            # 12
        link.data(link.a, 1, flags=wire.REPLAY)                       # 13: again, nobody asked
        link.data(link.a, 3)                                          # 14: without the flag
        link.status(link.b, ack=4)                                    # 15
        link.status(link.b, ack=3)                                    # 16: behind
        link.status(link.b, ack=5)                                    # 17: beyond
        link.status(link.a, seq=6)                                    # 18: tells of 4 and 5
        link.data(link.a, 8)                                          # 19: 4 + 4 is beyond the window
        link.data(link.a, 4, flags=wire.REPLAY)                       # 20
        link.data(link.a, 5, epoch=99)                                # 21
        link.status(link.a, seq=3)                                    # 22: not the next new DATA
        seen = self.scene(link.frames)
        self.expect(seen[6], "mtlink", unacknowledged=1, window_full=None, acked_in=10, gap=None)
        self.expect(seen[7], "mtlink", sent_again_in=11, acked_in=None)
        self.expect(seen[9], "mtlink", unacknowledged=4, window_full="")
        self.expect(seen[10], "mtlink", nack="", nack_empty="", nack__of=[7, 8], nack__frames=2, nack__count=[2, 0], acks=6,
                    acks__count=1, acks__time=4000)
        self.expect(seen[11], "mtlink", replay="", first_sent_in=7, first_sent_time=4000, nacked_in=10, unacknowledged=3)
        self.expect(seen[12], "mtlink", replay="", first_sent_in=8, first_sent_time=3500, nacked_in=10)
        self.expect(seen[13], "mtlink", replay="", first_sent_in=7, nacked_in=None, acked_in=15)
        self.expect(seen[14], "mtlink", duplicate="", replay=None, first_sent_in=9)
        self.expect(seen[15], "mtlink", acks=14, acks__count=3, acks__time=1000)
        self.expect(seen[16], "mtlink", old_ack="", bad_ack=None)
        self.expect(seen[17], "mtlink", bad_ack="", old_ack=None, acks=None)
        self.expect(seen[18], "mtlink", gap="", gap__count=2)
        self.expect(seen[19], "mtlink", out_of_window="", gap=None)
        self.expect(seen[20], "mtlink", replay="", first_sent_in=None, gap=None, out_of_window=None)
        self.expect(seen[21], "mtlink", stale="", gap=None)
        self.expect(seen[22], "mtlink", sender="node 1 port 10", deviation="")
        self.says(seen[22], "Seq 3 is not that of the next new DATA")

    def test_a_frame_sent_again_does_not_fill_the_window(self):
        link = Link()
        link.up()
        for seq in range(4):
            link.data(link.a, seq)                                    # 6 to 9
        link.data(link.a, 0, flags=wire.REPLAY)                       # 10
        seen = self.scene(link.frames)
        self.expect(seen[9], "mtlink", window_full="")
        self.expect(seen[10], "mtlink", window_full=None, unacknowledged=4)

    def test_sequence_wraps(self):
        link = Link()
        link.status(link.a, seq=65534)
        link.data(link.a, 65534)                                      # 2
        link.data(link.a, 65535)                                      # 3
        link.data(link.a, 0)                                          # 4
        link.status(link.b, ack=1)                                    # 5
        link.data(link.a, 65535, flags=wire.REPLAY)                   # 6
        link.data(link.a, 2)                                          # 7: 1 is missing
        seen = self.scene(link.frames)
        self.expect(seen[4], "mtlink", gap=None, replay=None, unacknowledged=3)
        self.expect(seen[5], "mtlink", acks=4, acks__count=3)
        self.expect(seen[6], "mtlink", replay="", first_sent_in=3)
        self.expect(seen[7], "mtlink", gap="", gap__count=1)

    def test_credit(self):
        """Eight cells a VC, of 64 bytes. A packet of 300 bytes takes 5 cells, one of 16 takes 1 (L20)."""
        link = Link()
        link.up()
        long = wire.packet(bytes(284), src=1, dst=2, proto=4)
        short = wire.packet(bytes(176), src=1, dst=2, proto=4)
        self.assertEqual((300, 192), (len(long), len(short)))
        link.data(link.a, 0, long)                                    # 6
        seen = self.scene(link.frames)
        self.expect(seen[6], "mtlink", malformed="", cells=None)      # 300 is more than the mtu of b, 256
        link = Link()
        link.a.init["mtu"] = link.b.init["mtu"] = 512
        link.up()
        link.data(link.a, 0, long)                                    # 6: 5 cells of 8
        link.data(link.a, 1, short)                                   # 7: 3 more, none left
        link.data(link.a, 2)                                          # 8: one too many
        link.status(link.a, seq=3, flags=wire.POLL, after=5000)       # 9
        link.status(link.b, (13,) + ALLOCATION[1:], ack=2, after=2000)  # 10: 5 more
        link.data(link.a, 2)                                          # 11
        link.data(link.a, 3, vc=4)                                    # 12: another VC
        link.data(link.b, 0, vc=4, credit_vc=4, credit=16, ack=4)     # 13: tells VC 4
        link.data(link.a, 4, vc=4)                                    # 14
        seen = self.scene(link.frames)
        self.expect(seen[6], "mtlink", cells=5, credit_left=3, no_credit=None)
        self.expect(seen[7], "mtlink", cells=3, credit_left=0, no_credit="")
        self.expect(seen[8], "mtlink", cells=1, over_credit="", credit_left=None)
        self.expect(seen[9], "mtlink", poll="", status__answer_in=10)
        self.expect(seen[10], "mtlink", stall="", stall__vc=0, stall__since=7, stall__time=8000, status__poll_in=9,
                    status__answer_time=2000)
        self.expect(seen[11], "mtlink", over_credit=None, credit_left=4, duplicate=None)
        self.expect(seen[12], "mtlink", credit_left=7)
        self.expect(seen[14], "mtlink", credit_left=14)

    def test_a_stall_ends_by_more_credit_alone(self):
        link = Link()
        link.up()
        for seq in range(8):
            link.data(link.a, seq)                                    # 6 to 13
        link.status(link.b, ack=8)                                    # 14: all arrived, none has left the buffer
        link.status(link.b, (7,) + ALLOCATION[1:], ack=8)             # 15: not ahead, ignored (L21)
        link.status(link.a, seq=8, flags=wire.POLL)                   # 16
        link.status(link.b, (9,) + ALLOCATION[1:], ack=8)             # 17
        link.status(link.b, (9,) + ALLOCATION[1:], ack=8)             # 18: answers nothing
        link.status(link.b, (10,) + ALLOCATION[1:], ack=8)            # 19: more, but there was some
        seen = self.scene(link.frames)
        self.expect(seen[13], "mtlink", no_credit="", credit_left=0)
        for number in (14, 15, 18, 19):
            self.expect(seen[number], "mtlink", stall=None, status__poll_in=None)
        self.expect(seen[17], "mtlink", stall="", stall__since=13, stall__time=4000, status__poll_in=16)

    def test_credit_is_not_told_while_frames_are_missing(self):
        link = Link()
        link.up()
        link.data(link.a, 0)                                          # 6: 7 of 8 are left
        link.data(link.a, 2)                                          # 7: 1 is missing, and what it took
        link.data(link.a, 1, flags=wire.REPLAY)                       # 8: all are there again
        link.data(link.a, 1, flags=wire.REPLAY)                       # 9: takes none (L17)
        link.data(link.a, 3)                                          # 10
        seen = self.scene(link.frames)
        self.assertEqual([[7], [], [5], [], [4]],
                         [tshark.normal(seen[n].get("mtlink.credit_left", []), [0]) for n in (6, 7, 8, 9, 10)])

    def test_an_ack_that_is_told_again_and_again_is_believed(self):
        """The capture has missed DATA, and nothing else can be the reason. 16 in a row are doubted."""
        link = Link()
        link.up()
        link.data(link.a, 0)                                          # 6
        for _ in range(18):
            link.status(link.b, ack=3)                                # 7 to 24
        link.data(link.a, 3)                                          # 25
        seen = self.scene(link.frames)
        self.assertEqual([True] * 16 + [False] * 2, ["mtlink.bad_ack" in seen[n] for n in range(7, 25)])
        self.expect(seen[25], "mtlink", gap=None, unacknowledged=1)

    def test_round_trip_by_t_echo(self):
        """b held the STATUS of a for 300 ns, and 1 us lies between them: 700 ns are for the way to b and back (L19)."""
        link = Link()
        link.up()
        link.status(link.a, t_tx=0xFFFFFFF0)                          # 6
        link.status(link.b, t_tx=5000, t_echo=(0xFFFFFFF0 + 300) % 2**32, flags=wire.ECHO)
        seen = self.scene(link.frames)
        self.expect(seen[7], "mtlink", status__echo_of=6, status__round_trip=700)
        self.expect(seen[6], "mtlink", status__round_trip=None)

    def test_a_capture_from_the_middle(self):
        link = Link()
        link.data(link.a, 500, ack=70)
        link.data(link.b, 70, ack=501)                                # 2
        link.data(link.a, 501, ack=71)                                # 3
        link.b.epoch = 23
        link.data(link.a, 0)                                          # 4: b has asked for another epoch
        seen = self.scene(link.frames)
        self.expect(seen[1], "mtlink", gap=None, link=0, session=1, credit_left=None, sender=None, receiver=None)
        self.expect(seen[2], "mtlink", acks=1, bad_ack=None, gap=None)
        self.expect(seen[3], "mtlink", acks=2, epoch_changed=None)
        self.expect(seen[4], "mtlink", epoch_changed="", session=2, gap=None)

    def test_a_capture_that_missed_more_than_a_window(self):
        link = Link()
        link.up()
        link.data(link.a, 0)
        link.data(link.a, 100)                                        # 7
        link.status(link.b, ack=101)                                  # 8: so it was none beyond the window
        link.data(link.a, 101)                                        # 9
        seen = self.scene(link.frames)
        self.expect(seen[7], "mtlink", out_of_window="")
        self.expect(seen[8], "mtlink", bad_ack=None)
        self.expect(seen[9], "mtlink", out_of_window=None, gap=None)

    def test_a_frame_beyond_the_window_proves_nothing_when_others_follow(self):
        link = Link()
        link.up()
        link.data(link.a, 0)
        link.data(link.a, 100)                                        # 7: dropped
        link.data(link.a, 1)                                          # 8
        link.status(link.b, ack=50)                                   # 9
        seen = self.scene(link.frames)
        self.expect(seen[7], "mtlink", out_of_window="")
        self.expect(seen[9], "mtlink", bad_ack="")

    def test_credit_is_unknown_when_a_frame_that_arrived_was_missed(self):
        link = Link()
        link.up()
        link.data(link.a, 0)
        link.data(link.a, 2)                                          # 7: 1 is not in the capture
        link.status(link.b, ack=3)                                    # 8: but it came
        link.data(link.a, 3)                                          # 9
        seen = self.scene(link.frames)
        self.expect(seen[9], "mtlink", gap=None, cells=1, credit_left=None)

    def test_a_seq_that_was_passed_over_is_not_that_of_the_last_round(self):
        """Seq has 16 bits: 5 comes again after 65,536."""
        link = Link()
        for seq in (5, 16389, 32773, 49157, 6):
            link.data(link.a, seq)
        link.data(link.a, 5, flags=wire.REPLAY)                       # 6
        seen = self.scene(link.frames)
        self.expect(seen[5], "mtlink", gap="", gap__count=16384)
        self.expect(seen[6], "mtlink", replay="", first_sent_in=None)

    def test_a_capture_of_short_pieces(self):
        """Of DATA with 100 bytes and a STATUS, so many bytes; the link header ends at 30, a network header at 42."""
        link = Link()
        link.up()
        link.data(link.a, 0, wire.packet(bytes(84), src=1, dst=2, proto=4))
        for snap, data, status in ((129, 1, 1), (60, 1, 1), (44, 1, 2), (40, 2, 2), (29, None, None)):
            path = self.path()
            wire.write_pcap(path, link.frames, snap)
            seen = self.dissect(path)
            self.expect(seen[6], "mtlink", truncated="", malformed=None, header_crc__status=data)
            self.expect(seen[6], "mtnet", crc__status=2 if snap >= 42 else None)
            self.expect(seen[5], "mtlink", malformed=None, header_crc__status=status, truncated="" if snap < 54 else None)

    def test_a_capture_of_one_way(self):
        link = Link()
        for seq in range(3):
            link.data(link.a, seq, ack=10 * seq)
        seen = self.scene(link.frames)
        for number in (1, 2, 3):
            self.expect(seen[number], "mtlink", bad_ack=None, gap=None, link=0)

    def test_vlans_and_interfaces_part_links(self):
        link = Link()
        for vlan in (5, 6, None):
            link.vlan = vlan
            link.up()
        seen = self.scene(link.frames)
        self.assertEqual([0, 1, 2], [tshark.number(seen[n]["mtlink.link"][0]) for n in (5, 10, 15)])
        self.assertNotIn("mtlink.stale", seen[15])
        # Both ends of a link in one capture are two; the two ways of a tap, each on an interface of its own, are one.
        up = [(t, f) for t, f in Link().frames]
        one = Link(up)
        one.up()
        twice = sorted((time + 10 * i, i, frame) for time, frame in one.frames for i in (0, 1))
        path = self.path()
        wire.write_pcapng(path, twice, 2)
        seen = self.dissect(path)
        self.assertEqual(["0", "1"], [seen[n]["mtlink.link"][0] for n in (9, 10)])
        self.assertFalse([n for n, s in seen.items() if "mtlink.duplicate" in s or "mtlink.looped" in s])
        one.data(one.a, 0)
        one.status(one.b, ack=1)
        tap = [(time, int(frame[6:12] == wire.mac(one.b.mac)), frame) for time, frame in one.frames]
        path = self.path()
        wire.write_pcapng(path, tap, 2)
        seen = self.dissect(path)
        self.expect(seen[6], "mtlink", acked_in=7, link=0, receiver="node 2 port 20")
        self.expect(seen[7], "mtlink", acks=6, link=0, stale=None)

    def test_a_capture_that_is_not_in_order(self):
        link = Link()
        link.up()
        link.data(link.a, 0)                                          # 6
        link.status(link.b, ack=1)                                    # 7
        link.frames[5], link.frames[6] = link.frames[6], link.frames[5]
        seen = self.scene(link.frames)
        self.expect(seen[5], "mtlink", unordered=None)
        self.expect(seen[6], "mtlink", kind=1, unordered=None, bad_ack="")
        self.expect(seen[7], "mtlink", kind=0, unordered="")

    def test_a_capture_without_destinations(self):
        """Fields are all there, but which frames belong together is not known."""
        link = Link()
        link.up()
        path = self.path()
        wire.write_pcap(path, [(time, wire.cooked(frame)) for time, frame in link.frames], linktype=113)
        seen = self.dissect(path)
        self.expect(seen[4], "mtlink", kind=1, header_crc__status=1, status__allocation0=8, stale=None)
        self.expect(seen[5], "mtlink", kind=1, receiver=None)

    def test_what_senders_should_not_do(self):
        link = Link()
        link.up()
        broken = {
            link.status(link.a, flags=8): "reserved flags", link.data(link.a, 0, flags=wire.POLL): "flags that are for STATUS",
            link.status(link.a, seq=1, vc=3): "VC of a frame other than DATA",
            link.status(link.a, seq=1, credit_vc=0, credit=8): "credit in a frame other than DATA",
            link.nack(link.a, (0, 1), seq=1, flags=1): "flags of NACK",
            link.status(link.a, seq=1, flags=1): "REPLAY is for DATA",
            link.frame(link.a, wire.CLOSE, bytes(4), seq=3): "seq or ack of CLOSE",
            link.frame(link.a, wire.INIT, wire.init_body(link.a.nonce, 0, 1, 10, 11), epoch=5): "epoch of INIT",
            link.add(link.frames[3][1][:-1] + b"x"): "padding is not zeros",
        }
        seen = self.scene(link.frames)
        for number, text in broken.items():
            self.says(seen[number], text)

    def test_other_ethertypes(self):
        link = Link()
        link.frame(link.a, wire.STATUS, wire.status_body(ALLOCATION), ethertype=0x9999)
        link.frame(link.a, wire.STATUS, wire.status_body(ALLOCATION))
        self.assertEqual({2}, set(self.scene(link.frames)))
        self.assertEqual({1, 2}, set(self.scene(link.frames, "-o", "mtlink.ethertypes:0x88b5,0x9999")))

    def test_packet_crcs_may_be_left_alone(self):
        link = Link()
        link.up()
        damaged = bytearray(wire.packet(b"abc", src=1, dst=2, proto=4))
        damaged[13] ^= 1
        link.data(link.a, 0, bytes(damaged))
        seen = self.scene(link.frames)
        self.expect(seen[6], "mtlink", bad_packet_crc="")
        self.expect(seen[6], "mtnet", crc__status=0)
        seen = self.scene(link.frames, "-o", "mtlink.check_crc:FALSE")
        self.expect(seen[6], "mtlink", bad_packet_crc=None)
        self.expect(seen[6], "mtnet", crc__status=2)


class Packets(Case):
    """The network header and echoes."""

    def echo(self, link, side, kind, number, klass, seq, payload=b"", **more):
        body = bytes([kind, 0]) + (77).to_bytes(2, "big") + number.to_bytes(2, "big") + bytes(2) + payload
        packet = wire.packet(body, src=side.node, dst=link.other(side).node, klass=klass, proto=2, **more)
        return link.data(side, seq, packet, vc=4 * klass)

    def test_network_header(self):
        link = Link()
        link.up()
        link.data(link.a, 0, wire.packet(b"x", src=0, dst=65535, proto=4, hop_limit=1, flags=0x81), vc=0)
        link.data(link.a, 1, wire.packet(b"x", src=1, dst=2, proto=4, klass=1), vc=3)
        link.data(link.a, 2, wire.packet(b"x", src=1, dst=2, proto=4, klass=2), vc=7)
        seen = self.scene(link.frames)
        self.expect(seen[6], "mtnet", bad_node="", last_hop="", congestion="", deviation="", wrong_class=None, layer=0,
                    node=[65535, 0])
        self.expect(seen[7], "mtnet", wrong_class="", layer=3, bad_node=None, last_hop=None, congestion=None, deviation=None)
        self.expect(seen[8], "mtnet", wrong_class="")

    def test_echo_and_reply(self):
        link = Link()
        link.up()
        self.echo(link, link.a, 1, 1, 0, 0)                           # 6
        self.echo(link, link.a, 1, 2, 0, 1)                           # 7
        self.echo(link, link.b, 2, 1, 1, 0)                           # 8
        self.echo(link, link.b, 2, 2, 1, 1)                           # 9
        self.echo(link, link.b, 2, 3, 1, 2)                           # 10: to none
        seen = self.scene(link.frames)
        self.expect(seen[6], "mtecho", reply_in=8, request_in=None)
        self.expect(seen[8], "mtecho", request_in=6, time=2000)
        self.expect(seen[9], "mtecho", request_in=7, time=2000)
        self.expect(seen[10], "mtecho", request_in=None, time=None)

    def test_an_error_names_the_request(self):
        link = Link()
        link.up()
        request = self.echo(link, link.a, 1, 5, 0, 0, payload=b"0123456789abcdef", hop_limit=1)
        dropped = link.frames[request - 1][1][30:][:28]
        error = bytes([3, 0]) + bytes(6) + dropped
        link.data(link.b, 0, wire.packet(error, src=2, dst=1, klass=1, proto=2), vc=4)
        seen = self.scene(link.frames)
        self.expect(seen[7], "mtecho", type=3, error="", request_in=6, time=1000, dropped__src=1, dropped__dst=2,
                    dropped__hop_limit=1, dropped__proto=2)
        self.expect(seen[6], "mtecho", reply_in=7)

    def test_what_is_no_echo(self):
        link = Link()
        link.up()
        link.data(link.a, 0, wire.packet(bytes(7), src=1, dst=2, proto=2))
        link.data(link.a, 1, wire.packet(bytes([9]) + bytes(7), src=1, dst=2, proto=2))
        seen = self.scene(link.frames)
        self.expect(seen[6], "mtecho", short="", type=None)
        self.expect(seen[7], "mtecho", unknown_type="", type=9)


class TransportBytes(Case):
    """Each packet of the transport's reference vectors."""

    @classmethod
    def setUpClass(cls):
        cls.vectors = json.loads((TRACES / "transport-vectors.json").read_text())
        cls.packets = cls.vectors["packets"] + cls.vectors["refused"]
        link, seqs = Link(), {}
        link.a.init["mtu"] = link.b.init["mtu"] = 9000
        for i, vector in enumerate(cls.packets):
            packet = bytes.fromhex(vector["packet"])
            seqs[link.data(link.a, i, packet, vc=(packet[2] >> 4) * 4)] = vector
        cls.of, cls.seen = seqs, cls.scene(link.frames)

    def test_headers_and_bodies(self):
        for number, vector in self.of.items():
            if "header" not in vector:
                continue
            seen, name = self.seen[number], vector["name"]
            expected = {"mtnet." + key: value for key, value in vector["network"].items()}
            expected |= {"mttp." + key: value for key, value in vector["header"].items() if key != "type_name"}
            for layer, part in (("open", "open"), ("reject", "reject"), ("close", "close")):
                for key, value in vector.get(layer, {}).items():
                    if key != "zeros":
                        expected[f"mttp.{part}.{key}"] = int(value, 16) if key == "key" else value
            if vector.get("open", {}).get("zeros"):
                expected["mttp.open.padding"] = bytes(vector["open"]["zeros"]).hex()
            for field, value in expected.items():
                self.assertEqual([value], tshark.normal(seen.get(field, []), [value]), f"{name}: {field}")
            self.assertNotIn("mttp.malformed", seen, name)
            self.assertNotIn("mttp.bad_operation", seen, name)

    def test_acks(self):
        acks = [(self.seen[n], v) for n, v in self.of.items() if "ack" in v]
        self.assertGreater(len(acks), 3)
        for seen, vector in acks:
            for key, value in vector["ack"].items():
                values = value if isinstance(value, list) else [value]
                self.assertEqual(values, tshark.normal(seen.get("mttp.ack." + key, []), values), f"{vector['name']}: {key}")

    def test_operations(self):
        """Every field of every operation, in their order. `offset` and `key` of NEAR ones are what they resolve to; `total` of
        a SEND and `at` of a RESULT stand there only with their flag."""
        rename = {"op": "atomic", "type": "atomic_type"}
        for number, vector in self.of.items():
            expected = {}
            for index, op in enumerate(vector.get("operations", [])):
                expected.setdefault("mttp.op.index", []).append(index)
                for key, value in op.items():
                    absent = (key == "total" and op["operation"] == "SEND" and not op["flags"] & 0x10
                              or key == "at" and op["operation"] == "RESULT" and not op["flags"] & 1)
                    if key == "operation" or absent or key == "data" and not value:
                        continue
                    if key in ("key", "offset", "tag", "imm"):
                        value = int(value, 16)
                    expected.setdefault("mttp.op." + rename.get(key, key), []).append(value)
            for field, values in expected.items():
                self.assertEqual(values, tshark.normal(self.seen[number].get(field, []), values), f"{vector['name']}: {field}")

    def test_what_is_refused(self):
        """`malformed` by T3 is told at the packet, by T16 at its operations; the other checks need the receiver's state."""
        found = 0
        for number, vector in self.of.items():
            if "check" not in vector:
                continue
            seen, ends = self.seen[number], vector["effect"].startswith("CLOSE")
            bad = vector["check"] == "malformed"
            self.assertEqual(bad and not ends, "mttp.malformed" in seen, f"{vector['name']}: {vector['about']}")
            self.assertEqual(bad and ends, "mttp.bad_operation" in seen, f"{vector['name']}: {vector['about']}")
            found += bad
        self.assertGreater(found, 20)


class TransportTalk(Case):
    """What packets of a connection mean for each other."""

    def setUp(self):
        self.link = Link()
        for side in (self.link.a, self.link.b):
            side.init["window"] = 64
        self.link.up()                                                # 1 to 5
        self.talk = Talk(self.link)

    def test_open_reject_and_close(self):
        talk = self.talk
        talk.up()                                                     # 6 to 8
        talk.packet("a", 5, bytes([1, 0, 0, 0]), window=0)            # 9: CLOSE
        talk.packet("b", 5, bytes([1, 0, 0, 0]), window=0)            # 10: its answer
        talk.packet("a", 3, operation(6, u32(0)), klass=0, psn=7)     # 11: to a connection that is gone
        talk.send("b", wire.transport(2, bytes(4) + u32(talk.B_ID), connection=0, window=0), 1)  # 12
        seen = self.scene(self.link.frames)
        self.expect(seen[6], "mttp", answer_in=7, request_in=None, stream=0)
        self.expect(seen[7], "mttp", answer_in=8, request_in=6, answer_time=1000, stream=0)
        self.expect(seen[8], "mttp", request_in=7, stream=0)
        self.expect(seen[9], "mttp", close="", answer_in=10)
        self.expect(seen[10], "mttp", request_in=9, answer_time=1000)
        self.expect(seen[11], "mttp", answer_in=12)
        self.expect(seen[12], "mttp", rejected="", request_in=11, reject__id=talk.B_ID)

    def test_an_open_that_is_repeated_and_the_first_psns(self):
        talk = self.talk
        talk.open("a", 0)                                             # 6
        talk.open("a", 0, after=10**7)                                # 7: nobody answered
        talk.open("b", talk.A_ID)                                     # 8
        talk.packet("a", 3, operation(6, u32(0)), klass=0, psn=1002)  # 9: 1000 and 1001 are not there
        talk.packet("b", 3, operation(18, u32(70)), psn=5001)         # 10
        seen = self.scene(self.link.frames)
        self.expect(seen[6], "mttp", answer_in=8)
        self.expect(seen[7], "mttp", answer_in=None, request_in=None, stream=0)
        self.expect(seen[8], "mttp", request_in=6, answer_time=10**7 + 1000)
        self.expect(seen[9], "mttp", gap="", gap__count=2, stream=0)
        self.expect(seen[10], "mttp", gap="", gap__count=1, stream=0)

    def test_delivery(self):
        """Request flow of a, from PSN 1000 on."""
        talk = self.talk
        talk.up()
        write = operation(1, ADDRESS, b"12345678")
        for psn in (1000, 1001, 1003):
            talk.packet("a", 3, write, klass=0, psn=psn, entropy=psn)  # 9, 10, 11: 1002 is lost
        talk.ack("b", 1001, psn=1003, held=100, words=[0b100])        # 12: 1000 by ack, 1003 by its bit
        talk.packet("a", 3, write, klass=0, psn=1002, entropy=5)      # 13
        talk.packet("a", 3, write, klass=0, psn=1001, entropy=9)      # 14: again, by another way
        talk.ack("b", 1004, psn=1002, held=100, after=3000)           # 15
        seen = self.scene(self.link.frames)
        self.expect(seen[9], "mttp", gap=None, acked_in=12)
        self.expect(seen[10], "mttp", sent_again_in=14, acked_in=None)
        self.expect(seen[11], "mttp", gap="", gap__count=1, acked_in=12)
        self.expect(seen[12], "mttp", acks=11, acks__count=2, acks__time=1000, ack__psn_in=11, ack__psn_time=1000)
        self.expect(seen[13], "mttp", gap=None, sent_again=None)
        self.expect(seen[14], "mttp", sent_again="", first_sent_in=10, first_sent_time=4000, acked_in=15)
        self.expect(seen[15], "mttp", acks__count=2, ack__psn_in=13, ack__psn_time=4000, stream=0)

    def test_a_packet_at_two_hops_is_sent_once(self):
        """Another link further on carries the same packet, its hop limit lower."""
        talk = self.talk
        talk.up()
        first = talk.packet("a", 3, operation(1, ADDRESS, b"1234"), klass=0, psn=1000)
        far = Link(self.link.frames)
        far.a.mac, far.b.mac = "02:00:00:00:01:0a", "02:00:00:00:01:0b"
        packet = bytearray(self.link.frames[first - 1][1][30:])
        packet = packet[:12 + 16 + 24 + 4]
        packet[0] = 15
        far.data(far.a, 0, bytes(packet))
        seen = self.scene(self.link.frames)
        self.expect(seen[10], "mttp", other_hop_in=9, sent_again=None)
        self.expect(seen[10], "mtlink", link=1)
        self.expect(seen[10], "mtnet", crc__status=1, hop_limit=15)

    def test_answers_to_operations(self):
        talk = self.talk
        talk.up()
        talk.packet("a", 3, operation(2, ADDRESS + u32(8, 70)) + operation(3, ADDRESS + bytes([0, 1, 0, 0]) + u32(71), bytes(8),
                                                                        flags=4), klass=0, psn=1000)        # 9
        talk.packet("b", 3, operation(16, u32(71), bytes(8)), psn=5000, ack=1001)                           # 10
        talk.packet("b", 3, operation(16, u32(70), b"\x01", flags=2), psn=5001, ack=1001, after=4000)       # 11: FAIL
        talk.packet("a", 3, operation(1, ADDRESS, b"x"), klass=0, psn=1001)                                 # 12
        talk.packet("b", 3, operation(17, u32(1001), bytes([0, 2])), psn=5002, ack=1001)                    # 13: REPORT
        seen = self.scene(self.link.frames)
        self.expect(seen[9], "mttp", op__answer_in=[11, 10], acked_in=10)
        self.expect(seen[10], "mttp", op__request_in=9, op__time=1000, acks=9)
        self.expect(seen[11], "mttp", op__request_in=9, op__time=5000, fail="")
        self.expect(seen[12], "mttp", answer_in=None, op__answer_in=13)
        self.expect(seen[13], "mttp", op__request_in=12, op__time=1000, report="", op__report__index=0, op__report__status=2)

    def test_messages_are_numbered_in_order_of_psn(self):
        """T31. DATA 1001 comes late; its SEND is message 1, that of 1002 message 2."""
        talk = self.talk
        talk.up()
        talk.packet("a", 3, operation(4, b"", b"eager") + operation(6, u32(9)), klass=0, psn=1000)          # 9: message 0
        talk.packet("a", 3, operation(4, u32(100), flags=0x30), klass=0, psn=1002)                          # 10: offered
        talk.packet("a", 3, operation(1, ADDRESS + bytes(8), b"i", flags=2), klass=0, psn=1001)             # 11: IMM
        talk.packet("b", 3, operation(19, u32(2, 100)), psn=5000)                                           # 12: WANT 2
        talk.packet("a", 3, operation(5, u32(2, 0), bytes(100), flags=0x80), klass=0, psn=1003)             # 13
        talk.packet("b", 3, operation(20, u32(2, 6)), psn=5001)                                             # 14: DONE 2
        talk.packet("a", 3, operation(6, u32(0)), klass=0, psn=1004)                                        # 15: CANCEL 0
        seen = self.scene(self.link.frames)
        self.expect(seen[9], "mttp", op__message=0, op__answer_in=None)
        self.expect(seen[10], "mttp", op__message=2, op__answer_in=[12, 14], gap="")
        self.expect(seen[11], "mttp", op__message=1)
        self.expect(seen[12], "mttp", op__request_in=10, op__time=2000, op__limit=100)
        self.expect(seen[13], "mttp", op__request_in=10, op__time=3000)
        self.expect(seen[14], "mttp", op__request_in=10, op__status=6)
        self.expect(seen[15], "mttp", op__request_in=9)

    def test_oddities(self):
        talk = self.talk
        talk.packet("a", 3, operation(3, ADDRESS + bytes([9, 1, 0, 0]), bytes(8)), klass=0, psn=1)          # 6: no such op
        talk.packet("a", 3, operation(3, ADDRESS + bytes([3, 4, 0, 0]), bytes(4)), klass=0, psn=2)          # 7: `and` of f32
        talk.packet("a", 5, bytes(4), window=0, psn=3)                                                      # 8
        talk.packet("a", 4, bytes(4), flags=8)                                                              # 9
        talk.packet("a", 5, bytes(4))                                                                       # 10: window
        talk.open("a", 0, hop_limit=3)                                                                      # 11
        seen = self.scene(self.link.frames)
        for number in (6, 7):
            self.expect(seen[number], "mttp", unsupported="", bad_operation=None)
        for number, text in ((8, "marks, psn or ack"), (9, "reserved bits"), (10, "window is not 0")):
            self.expect(seen[number], "mttp", deviation="")
            self.says(seen[number], text)
        self.expect(seen[11], "mttp", deviation=None)


class Columns(Case):
    """What a line of the packet list says."""

    def lines(self, path, transport):
        options = ["-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"]
        return [""] + tshark.run(path, *options, transport=transport).splitlines()

    def test_of_a_trace(self):
        lines = self.lines(TRACES / "loss_one.pcap", False)
        self.assertEqual("MTLINK\tINIT | node 7 port 0 nonce 17b80608 peer 53fa6dd9 epoch 236 mtu 256 cell 64 window 64",
                         lines[3])
        self.assertEqual("MTLINK\tSTATUS seq 0 ack 0 | allocation 64,64,64,64,64,64,64,64", lines[5])
        self.assertEqual("MTLINK\t[nack] NACK seq 7 ack 3 | missing 3", lines[24])
        self.assertEqual("MTNET\t[replay] DATA seq 3 ack 3 vc 0 | 7 -> 20 transport, 43 bytes", lines[25])

    def test_of_packets(self):
        path = self.path()
        link = Link()
        link.up()
        Talk(link).packet("a", 3, operation(2, ADDRESS + u32(8, 70)), klass=0, psn=1000)
        echo = bytes.fromhex("0100004d00050000")
        link.data(link.a, 1, wire.packet(echo, src=1, dst=2, proto=2))
        link.close(link.a, 2)
        wire.write_pcap(path, link.frames)
        lines = self.lines(path, True)
        self.assertEqual("MTTP\tDATA seq 0 ack 0 vc 0 | 1 -> 2 DATA to b0000001 psn 1000 ack 0: READ total 8 id 70", lines[6])
        self.assertEqual("MTECHO\tDATA seq 1 ack 0 vc 0 | 1 -> 2 echo request id 77 number 5", lines[7])
        self.assertEqual("MTLINK\t[close] CLOSE | replay_exhausted", lines[8])


class Installed(Case):
    """As a user has it, by docs/wireshark.md: in the folder for plugins, without a word on the command line."""

    PAGE = (tshark.ROOT / "docs" / "wireshark.md").read_text()

    def test_in_the_personal_folder(self):
        home = self.path().parent / "home"
        plugins = home / ".local" / "lib" / "wireshark" / "plugins"
        plugins.mkdir(parents=True)
        shutil.copy(tshark.DISSECTOR, plugins)
        shown = tshark.run(TRACES / "loss_one.pcap", "-Y", "mtlink.replay", home=home)
        self.assertEqual(["25", "30"], [line.split()[0] for line in shown.splitlines()])

    def test_the_filters_of_the_page_work(self):
        """All of them at once: one that Wireshark does not know fails them all."""
        table = self.PAGE.split("## Filters to start with")[1].split("\n\n")[1]
        filters = [part.replace("\\|", "|") for row in table.splitlines()[2:] for part in re.findall("`(.*?)`", row)
                   if part != "-2"]
        self.assertGreater(len(filters), 15)
        shown = tshark.run(TRACES / "loss_one.pcap", "-Y", " || ".join(f"({one})" for one in filters), transport=False)
        self.assertIn("[replay]", shown)

    def test_the_page_names_every_finding(self):
        named = set(re.findall(r"`(mt[a-z]+\.[a-z_]+)`", self.PAGE.split("## Findings")[1]))
        registered = {name for name, kind in tshark.all_fields().items() if kind == "FT_NONE" and "." in name}
        self.assertGreater(len(registered), 40)
        self.assertEqual([], sorted(registered - named))
        self.assertEqual([], sorted(named - set(tshark.all_fields())))


class ZEveryField(Case):
    """Comes last (by its name): what the dissector registers, some case above has seen."""

    def test_none_is_dead(self):
        if len(sys.argv) > 1:
            self.skipTest("needs the other cases, and a name was given")
        registered = tshark.all_fields()
        self.assertGreater(len(registered), 200)
        self.assertEqual([], sorted(set(registered) - set(self.union)))
        self.assertEqual([], sorted(name for name in set(self.union) - set(registered) if not name.startswith("_ws")
                                    and not name.endswith("_tree") and "." in name))


if __name__ == "__main__":
    main()
