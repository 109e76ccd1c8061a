#!/usr/bin/env python3
"""mtreplay live: the reference traces against a running mtswitchd, and against devices that break a rule. The traces named here
must be run and conform, the wrong devices must differ. Only where the machine provably did not run the device (or us) in time, at
any attempt, a case is skipped, and says so."""

import json
import os
import pathlib
import re
import sys

import cases
import lab as labs
from cases import ROOT, wait_until

PORTS = 4
LONG = os.environ.get("MTL_LONG") == "1"
# What mtswitchd can do, each within some seconds.
SHORT = ["bringup_dut_first", "bringup_lost_confirm_of_peer", "bringup_lost_init", "bringup_lost_status", "bringup_peer_first",
         "configured_mac", "poll_answer", "switch_ecmp", "transfer_in"]
PATIENT_MS = 20  # of a tolerance, where a trace takes some seconds in any case
STALLED = ("kept from running", "ms late", "ms after its time")
DEVICE = pathlib.Path(__file__).with_name("live_device.py")


def stalled(result):
    return result["status"] == "inconclusive" and any(why in result["why"] for why in STALLED)


class Live(cases.LabCase):
    def setUp(self):
        super().setUp()
        self.lab.netns("device", "tester")
        for i in range(PORTS):
            self.lab.veth(("device", f"d{i}"), ("tester", f"t{i}"))

    def live(self, stimulus, *arguments, ports=PORTS):
        """Exit status and report of a run; its device does as `stimulus` says, in the device's namespace."""
        interfaces = [word for i in range(ports) for word in ("--interface", f"{i}=t{i}")]
        inside = ["ip", "netns", "exec", self.lab.full("device"), *map(str, stimulus)]
        process = self.lab.start("mtreplay", [self.lab.program("mtreplay"), "live", "--report", "json", *interfaces,
                                              "--stimulus-cmd", " ".join(inside), *arguments], ns="tester")
        status = process.wait(850)
        report = json.loads(process.out.read_text())
        return status, {result["name"]: result for result in report["results"]}, process.err.read_text()

    def switch(self):
        own = [word for i in range(PORTS) for word in ("--interface", f"{i}=d{i}")]
        return [ROOT / "pcap" / "live_mtswitchd.py", "--programs", self.lab.build / "src" / "tools", *own]

    def print_table(self, results):
        for name, result in sorted(results.items()):
            why = result.get("why", "").splitlines()
            kept = result.get("live", {})
            times = f"scale {kept['time_scale']}, frames {kept['frames_late']['most_ns'] / 1e6:.2f} ms late at most" if kept else ""
            print(f"    {name:30} {result['status']:12} {times} {why[0] if why else ''}")

    def all_conform(self, names, *options):
        """Each of these traces conforms; skipped if the machine did not run one in time at any attempt."""
        status, results, _ = self.live(self.switch(), *options, *(ROOT / "pcap" / name for name in names))
        self.print_table(results)
        late = [result for result in results.values() if stalled(result)]
        self.assertEqual([], [r for r in results.values() if r["status"] != "conforms" and not stalled(r)])
        self.assertEqual(3 if late else 0, status)
        if late:
            self.skipTest(f"the machine stalls: {late[0]['name']}: {late[0]['why']}")

    def test_mtswitchd_conforms(self):
        self.all_conform(SHORT)

    def test_mtswitchd_conforms_with_another_ether_type(self):
        self.all_conform(["bringup_peer_first"], "--ether-type", "0x88b6")

    @cases.unittest.skipUnless(LONG, "takes three minutes: MTL_LONG=1")
    def test_mtswitchd_conforms_to_all_that_can_be_run(self):
        _, results, _ = self.live(self.switch(), ROOT / "pcap")
        self.print_table(results)
        self.assertEqual([], [name for name, result in results.items() if result["status"] in ("differs", "unusable")])
        self.assertEqual([], [name for name, result in results.items() if result["status"] == "inconclusive" and not stalled(result)
                              and "a stimulus took" not in result["why"]])
        for name, result in results.items():
            self.assertEqual(result["status"] in ("not_run", "inconclusive"), bool(result.get("why")), name)
        self.assertIn("submit", results["transfer_out"]["why"])
        self.assertIn("clock", results["clock_wrap"]["why"])

    def one(self, name, *options):
        """The example device against one trace."""
        status, results, said = self.live([DEVICE, "--interface", "d0", *options], "--tolerance", PATIENT_MS,
                                          ROOT / "pcap" / name, ports=1)
        if stalled(results[name]):
            self.skipTest(f"the machine stalls: {results[name]['why']}")
        return status, results[name], said

    def test_the_example_device_conforms(self):
        status, result, _ = self.one("bringup_peer_first")
        self.assertEqual((0, "conforms"), (status, result["status"]), result)
        self.assertEqual([], result["live"]["not_compared"])

    def assert_breaks(self, wrong, name, field, rule):
        status, result, _ = self.one(name, "--wrong", wrong)
        self.assertEqual((1, "differs"), (status, result["status"]), result)
        fields = {f["name"]: f["rule"] for f in result["differences"][0].get("fields", [])}
        self.assertEqual(rule, fields.get(field), result["differences"][0])

    def test_an_init_without_the_nonce_heard_breaks_L6(self):
        self.assert_breaks("peer_nonce", "bringup_peer_first", "peer_nonce", "L6")

    def test_an_init_that_is_not_padded_breaks_P4(self):
        self.assert_breaks("padding", "bringup_peer_first", "frame bytes", "P4")

    def test_an_old_epoch_breaks_L4(self):
        self.assert_breaks("same_epoch", "stale", "INIT epoch", "L4")

    def test_an_echo_without_the_time_since_breaks_L19(self):
        self.assert_breaks("echo", "bringup_lost_init", "t_echo", "L19")

    def test_a_tag_that_is_not_the_links_breaks_P1(self):
        self.assert_breaks("tagged", "bringup_peer_first", "EtherType", "P1")

    def test_a_parameter_that_is_not_as_configured_differs(self):
        self.assert_breaks("mtu", "bringup_peer_first", "mtu", "")

    def test_a_timer_of_half_the_time_differs_in_time(self):
        status, result, _ = self.one("bringup_dut_first", "--wrong", "hasty")
        self.assertEqual((1, "differs"), (status, result["status"]), result)
        self.assertIn("came at another time", result["differences"][0]["what"])

    def test_a_device_that_ends_differs(self):
        status, result, _ = self.one("bringup_peer_first", "--wrong", "dies")
        self.assertEqual((1, "differs"), (status, result["status"]), result)

    def test_nothing_that_was_run_is_no_success(self):
        status, result, said = self.one("loss_one")
        self.assertEqual((2, "not_run"), (status, result["status"]))
        self.assertIn("no trace was run", said)


