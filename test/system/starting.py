#!/usr/bin/env python3
"""What is missing or wrong is named before anything starts, and nothing is left behind."""

import os
import re

import cases
import lab as labs
from cases import wait_until

# (what is wrong, file ending, text, line or None, what the message names)
PORT = 'ports { port: 0 af_packet { interface: "p0" } '
BAD = (
    ("an unknown field", "textproto", "node: 1\n" + PORT + "lnik { } }\n", 2, ("lnik", "link")),
    ("an unknown field of the node", "textproto", "node: 1\nnodes: 2\n", 2, ("nodes",)),
    ("no number", "textproto", "node: one\n", 1, ("one",)),
    ("an open brace", "textproto", "node: 1\n" + PORT + "\n", None, ()),
    ("no node id", "textproto", PORT + "}\n", None, ("node", "1..65534")),
    ("node id 0xFFFF", "textproto", "\n\nnode: 65535\n" + PORT + "}\n", 3, ("node", "65535", "1..65534")),
    ("neither ports nor slots", "textproto", "node: 1\n", None, ("no ports and no slots",)),
    ("a window over L6's", "textproto", "node: 1\n" + PORT + "link {\n  window: 20000 } }\n", 3,
     ("ports[0].link.window", "20000", "1..16384")),
    ("seven capacities", "textproto", "node: 1\n" + PORT + "link { capacity: [64, 64, 64, 64, 64, 64, 64] } }\n", 2,
     ("ports[0].link.capacity", "7")),
    ("capacities over L6's sum", "textproto", "node: 1\ndefaults { capacity: 5000 }\n" + PORT + "}\n", 2,
     ("defaults.capacity", "40000", "32767")),
    ("a port without a device", "textproto", "node: 1\nports { port: 0 }\n", 2, ("ports[0]", "device")),
    ("a number too large", "textproto", "node: 1\nslots { port: 256 node: 2 }\n", 2, ("slots[0].port", "256", "0..255")),
    ("a number twice", "textproto", "node: 1\nslots { port: 0 node: 2 }\nslots { port: 0 node: 3 }\n", 3, ("slots[1]",)),
    ("one interface twice", "textproto", "node: 1\n" + PORT + "}\n" + PORT.replace("port: 0", "port: 1") + "}\n", 3,
     ("ports[1]", "p0")),
    ("an interface that is not there", "textproto", "node: 1\n" + PORT.replace("p0", "p9") + "}\n", 2,
     ("ports[0].af_packet.interface", "p9")),
    ("a slot without a node", "textproto", "node: 1\nslots { port: 0 }\n", 2, ("slots[0].node",)),
    ("a slot with the node's own id", "textproto", "node: 1\nslots { port: 0\n  node: 1 }\n", 3, ("slots[0].node",)),
    ("a group address", "textproto", "node: 1\n" + PORT + '\n  peer_mac: "03:00:00:00:00:01" }\n', 3,
     ("ports[0].peer_mac", "03:00:00:00:00:01")),
    ("half an address", "textproto", "node: 1\n" + PORT + '\n  mac: "02:00" }\n', 3, ("ports[0].mac", "02:00")),
    ("an EtherType of IP", "textproto", "node: 1\n" + PORT + "\n  ether_type: 2048 }\n", 3, ("ports[0].ether_type",)),
    ("a loss of 200 %", "textproto", "node: 1\n" + PORT + "impairment {\n  drop_ppm: 2000000 } }\n", 3,
     ("ports[0].impairment.drop_ppm",)),
    ("an edge that lets nobody in", "textproto", "node: 1\n" + PORT + "\n  edge { } }\n", 3, ("ports[0].edge.nodes",)),
    ("a route over no port", "textproto",
     "node: 1\n" + PORT + "}\nroutes { dst: 2 tiers { hops {\n  port: 7 } } }\n", 4, ("routes[0]", "7")),
    ("a route to itself", "textproto", "node: 1\n" + PORT + "}\nroutes { dst: 1 tiers { hops { port: 0 } } }\n", 3,
     ("routes[0].dst",)),
    ("a fabric without this node", "textproto",
     "node: 1\n" + PORT + "peer_node: 2 }\nfabric { shape: LINE nodes { node: 2 } nodes { node: 3 } }\n", 3, ("fabric",)),
    ("a path that is no socket's", "textproto",
     "node: 1\nslots { port: 0 node: 2 }\ncontrol { socket: \"/" + 120 * "x" + "\" }\n", 3, ("control.socket", "107")),
    ("broken JSON", "json", '{"node": 1,\n "slots": [{"port": 0 "node": 2}]}', 2, ()),
    ("JSON of another type", "json", '{"node": 1,\n "slots": {"port": 0}}', 2, ("slots",)),
    ("JSON with an unknown field", "json", '{"node": 1,\n "slotz": []}', 2, ("slotz",)),
)


