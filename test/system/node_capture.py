#!/usr/bin/env python3
"""`mtctl capture` on running switches: every frame once, with what became of it; files that others read; and whatever ends it."""

import collections
import json
import pathlib
import re
import signal
import struct
import subprocess
import sys

import cases
import lab as labs
from cases import ROOT, wait_until
from workers import two_cpus

sys.path.insert(0, str(ROOT / "test" / "dissector"))
import tshark  # noqa: E402  (found by the line above)

IN, OUT = "1", "2"  # epb_flags


def rows(file, *options):
    """Of each frame of a capture, as tshark reads it: (interface, direction, comment, time)."""
    fields = ["frame.interface_name", "frame.packet_flags_direction", "frame.comment", "frame.time_epoch"]
    text = tshark.run(file, "-T", "fields", *(part for field in fields for part in ("-e", field)), *options)
    # A field of flags is shown in hex by some releases.
    return [(name, str(int(way, 0)), comment, float(at))
            for name, way, comment, at in (line.split("\t") for line in text.splitlines())]


def told_as_dropped(file):
    """Of a pcapng in this machine's byte order: isb_ifdrop of its Interface Statistics Blocks, summed."""
    data, at, dropped = file.read_bytes(), 0, 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        option = at + 20  # behind type, length, interface and time
        while kind == 5 and option < at + length - 4:
            code, size = struct.unpack_from("<HH", data, option)
            if code == 5:
                dropped += struct.unpack_from("<Q", data, option + 4)[0]
            if code == 0:
                break
            option += 4 + (size + 3) // 4 * 4
        at += length
    return dropped


