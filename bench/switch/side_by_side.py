"""What the comparisons of bench/switch have in common: their processes, and how figures are told."""
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

SWITCH_CPU, LOAD_CPU = 0, 1
QUIET_LOAD = 1.0

# Programs of ours that lie in src/tools of a build directory; the others lie in bench/switch.
TOOLS = ("mtswitchd", "mtctl", "mtperf")
# Programs of others, and the Debian package of each.
PACKAGES = {"dpdk-testpmd": "dpdk", "ip": "iproute2", "taskset": "util-linux", "mpirun": "openmpi-bin and libopenmpi-dev",
            **{name: "openvswitch-switch-dpdk"
               for name in ("ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovsdb-tool", "ovsdb-server")}}


class Failure(Exception):
    """What ends a comparison: one line for whoever started it."""


@contextlib.contextmanager
def process(command, log, **options):
    """Runs `command` for the length of the block; what it says on standard error goes to `log`."""
    with open(log, "w") as stderr:
        child = subprocess.Popen(command, stderr=stderr, text=True, **options)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait_for(what, log, child, seconds=10.0):
    """Until all files of `what` are there."""
    until = time.monotonic() + seconds
    while not all(os.path.exists(path) for path in what):
        if child.poll() is not None or time.monotonic() > until:
            raise Failure(f"{child.args[0]} does not start: {last_line(log)}")
        time.sleep(0.05)


def last_line(log):
    with open(log) as file:
        return (file.read().strip().splitlines() or [""])[-1]


def load_result(child, log):
    """The line of JSON that a program of ours ends with."""
    line = child.stdout.readline()
    if not line:
        raise Failure(last_line(log) or f"{child.args[0]} ended without a result")
    return json.loads(line)


def json_line(lines):
    """The first line that is JSON, as an object, or None: DPDK talks on standard output, too."""
    return next((json.loads(line) for line in lines if line.startswith("{")), None)


def ask(command):
    """Runs a command to its end, and gives what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def switch(tools, config, directory, name="switch", prefix=()):
    """An mtswitchd with `config`, whose control socket is given; `{socket}` in it becomes that."""
    socket = f"{directory}/{name}.sock"
    path = f"{directory}/{name}.textproto"
    with open(path, "w") as file:
        file.write(config.replace("{socket}", socket))
    log = f"{directory}/{name}.log"
    with process([*prefix, tools["mtswitchd"], "--config", path], log) as child:
        wait_for([socket], log, child)
        yield socket


# One cell holds any packet, so that credits count packets: as many as the load has in flight.
CONFIG = """node: 1000
name: "bench"
{ports}
defaults {{ mtu: {mtu} cell: {mtu} window: {flight} capacity: [{flight}, 0, 0, 0, 0, 0, 0, 0] }}
runtime {{ cpus: {cpu} poll: true {runtime} }}
control {{ socket: "{{socket}}" }}
"""


def room_for(size):
    """Bytes of a buffer: the small sizes do not pay for jumbo frames."""
    return 2048 if size <= 2000 else 9216


def mtu_for(size):
    return room_for(size) - 30


def run_slots(tools, size, args, directory, runtime=""):
    """mtswitchd between two slots, flat out, for args.seconds, args.in_flight frames on their way each way."""
    ports = [f'slots {{ port: {i} name: "{name}" node: {i + 1} }}' for i, name in enumerate("ab")]
    return run_mtswitchd(tools, size, args, directory, ports, [], runtime)


def run_memif(tools, size, args, directory):
    """Likewise between two memif ports, the load being the client of both."""
    sockets = [f"{directory}/client{i}.sock" for i in range(2)]
    ports = [f'ports {{ port: {i} peer_node: {i + 1} memif {{ socket: "{path}" }} }}' for i, path in enumerate(sockets)]
    return run_mtswitchd(tools, size, args, directory, ports, ["--memif", *sockets, "--mtu", str(mtu_for(size))])


def run_mtswitchd(tools, size, args, directory, ports, options, runtime=""):
    config = CONFIG.format(ports="\n".join(ports), mtu=mtu_for(size), flight=args.in_flight, cpu=SWITCH_CPU,
                           runtime=runtime)
    log = f"{directory}/link_load.log"
    with switch(tools, config, directory) as socket:
        command = [tools["link_load"], "--socket", socket, "--size", str(size), "--seconds", str(args.seconds),
                   "--in-flight", str(args.in_flight), "--cpu", str(LOAD_CPU), *options]
        with process(command, log, stdout=subprocess.PIPE) as load:
            result = load_result(load, log)
    return {"rate": result["frames"] / result["seconds"],
            "cycles": result["busy_cycles"] / result["frames"],
            "busy": result["busy_cycles"] / result["hz"] / result["seconds"],
            "notes": f", {result['replays']} sent again, {result['drops']} dropped",
            "load_idle": result["load_idle"]}


def spread(values, scale=1.0, digits=2):
    """Least, median and most."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return "  ".join(f"{v / scale:8.{digits}f}" for v in (low, middle, high))


def find_tools(build, ours=(), others=(), folder="switch"):
    """Paths of mtswitchd, further programs of ours, those that are no tools in `folder` of bench, and others; ends with what is missing."""
    tools = {name: f"{build}/src/tools/{name}/{name}" if name in TOOLS else f"{build}/bench/{folder}/{name}"
             for name in ("mtswitchd", *ours)}
    missing = [name for name, path in tools.items() if not os.access(path, os.X_OK)]
    for name in missing:
        print(f"{tools[name]} is missing: build it with  meson compile -C {build} {name}", file=sys.stderr)
    for name in others:
        tools[name] = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
        if tools[name] is None:
            missing.append(name)
            print(f"{name} is not installed (Debian: package {PACKAGES[name]}), so there is nothing to compare with",
                  file=sys.stderr)
    if missing:
        sys.exit(1)
    return tools


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def introduce(method):
    """The lines before the figures: on what, how, and whether they can mean anything."""
    if os.cpu_count() < 2:
        sys.exit("two CPUs are needed: one for the switch, one for its load")
    print(f"machine: {machine()}")
    print(f"method: {method}, load average at the start {os.getloadavg()[0]:.1f}")
    if os.getloadavg()[0] > QUIET_LOAD:
        print("the machine is busy with other things: these figures mean little")


def progress(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def run(main):
    """Calls `main`; a Failure becomes a line and status 1."""
    try:
        main()
    except Failure as failure:
        sys.exit(f"{sys.argv[0]}: {failure}")
