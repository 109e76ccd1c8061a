# bash completion for mtctl; source it, or install it as /usr/share/bash-completion/completions/mtctl

_mtctl_sockets() {
  compgen -G '/run/mtlink/*.sock'
}

# Names of the ports of the node, if it answers.
_mtctl_ports() {
  mtctl "${_mtctl_socket[@]}" -j show ports 2>/dev/null | grep -o '"name":"[^"]*"' | cut -d'"' -f4
}

_mtctl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local -a words=() _mtctl_socket=()
  local i choices=
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -s | --socket) _mtctl_socket=(-s "${COMP_WORDS[++i]}") ;;
      -*) ;;
      *) words+=("${COMP_WORDS[i]}") ;;
    esac
  done
  case $previous in
    -s | --socket)
      mapfile -t COMPREPLY < <(compgen -W "$(_mtctl_sockets)" -- "$current")
      [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
      ;;
    -w | --write) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --direction) mapfile -t COMPREPLY < <(compgen -W 'in out' -- "$current"); return ;;
    --kind) mapfile -t COMPREPLY < <(compgen -W 'DATA STATUS NACK INIT CLOSE' -- "$current"); return ;;
  esac
  case "${words[*]}" in
    '') choices='show watch ping trace stats port impair rate capture workers routes reload --socket --json --version --help' ;;
    show) choices='node ports links vcs routes trunks drops workers memory' ;;
    watch*) choices='--count' ;;
    ping*) choices='--count --interval --size --timeout --partition --entropy --hop-limit' ;;
    trace*) choices='--max-hops --partition --entropy' ;;
    stats) choices='--check' ;;
    port) choices='up down move' ;;
    'port up' | 'port down' | 'port move' | impair | rate) choices=$(_mtctl_ports) ;;
    impair*)
      choices='--drop --corrupt-header --corrupt --duplicate --reorder --reorder-delay --delay --jitter --seed --clear'
      ;;
    rate*) choices='off --overhead' ;;
    capture*)
      choices="$(_mtctl_ports)
        --write --overwrite --file-size --files --count --time --buffer --direction --kind --vc --node --drops --snap"
      ;;
    workers) choices='balance measure' ;;
    'workers balance') choices='--dry-run' ;;
    'workers measure') choices='on off' ;;
    routes) choices='set' ;;
    reload) choices='--dry-run' ;;
    'routes set') mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
}
complete -F _mtctl mtctl
