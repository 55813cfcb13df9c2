# shellcheck shell=bash
# The container engines of a run, its ordinary user, and what makes machines with
# an ssh server: there before the first phase that needs them, told to the tests by
# VESTAL_TEST_* variables, gone after the last.

readonly ENGINE_PHASES=(test full image stress bench soak)
readonly ENGINE_KINDS=(docker podman rootless)

# What starts engines, and where they are below $WORK: those of this machine, or
# for the phase `newer` those of Debian sid.
ENGINE_SCRIPT=scripts/lib/engine
ENGINE_DIR=e

# "command:Debian package" of all that the engines and their images need.
readonly ENGINE_NEEDS=(
  dockerd:docker.io docker:docker.io docker-registry:docker-registry
  podman:podman crun:crun /usr/lib/podman/netavark:netavark
  newuidmap:uidmap slirp4netns:slirp4netns
  ip:iproute2 iptables:iptables
  busybox:busybox-static bash-static:bash-static debootstrap:debootstrap
)

# The same of the machines with an ssh server, with the login shells they can have.
readonly SSH_NEEDS=(
  /usr/sbin/sshd:openssh-server ssh:openssh-client dash:dash fish:fish tcsh:tcsh
  python3:python3-minimal pgrep:procps unshare:util-linux
)

# How the cgroups of this run's engines begin. A run in a run is told whose it is.
run_name() {
  echo "${VESTAL_TEST_CGROUP:-${WORK##*/}}"
}

# Whether one of these phases runs tests of the crates that know engines.
engines_wanted() {
  local phase name
  for phase in "$@"; do
    is_one_of "$phase" "${ENGINE_PHASES[@]}" || continue
    ((${#ONLY_PACKAGES[@]} > 0)) || return 0
    for name in "${ONLY_PACKAGES[@]}"; do
      is_one_of "$name" vestal-sandbox vestal-cli && return 0
    done
  done
  return 1
}

# The variable that names an engine of that kind to the tests.
host_variable() {
  case "$1" in
    docker) echo VESTAL_TEST_DOCKER_HOST ;;
    podman) echo VESTAL_TEST_PODMAN_HOST ;;
    rootless) echo VESTAL_TEST_PODMAN_ROOTLESS_HOST ;;
  esac
}

# Prints the kinds that the user gave no engine for.
own_engines() {
  local kind variable
  for kind in "${ENGINE_KINDS[@]}"; do
    variable="$(host_variable "$kind")"
    [[ -n ${!variable:-} ]] || echo "$kind"
  done
}

