#!/usr/bin/env python3
"""Links over memif: two switches, a DPDK program between two switches, peers that are killed under full load,
that play foul, that come too early or twice; and all of it without any capability."""

import mmap
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile

import cases
import lab as labs
from cases import wait_until

AT_LEAST = 2000  # packets that show that a link is under load
KILLS = 20 if os.environ.get("MTL_LONG") else 6  # of a kind; the second tier has more
NOBODY = 65534
FABRIC = labs.line((1, [101]), (2, [102]))


def memif(number, path, peer=None, more="", port=""):
    """A port of a node on memif."""
    peer_text = "" if peer is None else f"peer_node: {peer}"
    return f'ports {{ port: {number} {peer_text} memif {{ socket: "{path}" {more} }} {port} }}\n'


def testpmd(name, devices):
    """A command that has testpmd pass what comes in at one of two memif ports out at the other."""
    command = ["dpdk-testpmd", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m", "256", "-l", "0,1",
               f"--file-prefix={name}"]
    for i, device in enumerate(devices):
        command += ["--vdev", f"net_memif{i},{device},socket-abstract=no,rsize=10,bsize=9344"]
    # With statistics it does not wait for its input; they are asked for as seldom as can be.
    return [*command, "--", "--forward-mode=io", "--auto-start", "--rxd=1024", "--txd=1024", "--mbuf-size=9472",
            "--total-num-mbufs=4095", "--stats-period=100000"]


class Memif(cases.LabCase):
    def setUp(self):
        super().setUp()
        self.lab.netns("h")  # one host is enough: the sockets are files
        self.path = f"{self.lab.directory}/memif.sock"

    def switch(self, name, number, *parts):
        return self.lab.switch(name, labs.node(number, labs.slot(0, 100 + number), *parts, FABRIC), ns="h")

    def pair(self, more_server="", more_client=""):
        """Two switches, each with a slot, joined by memif: a server and a client."""
        server = self.switch("sw1", 1, memif(1, self.path, 2, more_server))
        client = self.switch("sw2", 2, memif(1, self.path, 1, "role: CLIENT " + more_client))
        return server, client

    def both_ways(self, one, two, *options):
        """Traffic between the slots of two switches; the processes."""
        return [self.lab.perf(f"e{a}-{len(self.lab.processes)}",
                              ["--socket", switch.socket, "--node", a, "--peer", b, *options], ns="h")
                for switch, a, b in ((one, 101, 102), (two, 102, 101))]

    def assert_traffic(self, one, two, count=2000):
        for process in self.both_ways(one, two, "--count", count, "--size", "32-8000"):
            report = process.report()
            self.assert_all_arrived(report)
            self.assertEqual(count, report["total"]["received"])

    def wait_load(self, switch, port=1):
        before = switch.link(port)["packets_in"]
        wait_until("the link is under load", lambda: switch.link(port)["packets_in"] > before + AT_LEAST)

    def fault(self, switch, port=1):
        return switch.port(port).get("fault", "")


class TwoSwitches(Memif):
    def test_carry_traffic_and_lose_and_alter_nothing(self):
        one, two = (s.start() for s in self.pair())
        for switch in (one, two):
            switch.wait_up(1)
            self.assertEqual(("memif", f"{self.path} id 0", ""),
                             (switch.port(1)["driver"], switch.port(1)["device"], self.fault(switch)))
        self.assert_traffic(one, two, 20000)
        for switch in (one, two):
            self.assertNotIn("broken_ring", switch.drops(1))
        self.assert_books(one, two)

    def test_frames_in_several_buffers_and_a_short_ring(self):
        one, two = (s.start() for s in self.pair(more_client="ring_size: 64 buffer_size: 512"))
        for switch in (one, two):
            switch.wait_up(1)
        self.assert_traffic(one, two)
        self.assert_books(one, two)

    def test_ids_and_secrets_tell_ends_apart(self):
        ends = [(f'id: {i} secret: "s{i}"', f'role: CLIENT id: {i} secret: "{s}"')
                for i, s in ((7, "s7"), (8, "s8"), (9, "wrong"))]
        one = self.switch("sw1", 1, *(memif(i, self.path, 2, ends[i - 1][0]) for i in (1, 2, 3))).start()
        two = self.switch("sw2", 2, *(memif(i, self.path, 1, ends[i - 1][1]) for i in (1, 2, 3))).start()
        one.wait_up(1, 2)
        two.wait_up(1, 2)
        wait_until("the wrong secret is told", lambda: "Incorrect secret" in self.fault(two, 3))
        self.assertIn("Incorrect secret", self.fault(one, 3))
        self.assert_traffic(one, two)

    def test_a_name_without_a_file(self):
        self.path = f"@{self.lab.prefix}memif"
        one, two = (s.start() for s in self.pair())
        one.wait_up(1)
        two.wait_up(1)
        self.assert_traffic(one, two, 200)

    def test_each_waits_for_the_other_and_says_so(self):
        one, two = self.pair()
        two.start()
        wait_until("the client says what it lacks", lambda: f"no server at {self.path}" in self.fault(two))
        self.assertEqual("down", two.state(1))
        one.start()
        one.wait_up(1)
        two.wait_up(1)
        two.process.stop()
        wait_until("the server says that it waits", lambda: f"waits for a client on {self.path}" in self.fault(one))
        two.start()
        one.wait_up(1)
        self.assert_traffic(one, two, 200)

    def test_idle_switches_sleep(self):
        one, two = (s.start() for s in self.pair())
        one.wait_up(1)
        two.wait_up(1)
        share = self.share(one.process, two.process) / 2
        print(f"an idle mtswitchd with one memif link that is UP: {share:.2f} % of a core (aim: under 2 %)")
        self.assertLess(share, 3 * 2)
        *answers, end = one.json_lines("ping", 2, "-c", 20, "-i", "20ms", "-W", "30s")
        self.assertEqual(20, end["summary"]["received"], answers)


