#!/usr/bin/env bash
# Runs clang-tidy 14 with .clang-tidy over sources of a configured build directory.
#
# usage: scripts/lib/tidy.sh BUILD_DIR FILE.cc...
. "$(dirname "$0")/common.sh"

command -v clang-tidy-14 >/dev/null || die "clang-tidy-14 is missing: run scripts/install-deps first."
[ $# -ge 2 ] || die "no files given"
dir=$1
shift
cd "$root"
# g++'s own warning and optimisation flags are unknown to clang. One file a process: as many as there are cores.
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 --quiet -p "$dir" \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument
