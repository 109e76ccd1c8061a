#!/usr/bin/env python3
"""The undefined symbols of the core's libraries: no DPDK, Boost, clock, random source, thread or
system call. What is neither our own nor in the list of what the core may use is refused, so that a
new way out shows.

usage: symbols.py LIBRARY.a..."""

import re
import subprocess
import sys

import tree

# C functions that compute or hand out memory, and nothing else.
C_ALLOWED = set("""
    memcpy memmove memset memcmp memchr strlen strcmp strncmp abort
    __assert_fail __stack_chk_fail __cxa_atexit __dso_handle _GLOBAL_OFFSET_TABLE_
    __cpu_model __cpu_indicator_init __gxx_personality_v0 _Unwind_Resume
    __popcountdi2 snprintf __snprintf_chk __memcpy_chk __memmove_chk __memset_chk
    """.split())

# C++ by demangled name: memory, exceptions (of the standard library's own checks), containers, text.
CXX_ALLOWED = re.compile(r"""
    ^(operator\ (new|delete)(\[\])?\(
     |mtl::
     |(guard\ variable|vtable|typeinfo|typeinfo\ name|VTT|construction\ vtable)\ for\ (mtl::|std::|__cxxabiv1::)
     |std::__throw_\w+
     |std::__glibcxx_assert_fail
     |std::__detail::
     |(non-virtual\ thunk\ to\ )mtl::
     |std::(__cxx11::)?(basic_string|to_string|vector|allocator|unique_ptr|_Hash|_Prime)
     |std::(nothrow|terminate|bad_\w+|exception|logic_error|length_error|out_of_range)
     |std::_Rb_tree_
     |__cxa_\w+|__cxxabiv1::
    )""", re.VERBOSE)

# ISA-L's entry points, for base alone.
ISAL = {"crc32_iscsi", "crc32_iscsi_01", "crc32_iscsi_base"}

# Named apart, so that the message says what is wrong rather than only that it is unknown.
FORBIDDEN = [
    (re.compile(r"^(rte_|per_lcore_)"), "DPDK"),
    (re.compile(r"boost::"), "Boost"),
    (re.compile(r"^(clock_|gettimeofday|time$|times$|clock$|timespec_get|std::chrono::.*::now)"), "a clock"),
    (re.compile(r"^(s?rand(om)?(_r)?|[del]?rand48|getrandom|getentropy|arc4random|std::random_device)"), "a random source"),
    (re.compile(r"^(pthread_|std::thread|std::this_thread|std::mutex|sem_|std::condition_variable)"), "threads"),
    (re.compile(r"^(socket|open(64)?|close|read|write|send|recv|poll|epoll_|select|ioctl|syscall|"
                r"mmap|nanosleep|usleep|sleep|printf|puts|fwrite|std::cout|std::cerr)"), "I/O"),
]

SANITIZER = re.compile(r"^__(asan|tsan|ubsan|sanitizer|gcov|llvm)_")


def fault(symbol, library):
    """Why `library` (base, link, ...) may not need `symbol` (demangled), or None."""
    for pattern, what in FORBIDDEN:
        if pattern.search(symbol):
            return what
    if symbol in C_ALLOWED or CXX_ALLOWED.match(symbol) or SANITIZER.match(symbol):
        return None
    if symbol in ISAL:
        return None if library == "base" else "ISA-L is base's"
    return "not among what the core may use"


def undefined(listing):
    """The undefined symbols of `nm -C -u` output."""
    found = set()
    for line in listing.splitlines():
        match = re.match(r"^\s+[Uw] (.+)$", line)
        if match:
            found.add(match.group(1))
    return found


def faults_of(listing, library):
    return [f"{symbol}: {why}" for symbol in sorted(undefined(listing))
            if (why := fault(symbol, library))]


def self_test(report):
    nm_line = "                 U "
    for symbol, library in {
            "rte_eth_rx_burst": "link", "boost::asio::io_context::run()": "network",
            "clock_gettime": "link", "time": "base", "std::chrono::_V2::steady_clock::now()": "link",
            "random": "link", "getrandom": "base", "std::random_device::_M_getval()": "network",
            "pthread_mutex_lock": "base", "std::thread::join()": "network", "socket": "link",
            "read": "base", "printf": "link", "std::cout": "link", "dlopen": "base",
            "crc32_iscsi": "link", "nanosleep": "network"}.items():
        report.expect(f"{library} may not use {symbol}",
                      len(faults_of(nm_line + symbol + "\n", library)) == 1)
    good = ["operator new(unsigned long)", "operator delete(void*, unsigned long)", "memcpy",
            "mtl::crc32c(std::span<std::byte const, 18446744073709551615ul>)",
            "std::__throw_length_error(char const*)", "vtable for __cxxabiv1::__class_type_info"]
    report.expect("allows memory, the core's own and the standard library's checks",
                  not faults_of("".join(nm_line + s + "\n" for s in good), "link"))
    report.expect("allows ISA-L in base", not faults_of(nm_line + "crc32_iscsi\n", "base"))
    report.expect("does not look at what a library defines",
                  not faults_of("0000000000000000 T socket\n", "link"))


def main():
    report = tree.Report()
    self_test(report)
    libraries = sys.argv[1:]
    report.check("libraries were given", [] if libraries else ["none: this looks at nothing"])
    for path in libraries:
        name = path.rsplit("/", 1)[-1].removeprefix("lib").removesuffix(".a")
        run = subprocess.run(["nm", "-C", "-u", path], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            report.check(f"lib{name}.a", [f"nm failed: {run.stderr.strip()}"])
            continue
        symbols = undefined(run.stdout)
        report.check(f"lib{name}.a needs only what the core may use ({len(symbols)} symbols)",
                     faults_of(run.stdout, name))
        report.check(f"lib{name}.a was really read", [] if symbols else ["no symbols at all in it"])
    report.exit()


if __name__ == "__main__":
    main()
