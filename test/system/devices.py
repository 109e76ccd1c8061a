#!/usr/bin/env python3
"""Ports on devices other than AF_PACKET: traffic through each, under loss, and each of their faults: a named
state, which heals by itself when its cause goes."""

import ctypes
import os
import pathlib
import signal
import struct
import subprocess
import sys

import cases
import lab as labs
from cases import wait_until

XDP_MOST = 3840  # bytes of the longest frame through AF_XDP


def on(number, kind, device, peer, more=""):
    """A port of a node on a device of this kind."""
    return f'ports {{ port: {number} name: "{kind}{number}" {kind} {{ {device} }} peer_node: {peer} {more}}}\n'


def interface(name):
    return f'interface: "{name}"'


class Pair(cases.LabCase):
    """Two switches with an endpoint on a slot of each, and between them one link: port 0 of both."""

    def pair(self, one, other):
        """Each: (namespace, the text of port 0)."""
        self.switches = []
        for number, (ns, text) in enumerate((one, other), 1):
            config = labs.node(number, text, labs.slot(1, 10 + number), labs.line((1, [11]), (2, [12])), cases.PATIENT)
            self.switches.append(self.lab.switch(f"sw{number}", config, ns=ns).start())
        for switch in self.switches:
            switch.wait_up(0)
        return self.switches

    def traffic(self, *options, size="32-1400"):
        """Both ways at once, all of it accounted for."""
        pair = [self.lab.perf(f"e{n}-{len(self.lab.processes)}",
                              ["--socket", self.switches[n - 1].socket, "--peer", 13 - n, "--size", size, "--patience", 60,
                               *(options or ("--count", 3000, "--rate", 3000))], ns=self.switches[n - 1].ns)
                for n in (1, 2)]
        for report in [process.report(limit=180) for process in pair]:
            self.assert_all_arrived(report)

    def down_with(self, number, *named):
        """Until the port of a switch has a fault of these words; the link is not up then."""
        switch = self.switches[number - 1]
        wait_until(f"{switch.name} has a fault of {named}",
                   lambda: all(word in switch.port(0)["fault"] for word in named))
        switch.wait_not_up(0)

    def healed(self):
        for switch in self.switches:
            switch.wait_up(0)
            self.assertEqual("", switch.port(0)["fault"])
        self.traffic("--count", 300, "--rate", 1000)
        self.assert_books(*self.switches)


LOSS = "impairment { drop_ppm: 20000 corrupt_packet_ppm: 5000 seed: %d } "


