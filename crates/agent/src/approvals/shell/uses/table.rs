//! Programs that read, print and change files, and what the shell itself does.

use super::Uses::{self, Any, None, Told, Verbs, Without};
use super::Words;
use super::{containers, editors, files, git};

/// Programs with the same uses.
pub(super) const GROUPS: &[(Words, Uses)] = &[
    // The shell's own. What `eval`, `source`, `trap` and the shells run is looked at where it is run.
    (
        Words(
            ": [ bg break builtin cd command continue declare dirs disown echo eval exec exit \
             export false fg getopts help history jobs let local popd printf pushd pwd read \
             readonly return set shift shopt source . test time times trap true type typeset \
             ulimit umask unalias unset wait",
        ),
        Any,
    ),
    (Words("mapfile readarray"), Without("C", &[])),
    (Words("hash"), Without("p", &[])),
    (Words("alias enable bind complete compgen"), None),
    // Shells and other interpreters: what they are handed is looked at in `run` and `code`.
    (
        Words(
            "sh bash dash zsh ksh mksh ash fish csh tcsh rbash python python2 python3 pypy \
             pypy3 perl ruby node deno php lua",
        ),
        Any,
    ),
    (
        Words(
            "osascript pwsh powershell tclsh wish expect Rscript R julia guile racket gdb \
             lldb ghci irb erl elixir iex scala groovy jshell m4 ed ex vi vim nvim emacs nano \
             dc socat nc ncat netcat telnet ftp sftp scp chown chgrp mount umount at batch \
             parallel chroot nsenter unshare systemd-run busybox toybox su runuser vestal",
        ),
        None,
    ),
    // Reading and computing.
    (
        Words(
            "ls dir vdir cat tac nl head tail wc cut paste join comm tr fold fmt column \
             expand unexpand rev seq basename dirname realpath readlink stat file du df id \
             whoami who w groups uname cal uptime free ps pgrep pstree lscpu lsblk lsof lsusb \
             lspci nproc arch printenv env locale tty which whereis sleep md5sum sha1sum \
             sha224sum sha256sum sha384sum sha512sum cksum b2sum b3sum sum shasum md5 diff \
             cmp colordiff grep egrep fgrep zgrep strings od hexdump base64 base32 jq bc \
             expr factor numfmt uniq shuf tsort zcat bzcat xzcat zstdcat zless less more cloc \
             tokei scc dig host nslookup ping ss netstat getent getconf iconv dos2unix \
             unix2dos xargs nohup nice ionice timeout stdbuf setsid flock taskset \
             watch clear tput cowsay exa eza readelf objdump nm ldd \
             size ar strip ranlib pkg-config pkgconf yes logger apropos whatis",
        ),
        Any,
    ),
    (Words("rg"), Without("", &["pre", "hostname-bin"])),
    (Words("ag bat"), Without("", &["pager"])),
    (Words("strace ltrace"), Without("o", &["output"])),
    // What they run is in their arguments, in languages that are not read here.
    (Words("fzf hyperfine mlr"), None),
    (Words("man"), Without("PH", &["pager", "html", "browser"])),
    (Words("date"), Without("s", &["set"])),
    (
        Words("hostname domainname"),
        Told(|it| it.operands().next().is_none() && !it.has("Fb", "file")),
    ),
    (Words("sort"), Without("", &["compress-program"])),
    (Words("split csplit"), Without("", &["filter"])),
    (Words("tree"), Any),
    (Words("sdiff vimdiff"), None),
    (Words("sed gsed"), Told(editors::sed)),
    (Words("awk gawk mawk nawk"), Told(editors::awk)),
    (Words("find"), Told(files::find)),
    (Words("fd fdfind"), Without("xXl", &["exec", "exec-batch", "list-details"])),
    (Words("yq xq xmllint csvtool"), Without("", &["shell", "prepipe"])),
    // Changing files: where they lie is looked at by the rules.
    (
        Words(
            "mkdir touch cp mv ln install rmdir tee truncate mktemp gzip gunzip bzip2 bunzip2 \
             xz unxz zstd unzstd xxd dot sync 7z unzip",
        ),
        Any,
    ),
    (Words("rm unlink"), Told(files::removes_named)),
    (Words("chmod"), Told(files::sets_mode)),
    (Words("tar bsdtar gtar"), Told(files::tar)),
    (Words("zip"), Without("T", &["test", "unzip-command"])),
    (Words("patch"), Without("", &["get"])),
    (Words("rsync"), Told(files::rsync)),
    (Words("dd shred"), None),
    // Other machines.
    (Words("curl"), Told(files::curl)),
    (Words("wget"), Told(files::wget)),
    (Words("ssh"), Told(only_plain_ssh)),
    (Words("git"), Told(git::is_ordinary)),
    (Words("gh"), Told(git::github)),
    (Words("docker podman nerdctl"), Told(containers::engine)),
    (
        Words("docker-compose podman-compose"),
        Verbs(Words("ps logs config images top build pull version ls")),
    ),
    (Words("kubectl oc"), Told(containers::kubectl)),
    (Words("helm"), Verbs(Words("list ls status get history show search template lint version"))),
    (
        Words("terraform tofu"),
        Verbs(Words("plan validate fmt show output version init providers graph get")),
    ),
    (Words("aws gcloud az doctl"), Told(containers::cloud)),
    (
        Words("psql mysql mariadb sqlite3 sqlite duckdb pgcli mycli usql"),
        Told(containers::database),
    ),
    (Words("redis-cli mongosh mongo sqlcmd clickhouse-client cockroach cqlsh"), None),
    // The machine.
    (Words("kill pkill killall"), Any),
    (
        Words("systemctl"),
        Told(|it| {
            let verbs = ["status", "show", "cat", "is-active", "is-enabled", "is-failed", "help"];
            super::verb(it)
                .is_none_or(|(verb, _)| verbs.contains(&verb) || verb.starts_with("list-"))
        }),
    ),
    (Words("service rc-service"), Told(|it| it.words().get(1) == Some(&"status"))),
    (
        Words("journalctl"),
        Without("", &["vacuum-size", "vacuum-time", "vacuum-files", "rotate", "flush"]),
    ),
    (Words("dmesg"), Without("cCDEn", &["clear", "read-clear", "console-level"])),
    (Words("crontab"), Told(|it| it.has("l", ""))),
    (Words("passwd"), Told(|it| it.has("S", "status"))),
    (
        Words("sysctl"),
        Told(|it| !it.has("wpf", "write") && !it.texts().any(|text| text.contains('='))),
    ),
    (Words("top htop"), Told(|it| it.has("b", ""))),
    (Words("apt apt-get"), Verbs(Words("list search show policy changelog depends"))),
    (Words("apt-cache dpkg-query lsb_release"), Any),
    (
        Words("dpkg"),
        Told(|it| {
            super::only_options(it, "lLsSpV", &["list", "listfiles", "status", "search", "version"])
                && !it.arguments.is_empty()
        }),
    ),
    (Words("rpm"), Told(|it| it.has("q", "query"))),
    (Words("brew"), Verbs(Words("list ls info search config doctor deps outdated"))),
    (Words("shutdown reboot halt poweroff"), Told(|it| it.has("", "help"))),
];

/// Reports whether `ssh` runs nothing here: some of its settings name programs.
fn only_plain_ssh(it: &super::Invocation<'_>) -> bool {
    let mut words = it.texts();
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            Option::None => return true,
            Some("p" | "i" | "l") => {
                words.next();
            }
            Some(letters) if letters.chars().all(|letter| "46AaCnqTtvxX".contains(letter)) => {}
            Some(_) => return false,
        }
    }
    true
}
