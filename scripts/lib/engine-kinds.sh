# shellcheck shell=bash
# How the engines differ. For each KIND: needs_ says what is missing,
# configure_ writes its settings, prepare_ runs inside its mount namespace,
# command_ prints the daemon's command, one word per line.

need_programs() {
  local pair missing=()
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || [[ -x ${pair%%:*} ]] || missing+=("${pair#*:}")
  done
  if ((${#missing[@]} > 0)); then
    printf 'engine: install with apt-get install --no-install-recommends %s\n' "${missing[*]}" >&2
    return 1
  fi
}

# The engine's own command line, with nobody's settings.
ask() {
  local -a command=(docker --host "unix://$DIR/$SOCKET")
  if [[ $KIND != docker ]]; then
    command=(podman --remote --url "unix://$DIR/$SOCKET")
  fi
  env -i PATH="$PATH" HOME="$DIR/home" "${command[@]}" "$@" </dev/null
}

# An ordinary user with a range of ids, for a rootless engine or a remapped one.
# It exists in the engine's own /etc only; outside it is a number.
readonly USER_NAME=vestal-test USER_ID=59871 USER_RANGE=1996488704

add_engine_user() {
  add_user "$USER_NAME" "$USER_ID" "$DIR/own/home" "$USER_RANGE"
}

# ---------------------------------------------------------------- docker ----

needs_docker() {
  need_programs dockerd:docker.io docker:docker.io ip:iproute2 iptables:iptables
}

configure_docker() {
  echo '{}' >"$DIR/daemon.json"
}

prepare_docker() {
  :
}

command_docker() {
  printf '%s\n' dockerd --config-file "$DIR/daemon.json" --host "unix://$DIR/$SOCKET" \
    --data-root "$DIR/data" --exec-root "$DIR/exec" --pidfile "$DIR/pid" \
    --exec-opt native.cgroupdriver=cgroupfs "$@"
}

# ---------------------------------------------------------------- podman ----

needs_podman() {
  need_programs podman:podman crun:crun ip:iproute2 iptables:iptables \
    /usr/lib/podman/netavark:netavark
}

# A limit below both this process's own and what a container may want: without
# CAP_SYS_RESOURCE nobody can raise one.
limit() {
  local -r hard="$(ulimit -H "$1")" wanted="$2"
  if [[ $hard == unlimited ]] || ((hard > wanted)); then
    echo "$wanted"
  else
    echo "$hard"
  fi
}

# configure_podman [DIRECTORY]: with its data in that directory.
configure_podman() {
  local -r own="${1:-$DIR}"
  local defaults=
  if [[ $ULIMITS == yes ]]; then
    defaults="default_ulimits = [\"nofile=$(limit -n 65536):$(limit -n 65536)\", \"nproc=$(limit -u 31000):$(limit -u 31000)\"]"
  fi
  cat >"$DIR/containers.conf" <<CONF
[containers]
keyring = false
$defaults
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[network]
network_backend = "netavark"
CONF
  printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' \
    "$own/data" "$own/exec" >"$DIR/storage.conf"
  printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$REGISTRY_ADDRESS" >"$DIR/registries.conf"
}

prepare_podman() {
  # Its locks are in shared memory, under a name that every Podman uses.
  mount -t tmpfs tmpfs /dev/shm
}

command_podman() {
  podman_command "$DIR" "$@"
}

# podman_command DIRECTORY OPTION…: with its data in that directory.
podman_command() {
  local -r own="$1"
  shift
  printf '%s\n' env CONTAINERS_CONF="$DIR/containers.conf" CONTAINERS_STORAGE_CONF="$DIR/storage.conf" \
    CONTAINERS_REGISTRIES_CONF="$DIR/registries.conf" \
    podman --root "$own/data" --runroot "$own/exec" --tmpdir "$own/state" \
    --network-config-dir "$own/networks" "$@" system service --time 0 "unix://$DIR/$SOCKET"
}

# -------------------------------------------------------------- rootless ----

needs_rootless() {
  needs_podman
  need_programs newuidmap:uidmap slirp4netns:slirp4netns
}

configure_rootless() {
  mkdir "$DIR/own" "$DIR/own/home" "$DIR/own/tmp" "$DIR/own/run"
  chmod 700 "$DIR/own/run"
  chown -R "$USER_ID:$USER_ID" "$DIR/own"
  configure_podman "$DIR/own"
}

prepare_rootless() {
  prepare_podman
  # As on a machine that is set up for rootless engines.
  local device
  for device in net/tun fuse; do
    [[ -c /dev/$device ]] || continue
    cp -R --preserve=mode "/dev/$device" "$DIR/layers/etc/${device#*/}"
    chmod 666 "$DIR/layers/etc/${device#*/}"
    mount --bind "$DIR/layers/etc/${device#*/}" "/dev/$device"
  done
  if unified_cgroups; then
    chown "$USER_ID:$USER_ID" /sys/fs/cgroup{,/init}/{,cgroup.procs,cgroup.subtree_control}
  fi
}

command_rootless() {
  printf '%s\n' setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups \
    env HOME="$DIR/own/home" TMPDIR="$DIR/own/tmp" XDG_RUNTIME_DIR="$DIR/own/run" USER="$USER_NAME"
  podman_command "$DIR/own" "$@"
}

# -------------------------------------------------------------- registry ----

readonly REGISTRY_ADDRESS=127.0.0.1:5000

# Serves a registry in the engine's network namespace, where the port is free and
# nobody else listens, and puts an image there that the engine does not have.
serve_registry() {
  cat >"$DIR/registry.yml" <<CONF
version: 0.1
log:
  level: error
storage:
  filesystem:
    rootdirectory: $DIR/registry
  delete:
    enabled: true
http:
  addr: $REGISTRY_ADDRESS
CONF
  (exec_inside docker-registry serve "$DIR/registry.yml") &
  local -r registry=$! pulled="$REGISTRY_ADDRESS/vestal-test/pulled:latest"
  ask tag vestal-test/busybox:latest "$pulled" >>"$DIR/log" 2>&1
  wait_for "$registry" 60 "the registry" ask push "$pulled"
  ask rmi "$pulled" >>"$DIR/log" 2>&1
}
