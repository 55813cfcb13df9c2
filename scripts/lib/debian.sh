# shellcheck shell=bash
# Debian roots that are made for a test.

# mirror SUITE: prints where this machine takes the packages of a suite from, which is also right for
# a root.
mirror() {
  local found
  # shellcheck disable=SC2016 # apt expands these, not the shell
  found="$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite="$1" '$2 == suite { print $1; exit }')" || found=
  if [[ -z $found ]]; then
    echo "apt does not say where it takes $1 from" >&2
    return 1
  fi
  echo "$found"
}

# debian_root DIRECTORY SUITE PACKAGES: makes a minimal Debian there, with further packages, which are
# separated by commas. Prints where they came from.
debian_root() {
  local -r root="$1" suite="$2" packages="$3"
  # Users other than root must get past the top, as on any machine.
  chmod 755 "$root"
  local from
  from="$(mirror "$suite")" || return 1
  debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$from" \
    >"$root/bootstrap.log" 2>&1 || {
    tail -n 20 "$root/bootstrap.log" >&2
    return 1
  }
  echo "$from"
}