class Capturing(cases.LabCase):
    """A case that captures."""

    def capture(self, switch, file, *options):
        """Starts it, and waits until the node captures."""
        before = self.begun(switch)
        process = self.lab.start(f"capture{len(self.lab.processes)}", [
            self.lab.program("mtctl"), "-s", switch.socket, "capture", "-w", file, *options], ns=None)
        wait_until("the capture has begun", lambda: self.begun(switch) > before or not process.alive())
        # Its answer comes when all workers capture; what is asked of them later comes behind that.
        switch.ctl("show", "node")
        return process

    def begun(self, switch):
        return switch.process.err.read_text().count("capture begins")

    def end(self, process, status=0):
        """Ends it as Ctrl-C does: (frames, missed)."""
        process.signal(signal.SIGINT)
        self.assertEqual(status, process.wait(), process.err.read_text())
        return self.told(process)

    def told(self, process):
        said = process.err.read_text()
        found = re.search(r"^(\d+) frames captured.*; (\d+) missed", said, re.M)
        self.assertTrue(found, said)
        return int(found[1]), int(found[2])

    def judge(self, file):
        """What mtreplay judge finds."""
        done = self.lab.run([self.lab.program("mtreplay"), "judge", "--json", file], check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def assert_flawless(self, file):
        """The judge finds nothing, not even what would be wrong only if nothing was missed."""
        found = self.judge(file)
        self.assertEqual([], found["findings"])
        self.assertEqual(0, found["unsorted"])
        for link in found["links"]:
            self.assertEqual([0, 0], [side["missed"] for side in link["sides"]], link)
        return found


class Cable(Capturing):
    """Two switches, one cable."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2")
        self.lab.veth(("sw1", "trunk"), ("sw2", "trunk"))
        self.first, self.second = [
            self.lab.switch(f"sw{n}", labs.node(n, labs.port(0, "trunk", 3 - n), cases.PATIENT)).start() for n in (1, 2)]
        for switch in (self.first, self.second):
            switch.wait_up(0)
        self.file = self.lab.directory / "x.pcapng"

    def ping(self, count, *options):
        *_, end = self.first.json_lines("ping", 2, "-c", count, "-i", "5ms", "-W", "60s", *options)
        self.assertEqual(count, end["summary"]["received"])

    def all_acknowledged(self):
        wait_until("all is acknowledged",
                   lambda: all(s.link(0)["unacknowledged"] == 0 for s in (self.first, self.second)))

    def test_frames_come_with_what_became_of_them(self):
        before = self.first.drops(0)
        sent_again = self.first.link(0)["replays"]
        process = self.capture(self.first, self.file)
        self.first.ctl("impair", 0, "--drop", 10, "--corrupt-header", 5, "--corrupt", 10, "--duplicate", 5)
        self.second.ctl("impair", 0, "--drop", 10)
        self.ping(150)
        self.all_acknowledged()
        for switch in (self.first, self.second):
            switch.ctl("impair", 0, "--clear")
        self.ping(1)
        self.all_acknowledged()
        after = self.first.drops(0)
        sent_again = self.first.link(0)["replays"] - sent_again
        frames, missed = self.end(process)
        self.assertEqual(0, missed)
        seen = rows(self.file)
        self.assertEqual(frames, len(seen))
        self.assertEqual({"trunk"}, {name for name, *_ in seen})
        self.assertEqual(sorted(at for *_, at in seen), [at for *_, at in seen])
        counts = collections.Counter((way, comment) for _, way, comment, _ in seen)
        for name in ("impaired", "bad_header_crc", "bad_packet_crc", "duplicate"):
            expected = after.get(name, 0) - before.get(name, 0)
            found = sum(n for (way, comment), n in counts.items() if way == IN and re.search(rf"^drop: .*\b{name}\b", comment))
            self.assertEqual(expected, found, (name, counts))
        for name in ("impaired", "bad_header_crc", "bad_packet_crc"):
            self.assertGreater(after.get(name, 0), before.get(name, 0), "nothing was impaired: the case showed nothing")
        self.assertGreater(sent_again, 0)
        self.assertEqual(sent_again, counts[OUT, "sent again"])
        self.assertGreater(counts[OUT, "sent"], 150)
        self.assertGreater(counts[IN, "accepted"], 150)
        # The dissector sees the damage as the node does.
        damaged = [n for n, f in tshark.frames(self.file).items() if "mtlink.bad_header_crc" in f]
        self.assertEqual(after["bad_header_crc"] - before.get("bad_header_crc", 0), len(damaged))
        self.assert_books(self.first, self.second)

    def test_drops_alone_and_other_filters(self):
        drops = self.lab.directory / "drops.pcapng"
        self.first.ctl("impair", 0, "--corrupt-header", 20)
        before = self.first.drops(0).get("bad_header_crc", 0)
        process = self.capture(self.first, drops, "--drops", "trunk")
        self.ping(50)
        after = self.first.drops(0)["bad_header_crc"]
        self.end(process)
        found = collections.Counter(comment for _, _, comment, _ in rows(drops))
        self.assertGreaterEqual(found["drop: bad_header_crc"], after - before)
        self.assertGreater(after, before, "nothing was dropped: the case showed nothing")
        self.assertEqual([], [comment for comment in found if "drop" not in comment])
        self.first.ctl("impair", 0, "--clear")
        process = self.capture(self.first, self.file, "--kind", "DATA", "--direction", "out", "--node", "2", "--snap", "46")
        self.ping(10, "-s", "100")
        self.end(process)
        text = tshark.run(self.file, "-T", "fields", "-e", "frame.cap_len", "-e", "frame.len", "-e", "frame.comment")
        found = collections.Counter(text.splitlines())
        size = f"46\t{30 + 16 + 8 + 100}"
        self.assertEqual(10, found.pop(f"{size}\tsent"))
        self.assertLessEqual(set(found), {f"{size}\tsent again"})
        self.assertEqual({OUT}, {way for _, way, *_ in rows(self.file)})

    def test_the_judge_finds_no_fault_from_bring_up_to_close(self):
        self.first.ctl("port", "down", 0)
        self.first.wait_not_up(0)
        process = self.capture(self.first, self.file)
        self.first.ctl("port", "up", 0)
        self.first.wait_up(0)
        self.ping(100, "-s", "1000")
        self.first.ctl("port", "down", 0)
        self.first.wait_not_up(0)
        self.end(process)
        found = self.assert_flawless(self.file)
        self.assertEqual(1, len(found["links"]))
        self.assertFalse(found["links"][0]["incomplete"])
        for side in found["links"][0]["sides"]:
            self.assertGreaterEqual(side["bring_ups"], 1)
        self.assertEqual([100, 100], [side["packets"] for side in found["links"][0]["sides"]])

    def test_it_streams_into_tshark(self):
        command = f"{self.lab.program('mtctl')} -s {self.first.socket} capture -w - -c 30 | {tshark.TSHARK} -n -r - -T fields -e frame.comment"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("30 frames captured; 0 missed", done.stderr)
        self.assertEqual(30, len(done.stdout.splitlines()))
        self.assertLessEqual(set(done.stdout.splitlines()), {"accepted", "sent"})

    def stuck(self, *options):
        """A capture whose reader has stopped reading."""
        before = self.begun(self.first)
        process = subprocess.Popen([self.lab.program("mtctl"), "-s", self.first.socket, "capture", "-w", "-", *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        wait_until("the capture has begun", lambda: self.begun(self.first) > before)
        self.ping(100, "-s", "1400")  # more than a pipe takes
        return process

    def test_who_does_not_read_keeps_nobody_from_ending(self):
        process = self.stuck()
        ended = self.first.process.err.read_text().count("capture ended")
        process.send_signal(signal.SIGINT)
        wait_until("the node is let go", lambda: self.first.process.err.read_text().count("capture ended") > ended)
        self.assertEqual(1, process.wait(60))
        self.assertIn("its reader takes nothing any more", process.stderr.read().decode())
        process = self.stuck("--time", "3s")
        wait_until("the node is let go", lambda: self.first.process.err.read_text().count("capture ended") > ended + 1)
        self.assertIsNone(process.poll())
        self.file.write_bytes(process.stdout.read())  # all that it had
        self.assertEqual(0, process.wait(60))
        frames = int(re.search(r"(\d+) frames captured; 0 missed", process.stderr.read().decode())[1])
        self.assertEqual(frames, len(rows(self.file)))
        self.assertFalse(self.judge(self.file)["cut_off"])
        process = self.stuck()
        process.stdout.close()
        self.assertEqual(1, process.wait(60))
        self.assertIn("its reader has ended", process.stderr.read().decode())

    def test_a_row_of_files_keeps_the_newest(self):
        process = self.capture(self.first, self.file, "--file-size", "20k", "--files", "3")
        self.ping(300, "-s", "400")
        frames, _ = self.end(process)
        files = sorted(self.lab.directory.glob("x_*.pcapng"))
        self.assertEqual(3, len(files), files)
        numbers = [int(file.stem.removeprefix("x_")) for file in files]
        self.assertEqual(list(range(numbers[0], numbers[0] + 3)), numbers)
        self.assertGreater(numbers[0], 1)
        kept = [rows(file) for file in files]
        self.assertTrue(all(kept))
        times = [at for part in kept for *_, at in part]
        self.assertEqual(sorted(times), times)
        self.assertGreater(frames, len(times))
        for file in files[:-1]:
            self.assertLess(20_000, file.stat().st_size)
            self.assertLess(file.stat().st_size, 25_000)
        refused = self.first.ctl("capture", "-w", self.file, "--file-size", "20k", "-c", 1, check=False)
        self.assertEqual(1, refused.returncode)
        self.assertRegex(refused.stderr, r"/x_\d{5}\.pcapng: is there already")

    def test_one_at_a_time_and_who_is_killed_makes_room(self):
        process = self.capture(self.first, self.file)
        refused = self.first.ctl("capture", "-w", self.lab.directory / "y.pcapng", check=False)
        self.assertEqual(1, refused.returncode)
        self.assertIn("is being captured already", refused.stderr)
        self.ping(20)
        self.assertIn("mtlink-capture", pathlib.Path(f"/proc/{self.first.process.pid}/maps").read_text())
        process.kill()
        wait_until("the daemon has noticed", lambda: "capture ended" in self.first.process.err.read_text())
        # What it had written by then can be read; the memory of its rings is gone from the daemon.
        self.assertTrue(rows(self.file))
        self.assertNotIn("mtlink-capture", pathlib.Path(f"/proc/{self.first.process.pid}/maps").read_text())
        self.assertFalse((self.lab.directory / "y.pcapng").exists(), "what was refused left a file behind")
        again = self.capture(self.first, self.lab.directory / "y.pcapng")
        self.ping(5)
        frames, _ = self.end(again)
        self.assertGreater(frames, 10)
        self.assertEqual(1, self.first.link(0)["ups"])
        self.assert_books(self.first, self.second)

    def test_what_cannot_be_written_is_told(self):
        small = self.lab.directory / "small"
        small.mkdir()
        self.lab.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small])
        self.addCleanup(self.lab.run, ["umount", small], check=False)
        process = self.capture(self.first, small / "x.pcapng")
        self.ping(300, "-s", "1000")
        self.assertEqual(1, process.wait())
        self.assertRegex(process.err.read_text(), r"small/x\.pcapng: cannot be written completely: No space left on device; make room")
        # The file ends as it should, and says what it lacks.
        frames, missed = self.told(process)
        self.assertEqual(0, missed)
        self.assertEqual(frames, len(rows(small / "x.pcapng")))
        found = self.judge(small / "x.pcapng")
        self.assertFalse(found["cut_off"])
        self.assertGreater(told_as_dropped(small / "x.pcapng"), 0)
        self.assertTrue(found["links"][0]["incomplete"])
        for where, why in ((self.lab.directory / "none" / "x.pcapng", "No such file or directory"),
                           (self.lab.directory, "Is a directory")):
            refused = self.first.ctl("capture", "--overwrite", "-w", where, check=False)
            self.assertEqual(1, refused.returncode)
            self.assertIn(f"{where}: cannot be written: {why}", refused.stderr)
        self.file.write_text("precious")
        refused = self.first.ctl("capture", "-w", self.file, check=False)
        self.assertIn(f"{self.file}: is there already", refused.stderr)
        self.assertEqual("precious", self.file.read_text())
        refused = self.first.ctl("capture", "-w", self.lab.directory / "z.pcapng", "nobody", check=False)
        self.assertIn("has no port nobody: it has 0 (trunk)", refused.stderr)

    def test_when_the_daemon_ends_what_came_is_written(self):
        process = self.capture(self.first, self.file)
        self.ping(10)
        self.assertEqual(0, self.first.process.stop())
        self.assertEqual(1, process.wait())
        self.assertIn("mtswitchd ended the capture", process.err.read_text())
        self.told(process)
        last = tshark.frames(self.file)
        closes = [f for f in last.values() if f.get("mtlink.kind") == ["4"]]
        self.assertEqual(1, len(closes), "the CLOSE of the end is in it")


class Completion(cases.LabCase):
    """scripts/completion/mtctl.bash."""

    def test_it_offers_all_options(self):
        told = self.lab.run([self.lab.program("mtctl"), "capture", "--help"]).stdout
        options = set(re.findall(r"--[a-z][a-z-]+", told)) - {"--help"}
        self.assertIn("--buffer", options)
        offer = 'source "$0"; COMP_WORDS=(mtctl capture --); COMP_CWORD=2; _mtctl; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", offer, ROOT / "scripts" / "completion" / "mtctl.bash"], capture_output=True, text=True,
                              timeout=60, check=True)
        self.assertEqual(set(), options - set(done.stdout.split()))


class Ports(Capturing):
    """Two workers, whose ports move, come and go under traffic."""

    def test_ports_move_come_and_go(self):
        cpus = two_cpus(self)
        self.lab.netns("sw1", "sw2")
        for trunk in ("t0", "t1", "t2"):
            self.lab.veth(("sw1", trunk), ("sw2", trunk))
        shape = labs.line((1, [11, 12]), (2, [13]))
        runtime = f"runtime {{ cpus: {cpus} }}\n"

        def config(*ports):
            return labs.node(1, labs.slot(0, 11), labs.slot(1, 12), *ports, shape, runtime, cases.PATIENT)
        cables = [labs.port(n, f"t{n - 2}", 2) for n in (2, 3, 4)]
        first = self.lab.switch("sw1", config(*cables[:2])).start()
        second = self.lab.switch("sw2", labs.node(2, *(labs.port(n, f"t{n}", 1) for n in range(3)), labs.slot(3, 13), shape,
                                                  cases.PATIENT)).start()
        first.wait_up(2, 3)
        for number in (2, 3):
            first.ctl("port", "down", number)
        first.wait_not_up(2, 3)
        file = self.lab.directory / "x.pcapng"
        process = self.capture(first, file, "--buffer", "64")
        for number in (2, 3):
            first.ctl("port", "up", number)
        first.wait_up(2, 3)
        traffic = [self.lab.perf(f"e{n}", ["--socket", switch.socket, "--node", n, "--peer", peers, "--time", 600, "--rate", 1000,
                                           "--size", "32-1400"], ns=switch.ns)
                   for n, peers, switch in ((11, "12,13", first), (12, "11,13", first), (13, "11,12", second))]
        first.wait_up(0, 1)
        for turn in range(10):
            number = [0, 1, 2, 3 if turn < 8 else 4][turn * 3 % 4]
            first.ctl("port", "move", number, 1 - first.port(number)["worker"])
            if turn == 3:
                first.configure(config(*cables))
                first.ctl("reload")
                first.wait_up(4)
            if turn == 7:
                first.configure(config(cables[0], cables[2]))
                first.ctl("reload")
        for one in traffic:
            one.signal(signal.SIGTERM)
        for one in traffic:
            self.assert_all_arrived(one.report(), copies=1000)  # of what a removed port had under way
        frames, missed = self.end(process)
        self.assertEqual(0, missed)
        seen = rows(file)
        self.assertEqual(frames, len(seen))
        by_port = collections.Counter(name for name, *_ in seen)
        self.assertEqual({"slot0", "slot1", "t0", "t1", "t2"}, set(by_port))
        self.assertGreater(min(by_port.values()), 5, by_port)
        for name in by_port:  # in the order in which the port had them
            times = [at for port, *_, at in seen if port == name]
            self.assertEqual(sorted(times), times, name)
        self.assert_flawless(file)
        self.assert_books(first, second)


if __name__ == "__main__":
    cases.main()