# In nanoseconds as in a trace; what PATIENT is to switches.
TIMERS = {"init_interval": 10_000_000, "keepalive_interval": 10_000_000, "dead_interval": 60_000_000_000, "ack_every": 8,
          "ack_delay": 50_000, "replay_timeout": 1_000_000_000, "replay_limit": 100_000, "nack_interval": 1_000_000_000,
          "hold_down": 100_000_000}
LINK = {"mtu": 1400, "cell": 64, "window": 64, "capacity": [64] * 8}
PINGS = 20


class Recorded(cases.LabCase):
    """Two switches with a bridge between them, where one captures."""

    def setUp(self):
        super().setUp()
        self.lab.netns("sw1", "sw2", "wire")
        self.lab.veth(("sw1", "trunk"), ("wire", "left"))
        self.lab.veth(("sw2", "trunk"), ("wire", "right"))
        self.lab.bridge("wire", "br0", "left", "right")
        self.file = self.lab.directory / "link.pcapng"
        self.dumpcap = self.lab.start("dumpcap", ["dumpcap", "-i", "left", "-B", "64", "-w", self.file], ns="wire")
        wait_until("dumpcap listens", lambda: "File:" in self.dumpcap.err.read_text() or not self.dumpcap.alive())

    def start_switch(self, number):
        timers = " ".join(f"{name}: {value}" if name in ("ack_every", "replay_limit") else f"{name}_us: {value // 1000}"
                          for name, value in TIMERS.items())
        link = " ".join(f"{name}: {value}" for name, value in LINK.items())
        more = f"link {{ {link} mark_bytes: 0 timers {{ adaptive: false {timers} }} }} "
        return self.lab.switch(f"sw{number}", labs.node(number, labs.port(0, "trunk", 3 - number, more))).start()

    def captured(self):
        counts = re.findall(r"Packets: (\d+)", self.dumpcap.err.read_text())
        return int(counts[-1]) if counts else 0

    def scenario(self, link):
        """The first switch's configuration, as a scenario."""
        port = {"port": 0, "mac": link["mac"], "peer_mac": link["peer_mac"], "fixed_peer_mac": False, "expect_node": 2, **LINK,
                "nonces": [], "epochs": [], "timers": TIMERS}
        path = self.lab.directory / "scenario.json"
        path.write_text(json.dumps({
            "about": "a live link", "rules": [], "stimuli": [], "end": 0,
            "dut": {"node": 1, "ports": [port], "routes": [{"dst": 2, "tiers": [[{"port": 0, "raise": 0}]]}], "consume": True}}))
        return path

    def test_a_live_link_becomes_a_trace_that_replays(self):
        switches = [self.start_switch(n) for n in (1, 2)]
        for switch in switches:
            switch.wait_up(0)
        link = switches[0].link(0)
        for switch, peer in zip(switches, (2, 1)):
            switch.ctl("ping", peer, "-c", PINGS, "-i", "1ms", "-W", "60s")
        switches[0].ctl("port", "down", 0)
        for _ in range(2):  # dumpcap loses what it holds at its end; the second one sends INITs all the time
            before = self.captured()
            wait_until("dumpcap writes more", lambda: self.captured() > before)
        self.assertEqual(0, self.dumpcap.stop())

        made = self.lab.directory / "made"
        mtreplay = self.lab.program("mtreplay")
        self.lab.run([mtreplay, "record", self.scenario(link), "--live", self.file, "-o", made])
        self.assertIn("1 of 1 traces conform", self.lab.run([mtreplay, "run", made]).stdout)
        trace = json.loads(made.with_suffix(".json").read_text())
        done = [stimulus["do"] for stimulus in trace["stimuli"]]
        self.assertEqual(["enable", *["submit"] * PINGS, "disable"], done)
        self.assertEqual(1, len(trace["dut"]["ports"][0]["nonces"]))
        replies = [d for d in trace["delivered"] if d["packet"][24:26] == "02"]
        self.assertEqual(PINGS, len(replies), "every request is answered in the trace, too")


if __name__ == "__main__":
    cases.main()
