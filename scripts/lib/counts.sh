# shellcheck shell=bash
# Counts tests, in all and per backend of the conformance and escape suites.
#
# A line of a file of counts is "KIND NAME PASSED FAILED", where KIND is `all`
# or `backend`. Only awk, because nothing else is on every machine.

# Counts the cases of a JUnit report. Text in it is escaped, so that a line that
# begins with a tag is one.
count_junit() {
  [[ -f $1 ]] || return 0
  awk '
    function attribute(name) {
      if (!match($0, " " name "=\"[^\"]*\"")) return ""
      return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
    }
    function count_case() {
      if (!open || skipped) return
      all[bad]++
      if (suite ~ /::(conformance|escape)$/ && index(test, "::")) {
        backend = substr(test, 1, index(test, "::") - 1)
        seen[backend] = 1
        cases[backend, bad]++
      }
    }
    /^ *<testcase / {
      count_case()
      open = 1; bad = 0; skipped = 0
      test = attribute("name"); suite = attribute("classname")
    }
    /^ *<(failure|error)[ \/>]/ { bad = 1 }
    /^ *<skipped[ \/>]/ { skipped = 1 }
    END {
      count_case()
      print "all", "tests", all[0] + 0, all[1] + 0
      for (backend in seen) print "backend", backend, cases[backend, 0] + 0, cases[backend, 1] + 0
    }
  ' "$1"
}

# Prints the twenty slowest cases of a JUnit report: "SECONDS SUITE NAME".
slowest_tests() {
  [[ -f $1 ]] || return 0
  awk '
    function attribute(name) {
      if (!match($0, " " name "=\"[^\"]*\"")) return ""
      return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
    }
    /^ *<testcase / { printf "%8.1f %s %s\n", attribute("time"), attribute("classname"), attribute("name") }
  ' "$1" | sort -rn | head -n 20
}

# Prints the cases of a JUnit report that failed first and then passed.
flaky_tests() {
  [[ -f $1 ]] || return 0
  awk '
    function attribute(name) {
      if (!match($0, " " name "=\"[^\"]*\"")) return ""
      return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
    }
    /^ *<testcase / { test = attribute("classname") " " attribute("name") }
    /^ *<flaky(Failure|Error)[ \/>]/ && test != "" { print test; test = "" }
  ' "$1"
}

# Says which tests took longest, and which passed only the second time.
print_times() {
  local file phase
  for file in "$WORK"/slowest.*; do
    [[ -s $file ]] || continue
    phase="${file##*.}"
    say "the slowest tests of the phase $phase (seconds)"
    cat "$file"
    if [[ -s $WORK/flaky.$phase ]]; then
      say "FLAKY in the phase $phase: passed the second time, a defect to be mended"
      cat "$WORK/flaky.$phase"
    fi
  done
}

# Counts the results in the output of `cargo test`.
count_libtest() {
  awk '
    /^test result: / {
      for (i = 2; i <= NF; i++) {
        if ($i == "passed;") passed += $(i - 1)
        if ($i == "failed;") failed += $(i - 1)
      }
    }
    END { print "all", "doctests", passed + 0, failed + 0 }
  ' "$1"
}

# Prints a line per backend, listed in scripts/backends or seen in the counts:
# "NAME required|optional|unlisted PASSED FAILED".
backend_counts() {
  awk '
    FNR == NR { if ($1 == "backend") { passed[$2] = $3; failed[$2] = $4 } next }
    /^#/ || NF == 0 { next }
    { print $1, $2, passed[$1] + 0, failed[$1] + 0; listed[$1] = 1 }
    END { for (name in passed) if (!(name in listed)) print name, "unlisted", passed[name], failed[name] }
  ' "$1" scripts/backends
}

# Fails when a backend that must run has no passed case, or a failed one.
required_backends_passed() {
  local name kind passed failed status=0
  while read -r name kind passed failed; do
    [[ $kind == required ]] || continue
    if ((passed == 0 || failed > 0)); then
      printf 'required backend %s: %d passed, %d failed\n' "$name" "$passed" "$failed" >&2
      status=1
    fi
  done < <(backend_counts "$1")
  return "$status"
}

# Ends the summary. Says nothing when no phase that tests was asked for.
print_counts() {
  local name kind passed failed
  if [[ -f $WORK/counts.test ]] && ((${#ONLY_PACKAGES[@]} == 0)); then
    while read -r name kind passed failed; do
      if ((passed + failed == 0)); then
        printf 'backend %-12s %-8s not run\n' "$name" "$kind"
      else
        printf 'backend %-12s %-8s %d passed, %d failed\n' "$name" "$kind" "$passed" "$failed"
      fi
    done < <(backend_counts "$WORK/counts.test")
  fi
  local phase
  for phase in test full kubernetes stress soak quick; do
    is_one_of "$phase" "${PHASES[@]}" || continue
    cat "$WORK"/counts.* 2>/dev/null | awk '
      $1 == "all" { passed += $3; failed += $4; ran = 1 }
      END { if (ran) printf "%d passed, %d failed\n", passed, failed; else print "no test was run" }
    '
    return 0
  done
}
