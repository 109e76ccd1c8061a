"""A fabric on one host, for the demo and the system tests: network namespaces, the cables between them,
and the programs in them.

    with Lab("mtl-x-", "/run/mtl-x", "build") as lab:
        lab.netns("sw", "host")
        lab.veth(("sw", "p0"), ("host", "eth0"))
        switch = lab.switch("sw", node(1, port(0, "p0", peer=11)))
        switch.start()
        host = lab.perf("host", ["--interface", "eth0", "--node", "11", "--peer", "1"], ns="host")
        switch.wait_up(0)

Everything is made inside namespaces of the lab's prefix and files inside its directory, so close() can
end and remove all of it without having kept books, also what a killed run left. Nothing here sleeps for
a result: wait_until() asks until it is there, with a limit far beyond what any machine needs."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

PATIENCE = 60.0  # seconds; for what takes milliseconds on a machine that has nothing else to do


class Failure(Exception):
    """What was waited for did not come, or a command failed: the text says all."""


def wait_until(what, condition, limit=PATIENCE, pause=0.05):
    """Asks until `condition()` is true; what it gave then. Failure after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise Failure(f"waited {limit:g} s in vain: {what}")
        time.sleep(pause)


def run(argv, check=True, **options):
    """Runs a command to its end and returns it with its output as text."""
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False,
                          timeout=PATIENCE, **options)
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(map(str, argv))}: status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done


# --- configuration files, as text ---

def port(number, interface, peer=None, more=""):
    """A port of a node on a Linux interface."""
    peer_text = "" if peer is None else f" peer_node: {peer}"
    return f'ports {{ port: {number} name: "{interface}" af_packet {{ interface: "{interface}" }}{peer_text} {more}}}\n'


def slot(number, endpoint, more=""):
    """A port of a node for a process of its host."""
    return f"slots {{ port: {number} node: {endpoint} {more}}}\n"


def line(*switches):
    """The shape of a fabric of switches in a row: (node, its endpoints) each."""
    nodes = "".join(f"  nodes {{ node: {n} endpoints: {list(ends)} }}\n" for n, ends in switches)
    return "fabric {\n  shape: LINE\n" + nodes + "}\n"


def node(number, *parts):
    return f"node: {number}\n" + "".join(parts)


# --- processes ---

class Process:
    """A program of a lab, its output in files that outlive it."""

    def __init__(self, name, argv, directory, env):
        self.name = name
        self.out = directory / f"{name}.out"
        self.err = directory / f"{name}.err"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.popen = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                          env=env, start_new_session=True)
        self.pid = self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def signal(self, number):
        if self.alive():
            self.popen.send_signal(number)

    def kill(self):
        """As by kill -9: nothing of it is tidied up."""
        self.signal(signal.SIGKILL)
        self.popen.wait(PATIENCE)

    def wait(self, limit=PATIENCE):
        """Its exit status."""
        try:
            return self.popen.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end within {limit:g} s") from None

    def stop(self, limit=PATIENCE):
        """Asks it to end; its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(limit)

    def cpu_seconds(self):
        """What its threads have used of the CPUs so far, to the nanosecond: clock ticks miss who wakes briefly."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


class Perf(Process):
    """`mtperf datagram`, or another of its commands, on one endpoint."""

    def report(self, limit=PATIENCE):
        """Its report at the end."""
        self.wait(limit)
        text = self.out.read_text()
        if not text.strip():
            raise Failure(f"{self.name} made no report: {self.err.read_text().strip()}")
        return json.loads(text)


def _of_kind(link, kind):
    """Frames of a kind that came in on a link and were of its session."""
    return next(entry["in"] for entry in link["kinds"] if entry["kind"] == kind)


