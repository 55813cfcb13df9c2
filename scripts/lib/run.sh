# shellcheck shell=bash
# Runs phases one after the other, keeps their results, and leaves nothing
# behind: neither files nor processes, also after Ctrl-C.

WORK=
SCRATCH=
readonly MACHINE_CACHE=/var/cache/vestal
PHASE_GROUP=
RESULTS=()
FAILED=()

say() {
  printf '\n== %s\n' "$*"
}

fail_usage() {
  printf 'scripts/test: %s\nTry scripts/test --help.\n' "$1" >&2
  exit 2
}

is_one_of() {
  local -r wanted="$1"
  shift
  local candidate
  for candidate in "$@"; do
    [[ $candidate == "$wanted" ]] && return 0
  done
  return 1
}

clock() {
  printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}

begin() {
  # Nobody is there to answer a question, and one stream keeps lines in order.
  exec </dev/null 2>&1
  # Short, because below it each test has a directory of its own, in which the
  # path of a unix socket must fit into 108 bytes and that of Podman's run
  # directory into 50.
  WORK="$(mktemp -d "${TMPDIR:-/tmp}/vt.XXXXXX")"
  chmod 711 "$WORK"
  SCRATCH="$WORK/s"
  # Engines of other users keep what is theirs below it, and find nothing else.
  chmod 711 "$WORK"
  # Sandboxes of root keep a cache there for the whole machine.
  [[ -e $MACHINE_CACHE ]] || echo "$MACHINE_CACHE" >>"$WORK/remove"
  trap clean_up EXIT
  trap 'interrupted INT 2' INT
  trap 'interrupted TERM 15' TERM
  trap 'interrupted HUP 1' HUP
  fresh_scratch
  export CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}"
  export RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
  export PATH="$CARGO_HOME/vestal-tools/bin:$PATH:$CARGO_HOME/bin"
  # What is built once and thrown away has no use for what speeds up a second
  # time, and takes more than half of the disk.
  if [[ ${CI:-} == true ]]; then
    export CARGO_INCREMENTAL=0
  fi
}

# Runs the function phase_NAME with the further arguments and keeps its result.
# It runs in a process group of its own, so that an interrupt can end all of it.
# Succeeds also when the phase failed: a caller that tested the result would
# switch off `set -e` in the phase.
run_phase() {
  local -r name="$1" started=$SECONDS
  shift
  say "$name (at $(clock "$SECONDS"))"
  set -m
  ("phase_$name" "$@") &
  PHASE_GROUP=$!
  set +m
  local status=0 word=ok
  wait "$PHASE_GROUP" || status=$?
  PHASE_GROUP=
  if ((status != 0)); then
    word=FAILED
    FAILED+=("$name")
  fi
  RESULTS+=("$(printf '%-7s %-7s %6s %s' "$word" "$name" "$(clock $((SECONDS - started)))" \
    "$(against_budget "$name" $((SECONDS - started)))")")
}

# against_budget NAME SECONDS: what scripts/budget says to a time. Reported, never
# red: a busy machine is not a defect. A phase that is over it on a quiet one is.
against_budget() {
  local budget
  budget="$(awk -v name="$1" '$1 == name { print $2 }' scripts/budget)"
  if [[ -z $budget ]]; then
    return 0
  elif (($2 > budget)); then
    printf '(OVER its budget of %s)' "$(clock "$budget")"
  else
    printf '(budget %s)' "$(clock "$budget")"
  fi
}

