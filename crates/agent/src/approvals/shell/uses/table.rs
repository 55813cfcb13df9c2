//! Programs that read, print and change files, and what the shell itself does.

use super::Uses::{self, Any, Decides, None, Options, Verbs, Without, Writes};
use super::WordList;
use super::{containers, editors, files, git};

/// Programs with the same uses.
pub(super) const GROUPS: &[(WordList, Uses)] = &[
    // The shell's own. What `eval`, `source`, `trap` and the shells run is looked at where it is run.
    (
        WordList(
            ": [ bg break builtin cd command continue declare dirs disown echo eval exec exit \
             export false fg getopts help let local popd printf pushd pwd read \
             return shift source . test time times trap true type typeset \
             ulimit umask unalias unset wait",
        ),
        Any,
    ),
    // `-x` runs something, the history can be written anywhere, and what is read-only keeps its value.
    (WordList("jobs"), Without("x", &[])),
    (
        WordList("history"),
        Decides(|it| it.texts().all(|text| text.bytes().all(|b| b.is_ascii_digit()))),
    ),
    (WordList("readonly"), None),
    (
        WordList("set"),
        Decides(|it| {
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
        WordList("shopt"),
        Decides(|it| {
            const HARMLESS: WordList = WordList(
                "-s -u -q -p -o globstar nullglob dotglob extglob failglob nocaseglob \
                 nocasematch inherit_errexit lastpipe pipefail errexit nounset",
            );
            it.texts().all(|text| HARMLESS.has(text))
        }),
    ),
    (WordList("mapfile readarray"), Without("C", &[])),
    (WordList("hash"), Without("p", &[])),
    (WordList("alias enable bind complete compgen"), None),
    // Shells and other interpreters: what they are handed is looked at in `run` and `code`.
    (
        WordList(
            "sh bash dash zsh ksh mksh ash fish csh tcsh rbash python python2 python3 pypy \
             pypy3 perl ruby node deno php lua",
        ),
        Any,
    ),
    (
        WordList(
            "osascript pwsh powershell tclsh wish expect Rscript R julia guile racket gdb \
             lldb ghci irb erl elixir iex scala groovy jshell m4 ed ex vi vim nvim emacs nano \
             dc socat nc ncat netcat telnet ftp sftp scp chown chgrp mount umount at batch \
             parallel chroot nsenter unshare systemd-run busybox toybox su runuser vestal",
        ),
        None,
    ),
    // Reading and computing.
    (
        WordList(
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
        WordList("less more zless"),
        Decides(|it| {
            it.texts().all(|text| !text.starts_with('+') && !text.starts_with("--"))
                && !it.has("oOkT", "")
        }),
    ),
    (WordList("nm"), Without("", &["plugin"])),
    (WordList("ss"), Without("KD", &["kill", "diag"])),
    (WordList("rg"), Without("", &["pre", "hostname-bin"])),
    (WordList("ag bat"), Without("", &["pager"])),
    (WordList("strace ltrace"), Without("o", &["output"])),
    // What they run is in their arguments, in languages that are not read here.
    (WordList("fzf hyperfine mlr"), None),
    (WordList("man"), Options("-kfwaKc -sSLM: --where --path --all")),
    (
        WordList("date"),
        Options(
            "-uR -dfr: -I? --utc --universal --date: --iso-8601? --rfc-3339: --rfc-email --reference: --file:",
        ),
    ),
    (
        WordList("hostname domainname"),
        Decides(|it| it.operands().next().is_none() && !it.has("Fb", "file")),
    ),
    (WordList("sdiff vimdiff"), None),
    (WordList("sed gsed"), Writes(editors::sed)),
    (WordList("awk gawk mawk nawk"), Decides(editors::awk)),
    (WordList("find"), Decides(files::find)),
    (WordList("fd fdfind"), Without("xXl", &["exec", "exec-batch", "list-details"])),
    // Changing files; more of these are in `options.rs`.
    (WordList("sync"), Any),
    (WordList("ln"), Writes(files::links)),
    (WordList("rm unlink"), Writes(files::removes_named)),
    (WordList("chmod"), Writes(files::sets_mode)),
    (WordList("tar bsdtar gtar"), Writes(files::tar)),
    (WordList("unzip"), Writes(files::unzip)),
    (WordList("rsync"), Writes(files::rsync)),
    // What a patch changes is in the patch.
    (WordList("dd shred patch"), None),
    // Other machines.
    (WordList("curl"), Writes(files::curl)),
    (WordList("wget"), Writes(files::wget)),
    (WordList("ssh"), Decides(only_plain_ssh)),
    (WordList("git"), Writes(git::is_ordinary)),
    (WordList("gh"), Writes(git::github)),
    (WordList("docker podman nerdctl"), Decides(containers::engine)),
    (
        WordList("docker-compose podman-compose"),
        Verbs(
            WordList("ps logs config images top build pull version ls"),
            "-aqft -n: --all --quiet --follow --tail: --timestamps --since: --services --no-cache \
             --format: --no-color --status:",
        ),
    ),
    (WordList("kubectl oc"), Decides(containers::kubectl)),
    (
        WordList("helm"),
        Verbs(
            WordList("list ls status get history show search template lint version"),
            "-aAq -nfo: --all --all-namespaces --namespace: --values: --set: --output: --short \
             --strict --version: --revision: --max: --kube-context:",
        ),
    ),
    (
        WordList("terraform tofu"),
        Verbs(
            WordList("plan validate fmt show output version init providers graph get"),
            "+json +no-color +raw +check +diff +recursive +upgrade +input? +lock? +refresh? \
             +target: +var: +var-file: +backend? +compact-warnings +detailed-exitcode +out> \
             +reconfigure",
        ),
    ),
    (WordList("aws gcloud az doctl"), Decides(containers::cloud)),
    (
        WordList("psql mysql mariadb sqlite3 sqlite duckdb pgcli mycli usql"),
        Writes(containers::database),
    ),
    (WordList("redis-cli mongosh mongo sqlcmd clickhouse-client cockroach cqlsh"), None),
    // The machine.
    (WordList("kill pkill killall"), Any),
    (
        WordList("systemctl"),
        Decides(|it| {
            let verbs = ["status", "show", "cat", "is-active", "is-enabled", "is-failed", "help"];
            super::verb(it)
                .is_none_or(|(verb, _)| verbs.contains(&verb) || verb.starts_with("list-"))
        }),
    ),
    (WordList("service rc-service"), Decides(|it| it.words().get(1) == Some(&"status"))),
    (
        WordList("journalctl"),
        Without("", &["vacuum-size", "vacuum-time", "vacuum-files", "rotate", "flush"]),
    ),
    (WordList("dmesg"), Without("cCDEn", &["clear", "read-clear", "console-level"])),
    (WordList("crontab"), Decides(|it| it.texts().eq(["-l"]))),
    (WordList("passwd"), Options("-S --status")),
    (
        WordList("sysctl"),
        Decides(|it| !it.has("wpf", "write") && !it.texts().any(|text| text.contains('='))),
    ),
    (WordList("top htop"), Options("-bHcSi -ndpuUoEew:")),
    (
        WordList("apt apt-get"),
        Verbs(
            WordList("list search show policy depends"),
            "-aq --installed --upgradable --all-versions --names-only",
        ),
    ),
    (
        WordList("apt-cache"),
        Verbs(
            WordList("search show policy depends rdepends showpkg stats"),
            "-qfin --names-only --full",
        ),
    ),
    (WordList("dpkg-query lsb_release"), Any),
    (
        WordList("dpkg"),
        Decides(|it| {
            super::only_options(it, "lLsSpV", &["list", "listfiles", "status", "search", "version"])
                && !it.arguments.is_empty()
        }),
    ),
    (
        WordList("rpm"),
        Decides(|it| {
            let queries = "-qailcdRf --query --all --info --list --requires --provides \
                           --whatprovides: --qf: --queryformat:";
            super::read_line(it.arguments, queries).is_some_and(|line| line.has(&["q", "query"]))
        }),
    ),
    (
        WordList("brew"),
        Verbs(
            WordList("list ls info search config doctor deps outdated"),
            "-1lvq --versions --cask --formula --json? --verbose --tree --installed --full-name",
        ),
    ),
    (WordList("shutdown reboot halt poweroff"), Decides(|it| it.texts().eq(["--help"]))),
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
