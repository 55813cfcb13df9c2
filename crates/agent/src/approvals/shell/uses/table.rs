//! Programs that read, print and change files, and what the shell itself does.

use super::Uses::{self, Any, None, Options, Told, Verbs, Without, Writes};
use super::Words;
use super::{containers, editors, files, git};

/// Programs with the same uses.
pub(super) const GROUPS: &[(Words, Uses)] = &[
    // The shell's own. What `eval`, `source`, `trap` and the shells run is looked at where it is run.
    (
        Words(
            ": [ bg break builtin cd command continue declare dirs disown echo eval exec exit \
             export false fg getopts help let local popd printf pushd pwd read \
             return shift source . test time times trap true type typeset \
             ulimit umask unalias unset wait",
        ),
        Any,
    ),
    // `-x` runs something, the history can be written anywhere, and what is read-only keeps its value.
    (Words("jobs"), Without("x", &[])),
    (Words("history"), Told(|it| it.texts().all(|text| text.bytes().all(|b| b.is_ascii_digit())))),
    (Words("readonly"), None),
    (
        Words("set"),
        Told(|it| {
            let plain = |text: &str| match text.strip_prefix(['-', '+']) {
                Some("") | Option::None => true,
                Some(letters) => letters.chars().all(|letter| "efhmnopuvxCE-".contains(letter)),
            };
            // What is set from then on would be handed to every program.
            let named = ["physical", "allexport", "keyword"];
            it.texts().all(|text| plain(text) && !named.contains(&text))
        }),
    ),
    (
        Words("shopt"),
        Told(|it| {
            const HARMLESS: Words = Words(
                "-s -u -q -p -o globstar nullglob dotglob extglob failglob nocaseglob \
                 nocasematch inherit_errexit lastpipe pipefail errexit nounset",
            );
            it.texts().all(|text| HARMLESS.has(text))
        }),
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
             expr factor numfmt tsort zcat bzcat xzcat zstdcat \
             tokei dig host nslookup ping netstat getent getconf \
             xargs nohup nice ionice timeout stdbuf setsid taskset \
             watch clear tput exa eza readelf objdump \
             size pkg-config pkgconf yes logger apropos whatis",
        ),
        Any,
    ),
    // `+` runs commands of their own, `-o` keeps a log.
    (
        Words("less more zless"),
        Told(|it| {
            it.texts().all(|text| !text.starts_with('+') && !text.starts_with("--"))
                && !it.has("oOkT", "")
        }),
    ),
    (Words("nm"), Without("", &["plugin"])),
    (Words("ss"), Without("KD", &["kill", "diag"])),
    (Words("rg"), Without("", &["pre", "hostname-bin"])),
    (Words("ag bat"), Without("", &["pager"])),
    (Words("strace ltrace"), Without("o", &["output"])),
    // What they run is in their arguments, in languages that are not read here.
    (Words("fzf hyperfine mlr"), None),
    (Words("man"), Options("-kfwaKc -sSLM: --where --path --all")),
    (
        Words("date"),
        Options(
            "-uR -dfr: -I? --utc --universal --date: --iso-8601? --rfc-3339: --rfc-email --reference: --file:",
        ),
    ),
    (
        Words("hostname domainname"),
        Told(|it| it.operands().next().is_none() && !it.has("Fb", "file")),
    ),
    (Words("sdiff vimdiff"), None),
    (Words("sed gsed"), Writes(editors::sed)),
    (Words("awk gawk mawk nawk"), Told(editors::awk)),
    (Words("find"), Told(files::find)),
    (Words("fd fdfind"), Without("xXl", &["exec", "exec-batch", "list-details"])),
    // Changing files; more of these are in `options.rs`.
    (Words("sync"), Any),
    (Words("ln"), Writes(files::links)),
    (Words("rm unlink"), Writes(files::removes_named)),
    (Words("chmod"), Writes(files::sets_mode)),
    (Words("tar bsdtar gtar"), Writes(files::tar)),
    (Words("unzip"), Writes(files::unzip)),
    (Words("rsync"), Writes(files::rsync)),
    // What a patch changes is in the patch.
    (Words("dd shred patch"), None),
    // Other machines.
    (Words("curl"), Writes(files::curl)),
    (Words("wget"), Writes(files::wget)),
    (Words("ssh"), Told(only_plain_ssh)),
    (Words("git"), Writes(git::is_ordinary)),
    (Words("gh"), Writes(git::github)),
    (Words("docker podman nerdctl"), Told(containers::engine)),
    (
        Words("docker-compose podman-compose"),
        Verbs(
            Words("ps logs config images top build pull version ls"),
            "-aqft -n: --all --quiet --follow --tail: --timestamps --since: --services --no-cache \
             --format: --no-color --status:",
        ),
    ),
    (Words("kubectl oc"), Told(containers::kubectl)),
    (
        Words("helm"),
        Verbs(
            Words("list ls status get history show search template lint version"),
            "-aAq -nfo: --all --all-namespaces --namespace: --values: --set: --output: --short \
             --strict --version: --revision: --max: --kube-context:",
        ),
    ),
    (
        Words("terraform tofu"),
        Verbs(
            Words("plan validate fmt show output version init providers graph get"),
            "+json +no-color +raw +check +diff +recursive +upgrade +input? +lock? +refresh? \
             +target: +var: +var-file: +backend? +compact-warnings +detailed-exitcode +out> \
             +reconfigure",
        ),
    ),
    (Words("aws gcloud az doctl"), Told(containers::cloud)),
    (
        Words("psql mysql mariadb sqlite3 sqlite duckdb pgcli mycli usql"),
        Writes(containers::database),
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
    (Words("crontab"), Told(|it| it.texts().eq(["-l"]))),
    (Words("passwd"), Options("-S --status")),
    (
        Words("sysctl"),
        Told(|it| !it.has("wpf", "write") && !it.texts().any(|text| text.contains('='))),
    ),
    (Words("top htop"), Options("-bHcSi -ndpuUoEew:")),
    (
        Words("apt apt-get"),
        Verbs(
            Words("list search show policy depends"),
            "-aq --installed --upgradable --all-versions --names-only",
        ),
    ),
    (
        Words("apt-cache"),
        Verbs(
            Words("search show policy depends rdepends showpkg stats"),
            "-qfin --names-only --full",
        ),
    ),
    (Words("dpkg-query lsb_release"), Any),
    (
        Words("dpkg"),
        Told(|it| {
            super::only_options(it, "lLsSpV", &["list", "listfiles", "status", "search", "version"])
                && !it.arguments.is_empty()
        }),
    ),
    (
        Words("rpm"),
        Told(|it| {
            let queries = "-qailcdRf --query --all --info --list --requires --provides \
                           --whatprovides: --qf: --queryformat:";
            super::read_line(it.arguments, queries).is_some_and(|line| line.has(&["q", "query"]))
        }),
    ),
    (
        Words("brew"),
        Verbs(
            Words("list ls info search config doctor deps outdated"),
            "-1lvq --versions --cask --formula --json? --verbose --tree --installed --full-name",
        ),
    ),
    (Words("shutdown reboot halt poweroff"), Told(|it| it.texts().eq(["--help"]))),
];

/// Reports whether `ssh` runs nothing here: some of its settings name programs.
fn only_plain_ssh(it: &super::ProgramRun<'_>) -> bool {
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
