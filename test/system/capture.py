#!/usr/bin/env python3
"""What the Wireshark dissector makes of a capture of a running link: what the switches count, and nothing that is not so."""

import re
import subprocess
import sys

import cases
import lab as labs
from cases import ROOT, wait_until

sys.path.insert(0, str(ROOT / "test" / "dissector"))
import tshark  # noqa: E402  (found by the line above)

PINGS = 150
# What nobody does here, whatever the wire does to frames behind the place of capture.
NEVER = ["mtlink." + name for name in ("malformed", "bad_header_crc", "bad_packet_crc", "stale", "epoch_changed", "bad_ack",
                                       "gap", "duplicate", "out_of_window", "over_credit", "incompatible", "looped",
                                       "other_peer", "short_padding", "unordered", "deviation")]
NEVER += ["mtnet.wrong_class", "mtnet.bad_node", "mtnet.deviation", "mtecho.short", "mtecho.unknown_type", "mtecho.error"]


class Bridge(cases.LabCase):
    """Two switches with a bridge between them, where one listens: a port of AF_PACKET sends past captures at its interface."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2", "wire")
        self.lab.veth(("sw1", "trunk"), ("wire", "left"))
        self.lab.veth(("sw2", "trunk"), ("wire", "right"))
        self.lab.bridge("wire", "br0", "left", "right")
        self.file = self.lab.directory / "x.pcapng"
        self.dumpcap = self.lab.start("dumpcap", ["dumpcap", "-i", "left", "-B", "64", "-w", self.file], ns="wire")
        wait_until("dumpcap listens", lambda: "File:" in self.dumpcap.err.read_text() or not self.dumpcap.alive())
        self.switches = [self.lab.switch(f"sw{n}", labs.node(n, labs.port(0, "trunk", 3 - n), cases.PATIENT)).start()
                         for n in (1, 2)]
        for switch in self.switches:
            switch.wait_up(0)

    def captured(self):
        counts = re.findall(r"Packets: (\d+)", self.dumpcap.err.read_text())
        return int(counts[-1]) if counts else 0

    def frames(self):
        """The frames of which the switches know by now, dissected: {number: {field: [texts]}}."""
        # What dumpcap holds when it ends is lost: so it has to write something that came later, as each side says something
        # all the time.
        for _ in range(2):
            before = self.captured()
            wait_until("dumpcap writes more", lambda: self.captured() > before)
        self.assertEqual(0, self.dumpcap.stop())
        self.assertRegex(self.dumpcap.err.read_text(), r"interface 'left': \d+/0 ", "dumpcap has missed frames")
        # Frames that two CPUs saw at nearly the same time may stand in the file in the wrong order.
        ordered = self.file.with_suffix(".ordered")
        subprocess.run(["reordercap", self.file, ordered], check=True, stdout=subprocess.DEVNULL)
        return tshark.frames(ordered)

    def count(self, seen, field):
        return sum(field in frame for frame in seen.values())

    def test_replays_are_found_and_no_faults_are_made_up(self):
        for switch in self.switches:  # they lose what has passed the capture
            switch.ctl("impair", 0, "--drop", 5, "--corrupt", 5)
        *_, end = self.switches[0].json_lines("ping", 2, "-c", PINGS, "-i", "10ms", "-W", "60s")
        self.assertEqual(PINGS, end["summary"]["received"])
        wait_until("all is acknowledged", lambda: all(s.link(0)["unacknowledged"] == 0 for s in self.switches))
        replays = sum(switch.link(0)["replays"] for switch in self.switches)
        seen = self.frames()
        self.assertEqual({field: 0 for field in NEVER}, {field: self.count(seen, field) for field in NEVER})
        self.assertGreater(replays, 0, "nothing was lost: the case showed nothing")
        self.assertEqual(replays, self.count(seen, "mtlink.replay"))
        requests = [f for f in seen.values() if f.get("mtecho.type") == ["1"] and "mtlink.replay" not in f]
        self.assertEqual(PINGS, len(requests))
        self.assertEqual(PINGS, self.count(seen, "mtecho.time"))
        self.assertEqual({("0", "1")}, {(f["mtlink.link"][0], f["mtlink.session"][0]) for f in requests})
        self.assertGreater(self.count(seen, "mtlink.status.round_trip"), 0)
        self.assert_books(*self.switches)


if __name__ == "__main__":
    cases.main()
