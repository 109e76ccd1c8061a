"""What the structure tests share: the tree's files, and how a check reports."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked(root=ROOT):
    """Paths of the tree's files, relative to its root: what git tracks, or, in a tree without git,
    every file outside build directories."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=False)
    if git.returncode == 0:
        names = [n for n in git.stdout.decode().split("\0") if n]
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith(("build", ".git/", ".cache/"))]
        names = [n for n in names if "__pycache__" not in n]
    return sorted(n for n in names if (root / n).is_file())


class Report:
    """Counts checks, prints the failed ones, and ends the script by their number."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def check(self, what, faults):
        """One check; `faults` is the list of what is wrong."""
        if faults:
            self.failed += 1
            print(f"FAILED {what}")
            for fault in faults:
                print(f"    {fault}")
        else:
            self.passed += 1
            print(f"passed {what}")

    def expect(self, what, condition):
        """One check of the checker itself."""
        self.check("self-test: " + what, [] if condition else ["does not hold"])

    def exit(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)
