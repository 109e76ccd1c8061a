#!/usr/bin/env python3
"""Who may know whom (docs/architecture.md), read from the #include lines of src/.

A room may include its own headers, those of the rooms it knows, and the third parties given to it.
The core (base, link, network, transport) has nothing but the standard library, and of that nothing
that waits, reads a clock, draws a number or makes a thread."""

import re

import tree

CORE = ["base", "link", "network", "transport"]

# Room: the rooms it knows. Headers of others named by file are given where only a part is shared.
KNOWS = {
    "base": [],
    "link": ["base"],
    "network": ["base", "link"],
    "transport": ["base", "link", "network"],
    "phy": CORE,
    "sim": CORE + ["phy/impairment.h", "phy/pacer.h"],
    "conformance": CORE,
    "topology": CORE,
    "control": ["base"],
    "capture": CORE + ["phy/segment_guard.h"],
    "runtime": CORE + ["phy", "capture"],
    # An endpoint claims its slot by the control API's client, which is plain sockets.
    "endpoint": CORE + ["phy", "runtime", "control/client.h"],
    "switch": CORE + ["phy", "runtime", "topology", "control", "capture"],
    "tools": None,  # all
}

# Third parties, as the include line begins, and the rooms that may use them. protobuf stands for the
# messages of proto/ too.
THIRD_PARTIES = {
    "rte_": ["phy/dpdk", "runtime", "switch", "tools"],
    "boost/": ["conformance", "control", "switch", "tools"],
    "google/protobuf/": ["control", "switch", "topology", "tools"],
    "mtlink/": ["control", "runtime/settings", "switch", "endpoint", "topology", "tools"],
    "xdp/": ["phy/af_xdp"],
    "bpf/": ["phy/af_xdp"],
    "isa-l": ["base"],
    "pcap": ["conformance", "phy/dpdk", "tools"],
    "openssl/": ["conformance", "topology", "tools"],
    "spdlog/": ["runtime", "switch", "control", "tools"],
    "fmt/": ["sim", "conformance", "topology", "runtime", "endpoint", "switch", "control", "tools"],
    "CLI/": ["tools"],
}

# Parts of rooms that not everybody who knows the room may know: an endpoint carries no DPDK.
PARTS = {
    "phy/dpdk/": ["phy/dpdk", "phy/af_xdp", "phy/tap", "runtime", "switch", "tools"],
    "phy/af_xdp/": ["phy/af_xdp", "switch", "tools"],
    "phy/tap/": ["phy/tap", "switch", "tools"],
}

# The standard library as far as the core may use it; base has the CPU's instructions too.
STANDARD = set("""
    algorithm array atomic bit bitset cassert cinttypes climits compare concepts cstddef cstdint cstdio
    cstdlib cstring deque functional initializer_list iterator limits map memory memory_resource new
    numeric optional queue ratio set span sstream string string_view tuple type_traits
    unordered_map unordered_set utility variant vector version chrono
    """.split())
INSTRUCTIONS = {"immintrin.h", "nmmintrin.h", "x86intrin.h", "cpuid.h", "arm_acle.h", "sys/auxv.h"}

# base/fd.h closes what other rooms open.
DESCRIPTORS = {"unistd.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def within(folder, places):
    """Whether `folder` (below src/) is one of `places` or inside one."""
    return any(folder == p or folder.startswith(p + "/") for p in places)


def fault(folder, included, rooms):
    """Why a file in `folder` may not include `included`, or None. `rooms` are the names of all rooms."""
    room = folder.split("/")[0]
    first = included.split("/")[0]
    if "/" in included and first in rooms:
        for part, allowed in PARTS.items():
            if included.startswith(part) and not within(folder, allowed):
                return f"{folder} may not know {part}"
        known = KNOWS.get(room, [])
        if first == room or known is None or first in known or included in known:
            return None
        return f"{room} may not know {first}"
    for prefix, allowed in THIRD_PARTIES.items():
        if included.startswith(prefix):
            return None if within(folder, allowed) else f"{folder} may not use {prefix.rstrip('/_')}"
    if room not in CORE or included in STANDARD:
        return None
    if room == "base" and included in INSTRUCTIONS | DESCRIPTORS:
        return None
    return f"the core may not include {included}"


def faults_of(path, text, rooms):
    folder = "/".join(path.split("/")[1:-1])
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        why = fault(folder, match.group(2), rooms)
        if why:
            found.append(f"{path}:{number}: {why}: {line.strip()}")
    return found


def self_test(report):
    rooms = set(KNOWS)
    bad = {
        "upwards": ("src/base/x.h", '#include "link/link.h"'),
        "sideways": ("src/phy/x.h", '#include "sim/clock.h"'),
        "past a room's share": ("src/sim/x.h", '#include "phy/port.h"'),
        "DPDK in the core": ("src/link/x.cc", "#include <rte_mbuf.h>"),
        "DPDK at an endpoint": ("src/endpoint/x.cc", "#include <rte_ethdev.h>"),
        "DPDK in the common part of the PHY": ("src/phy/x.cc", "#include <rte_mbuf.h>"),
        "the PHY's DPDK part at an endpoint": ("src/endpoint/x.cc", '#include "phy/dpdk/eal.h"'),
        "Boost in the core": ("src/network/x.cc", "#  include <boost/asio.hpp>"),
        "a thread": ("src/network/x.cc", "#include <thread>"),
        "a lock": ("src/link/x.cc", "#include <mutex>"),
        "a random source": ("src/link/x.cc", "#include <random>"),
        "a clock": ("src/base/x.h", "#include <ctime>"),
        "a C clock": ("src/base/x.h", "#include <time.h>"),
        "a system call": ("src/link/x.h", "#include <unistd.h>"),
        "ISA-L outside base": ("src/link/x.cc", "#include <isa-l/crc.h>"),
        "control knows more": ("src/control/x.cc", '#include "network/node.h"'),
        "a room nobody declared": ("src/misc/x.h", '#include "link/link.h"'),
    }
    for what, (path, text) in bad.items():
        report.expect(f"refuses {what}", len(faults_of(path, text, rooms)) == 1)
    good = {
        "downwards": ("src/network/x.h", '#include "link/link.h"\n#include "base/ids.h"'),
        "the share": ("src/sim/x.h", '#include "phy/impairment.h"'),
        "the standard library": ("src/link/x.h", "#include <chrono>\n#include <vector>"),
        "DPDK in the PHY's DPDK part": ("src/phy/dpdk/x.cc", '#include <rte_mbuf.h>\n#include "phy/dpdk/eal.h"'),
        "the program": ("src/tools/x.cc", "#include <CLI/CLI.hpp>\n#include <rte_eal.h>"),
    }
    for what, (path, text) in good.items():
        report.expect(f"allows {what}", not faults_of(path, text, rooms))


def main():
    report = tree.Report()
    self_test(report)
    sources = [p for p in tree.tracked() if p.startswith("src/") and p.endswith((".h", ".cc"))]
    rooms = {p.split("/")[1] for p in sources} | set(KNOWS)
    report.check("every room has its place in this test",
                 sorted(f"src/{r}" for r in rooms - set(KNOWS)))
    by_room = {}
    for path in sources:
        by_room.setdefault(path.split("/")[1], []).append(path)
    for room, paths in sorted(by_room.items()):
        found = []
        for path in paths:
            found += faults_of(path, (tree.ROOT / path).read_text(), rooms)
        report.check(f"src/{room} includes only what it may know ({len(paths)} files)", found)
    report.exit()


if __name__ == "__main__":
    main()
