# Shared by the scripts: where the tree is, and how they speak. Sourced, never run.
# shellcheck shell=bash

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly root

say() { printf '%s\n' "$*"; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# The usage text of a script: its comment block behind the interpreter line.
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }

# Runs a command as root: as it is, or by sudo, saying so.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    say "(as root, by sudo) $*"
    sudo "$@"
  else
    die "needs root for: $*. Run it as root, or install sudo."
  fi
}

# Source files under the given patterns, one a line: the tracked ones, or, in a tree without git, all.
sources() {
  (cd "$root" && { git ls-files -- "$@" 2>/dev/null ||
    find bench proto scripts src test -type f | while read -r f; do
      for p in "$@"; do
        # shellcheck disable=SC2254  # the patterns are meant as such
        case $f in $p) say "$f" && break ;; esac
      done
    done; }) | sort -u
}

# How many compilers at once: one a core, but each may take 1.5 GB.
job_count() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)
  [ "$by_memory" -ge 1 ] || by_memory=1
  say $((cores < by_memory ? cores : by_memory))
}
