#!/usr/bin/env python3
"""Changes one thing in the sources at a time and expects the test that guards it to fail.

usage: run.py                    every mutation of mutations.json
       run.py --sample N         a fixed sample: every k-th, about N of them
       run.py --only TEXT        those whose rules, file or description contain TEXT
       run.py --list             only print them
       run.py --self-test        try this runner on a small project of its own
  --workers N                    scratch trees at work at the same time (default: one a core, at most 4)

The tree is copied to build-mutation/, configured once for each worker, and there alone changed. First
the tests must pass unchanged, or nothing that follows means anything. A mutation that no test notices,
whose text does not stand exactly once in its file, or that does not compile, is a failure.

mutations.json: {"mutations": [{"rules": ["L13"], "what": "...", "file": "src/...", "find": "...",
"replace": "...", "traces": "loss_one poison"}], "without": {"P3": "why it has none"}}

Instead of the traces that must fail, on one shard, there may be "tests": {"EXECUTABLE": "GTEST_FILTER"}. With "judge": true
the judge must find something, too, in what the wrong core sends (docs/conformance.md); a crash is no finding."""

import argparse
import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "test" / "structure"))
import tree  # noqa: E402  (found by the line above)

TEST_SECONDS = 120
REPLAYER = "conformance-traces"
JUDGE = ("conformance-judge", "JudgeSample.*")
REPLAY = "Traces/Replay.ByteForByte/{}_1shard"
# Without optimisation: what counts is the time to compile one file. A mutation may leave a variable
# unused: no -Werror.
FLAGS = ["--buildtype=plain", "-Db_ndebug=false", "-Dwerror=false"]


def read_mutations(path):
    content = json.loads(path.read_text())
    for mutation in content["mutations"]:
        if "traces" in mutation:
            names = [REPLAY.format(trace) for trace in mutation["traces"].split()]
            mutation["tests"] = {REPLAYER: ":".join(names)}
        if mutation.get("judge"):
            mutation["tests"] = {**mutation["tests"], JUDGE[0]: JUDGE[1]}
        missing = {"rules", "what", "file", "find", "replace", "tests"} - set(mutation)
        if missing:
            sys.exit(f"{path}: {mutation.get('what', mutation)}: lacks {', '.join(sorted(missing))}")
    return content["mutations"]


def applied(text, mutation):
    """The changed text, or None if `find` does not stand in it exactly once or changes nothing."""
    if text.count(mutation["find"]) != 1 or mutation["find"] == mutation["replace"]:
        return None
    return text.replace(mutation["find"], mutation["replace"])


