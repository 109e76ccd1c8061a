#!/usr/bin/env python3
"""mtswitchd as a user without any rights but the capabilities that its devices need (docs/mtswitchd.md, "Privileges"): with
them each device works, with one less it is refused by name."""

import contextlib
import ctypes
import errno
import os
import pathlib
import socket
import struct
import sys

import cases
import lab as labs
from cases import wait_until

NOBODY = 65534
# What each device needs.
NEEDS = {"af_packet": ("net_raw",), "pcap": ("net_raw",), "tap": ("net_admin",),
         "af_xdp": ("net_raw", "net_admin", "bpf")}


def as_nobody(*capabilities):
    """The command in front: another user, no group, and nothing but these capabilities, also later."""
    sets = ",".join(["-all", *(f"+{c}" for c in capabilities)])
    return ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--bounding-set", sets,
            "--inh-caps", sets, "--ambient-caps", sets, "--no-new-privs", "--"]


class Unprivileged(cases.LabCase):
    def setUp(self):
        super().setUp()
        self.lab.netns("sw", "far")
        self.lab.veth(("sw", "p0"), ("far", "p0"))
        # The programs must be reachable, and the directories be the user's.
        self.lab.directory.chmod(0o711)
        self.home = self.lab.directory / "home"
        self.home.mkdir()
        os.chown(self.home, NOBODY, NOBODY)
        programs = self.home / "bin"
        programs.mkdir()
        for name in ("mtswitchd", "mtperf"):
            (programs / name).write_bytes(self.lab.program(name).read_bytes())
            (programs / name).chmod(0o755)
        self.lab.env["RUNTIME_DIRECTORY"] = str(self.home)

    def command(self, name, config, *capabilities):
        switch = self.lab.switch(name, config, ns="sw")
        # The user's socket in the user's directory.
        text = switch.config.read_text().replace(str(switch.socket), str(self.home / f"{name}.sock"))
        switch.socket = self.home / f"{name}.sock"
        switch.config.write_text(text)
        switch.config.chmod(0o644)
        return switch, [*as_nobody(*capabilities), self.home / "bin" / "mtswitchd", "--config", switch.config]

    def started(self, name, config, *capabilities):
        switch, command = self.command(name, config, *capabilities)
        switch.process = self.lab.start(name, [str(c) for c in command], "sw")
        wait_until(f"{name} answers", switch._answers)
        status = pathlib.Path(f"/proc/{switch.process.pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        self.assertEqual(str(NOBODY), fields["Uid"].split()[0])
        self.assertEqual(len(capabilities), bin(int(fields["CapEff"], 16)).count("1"))
        return switch

    def refused(self, config, named, *capabilities):
        _, command = self.command("no", config, *capabilities)
        done = self.lab.run([str(c) for c in command], ns="sw", check=False)
        self.assertEqual(1, done.returncode, done.stderr)
        for word in named:
            self.assertIn(word, done.stderr)

    def traffic(self, switch, *endpoints):
        """Between endpoints on slots of the switch, by programs of the same user."""
        argv = [*as_nobody(), self.home / "bin" / "mtperf", "datagram", "--json", "--socket", switch.socket, "--size", "32-8000",
                "--count", 1000, "--rate", 2000, "--patience", 60]
        pair = [self.lab.start(f"e{n}", [*argv, "--node", n, "--peer", sum(endpoints) - n], "sw", labs.Perf) for n in endpoints]
        for process in pair:
            self.assert_all_arrived(process.report(limit=180))
        self.assert_books(switch)

    def test_no_capability_at_all_slots_ring_and_files(self):
        sent = self.home / "sent.pcap"
        config = labs.node(
            1, labs.slot(0, 11), labs.slot(1, 12), 'ports { port: 2 ring { name: "r" } }\n', 'ports { port: 3 ring { name: "r" } }\n',
            f'ports {{ port: 4 pcap {{ send_file: "{sent}" }} }}\n', cases.PATIENT)
        switch = self.started("none", config)
        switch.wait_up(2, 3)
        self.traffic(switch, 11, 12)
        wait_until("INITs are in the file", lambda: sent.stat().st_size > 24)
        self.assertEqual(0, switch.process.stop())
        self.assertEqual([], list(self.home.glob("dpdk/*")), "EAL left a directory")

    def device(self, kind, name="p0"):
        return labs.node(1, f'ports {{ port: 0 {kind} {{ interface: "{name}" }} peer_node: 2 }}\n', labs.slot(1, 11))

    def works(self, kind):
        far = self.lab.switch("far", labs.node(2, labs.port(0, "p0", 1), labs.slot(1, 12))).start()
        switch = self.started(kind, self.device(kind), *NEEDS[kind])
        for end in (switch, far):
            end.wait_up(0)
        done = switch.ctl("ping", "2", "-c", "3", check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertEqual(0, switch.process.stop())

    def test_af_packet_with_no_more_than_the_unit_gives(self):
        unit = (cases.ROOT / "docs" / "systemd" / "mtswitchd@.service").read_text().splitlines()
        given = dict(line.split("=", 1) for line in unit if "=" in line and not line.startswith("#"))
        self.assertEqual("CAP_NET_RAW", given["AmbientCapabilities"])
        self.assertEqual("CAP_NET_RAW", given["CapabilityBoundingSet"])
        switch, command = self.command("unit", self.device("af_packet"), "net_raw")
        families = given["RestrictAddressFamilies"].split()
        argv = [sys.executable, __file__, "--families", ",".join(families), *map(str, command)]
        switch.process = self.lab.start("unit", argv, "sw")
        wait_until("it answers", switch._answers)
        self.assertEqual(0, switch.process.stop())

    def lacks(self, kind, name="p0"):
        for missing in NEEDS[kind]:
            rest = [c for c in NEEDS[kind] if c != missing]
            self.refused(self.device(kind, name), [name, f"CAP_{missing.upper()}"], *rest)

    def test_af_packet(self):
        self.lacks("af_packet")
        self.works("af_packet")

    def test_pcap_on_an_interface(self):
        self.lacks("pcap")
        self.works("pcap")

    def test_af_xdp(self):
        self.lacks("af_xdp")
        self.works("af_xdp")

    def test_af_xdp_without_memory_that_may_be_locked(self):
        switch, command = self.command("no", self.device("af_xdp"), *NEEDS["af_xdp"])
        done = self.lab.run(["prlimit", "--memlock=65536", "--", *map(str, command)], ns="sw", check=False)
        self.assertEqual(1, done.returncode, done.stderr)
        for word in ("p0", "LimitMEMLOCK=", "CAP_IPC_LOCK"):
            self.assertIn(word, done.stderr)

    def test_tap(self):
        self.lacks("tap", "mt0")
        switch = self.started("tap", self.device("tap", "mt0"), *NEEDS["tap"])
        self.assertTrue(switch.port(0)["carrier"])
        self.assertEqual(0, switch.process.stop())

    def test_a_tap_that_root_made_needs_none(self):
        labs.run(["ip", "-n", self.lab.full("sw"), "tuntap", "add", "dev", "mt1", "mode", "tap", "user", NOBODY])
        self.lab.link("sw", "mt1", "up")
        switch = self.started("tap", self.device("tap", "mt1"))
        self.assertTrue(switch.port(0)["carrier"])
        self.assertEqual(0, switch.process.stop())

    def test_huge_pages(self):
        reserved = pathlib.Path("/proc/sys/vm/nr_hugepages")
        before = reserved.read_text()
        self.addCleanup(lambda: reserved.write_text(before))
        reserved.write_text("100")
        if int(reserved.read_text()) < 60:
            self.skipTest("the kernel gives no huge pages")
        config = labs.node(1, labs.slot(0, 11), labs.slot(1, 12), cases.PATIENT, "runtime { huge_pages: true }\n")
        switch = self.started("huge", config)
        self.traffic(switch, 11, 12)
        self.assertEqual(0, switch.process.stop())


def run_with_families(families, argv):
    """Becomes `argv`, which the kernel gives sockets of these families alone, as RestrictAddressFamilies= does."""
    number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]  # of socket()
    allowed = [getattr(socket, name) for name in families]
    code = [(0x20, 0, 0, 0), (0x15, 0, len(allowed) + 2, number), (0x20, 0, 0, 16)]  # not socket(): allow
    code += [(0x15, len(allowed) - i, 0, family) for i, family in enumerate(allowed)]
    code += [(0x06, 0, 0, 0x00050000 | errno.EAFNOSUPPORT), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in code))
    head = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(program)))
    if ctypes.CDLL(None).prctl(22, 2, head, 0, 0) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        sys.exit("seccomp is not to be had")
    with contextlib.suppress(OSError):
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sys.exit("a socket of another family is to be had: the case would show nothing")
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--families"]:
        run_with_families(sys.argv[2].split(","), sys.argv[3:])
    cases.main()
