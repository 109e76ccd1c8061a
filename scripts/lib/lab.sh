# Network namespaces for demos and system tests, and their sure removal. Sourced after common.sh.
# shellcheck shell=bash
#
#   lab_begin NAME      takes the lab NAME (one run at a time), removes what a killed run left, and
#                       sees to lab_clean on exit, INT, TERM and HUP; sets lab_dir, a directory for
#                       sockets, configurations and logs
#   lab_netns NAME...   makes namespaces mtl-LAB-NAME, loopback up
#   lab_clean           ends all that runs in the lab's namespaces or was started by lab_start, then
#                       removes namespaces and directory; may be called at any time, twice too
#   lab_start COMMAND   runs COMMAND in the background, away from the terminal's signals, with
#                       MTL_LAB_PREFIX and MTL_LAB_DIR in its environment: by these lab_clean finds it
#                       and all that it starts
#
# Whatever is made inside a namespace (veth, bridge, process) goes with it. So the convention for what
# runs under a lab, in whatever language: make everything inside namespaces with the prefix in
# $MTL_LAB_PREFIX, put files only under $MTL_LAB_DIR, end by yourself on SIGTERM; the rest is done here.

lab_begin() {
  [ "$(id -u)" -eq 0 ] || die "network namespaces need root: run it with sudo."
  command -v ip >/dev/null || die "'ip' is missing: run scripts/install-deps first."
  lab_prefix=mtl-$1-
  lab_dir=/run/mtlink-$1
  exec {lab_lock}>"/run/lock/mtlink-$1.lock"
  flock -n "$lab_lock" || die "another run of '$1' is at work; wait for it, or end it."
  lab_remove
  mkdir -m 0700 "$lab_dir"
  trap lab_clean EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

lab_netns() {
  local name
  for name in "$@"; do
    ip netns add "$lab_prefix$name"
    ip -n "$lab_prefix$name" link set lo up
  done
}

lab_start() {
  # The lock belongs to the lab, not to what it starts.
  setsid -- env "MTL_LAB_PREFIX=$lab_prefix" "MTL_LAB_DIR=$lab_dir" "$@" {lab_lock}>&- &
}

# Prints the processes of the lab, also of a run that was killed: known by their environment, or by
# the namespace that they are in.
lab_processes() {
  local ns
  grep -lsF "MTL_LAB_PREFIX=$lab_prefix" /proc/[0-9]*/environ | cut -d / -f 3
  for ns in $(lab_namespaces); do
    ip netns pids "$ns"
  done
}

lab_namespaces() { ip netns list | awk -v p="$lab_prefix" 'index($1, p) == 1 {print $1}'; }

# Signals what the lab runs; status 0 while there is something.
lab_signal() {
  local pids
  pids=$(lab_processes | sort -u)
  # shellcheck disable=SC2086  # a list of numbers
  [ -n "$pids" ] && kill -"$1" $pids 2>/dev/null
}

# Ends the processes, politely first, and removes namespaces and directory.
lab_remove() {
  if lab_signal TERM; then
    local tenths=0
    while [ "$tenths" -lt 20 ] && lab_signal 0; do
      sleep 0.1
      tenths=$((tenths + 1))
    done
    lab_signal KILL || true
  fi
  local ns
  for ns in $(lab_namespaces); do
    ip netns delete "$ns"
  done
  rm -rf "${lab_dir:?}"
}

lab_clean() {
  trap '' HUP INT TERM
  lab_remove
  trap - EXIT
}
