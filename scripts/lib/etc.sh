# shellcheck shell=bash
# Users that exist in a mount namespace of their own only: the machine's /etc is
# never written to.

# own_etc DIRECTORY: keeps what is written to /etc in memory, mounted there.
own_etc() {
  local -r layer="$1"
  mkdir -p "$layer"
  mount -t tmpfs -o mode=755 tmpfs "$layer"
  mkdir "$layer/upper" "$layer/work"
  mount -t overlay -o "lowerdir=/etc,upperdir=$layer/upper,workdir=$layer/work" overlay /etc
}

# add_user NAME ID HOME FIRST: an ordinary user with 65536 subordinate ids.
add_user() {
  echo "$1:x:$2:$2::$3:/bin/sh" >>/etc/passwd
  echo "$1:x:$2:" >>/etc/group
  echo "$1:$4:65536" >>/etc/subuid
  echo "$1:$4:65536" >>/etc/subgid
}