class Switch:
    """A mtswitchd, which may be started more than once, and its mtctl."""

    def __init__(self, lab, name, ns, config):
        self.lab = lab
        self.name = name
        self.ns = ns
        self.socket = lab.directory / f"{name}.sock"
        self.config = lab.directory / f"{name}.textproto"
        self.process = None
        self._starts = 0
        self.configure(config)

    def configure(self, config):
        """Writes its file; one that runs takes it in by `mtctl reload`."""
        self.config.write_text(config + f'name: "{self.name}"\ncontrol {{ socket: "{self.socket}" }}\n')

    def command(self, *options):
        return [self.lab.program("mtswitchd"), "--config", self.config, *options]

    def check(self):
        """What `mtswitchd --check` says of the configuration."""
        return self.lab.run(self.command("--check"), ns=self.ns).stdout

    def start(self, ready=True):
        """Starts it and waits until it answers."""
        self._starts += 1
        name = self.name if self._starts == 1 else f"{self.name}-{self._starts}"
        self.process = self.lab.start(name, self.command(), ns=self.ns)
        if ready:
            wait_until(f"{self.name} answers", self._answers)
        return self

    def _answers(self):
        if not self.process.alive():
            raise Failure(f"mtswitchd {self.name} ended with status {self.process.wait()}: "
                          f"{self.process.err.read_text().strip()}")
        return self.ctl("-j", "show", "node", check=False).returncode == 0

    def ctl(self, *arguments, check=True):
        return run([self.lab.program("mtctl"), "-s", self.socket, *arguments], check=check)

    def json(self, *arguments):
        return json.loads(self.ctl("-j", *arguments).stdout)

    def json_lines(self, *arguments, check=True):
        """Of a command that prints an object a line."""
        return [json.loads(text) for text in self.ctl("-j", *arguments, check=check).stdout.splitlines()]

    def links(self):
        """The links by port number."""
        return {entry["port"]: entry for entry in self.json("show", "links")["links"]}

    def link(self, number):
        return self.links()[number]

    def port(self, number):
        return {entry["port"]: entry for entry in self.json("show", "ports")["ports"]}[number]

    def drops(self, number=None):
        """Drops by name: of a port, or of the node's shards."""
        sums = {}
        for entry in self.json("show", "drops")["drops"]:
            if entry.get("port") == number and not {"device", "removed_ports"} & entry.keys():
                sums[entry["reason"]] = sums.get(entry["reason"], 0) + entry["count"]
        return sums

    def device_drops(self, device):
        """Drops of a device that several links share, by name."""
        return {entry["reason"]: entry["count"] for entry in self.json("show", "drops")["drops"]
                if entry.get("device") == device}

    def downs(self, number):
        """How often the link of a port left UP, by reason."""
        return {d["name"]: d["count"] for d in self.link(number)["downs"] if d["count"]}

    def state(self, number):
        return self.link(number)["state"]

    def wait_up(self, *numbers, limit=PATIENCE):
        """Until packets may be sent there: UP, and the peer heard, which says something all the time."""
        def all_up(links):
            return all(links[n]["state"] == "up" for n in numbers)

        def heard(links):
            return [sum(_of_kind(links[n], kind) for kind in ("DATA", "STATUS", "NACK")) for n in numbers]

        before = heard(wait_until(f"links {numbers} of {self.name} are UP",
                                  lambda: (links := self.links()) and all_up(links) and links, limit))
        wait_until(f"links {numbers} of {self.name} are UP and hear their peers",
                   lambda: (links := self.links()) and all_up(links)
                   and all(now > was for now, was in zip(heard(links), before)), limit)

    def wait_not_up(self, *numbers):
        wait_until(f"links {numbers} of {self.name} are not UP",
                   lambda: all(self.state(n) != "up" for n in numbers))

    def books(self):
        """The books that do not balance, as text; empty: all do."""
        done = self.ctl("stats", "--check", check=False)
        return "" if done.returncode == 0 else (done.stdout + done.stderr).strip() or "mtctl stats --check failed"


# --- the lab ---