class AfXdp(Pair):
    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2")
        self.lab.veth(("sw1", "x1"), ("sw2", "x2"))

    def both(self, more="", other_kind="af_xdp"):
        return self.pair(("sw1", on(0, "af_xdp", interface("x1"), 2, more % 1 if "%" in more else more)),
                         ("sw2", on(0, other_kind, interface("x2"), 1, more % 2 if "%" in more else more)))

    def programs(self, ns, name):
        return [line.strip() for line in labs.run(["ip", "-n", self.lab.full(ns), "link", "show", name]).stdout.splitlines()
                if "prog/xdp" in line]

    def test_traffic_under_loss_and_damage(self):
        first, _ = self.both(LOSS)
        self.assertEqual("af_xdp", first.port(0)["driver"])
        self.traffic(size="32-1400")
        self.assert_books(*self.switches)

    def test_with_af_packet_at_the_other_end(self):
        self.both(other_kind="af_packet")
        self.traffic()
        self.assert_books(*self.switches)

    def test_the_longest_frames_that_pass(self):
        for ns, name in (("sw1", "x1"), ("sw2", "x2")):
            self.lab.link(ns, name, "mtu", "3498")
        first, _ = self.both()
        self.assertEqual(3498 + 14, first.port(0)["max_frame"])
        self.traffic(size="3400-3434")
        self.assert_books(*self.switches)

    def test_longer_links_are_refused(self):
        config = labs.node(1, on(0, "af_xdp", interface("x1"), 2, f"link {{ mtu: {XDP_MOST - 29} }} "))
        self.lab.link("sw1", "x1", "mtu", "9000")
        done = self.lab.run(self.lab.switch("no", config, ns="sw1").command("--check"), ns="sw1", check=False)
        self.assertEqual(2, done.returncode)
        self.assertIn("3810", done.stderr)

    def test_the_host_keeps_its_own_traffic(self):
        for ns, name, address in (("sw1", "x1", "10.0.0.1/24"), ("sw2", "x2", "10.0.0.2/24")):
            labs.run(["ip", "-n", self.lab.full(ns), "address", "add", address, "dev", name])
        self.both()
        self.assertTrue(ipv4_passes(self.lab, ("sw1", "10.0.0.1"), ("sw2", "10.0.0.2")))
        self.traffic("--count", 300, "--rate", 1000)

    def test_idle_costs_next_to_nothing(self):
        self.both()
        wait_until("it sleeps", lambda: self.share(*(s.process for s in self.switches), seconds=2) < 10)

    def test_killed_it_leaves_nothing_and_starts_again(self):
        first, _ = self.both()
        self.assertEqual(1, len(self.programs("sw1", "x1")))
        first.process.kill()
        wait_until("its program is gone", lambda: not self.programs("sw1", "x1"))
        first.start()
        self.healed()
        self.assertEqual(0, first.process.stop())
        self.assertEqual([], self.programs("sw1", "x1"))

    def test_another_program_is_named_and_left_alone(self):
        holder = hold_program(self.lab, "sw1", "x1")
        config = labs.node(1, on(0, "af_xdp", interface("x1"), 2))
        done = self.lab.run(self.lab.switch("no", config, ns="sw1").command(), ns="sw1", check=False)
        self.assertEqual(1, done.returncode)
        for word in ("x1", "has an XDP program already", "ip link set x1 xdp off"):
            self.assertIn(word, done.stderr)
        self.assertEqual(1, len(self.programs("sw1", "x1")), "the other program is gone")
        holder.stop()
        self.both()

    def test_another_program_on_an_interface_made_anew_heals_when_it_goes(self):
        self.both()
        self.lab.delete_link("sw1", "x1")
        self.down_with(1, "x1", "gone")
        # Down, so that the other program is there first.
        labs.run(["ip", "link", "add", "name", "x1", "netns", self.lab.full("sw1"), "type", "veth",
                  "peer", "name", "x2", "netns", self.lab.full("sw2")])
        holder = hold_program(self.lab, "sw1", "x1")
        for ns, name in (("sw1", "x1"), ("sw2", "x2")):
            self.lab.link(ns, name, "up")
        self.down_with(1, "x1", "has an XDP program already")
        holder.stop()
        self.healed()

    def test_a_second_daemon_on_the_interface_disturbs_nothing(self):
        self.both()
        config = labs.node(3, on(0, "af_xdp", interface("x1"), 2))
        done = self.lab.run(self.lab.switch("no", config, ns="sw1").command(), ns="sw1", check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn("x1 has an AF_XDP socket on queue 0 already", done.stderr)
        self.healed()

    def test_deleted_and_made_anew(self):
        self.both()
        self.lab.delete_link("sw1", "x1")
        self.down_with(1, "x1", "gone")
        self.down_with(2, "x2", "gone")
        self.lab.veth(("sw1", "x1"), ("sw2", "x2"))
        self.healed()

    def test_down_and_up(self):
        self.both()
        self.lab.link("sw1", "x1", "down")
        for switch in self.switches:
            switch.wait_not_up(0)
            self.assertEqual({"no_carrier": 1}, switch.downs(0))
        self.lab.link("sw1", "x1", "up")
        self.healed()

    def test_renamed_and_named_back(self):
        self.both()
        self.lab.link("sw1", "x1", "down")
        self.lab.link("sw1", "x1", "name", "other")
        self.down_with(1, "x1", "gone")
        self.lab.link("sw1", "other", "name", "x1")
        self.lab.link("sw1", "x1", "up")
        self.healed()

    def test_an_mtu_that_shrinks_and_grows(self):
        first, _ = self.both()
        self.lab.link("sw1", "x1", "mtu", "1400")
        wait_until("the MTU is named", lambda: "ip link set x1 mtu 1500" in first.port(0)["fault"])
        self.lab.link("sw1", "x1", "mtu", "1500")
        wait_until("it is well", lambda: first.port(0)["fault"] == "")
        self.healed()

    def test_several_receive_queues_are_refused(self):
        labs.run(["ip", "-n", self.lab.full("sw1"), "link", "add", "q1", "numrxqueues", "4", "numtxqueues", "4",
                  "type", "veth", "peer", "name", "q2"])
        self.lab.link("sw1", "q1", "up")
        config = labs.node(1, on(0, "af_xdp", interface("q1"), 2))
        done = self.lab.run(self.lab.switch("no", config, ns="sw1").command(), ns="sw1", check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn("ethtool -L q1 combined 1", done.stderr)


class Ring(cases.LabCase):
    """A node with a cable from its port 0 to its port 1: what it routes over port 0 comes in on port 1, and goes out on
    port 0 again, until its hop limit is used up (N6)."""

    def node(self, one="", other="", runtime=""):
        self.lab.netns("sw")
        ports = "".join(f'ports {{ port: {n} name: "end{n}" ring {{ name: "loop" }} {more}}}\n'
                        for n, more in enumerate((one, other)))
        self.switch = self.lab.switch("sw", labs.node(
            1, ports, "routes { dst: 50 tiers { hops { port: 0 } } }\n", cases.PATIENT, runtime))
        self.switch.start()
        self.switch.wait_up(0, 1)

    def circles(self):
        done = self.switch.ctl("ping", "50", "-c", "30", "-i", "20ms", "-s", "1400", check=False)
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        # A packet arrives with 16, 15, ... 1 hops left, and then no more.
        wait_until("each packet went round 16 times", lambda: self.switch.link(1)["packets_in"] == 30 * 16)
        self.assertEqual(30, self.switch.drops()["hop_limit_exceeded"])
        self.assertEqual("", self.switch.books())

    def test_packets_go_round(self):
        self.node()
        self.circles()

    def test_under_loss_and_damage(self):
        self.node(LOSS % 1, LOSS % 2)
        self.circles()

    def test_across_two_workers(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("one CPU: two workers need two")
        self.node("worker: 0 ", "worker: 1 ", f"runtime {{ cpus: {cpus[:2]} }}\n")
        self.circles()

    def test_a_ring_with_one_end_is_refused(self):
        self.lab.netns("sw")
        config = labs.node(1, 'ports { port: 0 ring { name: "loop" } }\n')
        done = self.lab.run(self.lab.switch("no", config, ns="sw").command("--check"), ns="sw", check=False)
        self.assertEqual(2, done.returncode)
        self.assertIn("a ring joins two", done.stderr)


class Pcap(Pair):
    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2")
        self.lab.veth(("sw1", "p1"), ("sw2", "p2"))

    def test_on_an_interface_under_loss_and_damage(self):
        self.pair(("sw1", on(0, "pcap", interface("p1"), 2, LOSS % 1)),
                  ("sw2", on(0, "af_packet", interface("p2"), 1, LOSS % 2)))
        self.assertEqual("net_pcap", self.switches[0].port(0)["driver"])
        self.traffic("--count", 1000, "--rate", 1000)
        self.assert_books(*self.switches)

    def test_an_interface_deleted_and_made_anew(self):
        self.pair(("sw1", on(0, "pcap", interface("p1"), 2)), ("sw2", on(0, "af_packet", interface("p2"), 1)))
        self.lab.delete_link("sw1", "p1")
        self.down_with(1, "p1", "gone")
        self.lab.veth(("sw1", "p1"), ("sw2", "p2"))
        self.healed()

    def test_down_and_up(self):
        self.pair(("sw1", on(0, "pcap", interface("p1"), 2)), ("sw2", on(0, "af_packet", interface("p2"), 1)))
        self.lab.link("sw1", "p1", "down")
        self.switches[0].wait_not_up(0)
        self.assertEqual({"no_carrier": 1}, self.switches[0].downs(0))
        self.lab.link("sw1", "p1", "up")
        self.healed()

    def test_an_mtu_that_shrinks_and_grows(self):
        self.pair(("sw1", on(0, "pcap", interface("p1"), 2)), ("sw2", on(0, "af_packet", interface("p2"), 1)))
        self.lab.link("sw1", "p1", "mtu", "1000")
        wait_until("the fault shows", lambda: "shrank to 1000" in self.switches[0].port(0)["fault"])
        self.assertIn("ip link set p1 mtu 1500", self.switches[0].port(0)["fault"])
        self.lab.link("sw1", "p1", "mtu", "1500")
        wait_until("the fault is gone", lambda: not self.switches[0].port(0)["fault"])
        self.healed()
        self.traffic("--count", 300, "--rate", 1000)

    def offline(self, files, check=True):
        config = labs.node(1, f"ports {{ port: 0 pcap {{ {files} }} peer_node: 2 }}\n", labs.slot(1, 11))
        return self.lab.switch("off", config, ns="sw1")

    def test_files(self):
        sent = self.lab.directory / "sent.pcap"
        switch = self.offline(f'send_file: "{sent}"').start()
        # Nobody answers: INITs, each 50 ms.
        wait_until("INITs are sent", lambda: switch.port(0)["frames_out"] >= 5)
        self.assertEqual(0, switch.process.stop())
        frames = captured(sent)
        self.assertGreaterEqual(len(frames), 5)
        # To the address of unknown peers (P2), and as short as they are: 14 + 16 + 40 bytes.
        for frame in frames:
            self.assertEqual(bytes.fromhex("034d544c0001"), frame[:6])
            self.assertEqual(b"\x88\xb5", frame[12:14])
            self.assertEqual(70, len(frame))
        # What it sent, to another node: INITs of a peer that is not the one that is expected.
        again = self.lab.directory / "again.pcap"
        config = labs.node(2, f'ports {{ port: 0 pcap {{ receive_file: "{sent}" send_file: "{again}" }} peer_node: 3 }}\n')
        second = self.lab.switch("second", config, ns="sw2").start()
        wait_until("all of the file has come", lambda: second.port(0)["frames_in"] == len(frames))
        self.assertEqual(len(frames), second.drops(0)["wrong_peer"])
        self.assertEqual("init", second.state(0))
        self.assertEqual(0, second.process.stop())

    def refused(self, files, *named, status=1):
        switch = self.offline(files)
        done = self.lab.run(switch.command(), ns="sw1", check=False)
        self.assertEqual(status, done.returncode, done.stderr)
        for word in named:
            self.assertIn(word, done.stderr)

    def test_files_that_will_not_do(self):
        there = self.lab.directory / "there.pcap"
        there.write_text("this is no capture")
        self.refused(f'receive_file: "{there}"', str(there), "cannot be read")
        self.refused('receive_file: "/nowhere/in.pcap"', "/nowhere/in.pcap", "cannot be read")
        self.refused(f'send_file: "{there}"', str(there), "is there already", "overwrite: true")
        self.refused('send_file: "/nowhere/out.pcap"', "/nowhere", "cannot be made")
        astray = self.lab.directory / "astray.pcap"
        astray.symlink_to(self.lab.directory / "elsewhere.pcap")
        self.refused(f'send_file: "{astray}"', str(astray), "is there already")
        self.assertFalse((self.lab.directory / "elsewhere.pcap").exists())
        self.refused('interface: "p1" send_file: "x"', "one or the other", status=2)
        self.refused("", "no interface and no files", status=2)
        self.assertEqual("this is no capture", there.read_text())
        switch = self.offline(f'send_file: "{there}" overwrite: true').start()
        wait_until("INITs are sent", lambda: switch.port(0)["frames_out"] >= 2)
        self.assertEqual(0, switch.process.stop())
        self.assertGreaterEqual(len(captured(there)), 2)


def captured(path):
    """The frames of a capture file of this machine's byte order."""
    data = path.read_bytes()
    magic, *_, link = struct.unpack("=IHHIIII", data[:24])
    assert magic in (0xA1B2C3D4, 0xA1B23C4D) and link == 1, data[:24].hex()
    frames, at = [], 24
    while at + 16 <= len(data):
        _, _, length, whole = struct.unpack("=IIII", data[at:at + 16])
        assert length == whole
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames


class Ethdev(cases.LabCase):
    """A device by devargs that cannot be had is named, with the remedy."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw")

    def refused(self, devargs, status, *named):
        config = labs.node(1, f'ports {{ port: 0 ethdev {{ devargs: "{devargs}" }} peer_node: 2 }}\n')
        done = self.lab.run(self.lab.switch("no", config, ns="sw").command(), ns="sw", check=False)
        self.assertEqual(status, done.returncode, done.stderr)
        for word in named:
            self.assertIn(word, done.stderr)

    def test_a_form_of_its_own_is_pointed_to(self):
        for devargs, form in (("net_af_packet0,iface=eth0", "af_packet {"), ("net_af_xdp0,iface=eth0", "af_xdp {"),
                              ("net_tap0,iface=mt0", "tap {"), ("net_pcap0,iface=eth0", "pcap {"),
                              ("net_ring0", "ring {")):
            self.refused(devargs, 2, "ports[0].ethdev.devargs", form)

    def test_a_pci_device_that_is_not_there(self):
        self.refused("0000:ff:1f.7", 1, "0000:ff:1f.7", "does not exist", "lspci -D")

    def test_a_pci_device_that_the_kernel_has(self):
        for device in sorted(pathlib.Path("/sys/bus/pci/devices").glob("*")):
            driver = device / "driver"
            if driver.exists() and driver.resolve().name not in ("vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core",
                                                                  "mlx4_core", "mana"):
                self.refused(device.name, 1, device.name, driver.resolve().name, "--bind=vfio-pci")
                return
        self.skipTest("this machine shows no PCI device with a driver of the kernel's")

    def test_a_driver_that_is_not_there(self):
        self.refused("net_nothing0", 1, "net_nothing0", "cannot be opened")

    def test_bonding_modes_that_mix_up_the_order(self):
        for devargs in ("net_bonding0,slave=x", "net_bonding0,mode=0", "net_bonding0,mode=3", "net_bonding0,mode=5",
                        "net_bonding0,mode=6"):
            self.refused(devargs, 2, "out of order", "mode=1, 2 or 4")


class Bonding(Pair):
    """Two AF_PACKET devices of DPDK's as one, active-backup. They do not know their carrier, so that a member that
    loses it is not left: docs/devices/nic.md."""

    def test_traffic(self):
        self.lab.netns("sw1", "sw2")
        texts = []
        for ns, letter, peer in (("sw1", "x", 2), ("sw2", "y", 1)):
            texts.append((ns, on(0, "ethdev", 'devargs: "net_bonding0,mode=1,slave=net_af_packet0,slave=net_af_packet1,'
                                              'primary=net_af_packet0"', peer, LOSS % peer) +
                          f'runtime {{ eal_args: ["--vdev=net_af_packet0,iface={letter}0", '
                          f'"--vdev=net_af_packet1,iface={letter}1"] }}\n'))
        for i in (0, 1):
            self.lab.veth(("sw1", f"x{i}"), ("sw2", f"y{i}"))
        self.pair(*texts)
        self.traffic("--count", 1000, "--rate", 1000)
        self.assert_books(*self.switches)


class HugePages(cases.LabCase):
    RESERVED = pathlib.Path("/proc/sys/vm/nr_hugepages")

    def setUp(self):
        super().setUp()
        self.lab.netns("sw")
        before = self.RESERVED.read_text()
        self.addCleanup(lambda: self.RESERVED.write_text(before))
        self.config = labs.node(1, labs.slot(0, 11), labs.slot(1, 12), cases.PATIENT, "runtime { huge_pages: true }\n")

    def reserve(self, pages):
        self.RESERVED.write_text(str(pages))
        return int(self.RESERVED.read_text())

    def test_traffic(self):
        if self.reserve(100) < 60:
            self.skipTest("the kernel gives no huge pages")
        switch = self.lab.switch("sw", self.config).start()
        free = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("HugePages_Free")))
        self.assertLess(free, 100, "it uses none")
        pair = [self.lab.perf(f"e{n}", ["--socket", switch.socket, "--node", n, "--peer", 23 - n, "--size", "32-8000",
                                        "--count", 3000, "--rate", 3000, "--patience", 60], ns="sw") for n in (11, 12)]
        for process in pair:
            self.assert_all_arrived(process.report(limit=180))
        self.assert_books(switch)

    def test_none_reserved(self):
        if self.reserve(0) != 0:
            self.skipTest("others hold huge pages")
        done = self.lab.run(self.lab.switch("no", self.config, ns="sw").command(), ns="sw", check=False)
        self.assertEqual(1, done.returncode)
        for word in ("huge pages", "0 MiB are free", "vm.nr_hugepages="):
            self.assertIn(word, done.stderr)


class Tap(Pair):
    """The one switch has a TAP, in a bridge with a veth that leads to the other switch."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2")
        self.lab.veth(("sw1", "v1"), ("sw2", "v2"))
        self.lab.bridge("sw1", "br0", "v1")

    def both(self, more=""):
        number, text = 1, on(0, "tap", interface("mt0"), 2, more % 1 if "%" in more else more)
        config = labs.node(number, text, labs.slot(1, 11), labs.line((1, [11]), (2, [12])), cases.PATIENT)
        first = self.lab.switch("sw1", config).start()
        self.join()
        config = labs.node(2, labs.port(0, "v2", 1, more % 2 if "%" in more else more), labs.slot(1, 12),
                           labs.line((1, [11]), (2, [12])), cases.PATIENT)
        self.switches = [first, self.lab.switch("sw2", config).start()]
        for switch in self.switches:
            switch.wait_up(0)

    def join(self):
        wait_until("the TAP can join the bridge", lambda: labs.run(
            ["ip", "-n", self.lab.full("sw1"), "link", "set", "mt0", "master", "br0"], check=False).returncode == 0)

    def there(self):
        return labs.run(["ip", "-n", self.lab.full("sw1"), "link", "show", "mt0"], check=False).returncode == 0

    def test_traffic_under_loss_and_damage(self):
        self.both(LOSS)
        self.assertEqual("tap", self.switches[0].port(0)["driver"])
        self.traffic()
        self.assert_books(*self.switches)
        self.assertEqual(0, self.switches[0].process.stop())
        self.assertFalse(self.there(), "the interface is left")

    def test_idle_costs_next_to_nothing(self):
        self.both()
        wait_until("it sleeps", lambda: self.share(*(s.process for s in self.switches), seconds=2) < 10)

    def test_long_frames(self):
        for ns, name in (("sw1", "v1"), ("sw2", "v2"), ("sw1", "br0")):
            self.lab.link(ns, name, "mtu", "9000")
        self.both("link { mtu: 8984 } ")
        self.traffic(size="8900-8920")

    def test_deleted_it_is_made_anew(self):
        self.both()
        before = self.switches[0].downs(0)
        self.assertEqual({}, before)
        self.lab.delete_link("sw1", "mt0")
        wait_until("the link has lost its carrier", lambda: self.switches[0].downs(0).get("no_carrier"))
        wait_until("there is a new one", self.there)
        self.join()
        self.healed()

    def test_down_and_up(self):
        self.both()
        self.lab.link("sw1", "mt0", "down")
        self.switches[0].wait_not_up(0)
        self.assertEqual({"no_carrier": 1}, self.switches[0].downs(0))
        self.lab.link("sw1", "mt0", "up")
        self.healed()

    def test_an_mtu_that_shrinks_and_grows(self):
        self.both()
        first = self.switches[0]
        self.lab.link("sw1", "mt0", "mtu", "1400")
        wait_until("the MTU is named", lambda: "ip link set mt0 mtu 1500" in first.port(0)["fault"])
        self.lab.link("sw1", "mt0", "mtu", "1500")
        wait_until("it is well", lambda: first.port(0)["fault"] == "")
        self.healed()

    def refused(self, *named):
        config = labs.node(1, on(0, "tap", interface("mt0"), 2))
        done = self.lab.run(self.lab.switch("no", config, ns="sw1").command(), ns="sw1", check=False)
        self.assertEqual(1, done.returncode, done.stderr)
        for word in named:
            self.assertIn(word, done.stderr)

    def test_the_name_is_taken(self):
        labs.run(["ip", "-n", self.lab.full("sw1"), "link", "add", "mt0", "type", "veth", "peer", "name", "mt9"])
        self.lab.link("sw1", "mt0", "up")
        self.refused("mt0", "is no TAP interface")

    def test_another_program_uses_it(self):
        self.both()
        self.refused("mt0", "is used by another program")
        self.healed()

    def test_an_operators_interface_is_used_and_stays(self):
        labs.run(["ip", "-n", self.lab.full("sw1"), "tuntap", "add", "dev", "mt0", "mode", "tap"])
        self.refused("mt0 is down")
        self.lab.link("sw1", "mt0", "up")
        self.both()
        self.traffic("--count", 300, "--rate", 1000)
        self.switches[0].process.stop()
        self.assertTrue(self.there())


def ipv4_passes(lab, one, other):
    """Whether a UDP datagram of the host's own arrives."""
    receiver = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('%s', 9)); s.settimeout(30);"
                "print('bound', flush=True); print(s.recv(9).decode())" % other[1])
    process = subprocess.Popen(["ip", "netns", "exec", lab.full(other[0]), sys.executable, "-c", receiver],
                               stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    sender = ("import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('%s', 9))" % other[1])
    lab.run([sys.executable, "-c", sender], ns=one[0])
    return "hello" in process.communicate(timeout=60)[0]


def hold_program(lab, ns, name):
    """A process that has an XDP program of its own on an interface, until it is stopped."""
    process = lab.start(f"xdp-{len(lab.processes)}", [sys.executable, __file__, "--hold-program", name], ns)
    wait_until("another XDP program is there", lambda: "ready" in process.out.read_text())
    return process


def hold(name):
    """In a process of its own: a program that passes everything, tied to this process's life."""
    libc = ctypes.CDLL(None, use_errno=True)
    bpf = {"x86_64": 321, "aarch64": 280}[os.uname().machine]

    def call(command, attributes):
        buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
        result = libc.syscall(bpf, command, buffer, 128)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    code = ctypes.create_string_buffer(struct.pack("<BBhi BBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0))  # r0 = XDP_PASS; exit
    license_text = ctypes.create_string_buffer(b"BSD")
    # BPF_PROG_LOAD: type XDP (6), two instructions; BPF_LINK_CREATE: attach type XDP (37).
    program = call(5, struct.pack("<IIQQ", 6, 2, ctypes.addressof(code), ctypes.addressof(license_text)))
    index = int(pathlib.Path(f"/sys/class/net/{name}/ifindex").read_text())
    call(28, struct.pack("<IIII", program, index, 37, 0))
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold-program"]:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        hold(sys.argv[2])
    cases.main()