class OneCable(cases.LabCase):
    def setUp(self):
        super().setUp()
        self.lab.netns("sw", "far")
        self.lab.veth(("sw", "p0"), ("far", "p0"))


class Starting(OneCable):
    def refused(self, config, *named, prefix=()):
        """Starts a switch that must refuse; its message."""
        switch = self.lab.switch("refused", config, ns="sw")
        before = self.interfaces()
        done = self.lab.run([*prefix, *switch.command()], ns="sw", check=False)
        self.assertGreater(done.returncode, 0, f"{done.returncode}: {done.stdout} {done.stderr}")
        for text in named:
            self.assertIn(text, done.stderr)
        self.assertFalse(switch.socket.exists(), "a socket is left")
        self.assertEqual([], list(self.lab.directory.glob("dpdk/*")), "EAL left a directory")
        self.assertEqual(before, self.interfaces())
        return done.stderr

    def interfaces(self):
        """Index and name of each: what the kernel says of their carrier changes by itself."""
        lines = labs.run(["ip", "-n", self.lab.full("sw"), "-o", "link"]).stdout.splitlines()
        return {tuple(line.split(":")[:2]) for line in lines}

    def test_an_interface_that_is_not_there(self):
        self.refused(labs.node(1, labs.port(0, "nowhere", 2)), "nowhere")

    def test_an_interface_that_is_down(self):
        self.lab.link("sw", "p0", "down")
        self.refused(labs.node(1, labs.port(0, "p0", 2)), "p0", "is down", "ip link set p0 up")

    def test_an_mtu_that_is_too_small(self):
        self.refused(labs.node(1, labs.port(0, "p0", 2, "link { mtu: 4096 } ")), "p0", "4096", "4112")

    def test_no_capability_for_raw_sockets(self):
        self.refused(labs.node(1, labs.port(0, "p0", 2)), "p0", "CAP_NET_RAW",
                     prefix=("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw", "--"))

    def test_too_few_files(self):
        # DPDK would abort the process.
        self.refused(labs.node(1, labs.slot(0, 11)), "ulimit -n", "16", prefix=("prlimit", "--nofile=16", "--"))

    def test_seeds_that_cannot_be_counted(self):
        for seeds in ("-1", "+1", "18446744073709551615", "18446744073709551616", "5..4", "1..", "1...2", ""):
            done = labs.run([self.lab.program("mtsim"), "--seeds", seeds], check=False)
            self.assertEqual(2, done.returncode, (seeds, done.stdout))
            self.assertIn("--seeds", done.stderr)

    def test_wrong_usage_is_2(self):
        for program, more in (("mtsim", ["-j", "0"]), ("mtsim", ["more"]), ("mtsim", ["--seeds"]), ("mtctl", ["shwo"]),
                              ("mtperf", ["datagrams"]), ("mtreplay", ["judge"]), ("mtswitchd", ["--chekc"]),
                              ("mtlink-config", ["chekc"])):
            done = labs.run([self.lab.program(program), *more], check=False)
            self.assertEqual(2, done.returncode, (program, more, done.stdout, done.stderr))

    def test_slots_alone_need_no_capability(self):
        switch = self.lab.switch("slots", labs.node(1, labs.slot(0, 11)), ns="sw")
        drop = ("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw", "--")
        switch.process = self.lab.start("slots", [*drop, *switch.command()], "sw")
        cases.wait_until("it answers", lambda: switch.ctl("show", "node", check=False).returncode == 0)
        self.assertEqual(0, switch.process.stop())

    def test_an_endpoint_names_what_it_lacks(self):
        for where, named in ((["--interface", "nowhere", "--node", 11], "nowhere"),
                             (["--interface", "p0"], "--node"),
                             (["--socket", self.lab.directory / "nobody.sock"], "nobody.sock"),
                             ([], "--socket")):
            argv = [self.lab.program("mtperf"), "datagram", "--peer", 12, *where]
            done = self.lab.run([str(a) for a in argv], ns="sw", check=False)
            self.assertGreater(done.returncode, 0)
            self.assertIn(named, done.stderr)

    def test_a_control_tool_without_a_daemon_says_so(self):
        path = self.lab.directory / "nobody.sock"
        done = labs.run([self.lab.program("mtctl"), "-s", path, "show", "node"], check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn(str(path), done.stderr)


class Streams(cases.LabCase):
    """Standard streams that cannot be written to, or are not there."""

    def shell(self, command, *arguments):
        return labs.run(["sh", "-c", command, "sh", *map(str, arguments)], check=False)

    def test_what_nobody_could_read_is_no_success(self):
        self.lab.netns("sw")
        switch = self.lab.switch("s", labs.node(1, labs.slot(0, 11)), ns="sw").start()
        mtctl = [self.lab.program("mtctl"), "-s", switch.socket]
        for argv in ([*mtctl, "show", "ports"], [*mtctl, "-j", "show", "node"], [*mtctl, "stats", "--check"],
                     [*mtctl, "watch"], [*mtctl, "ping", 1, "-i", "1ms"], [*mtctl, "--help"],
                     [self.lab.program("mtsim"), "--seeds", 1],
                     [self.lab.program("mtswitchd"), "--check", "--config", self.lab.directory / "s.textproto"],
                     *([self.lab.program(p), "--version"] for p in ("mtctl", "mtswitchd", "mtperf", "mtreplay", "mtlink-config"))):
            for command in ('"$@" >/dev/full', '"$@" >&-'):
                done = self.shell(command, *argv)
                self.assertGreater(done.returncode, 0, (command, argv))
                self.assertIn("standard output", done.stderr, (command, argv))
        self.assertTrue(switch.process.alive())
        self.assertEqual([], re.findall(r"announced", switch.process.err.read_text()), "something was taken for a request")

    def test_no_descriptor_of_ours_gets_the_number_of_a_stream(self):
        switch = self.lab.switch("s", labs.node(1, labs.slot(0, 11)))
        switch.process = self.lab.start("s", ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *switch.command()], None)
        wait_until("it answers", lambda: switch.ctl("show", "node", check=False).returncode == 0)
        for stream in range(3):
            self.assertEqual("/dev/null", os.readlink(f"/proc/{switch.process.pid}/fd/{stream}"))
        self.assertEqual(0, switch.process.stop())

    def test_a_limit_of_files_sizes_ends_nobody(self):
        switch = self.lab.switch("s", labs.node(1, labs.slot(0, 11), labs.slot(1, 12)))
        switch.process = self.lab.start("s", ["prlimit", "--fsize=512", "--", *switch.command()], None)
        wait_until("it answers", lambda: switch.ctl("show", "node", check=False).returncode == 0)
        self.assertEqual(0, switch.process.stop())


class Configuration(OneCable):
    """Each bad file: status 2, and a message of file, line, field."""


def bad_file_case(ending, text, line, named):
    def test(self):
        path = self.lab.directory / f"bad.{ending}"
        path.write_text(text)
        argv = [self.lab.program("mtswitchd"), "--config", path]
        for more in (["--check"], []):
            done = self.lab.run([*argv, *more], ns="sw", check=False)
            self.assertEqual(2, done.returncode, done.stdout + done.stderr)
            self.assertIn(str(path) if line is None else f"{path}:{line}:", done.stderr)
            for word in named:
                self.assertIn(word, done.stderr)
    return test


# A case for each, so that each is counted and named.
for index, (what, *rest) in enumerate(BAD):
    setattr(Configuration, f"test_{index:02}_" + "_".join(what.replace("'", "").replace("%", "percent").split()),
            bad_file_case(*rest))


if __name__ == "__main__":
    cases.main()