class Killed(Memif):
    def test_a_client_under_load(self):
        self.kill_under_load(lambda one, two: (one, two))

    def test_a_server_under_load_whose_socket_stays_behind(self):
        self.kill_under_load(lambda one, two: (two, one))

    def kill_under_load(self, choose):
        survivor, victim = choose(*self.pair())
        survivor.start()
        for _ in range(KILLS):
            victim.start()
            survivor.wait_up(1)
            load = self.both_ways(victim, survivor) if victim.name == "sw1" else self.both_ways(survivor, victim)
            self.wait_load(survivor)
            victim.process.kill()
            for process in load:
                process.kill()
            wait_until("the carrier is gone", lambda: survivor.state(1) == "down")
            self.assertTrue(survivor.process.alive())
        self.assertTrue(os.path.exists(self.path))
        victim.start()
        survivor.wait_up(1)
        victim.wait_up(1)
        self.assert_traffic(*((victim, survivor) if victim.name == "sw1" else (survivor, victim)))
        self.assert_books(survivor)

    def test_a_peer_that_stands_still_and_goes_on(self):
        one, two = (s.start() for s in self.pair())
        one.wait_up(1)
        load = self.both_ways(one, two, "--count", 300000, "--patience", 60)
        self.wait_load(one)
        two.process.signal(signal.SIGSTOP)
        wait_until("the silence is noticed", lambda: one.downs(1).get("dead", 0) + one.downs(1).get(
            "replay_exhausted", 0) > 0)
        two.process.signal(signal.SIGCONT)
        one.wait_up(1)
        two.wait_up(1)
        for process in load:
            process.kill()
        self.assert_traffic(one, two, 500)
        self.assert_books(one, two)


