# shellcheck shell=bash
# Sees to it that everything the chosen phases need is on the machine.

# Accepted from the machine when at least this new, else built in this version.
readonly NEXTEST_AT_LEAST=0.9.130 NEXTEST_VERSION=0.9.151
readonly DENY_AT_LEAST=0.20.0 DENY_VERSION=0.20.2
readonly MDBOOK_AT_LEAST=0.5.3 MDBOOK_VERSION=0.5.4

# Clients of other people that the API server, the MCP server and the agent in editors are tested with.
readonly OPENAI_PYTHON_VERSION=3.51.0 LLM_VERSION=0.36 OPENAI_NODE_VERSION=7.55.0
readonly MCP_PYTHON_VERSION=2.3.0 MCP_INSPECTOR_VERSION=0.15.0
readonly ACP_PYTHON_VERSION=0.12.1 ACP_NODE_VERSION=2.4.0

# Versions of hermes-agent whose homes `vestal migrate` is tested with. Each has an environment of its own.
readonly HERMES_VERSIONS=(0.16.0 0.19.0)

# What tests the package for Python, and those whose agents its examples are.
readonly PYTHON_PACKAGES=(pytest==9.2.0 mypy==2.4.1 langchain==1.4.7 langchain-openai==1.7.3 openai-agents==0.24.0)

# What drives the browser that the dashboard is tested with, what examines its pages and modules, and the
# provider that people log in at.
readonly BROWSER_PACKAGES=(playwright-core@1.65.1 axe-core@4.14.0 typescript@7.0.2 oidc-provider@9.13.3)

# What a phase needs: "command:Debian package,…".
needs_of() {
  case "$1" in
    shell) echo shellcheck:shellcheck ;;
    lint | docs | deny | quick | book | soak) echo cc:gcc,libc6-dev ;;
    # The alternative to native sandboxes is measured in the same run.
    bench) echo cc:gcc,libc6-dev bwrap:bubblewrap python3:python3-minimal ;;
    # Scripts of the agent are Python, and tasks of the board have git worktrees.
    test) echo cc:gcc,libc6-dev python3:python3-minimal git:git curl:curl npm:npm,nodejs chromium:chromium ;;
    full) echo cc:gcc,libc6-dev python3:python3-minimal git:git npm:npm,nodejs chromium:chromium ;;
    newer | stress) echo cc:gcc,libc6-dev python3:python3-minimal git:git ;;
    kubernetes) echo cc:gcc,libc6-dev perl:perl python3:python3-minimal openssl:openssl ip:iproute2 ;;
    image) echo cc:gcc,libc6-dev debootstrap:debootstrap docker:docker.io python3:python3-minimal ;;
    systemd) echo cc:gcc,libc6-dev debootstrap:debootstrap ip:iproute2 curl:curl python3:python3-minimal ;;
    bare) echo debootstrap:debootstrap ;;
  esac
}

phase_setup() {
  local phase need
  local -a packages=() missing
  for phase in newer image kubernetes systemd bare; do
    if is_one_of "$phase" "$@"; then
      may_make_namespaces "$phase"
    fi
  done
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
  if ((EUID == 0)) && is_one_of full "$@" && engines_wanted full; then
    scripts/lib/apptainer prepare
  fi
  toolchain_present
  for phase in "$@"; do
    case "$phase" in
      test | full | newer | image | kubernetes | stress | quick | soak) cargo_tool cargo-nextest "$NEXTEST_AT_LEAST" "$NEXTEST_VERSION" \
        --no-default-features --features default-no-update ;;
      deny) cargo_tool cargo-deny "$DENY_AT_LEAST" "$DENY_VERSION" ;;
      # Without its server, which nobody needs here.
      book) cargo_tool mdbook "$MDBOOK_AT_LEAST" "$MDBOOK_VERSION" --no-default-features --features search ;;
    esac
  done
  if is_one_of test "$@" && clients_wanted; then
    api_clients
  fi
  if { is_one_of test "$@" || is_one_of full "$@"; } && browser_wanted; then
    browser_packages
  fi
}