# Prints the summary and ends the run.
finish() {
  print_times
  say "summary (total $(clock "$SECONDS") $(against_budget total "$SECONDS"))"
  printf '%s\n' "${RESULTS[@]}"
  local name
  for name in "${FAILED[@]}"; do
    if ! is_one_of "$name" setup engines; then
      printf 'to run only what failed: scripts/test %s\n' "$name"
    fi
  done
  print_counts
  ((${#FAILED[@]} == 0)) || exit 1
  exit 0
}

interrupted() {
  trap '' INT TERM HUP
  printf '\ninterrupted by SIG%s, cleaning up\n' "$1" >&2
  exit $((128 + $2))
}

clean_up() {
  trap '' INT TERM HUP
  end_phase
  stop_engines
  # A phase that was interrupted may have started newer ones.
  stop_engines n
  if [[ -f $WORK/cluster ]]; then
    scripts/lib/kubernetes stop "$(cat "$WORK/cluster")" || true
  fi
  sweep_engines
  local -a left
  mapfile -t left < <(strays)
  if ((${#left[@]} > 0)); then
    kill -KILL "${left[@]}" 2>/dev/null || true
  fi
  local path
  if [[ -f $WORK/remove ]]; then
    while IFS= read -r path; do
      remove_tree "$path"
    done <"$WORK/remove"
  fi
  remove_tree "$WORK"
}

# A process that is just being killed may still create a file.
remove_tree() {
  local attempt
  for attempt in 1 2 3 4 5; do
    rm -rf --one-file-system -- "$1" 2>/dev/null && return 0
    sleep "$attempt"
  done
  printf 'could not remove %s\n' "$1" >&2
}

# Ends the process group of the running phase: politely first, because the test
# runner takes its own children along, then by force.
end_phase() {
  [[ -n $PHASE_GROUP ]] || return 0
  kill -TERM -- "-$PHASE_GROUP" 2>/dev/null || return 0
  local tenth
  for ((tenth = 0; tenth < 300; tenth++)); do
    kill -0 -- "-$PHASE_GROUP" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL -- "-$PHASE_GROUP" 2>/dev/null || true
}

# Runs a command with a home, a temporary directory and a runtime directory of
# its own and without the user's settings: the tests must neither see nor touch
# the sandboxes of the user who runs them.
hermetic() (
  local name
  for name in "${!VESTAL_@}" "${!TERMINAL_@}" "${!XDG_@}"; do
    [[ $name == VESTAL_SOAK_* || $name == VESTAL_TEST_* ]] || unset "$name"
  done
  export_told
  export HOME="$SCRATCH/home" TMPDIR="$SCRATCH/tmp" XDG_RUNTIME_DIR="$SCRATCH/run"
  exec "$@"
)

fresh_scratch() {
  rm -rf --one-file-system -- "$SCRATCH"
  # Tests run programs as other users too, who have to get through to what is
  # theirs; its random name is the only thing to see on the way.
  mkdir -m 711 -- "$SCRATCH" "$SCRATCH/tmp"
  mkdir -m 700 -- "$SCRATCH/home" "$SCRATCH/run"
}

# Prints the ids of the processes that hermetic commands started and left: the
# random name of their directories, which may be the ordinary user's, is in their
# environment, arguments, files or, in a sandbox, mounts.
strays() {
  [[ -n $SCRATCH ]] || return 0
  local -r user="$WORK/u/own"
  local pid
  {
    grep -lsF -e "$SCRATCH" -e "$user" /proc/[0-9]*/{environ,cmdline,mountinfo} || true
    find /proc/[0-9]*/{exe,cwd,fd} \( -lname "$SCRATCH*" -o -lname "$user*" \) 2>/dev/null || true
  } | cut -d/ -f3 | sort -un | while IFS= read -r pid; do
    # The search itself carries the name too, but is over by now.
    [[ -d /proc/$pid ]] && echo "$pid"
  done
  return 0
}

# Fails when a hermetic command left processes or files, says which, and
# removes them.
nothing_left_behind() {
  local -a left=()
  local second pid command failed=0
  # A detached process may need a moment to see that its work is over.
  for ((second = 0; second < 10; second++)); do
    mapfile -t left < <(strays)
    ((${#left[@]} > 0)) || break
    sleep 1
  done
  engines_left_clean || failed=1
  for pid in "${left[@]}"; do
    # What is dead and not yet reaped has no command line.
    command="$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")" || command=
    [[ -n $command ]] || continue
    printf 'left behind: process %s: %s\n' "$pid" "$command"
    kill -KILL "$pid" 2>/dev/null || true
    failed=1
  done
  mapfile -t left < <({
    find "$SCRATCH" -mindepth 2 -printf '%P\n'
    find "$WORK/u/own/"{home,tmp,run} -mindepth 1 -printf 'user/%P\n' 2>/dev/null
  } | sort)
  if ((${#left[@]} > 0)); then
    printf 'left behind: %d files, among them:\n' "${#left[@]}"
    printf '  %s\n' "${left[@]:0:10}"
    failed=1
  fi
  fresh_scratch
  return "$failed"
}

# The directory cargo builds into, wherever the user's settings put it.
target_dir() {
  cargo metadata --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}