@cases.unittest.skipUnless(shutil.which("dpdk-testpmd"), "dpdk-testpmd is not there (Debian: package dpdk-dev)")
@cases.unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "testpmd needs two CPUs")
class Dpdk(Memif):
    """A DPDK program between two switches, with the driver net_memif at both of its ends."""

    def switches(self, role):
        self.paths = [f"{self.lab.directory}/m{i}.sock" for i in (1, 2)]
        return [self.switch(f"sw{n}", n, memif(1, self.paths[n - 1], 3 - n, f"role: {role}")).start() for n in (1, 2)]

    def start_testpmd(self, role):
        for path in self.paths if role == "server" else ():
            if os.path.exists(path):
                os.unlink(path)  # the driver takes none that was left
        devices = [f"role={role},id=0,socket={path}" for path in self.paths]
        return self.lab.start(f"testpmd-{len(self.lab.processes)}", testpmd(self.lab.prefix + role, devices), ns="h")

    def through(self, ours, theirs):
        one, two = self.switches(ours)
        middle = self.start_testpmd(theirs)
        one.wait_up(1)
        two.wait_up(1)
        self.assert_traffic(one, two, 5000)
        for turn in range(KILLS // 2):
            load = self.both_ways(one, two)
            self.wait_load(one)
            middle.kill()
            for process in load:
                process.kill()
            for switch in (one, two):
                wait_until(f"the carrier is gone, turn {turn}", lambda s=switch: s.state(1) == "down")
                self.assertTrue(switch.process.alive())
            middle = self.start_testpmd(theirs)
            one.wait_up(1)
            two.wait_up(1)
        self.assert_traffic(one, two)
        self.assert_books(one, two)
        for switch in (one, two):
            self.assertNotIn("broken_ring", switch.drops(1))

    def test_as_the_clients_of_both(self):
        self.through("SERVER", "client")

    def test_as_the_servers_of_both(self):
        self.through("CLIENT", "server")


class Sockets(Memif):
    def test_two_daemons_at_one_socket(self):
        one, two = self.pair()
        one.start()
        two.start()
        one.wait_up(1)
        three = self.lab.switch("sw3", labs.node(3, memif(0, self.path)), ns="h").start(ready=False)
        self.assertEqual(1, three.process.wait())
        said = three.process.err.read_text()
        for part in ("port p0", "another program listens there", self.path, "memif.socket"):
            self.assertIn(part, said)
        self.assert_traffic(one, two, 200)

    def test_only_the_owner_may_open_it_and_it_goes_with_the_daemon(self):
        one, _ = self.pair()
        one.start()
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.path).st_mode))
        one.process.stop()
        self.assertFalse(os.path.exists(self.path))

    def test_what_is_no_socket_stays(self):
        with open(self.path, "w", encoding="ascii") as file:
            file.write("precious")
        one, _ = self.pair()
        one.start(ready=False)
        self.assertEqual(1, one.process.wait())
        self.assertIn("is no socket", one.process.err.read_text())
        with open(self.path, encoding="ascii") as file:
            self.assertEqual("precious", file.read())

    def test_a_second_client_is_sent_away(self):
        one, two = (s.start() for s in self.pair())
        one.wait_up(1)
        three = self.lab.switch("sw3", labs.node(3, memif(0, self.path, more="role: CLIENT")), ns="h").start()
        wait_until("it is told why", lambda: "Already connected" in self.fault(three, 0))
        self.assert_traffic(one, two, 200)

    def test_dpdks_own_driver_is_refused_and_memif_named(self):
        switch = self.lab.switch("sw1", labs.node(1, 'ports { port: 0 ethdev { devargs: "net_memif0,id=0" } }\n'),
                                 ns="h")
        done = self.lab.run(switch.command("--check"), ns="h", check=False)
        self.assertEqual(2, done.returncode)
        self.assertIn("write memif { socket: ... } instead", done.stderr + done.stdout)


class Rogue:
    """A client that speaks the protocol as far as it likes, with memory of its own."""

    def __init__(self, path, size=1 << 20):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(labs.PATIENCE)
        self.socket.connect(path)
        self.memory = os.memfd_create("rogue")
        os.ftruncate(self.memory, size)
        self.map = mmap.mmap(self.memory, size)
        self.bells = [os.eventfd(0), os.eventfd(0)]
        self.socket.recv(128)  # HELLO

    def say(self, fields, fd=None):
        message = fields.ljust(128, b"\0")
        if fd is None:
            self.socket.send(message)
        else:
            socket.send_fds(self.socket, [message], [fd])

    def connect(self):
        """All that makes a connection; waits for CONNECTED."""
        for offset in (0, 4096):
            struct.pack_into("<IHH", self.map, offset, 0x3E31F20, 0, 0)
        self.say(struct.pack("<HHIB", 3, 0x0200, 0, 0))
        self.say(struct.pack("<HHQ", 4, 0, self.map.size()), self.memory)
        for flags, offset, bell in ((1, 0, self.bells[0]), (0, 4096, self.bells[1])):
            self.say(struct.pack("<HHHHIB", 5, flags, 0, 0, offset, 6), bell)
        self.say(struct.pack("<H", 6))
        while True:
            answer = self.socket.recv(128)
            kind = struct.unpack_from("<H", answer)[0] if answer else 0
            if kind != 1:  # ACK
                return kind == 7

    def descriptor(self, ring, slot, flags, region, length, offset):
        struct.pack_into("<HHIII", self.map, ring + 128 + 16 * slot, flags, region, length, offset, 0)

    def head(self, ring, value):
        struct.pack_into("<H", self.map, ring + 6, value & 0xFFFF)

    def close(self):
        self.map.close()
        for fd in (*self.bells, self.memory):
            os.close(fd)
        self.socket.close()