# Whether the tests of the dashboard are among those that run.
browser_wanted() {
  ((${#ONLY_PACKAGES[@]} == 0)) || is_one_of vestal-dashboard "${ONLY_PACKAGES[@]}"
}

# Every package that the tests of the dashboard need: NAME@VERSION each. Those that the dashboard has files
# of are among them, in the same version, because they declare the types that its modules are checked with.
browser_packages_wanted() {
  printf '%s\n' "${BROWSER_PACKAGES[@]}"
  awk -F'"' '$2 == "name" { name = $4 } $2 == "version" { print name "@" $4 }' \
    crates/dashboard/assets/vendor/manifest.json | sort -u
}

# Where they are. Other versions have another place.
browser_dir() {
  local versions
  versions="$(browser_packages_wanted | sha256sum)"
  echo "$CARGO_HOME/vestal-tools/browser-${versions:0:12}"
}

# Installs them once per machine, in these versions. The browser itself is Debian's.
browser_packages() {
  local -r dir="$(browser_dir)"
  if [[ $VESTAL_TEST_BROWSER != "$dir" || -e $dir/ready ]]; then
    echo "packages that drive the browser: $VESTAL_TEST_BROWSER"
    return 0
  fi
  local -a packages
  mapfile -t packages < <(browser_packages_wanted)
  echo "installing what drives the browser (once per machine): ${packages[*]}"
  mkdir -p "$dir"
  # Two runs at once would install into each other.
  exec 9>"$dir/lock"
  flock 9
  if [[ ! -e $dir/ready ]]; then
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$dir" "${packages[@]}" || {
      printf 'could not install what drives the browser; npm must be reachable, or VESTAL_TEST_BROWSER must name a directory with node_modules of: %s\n' "${packages[*]}" >&2
      return 1
    }
    touch "$dir/ready"
  fi
  exec 9>&-
}

# Whether the tests of the API server, or of the MCP server, are among those that run.
clients_wanted() {
  ((${#ONLY_PACKAGES[@]} == 0)) || is_one_of vestal-gateway "${ONLY_PACKAGES[@]}" ||
    is_one_of vestal-cli "${ONLY_PACKAGES[@]}" || is_one_of vestal-model "${ONLY_PACKAGES[@]}"
}

# Where the clients are: python/, node/ and hermes-VERSION/.
clients_dir() {
  local versions
  versions="$(printf '%s\n' "$OPENAI_PYTHON_VERSION" "$LLM_VERSION" "$OPENAI_NODE_VERSION" "$MCP_PYTHON_VERSION" \
    "$MCP_INSPECTOR_VERSION" "$ACP_PYTHON_VERSION" "$ACP_NODE_VERSION" "${PYTHON_PACKAGES[@]}" "${HERMES_VERSIONS[@]}" | sha256sum)"
  echo "$CARGO_HOME/vestal-tools/clients-${versions:0:12}"
}

# Installs them once per machine, in these versions.
api_clients() {
  local -r dir="$(clients_dir)"
  if [[ $VESTAL_TEST_CLIENTS != "$dir" || -e $dir/ready ]]; then
    echo "clients of other people: $VESTAL_TEST_CLIENTS"
    return 0
  fi
  python3 -c 'import ensurepip, venv' 2>/dev/null || packages_present python3-venv
  echo "installing clients of other people (once per machine): openai $OPENAI_PYTHON_VERSION, llm $LLM_VERSION, openai for Node $OPENAI_NODE_VERSION, mcp $MCP_PYTHON_VERSION, MCP Inspector $MCP_INSPECTOR_VERSION, agent-client-protocol $ACP_PYTHON_VERSION and for Node $ACP_NODE_VERSION, hermes-agent ${HERMES_VERSIONS[*]}"
  mkdir -p "$dir/node"
  # Two runs at once would install into each other.
  exec 9>"$dir/lock"
  flock 9
  if [[ -e $dir/ready ]]; then
    return 0
  fi
  # At its final place: programs of a virtual environment name it.
  install_clients "$dir" || {
    printf 'could not install the clients that the API server, the MCP server and the agent in editors are tested with; PyPI and npm must be reachable, or VESTAL_TEST_CLIENTS must name a directory with python/ (a virtual environment with openai, llm, mcp, agent-client-protocol, pytest, mypy, langchain, langchain-openai and openai-agents) and node/ (with node_modules/openai, @modelcontextprotocol/inspector and @agentclientprotocol/sdk), and hermes-VERSION/ (virtual environments with hermes-agent)\n' >&2
    return 1
  }
  touch "$dir/ready"
  exec 9>&-
}

install_clients() {
  python3 -m venv --clear "$1/python" || return 1
  "$1/python/bin/pip" install --quiet --disable-pip-version-check \
    "openai==$OPENAI_PYTHON_VERSION" "llm==$LLM_VERSION" "mcp==$MCP_PYTHON_VERSION" \
    "agent-client-protocol==$ACP_PYTHON_VERSION" "${PYTHON_PACKAGES[@]}" || return 1
  npm install --silent --no-audit --no-fund --prefix "$1/node" "openai@$OPENAI_NODE_VERSION" \
    "@modelcontextprotocol/inspector@$MCP_INSPECTOR_VERSION" \
    "@agentclientprotocol/sdk@$ACP_NODE_VERSION" || return 1
  local version
  for version in "${HERMES_VERSIONS[@]}"; do
    python3 -m venv --clear "$1/hermes-$version" || return 1
    "$1/hermes-$version/bin/pip" install --quiet --disable-pip-version-check "hermes-agent==$version" || return 1
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

# cargo_tool PROGRAM AT_LEAST VERSION [OPTION…]: sees to it that a program from crates.io is
# there. Built without optimisation: it takes a third of the time and runs fast enough here.
cargo_tool() {
  local -r program="$1" at_least="$2" version="$3"
  shift 3
  local found
  # `cargo nextest` says "cargo-nextest 0.9.1", `mdbook` "mdbook v0.5.4".
  found="$(version_of "$program" 2>/dev/null | awk 'NR == 1 { sub(/^v/, "", $2); print $2 }')" || found=
  if [[ -n $found ]] && at_least "$found" "$at_least"; then
    echo "$program $found"
    return 0
  fi
  echo "building $program $version (once per machine, takes some minutes)"
  # Half a gigabyte, too much for a temporary directory that may be in memory.
  local -r build="$(target_dir)/cargo-tools"
  echo "$build" >>"$WORK/remove"
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_INCREMENTAL=false \
    cargo install "$program" --version "=$version" --locked --debug --quiet "$@" \
    --root "$CARGO_HOME/vestal-tools" --target-dir "$build" || {
    printf 'could not build %s; install version %s or newer by hand\n' "$program" "$at_least" >&2
    return 1
  }
}

version_of() {
  case "$1" in
    cargo-*) cargo "${1#cargo-}" --version ;;
    *) "$1" --version ;;
  esac
}

at_least() {
  [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]
}

may_make_namespaces() {
  if ((EUID != 0)); then
    echo "the phase $1 needs root (it makes a Debian root and mounts)" >&2
    return 1
  fi
  unshare --mount --pid --fork true || {
    echo "the phase $1 needs mount and pid namespaces, which this machine does not allow" >&2
    return 1
  }
}