# Installs what is missing. Engines that cannot be had are not a reason not to run
# the rest: their backends are then reported as not run.
engine_packages_present() {
  local need
  local -a packages=()
  local -a needs=("${SSH_NEEDS[@]}")
  if [[ -n $(own_engines) ]]; then
    needs+=("${ENGINE_NEEDS[@]}")
  fi
  for need in "${needs[@]}"; do
    command -v "${need%%:*}" >/dev/null || packages+=("${need#*:}")
  done
  ((${#packages[@]} > 0)) || return 0
  # What apt installs must not start: an engine of the machine is not ours.
  if ((EUID == 0)) && [[ ! -e /usr/sbin/policy-rc.d ]]; then
    echo /usr/sbin/policy-rc.d >>"$WORK/remove"
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
  fi
  packages_present "${packages[@]}" ||
    echo "the engines and machines with an ssh server need these packages and will not run"
  if grep -qsx /usr/sbin/policy-rc.d "$WORK/remove"; then
    rm -f /usr/sbin/policy-rc.d
  fi
}

# ----------------------------------------------------------------- start ----

# Starts an engine of each kind that was not given, all at once.
phase_engines() {
  local kind failed=0
  local -a kinds=() starts=()
  tell VESTAL_TEST_ENGINE "$PWD/$ENGINE_SCRIPT"
  tell VESTAL_TEST_IMAGE_DIR "$(target_dir)/test-images"
  tell VESTAL_TEST_CGROUP "$(run_name)"
  tell VESTAL_TEST_IMAGES "$(scripts/lib/images --list | tr '\n' ' ')"
  ordinary_user
  ssh_machines
  apptainer_root
  mapfile -t kinds < <(own_engines)
  if ((${#kinds[@]} > 0 && EUID != 0)); then
    for kind in "${kinds[@]}"; do
      printf 'engine %s: not started, which needs root; give one that has the test images with %s\n' \
        "$kind" "$(host_variable "$kind")"
    done
    return 0
  fi
  ((${#kinds[@]} > 0)) || return 0
  with_told scripts/lib/images "$(target_dir)/test-images" >/dev/null
  mkdir -p "$WORK/$ENGINE_DIR"
  for kind in "${kinds[@]}"; do
    start_engine "$kind" &
    starts+=($!)
  done
  for kind in "${!kinds[@]}"; do
    wait "${starts[kind]}" || failed=1
  done
  return "$failed"
}

# The user that native sandboxes are tested with beside root; who is not root is
# that user.
ordinary_user() {
  tell VESTAL_TEST_USER "$PWD/scripts/lib/user"
  tell VESTAL_TEST_USER_DIR "$WORK/u"
  if ((EUID == 0)); then
    scripts/lib/user make "$WORK/u"
  else
    mkdir -p "$WORK/u/own/tmp"
    echo "native sandboxes of root: not run, which needs root"
  fi
}

# Each test on ssh starts a machine of its own.
ssh_machines() {
  if ((EUID != 0)); then
    echo "machines with an ssh server: not started, which needs root"
    return 0
  fi
  tell VESTAL_TEST_SSH_HOST "$PWD/scripts/lib/ssh-host"
  printf 'machines with an ssh server: %s\n' "$(ssh -V 2>&1)"
}

# Apptainer, if its root is on this machine: the everyday run downloads nothing for it.
apptainer_root() {
  local -r images="$(target_dir)/test-images"
  local archive
  if ((EUID != 0)); then
    echo "apptainer: not run, which needs root"
    return 0
  elif ! apptainer_ready; then
    echo "apptainer: not run; \`scripts/lib/apptainer prepare\` makes its root (300 MB), and --full does"
    return 0
  fi
  # All that is printed is read: who writes to a closed pipe is killed.
  archive="$(scripts/lib/images "$images")"
  archive="${archive%%$'\n'*}"
  scripts/lib/apptainer images "$images/apptainer" "$archive" >"$WORK/apptainer.log" 2>&1 || {
    cat "$WORK/apptainer.log"
    return 1
  }
  scripts/lib/apptainer program "$WORK/apptainer"
  tell VESTAL_TEST_APPTAINER "$WORK/apptainer"
  tell VESTAL_TEST_APPTAINER_USER "$PWD/scripts/lib/apptainer-user"
  tell VESTAL_TEST_APPTAINER_IMAGES "$images/apptainer"
  printf 'apptainer: %s\n' "$("$WORK/apptainer" --version)"
}

apptainer_ready() {
  ((EUID == 0)) && scripts/lib/apptainer ready
}

# possible [FILTER]: the filter of tests without what cannot run on this machine.
possible() {
  local -r filter="${1:-all()}"
  if apptainer_ready; then
    echo "$filter"
  else
    echo "($filter) - test(/^apptainer(_user)?::/)"
  fi
}

start_engine() {
  local -r kind="$1" dir="$WORK/$ENGINE_DIR/$1" began=$SECONDS
  local address version
  address="$(with_told "$ENGINE_SCRIPT" "$kind" start "$dir" --registry --until $$)" || {
    printf 'engine %s: could not be started\n' "$kind"
    return 1
  }
  tell "$(host_variable "$kind")" "$address"
  tell VESTAL_TEST_REGISTRY 127.0.0.1:5000
  version="$(engine_version "$kind")"
  case "$kind" in
    docker) tell VESTAL_TEST_DOCKER_PIDFILE "$dir/pid" ;;
    rootless)
      tell VESTAL_TEST_ROOTLESS_USER "$(stat -c %u "$dir/own")"
      tell VESTAL_TEST_ROOTLESS_DIR "$dir/own"
      ;;
  esac
  printf 'engine %s: %s at %s, started in %d s\n' "$kind" "${version%, build*}" "$address" $((SECONDS - began))
}

engine_version() {
  local program=podman suffix=
  case "$1" in
    docker) program=dockerd ;;
    rootless) suffix=', rootless' ;;
  esac
  if [[ $ENGINE_SCRIPT == scripts/lib/newer-engine ]]; then
    printf '%s%s\n' "$("$ENGINE_SCRIPT" version "$program")" "$suffix"
  else
    printf '%s%s\n' "$("$program" --version)" "$suffix"
  fi
}

# A variable for the tests, in a file because phases are processes.
tell() {
  printf '%s=%s\n' "$1" "$2" >>"$WORK/told"
}

# Runs a command with the variables.
with_told() (
  export_told
  exec "$@"
)

export_told() {
  local line
  [[ -f $WORK/told ]] || return 0
  while IFS= read -r line; do
    export "${line?}"
  done <"$WORK/told"
}

# ------------------------------------------------------------------- end ----

# stop_engines [DIRECTORY]
stop_engines() {
  local dir failed=0
  for dir in "$WORK/${1:-$ENGINE_DIR}"/*; do
    [[ -d $dir ]] || continue
    "$ENGINE_SCRIPT" "${dir##*/}" stop "$dir" || failed=1
  done
  rm -f "$WORK/told"
  return "$failed"
}

# Ends the engines that tests started for themselves, or that were forgotten for
# whatever reason: their cgroups carry the name of this run.
sweep_engines() {
  local -r list="$WORK/cgroups"
  find /sys/fs/cgroup -type d -name "$(run_name).*" -prune 2>/dev/null >"$list" || true
  kill_cgroups "$list"
  remove_cgroups "$list"
}

# Fails when tests left containers, volumes, networks or images in the engines of
# this run, or engines of their own, says which, and removes them.
engines_left_clean() {
  local dir kind left failed=0
  for dir in "$WORK/$ENGINE_DIR"/*; do
    [[ -e $dir/filled ]] || continue
    kind="${dir##*/}"
    left="$("$ENGINE_SCRIPT" "$kind" clean "$dir")" || failed=1
    if [[ -n $left ]]; then
      printf 'left behind in the engine %s:\n%s\n' "$kind" "$left"
      failed=1
    fi
  done
  left="$(find /sys/fs/cgroup -type d -name "$(run_name).*" -prune 2>/dev/null |
    grep -vxFf <(cat "$WORK"/*/*/cgroups 2>/dev/null))" || left=
  if [[ -n $left ]]; then
    printf 'left behind: engines in the cgroups\n%s\n' "$left"
    echo "$left" >"$WORK/cgroups"
    kill_cgroups "$WORK/cgroups" && remove_cgroups "$WORK/cgroups"
    failed=1
  fi
  return "$failed"
}
