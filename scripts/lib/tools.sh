# shellcheck shell=bash
# Sees to it that everything the chosen phases need is on the machine.

# Accepted from the machine when at least this new, else built in this version.
readonly NEXTEST_AT_LEAST=0.9.130 NEXTEST_VERSION=0.9.151
readonly DENY_AT_LEAST=0.20.0 DENY_VERSION=0.20.2

# What a phase needs: "command:Debian package,…".
needs_of() {
  case "$1" in
    shell) echo shellcheck:shellcheck ;;
    lint | docs | deny | quick | soak) echo cc:gcc,libc6-dev ;;
    # The alternative to native sandboxes is measured in the same run.
    bench) echo cc:gcc,libc6-dev bwrap:bubblewrap python3:python3-minimal ;;
    # Scripts of the agent are Python, and tasks of the board have git worktrees.
    test | full | stress) echo cc:gcc,libc6-dev python3:python3-minimal git:git ;;
    bare) echo debootstrap:debootstrap ;;
  esac
}

phase_setup() {
  local phase need
  local -a packages=() missing
  if is_one_of bare "$@"; then
    may_make_namespaces
  fi
  for phase in "$@"; do
    for need in $(needs_of "$phase"); do
      if ! command -v "${need%%:*}" >/dev/null; then
        IFS=, read -ra missing <<<"${need#*:}"
        packages+=("${missing[@]}")
      fi
    done
  done
  packages_present "${packages[@]}"
  if engines_wanted "$@"; then
    engine_packages_present
  fi
  toolchain_present
  for phase in "$@"; do
    case "$phase" in
      test | full | stress | quick | soak) cargo_tool nextest "$NEXTEST_AT_LEAST" "$NEXTEST_VERSION" \
        --no-default-features --features default-no-update ;;
      deny) cargo_tool deny "$DENY_AT_LEAST" "$DENY_VERSION" ;;
    esac
  done
}

packages_present() {
  (($# > 0)) || return 0
  local -a packages
  mapfile -t packages < <(printf '%s\n' "$@" | sort -u)
  if ((EUID != 0)); then
    printf 'missing on this machine; install with: sudo apt-get install --no-install-recommends %s\n' \
      "${packages[*]}" >&2
    return 1
  fi
  echo "installing with apt: ${packages[*]}"
  local -rx DEBIAN_FRONTEND=noninteractive
  local -r options=(-qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" install -y --no-install-recommends "${packages[@]}" >"$WORK/apt.log" 2>&1 || {
    cat "$WORK/apt.log" >&2
    return 1
  }
}

toolchain_present() {
  local command
  for command in rustc cargo rustfmt cargo-fmt cargo-clippy; do
    command -v "$command" >/dev/null || {
      printf 'missing: %s. Install the Rust toolchain with rustfmt and clippy (https://rustup.rs).\n' \
        "$command" >&2
      return 1
    }
  done
  rustc --version
}

# cargo_tool NAME AT_LEAST VERSION [OPTION…]: makes `cargo NAME` work. Built
# without optimisation: it takes a third of the time and runs fast enough here.
cargo_tool() {
  local -r name="$1" at_least="$2" version="$3"
  shift 3
  local found
  found="$(cargo "$name" --version 2>/dev/null | awk 'NR == 1 { print $2 }')" || found=
  if [[ -n $found ]] && at_least "$found" "$at_least"; then
    echo "cargo-$name $found"
    return 0
  fi
  echo "building cargo-$name $version (once per machine, takes some minutes)"
  # Half a gigabyte, too much for a temporary directory that may be in memory.
  local -r build="$(target_dir)/cargo-tools"
  echo "$build" >>"$WORK/remove"
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_INCREMENTAL=false \
    cargo install "cargo-$name" --version "=$version" --locked --debug --quiet "$@" \
    --root "$CARGO_HOME/vestal-tools" --target-dir "$build" || {
    printf 'could not build cargo-%s; install version %s or newer by hand\n' "$name" "$at_least" >&2
    return 1
  }
}

at_least() {
  [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]
}

may_make_namespaces() {
  if ((EUID != 0)); then
    echo "the phase bare needs root (it makes a Debian root and mounts)" >&2
    return 1
  fi
  unshare --mount --pid --fork true || {
    echo "the phase bare needs mount and pid namespaces, which this machine does not allow" >&2
    return 1
  }
}