class Worker:
    """A scratch copy of the tree with a build directory."""

    def __init__(self, source, scratch, jobs):
        self.source, self.dir, self.build, self.jobs = source, scratch / "tree", scratch / "build", jobs
        self.programs = {}

    def log(self, *command, cwd=None, timeout=None, env=None):
        try:
            run = subprocess.run(command, cwd=cwd, timeout=timeout, env=env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        except subprocess.TimeoutExpired:
            return None, f"no end within {timeout} s"
        return run.returncode, run.stdout.decode(errors="replace")

    def copy(self):
        """Brings the copy to the source's state, leaving alone what is the same (so is the build)."""
        wanted = set(tree.tracked(self.source))
        for name in wanted:
            target = self.dir / name
            content = (self.source / name).read_bytes()
            if not target.exists() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                shutil.copymode(self.source / name, target)
        for path in self.dir.rglob("*"):
            if path.is_file() and str(path.relative_to(self.dir)) not in wanted:
                path.unlink()

    def prepare(self, executables):
        """Configures, and builds the tests unchanged; what is wrong, or None."""
        self.copy()
        if not (self.build / "build.ninja").exists():
            code, out = self.log("meson", "setup", *FLAGS, str(self.build), str(self.dir))
            if code != 0:
                return "configuring failed:\n" + out[-3000:]
        code, out = self.log("ninja", "-C", str(self.build), "build.ninja")
        if code != 0:
            return "configuring failed:\n" + out[-3000:]
        code, out = self.log("meson", "introspect", "--tests", str(self.build))
        if code != 0:
            return "meson introspect failed:\n" + out
        for test in json.loads(out):
            path = pathlib.Path(test["cmd"][0])
            if path.is_relative_to(self.build):
                self.programs[path.name] = (path, {**os.environ, **test["env"]}, test["workdir"])
        unknown = sorted(set(executables) - set(self.programs))
        if unknown:
            return f"no test executable {', '.join(unknown)}; there are: {', '.join(sorted(self.programs))}"
        code, out = self.make(executables)
        return None if code == 0 else "the unchanged tree does not build:\n" + out[-3000:]

    def make(self, executables):
        targets = [str(self.programs[e][0].relative_to(self.build)) for e in sorted(executables)]
        return self.log("ninja", "-C", str(self.build), "-j", str(self.jobs), *targets)

    def test(self, executable, pattern, *more):
        path, env, workdir = self.programs[executable]
        return self.log(str(path), f"--gtest_filter={pattern}", "--gtest_fail_fast", *more, cwd=workdir or self.build,
                        timeout=TEST_SECONDS, env=env)

    def baseline(self, executable, pattern):
        """Why the unchanged test is no witness, or None."""
        code, out = self.test(executable, pattern, "--gtest_list_tests")
        if code != 0 or not any(line.startswith("  ") for line in out.splitlines()):
            return f"{executable}: the filter {pattern} matches no test"
        code, out = self.test(executable, pattern)
        return None if code == 0 else f"{executable} {pattern} fails unchanged:\n{out[-3000:]}"

    def judge(self, mutation):
        """(killed?, one line that says how)."""
        path = self.dir / mutation["file"]
        if not path.is_file():
            return False, f"there is no {mutation['file']}"
        original = path.read_text()
        changed = applied(original, mutation)
        if changed is None:
            return False, f"its text stands {original.count(mutation['find'])} times in {mutation['file']}"
        try:
            path.write_text(changed)
            code, out = self.make(mutation["tests"])
            if code != 0:
                errors = [line for line in out.splitlines() if "error" in line]
                return False, "does not compile: " + (errors or [out[-300:]])[0]
            survived = []
            for executable, pattern in mutation["tests"].items():
                code, out = self.test(executable, pattern)
                # A core that crashes, or sends without end, has shown the judge nothing.
                if code != 1 if (executable, pattern) == JUDGE else code == 0:
                    survived.append(f"{executable} {pattern}")
            if survived:
                return False, "survives " + ", ".join(survived)
            return True, "killed" if code is not None else "killed (it never ends)"
        finally:
            path.write_text(original)


def run(source, scratch, mutations, workers, report):
    """Judges the mutations; `report` counts."""
    # Each worker builds all the tests first: that pays where it has many mutations.
    workers = max(1, min(workers, len(mutations) // 16))
    jobs = max(1, (os.cpu_count() or 1) // workers)
    team = [Worker(source, scratch / f"worker{i}", jobs) for i in range(workers)]
    pairs = sorted({pair for m in mutations for pair in m["tests"].items()})
    executables = {executable for executable, _ in pairs}
    print(f"preparing {len(team)} scratch trees and {len(executables)} test programs", flush=True)
    with concurrent.futures.ThreadPoolExecutor(len(team)) as pool:
        for fault in pool.map(lambda w: w.prepare(executables), team):
            if fault:
                report.check("the scratch tree builds", [fault])
                return
        witnesses = [team[0].baseline(*pair) for pair in pairs]
        report.check(f"the tests pass unchanged ({len(pairs)})", [w for w in witnesses if w])
        broken = {pair for pair, fault in zip(pairs, witnesses) if fault}
        usable = [m for m in mutations if not broken & set(m["tests"].items())]
        # By file, so that putting one back and changing the next costs one compilation, and evenly
        # over the workers.
        usable.sort(key=lambda m: m["file"])
        share = -(-len(usable) // len(team))
        shares = [usable[i * share:(i + 1) * share] for i in range(len(team))]
        lock = threading.Lock()

        def judge_all(worker, mine):
            for mutation in mine:
                killed, how = worker.judge(mutation)
                with lock:
                    report.check(f"{' '.join(mutation['rules'])}: {mutation['what']}: {how}",
                                 [] if killed else [f"{mutation['file']}: {mutation['find']!r}"])
                    sys.stdout.flush()

        list(pool.map(judge_all, team, shares))
        for mutation in mutations:
            if mutation not in usable:
                report.check(f"{' '.join(mutation['rules'])}: {mutation['what']}", ["its test fails unchanged"])


SELF_TEST = {
    "meson.build": """project('self', 'cpp', default_options: ['cpp_std=c++20', 'werror=true'])
test('sum', executable('sum-test', 'sum.cc', 'sum_test.cc', dependencies: dependency('gtest_main')))
""",
    "sum.cc": "int sum(int a, int b) { return a + b; }\nint half(int a) { return a / 2; }\n"
              "int same(int a) { while (a < 0) ++a; return a; }\n",
    "sum_test.cc": """#include <gtest/gtest.h>
int sum(int, int);
int half(int);
TEST(Sum, Adds) { EXPECT_EQ(sum(2, 2), 4); }
TEST(Sum, Halves) { EXPECT_EQ(half(8), 4); }
TEST(Sum, IsBroken) { EXPECT_EQ(sum(1, 1), 3); }
""",
}


def self_test():
    def mutation(find, replace, pattern="Sum.Adds", file="sum.cc"):
        return {"rules": ["X"], "what": find, "file": file, "find": find, "replace": replace,
                "tests": {"sum-test": pattern}}

    killed = mutation("a + b", "a - b")
    cases = [(killed, True, "is killed"),
             (mutation("a + b", "a * b"), False, "survives"),  # 2 * 2 is 4 too
             (mutation("int a", "int b"), False, "stands more than once"),
             (mutation("a - b", "a + b"), False, "does not stand there"),
             (mutation("a + b", "a + b"), False, "changes nothing"),
             (mutation("a + b", "a + c"), False, "does not compile"),
             (mutation("a / 2", "(a - 1) / 2", "Sum.Halves"), True, "is killed after the others, the file restored"),
             (mutation("a / 2", "a", "Sum.Nothing"), False, "has a filter that matches nothing"),
             (mutation("a / 2", "a", "Sum.IsBroken"), False, "has a test that fails unchanged"),
             (mutation("a / 2", "a", file="gone.cc"), False, "names a file that is not there")]
    report = tree.Report()
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch) / "source"
        source.mkdir()
        for name, text in SELF_TEST.items():
            (source / name).write_text(text)
        for case, expected, what in cases:
            inner = tree.Report()
            with contextlib.redirect_stdout(io.StringIO()):
                run(source, pathlib.Path(scratch), [case], 1, inner)
            report.expect(f"a mutation that {what} {'passes' if expected else 'fails'} the run",
                          (inner.failed == 0) == expected)
        report.expect("the source itself is left alone", (source / "sum.cc").read_text() == SELF_TEST["sum.cc"])
    report.exit()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--only")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    options = parser.parse_args()
    if options.self_test:
        self_test()
    mutations = read_mutations(HERE / "mutations.json")
    if options.only:
        mutations = [m for m in mutations
                     if options.only in m["rules"] or options.only in m["file"] or options.only in m["what"]]
    if options.sample:
        mutations = mutations[::max(1, len(mutations) // options.sample)]
        print(f"a fixed sample: {len(mutations)} mutations")
    if options.list:
        for mutation in mutations:
            print(f"{' '.join(mutation['rules']):8} {mutation['file']}: {mutation['what']}")
        return
    report = tree.Report()
    report.check("there are mutations", [] if mutations else ["none"])
    if mutations:
        run(ROOT, ROOT / "build-mutation", mutations, options.workers, report)
    report.exit()


if __name__ == "__main__":
    main()