class Foul(Memif):
    def setUp(self):
        super().setUp()
        self.server, self.client = self.pair()
        self.server.start()

    def rogue(self):
        rogue = Rogue(self.path)
        self.addCleanup(rogue.close)
        self.assertTrue(rogue.connect(), "it is let in")
        return rogue

    def assert_given_up_and_healed(self, reason):
        wait_until(f"the peer is given up: {reason}", lambda: reason in self.fault(self.server))
        wait_until("it counts", lambda: self.server.drops(1).get("broken_ring", 0) > 0)
        self.assertTrue(self.server.process.alive())
        self.client.start()
        self.server.wait_up(1)
        self.client.wait_up(1)
        self.assertEqual("", self.fault(self.server))
        self.assert_traffic(self.server, self.client, 500)
        self.assert_books(self.server)

    def test_an_index_that_cannot_be(self):
        rogue = self.rogue()
        rogue.head(0, 0x7777)
        os.eventfd_write(rogue.bells[0], 1)
        self.assert_given_up_and_healed("an index of a ring went where it cannot")

    def test_a_descriptor_that_points_nowhere(self):
        rogue = self.rogue()
        rogue.descriptor(0, 0, 0, 999, 60, 0xFFFFFFFF)
        rogue.head(0, 1)
        os.eventfd_write(rogue.bells[0], 1)
        self.assert_given_up_and_healed("a descriptor points outside the shared memory")

    def test_memory_that_is_cut_off(self):
        rogue = self.rogue()
        rogue.descriptor(0, 0, 0, 0, 1000, 65536)
        os.ftruncate(rogue.memory, 8192)  # the rings stay
        rogue.head(0, 1)
        os.eventfd_write(rogue.bells[0], 1)
        self.assert_given_up_and_healed("it took pages of the shared memory away")

    def test_storms_of_connections_and_of_junk(self):
        for turn in range(300):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.connect(self.path)  # without a limit: the queue may be full for a while
                if turn % 3 == 0:
                    peer.send(os.urandom(1 + turn % 200))
                elif turn % 3 == 1:
                    peer.send(struct.pack("<HHIB", 3, 0x0200, 0, 0).ljust(128, b"\0"))
        self.client.start()
        self.server.wait_up(1)
        self.assert_traffic(self.server, self.client, 500)

    def test_silent_ones_hold_nobody_up(self):
        silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]
        for peer in silent:
            self.addCleanup(peer.close)
            peer.connect(self.path)
        self.client.start()
        self.server.wait_up(1)
        self.assert_traffic(self.server, self.client, 500)

    def test_a_full_interrupt_that_would_block(self):
        rogue = self.rogue()
        # Buffers for the switch to send into, and an interrupt that no write() would come back from.
        for slot in range(64):
            rogue.descriptor(4096, slot, 0, 0, 9344, 65536)
        os.set_blocking(rogue.bells[1], True)
        os.eventfd_read(rogue.bells[1])  # the server has rung once, to see
        os.eventfd_write(rogue.bells[1], 0xFFFFFFFFFFFFFFFE)
        rogue.head(4096, 64)
        wait_until("the switch has sent", lambda: self.server.port(1)["frames_out"] > 5)
        self.assertTrue(self.server.json("show", "node"))
        self.assertEqual("", self.fault(self.server))


class WithoutCapabilities(Memif):
    def test_two_switches_of_an_ordinary_user(self):
        program = str(self.lab.program("mtswitchd"))
        as_nobody = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
                     "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        if subprocess.run([*as_nobody, program, "--help"], capture_output=True, check=False).returncode != 0:
            self.skipTest(f"an ordinary user cannot read {program}")
        home = tempfile.mkdtemp(prefix="mtltest-nobody-")
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        os.chown(home, NOBODY, NOBODY)
        self.lab.env["RUNTIME_DIRECTORY"] = home
        switches = []
        for n, more in ((1, ""), (2, "role: CLIENT")):
            config = f"{home}/sw{n}.textproto"
            control = f"{home}/sw{n}.sock"
            with open(config, "w", encoding="ascii") as file:
                file.write(labs.node(n, labs.slot(0, 100 + n), memif(1, f"{home}/memif.sock", 3 - n, more), FABRIC,
                                     f'control {{ socket: "{control}" }}\n'))
            process = self.lab.start(f"nobody{n}", [*as_nobody, program, "--config", config], ns="h")
            switches.append((process, control))
        ctl = self.lab.program("mtctl")
        for process, control in switches:
            wait_until("its link is up", lambda c=control, p=process: (
                self.assertTrue(p.alive(), p.err.read_text()) or
                '"state":"up"' in labs.run([ctl, "-s", c, "-j", "show", "links"], check=False).stdout.replace(" ", "")))
        status = open(f"/proc/{switches[0][0].pid}/status", encoding="ascii").read()
        self.assertRegex(status, rf"(?m)^Uid:\s+{NOBODY}\s+{NOBODY}")
        self.assertRegex(status, r"(?m)^CapEff:\s+0+$")
        self.assertRegex(status, r"(?m)^CapBnd:\s+0+$")
        ends = [self.lab.perf(f"e{a}", ["--socket", control, "--node", a, "--peer", b, "--count", 1000], ns="h")
                for (_, control), a, b in ((switches[0], 101, 102), (switches[1], 102, 101))]
        for end in ends:
            self.assert_all_arrived(end.report())


if __name__ == "__main__":
    cases.main()