class Lab:
    def __init__(self, prefix, directory, build):
        if os.geteuid() != 0:
            raise Failure("network namespaces need root: run it with sudo")
        self.prefix = prefix
        self.directory = pathlib.Path(directory)
        self.build = pathlib.Path(build).resolve()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.processes = []
        self.switches = {}
        # EAL leaves a directory behind when it is killed: let it be here.
        self.env = {**os.environ, "RUNTIME_DIRECTORY": str(self.directory), "NO_COLOR": "1"}
        self.env.pop("MTLINK_SOCKET", None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def program(self, name):
        path = self.build / "src" / "tools" / name / name
        if not path.exists():
            raise Failure(f"{path} is missing: run scripts/build first")
        return path

    # Namespaces and cables.

    def full(self, ns):
        return self.prefix + ns

    def netns(self, *names):
        for name in names:
            run(["ip", "netns", "add", self.full(name)])
            run(["ip", "-n", self.full(name), "link", "set", "lo", "up"])

    def veth(self, one, other, mtu=1500, index=None):
        """A cable between two (namespace, interface), up. `index`: of the first one."""
        (ns_a, if_a), (ns_b, if_b) = one, other
        number = ["index", index] if index else []
        run(["ip", "link", "add", "name", if_a, *number, "mtu", mtu, "netns", self.full(ns_a), "type", "veth",
             "peer", "name", if_b, "mtu", mtu, "netns", self.full(ns_b)])
        for ns, interface in (one, other):
            # No IPv6 of the kernel's own on the wire: the frames that are counted are the link's.
            run(["ip", "-n", self.full(ns), "link", "set", "dev", interface, "addrgenmode", "none"])
            self.link(ns, interface, "up")

    def bridge(self, ns, name, *members):
        """A Linux bridge over interfaces of its namespace, forwarding at once."""
        run(["ip", "-n", self.full(ns), "link", "add", "name", name, "type", "bridge", "forward_delay", "0"])
        self.link(ns, name, "up")
        for member in members:
            self.link(ns, member, "master", name)

    def link(self, ns, interface, *what):
        """`ip link set`."""
        run(["ip", "-n", self.full(ns), "link", "set", "dev", interface, *what])

    def delete_link(self, ns, interface):
        run(["ip", "-n", self.full(ns), "link", "delete", "dev", interface])

    # Programs.

    def _inside(self, ns, argv):
        # `ip netns exec` rather than nsenter: /sys must be the namespace's own, too.
        return ["ip", "netns", "exec", self.full(ns), *argv] if ns else list(argv)

    def run(self, argv, ns=None, check=True):
        return run(self._inside(ns, argv), check=check, env=self.env)

    def start(self, name, argv, ns, kind=Process):
        process = kind(name, self._inside(ns, argv), self.directory, self.env)
        self.processes.append(process)
        return process

    def switch(self, name, config, ns=None):
        self.switches[name] = Switch(self, name, ns or name, config)
        return self.switches[name]

    def perf(self, name, arguments, ns, what="datagram"):
        argv = [self.program("mtperf"), what, "--json", *arguments]
        return self.start(name, argv, ns, Perf)

    # The end.

    def close(self):
        """Ends and removes all of the lab; may be called twice."""
        remove(self.prefix)
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(5)
        shutil.rmtree(self.directory, ignore_errors=True)

    def logs(self, lines=15):
        """The ends of what the programs said, for the report of a failure."""
        text = []
        for path in sorted([*self.directory.glob("*.err"), *self.directory.glob("*.out")]):
            content = path.read_text(errors="replace").splitlines()
            if content:
                text.append(f"--- {path.name}")
                text.extend(content[-lines:])
        return "\n".join(text)


def namespaces(prefix):
    listed = run(["ip", "netns", "list"]).stdout.splitlines()
    return [name.split()[0] for name in listed if name.startswith(prefix)]


def remove(prefix):
    """Removes namespaces of a prefix with all that runs in them: cables go with their namespaces."""
    found = namespaces(prefix)
    for name in found:
        for pid in run(["ip", "netns", "pids", name], check=False).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    for name in found:
        run(["ip", "netns", "delete", name], check=False)
