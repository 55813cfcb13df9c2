//! Uses of programs that find, pack, move and remove files.

use super::super::expand::{Argument, UNKNOWN};
use super::super::invocation::Invocation;
use super::Words;
use super::only_options;

/// Tests and actions of `find` that change nothing; `-exec` and `-delete` are
/// looked at elsewhere.
const FIND: Words = Words(
    "-L -H -P -O1 -O2 -O3 -name -iname -path -ipath -wholename -iwholename -regex -iregex \
     -regextype -type -xtype -size -empty -mtime -mmin -atime -amin -ctime -cmin -newer \
     -anewer -cnewer -newermt -newerct -newerat -daystart -user -group -uid -gid -nouser \
     -nogroup -perm -readable -writable -executable -links -inum -samefile -lname -ilname \
     -fstype -xdev -mount -depth -d -maxdepth -mindepth -follow -noleaf -ignore_readdir_race \
     -true -false -prune -quit -print -print0 -printf -ls -not -a -and -o -or -E -X -exec \
     -execdir -ok -okdir -delete",
);

const TAR: Words = Words(
    "extract get create list append update diff compare file gzip gunzip ungzip bzip2 xz lzma \
     zstd lzip auto-compress verbose directory strip-components exclude exclude-from \
     exclude-vcs wildcards no-wildcards anchored no-anchored no-same-owner same-owner owner \
     group mtime sort transform xform keep-old-files keep-newer-files overwrite \
     skip-old-files totals numeric-owner one-file-system null files-from preserve-permissions \
     same-permissions no-same-permissions no-recursion touch to-stdout format version help",
);

/// Reports whether `find` only looks, but for what it runs.
pub(super) fn find(it: &Invocation<'_>) -> bool {
    let mut running = false;
    it.texts().all(|text| {
        if running {
            running = !matches!(text, ";" | "+");
            return true;
        }
        running = matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir");
        // A number may be negative: `-mtime -1`.
        let number = text
            .strip_prefix('-')
            .is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()));
        !text.starts_with('-') || FIND.has(text) || number
    })
}

/// Reports whether files are removed that are named: not whatever there is, nor
/// what is only known later.
pub(super) fn removes_named(it: &Invocation<'_>) -> bool {
    let named = |operand: &Argument| {
        let last = operand.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let any = last.chars().all(|c| "*?.[]!^".contains(c)) && operand.glob;
        !operand.text.contains(UNKNOWN) && !any
    };
    !it.xargs && it.operands().all(named)
}

/// Reports whether permissions are set that let nobody become another user.
pub(super) fn sets_mode(it: &Invocation<'_>) -> bool {
    if it.has("", "reference") {
        return true;
    }
    // A mode may look like an option: `chmod -x file`.
    let mode = it.texts().find(|text| !matches!(*text, "-R" | "-v" | "-c" | "-f" | "--recursive"));
    let Some(mode) = mode else { return true };
    let octal = mode.bytes().all(|byte| byte.is_ascii_digit());
    let special = if octal { mode.trim_start_matches('0').len() > 3 } else { mode.contains('s') };
    !special && !mode.contains(UNKNOWN)
}

/// Reports whether an archive is only packed, listed or unpacked.
pub(super) fn tar(it: &Invocation<'_>) -> bool {
    const LETTERS: &str = "cxtrudvzjJafCkmpohOsXTlWwSn0123456789";
    let bundled = it.texts().next().filter(|first| !first.starts_with('-'));
    let plain = bundled.is_none_or(|letters| letters.chars().all(|c| LETTERS.contains(c)));
    // The file's name may follow its letter at once, as in `-xfa.tar`.
    let short = |text: &str| {
        let letters = text.split('f').next().unwrap_or_default();
        letters.chars().all(|letter| LETTERS.contains(letter))
    };
    plain
        && it.texts().take_while(|text| *text != "--").all(|text| {
            match (text.strip_prefix("--"), text.strip_prefix('-')) {
                (Some(long), _) => TAR.has(long.split('=').next().unwrap_or_default()),
                (None, Some(letters)) => short(letters),
                (None, None) => !text.starts_with(UNKNOWN),
            }
        })
}

/// Reports whether files are copied, by plain means and on this machine.
pub(super) fn rsync(it: &Invocation<'_>) -> bool {
    let longs = [
        "archive",
        "verbose",
        "recursive",
        "compress",
        "progress",
        "dry-run",
        "exclude",
        "include",
        "exclude-from",
        "links",
        "perms",
        "times",
        "update",
        "checksum",
        "stats",
        "human-readable",
        "itemize-changes",
        "partial",
        "info",
        "ignore-existing",
    ];
    let elsewhere = |word: &&str| {
        word.contains("::") || word.split('/').next().is_some_and(|first| first.contains(':'))
    };
    only_options(it, "avrzhnPulptgoDcqiR", &longs) && !it.words().iter().any(elsewhere)
}

/// Reports whether something is fetched, and no file of this machine sent.
pub(super) fn curl(it: &Invocation<'_>) -> bool {
    let sends = |pair: &[&str]| {
        let data = matches!(
            pair[0],
            "-d" | "--data"
                | "--data-binary"
                | "--data-raw"
                | "--data-urlencode"
                | "-F"
                | "--form"
                | "--json"
        );
        data && pair[1].contains('@')
    };
    let words: Vec<&str> = it.texts().collect();
    let joined = |word: &&str| {
        (word.starts_with("-d@") || word.starts_with("--data")) && word.contains('@')
            || word.starts_with("-F") && word.contains("=@")
    };
    let uploads = it.texts().any(|text| {
        matches!(text, "-T" | "-K") || text.starts_with("-T") || text.starts_with("-K")
    });
    let long = ["upload-file", "config", "engine"].iter().any(|long| it.has("", long));
    let files = words.windows(2).any(sends) || words.iter().any(joined);
    !(uploads || long || files || sends_what_is_printed(it))
}

/// Reports whether files are fetched, and nothing of this machine sent.
pub(super) fn wget(it: &Invocation<'_>) -> bool {
    let longs = ["execute", "post-file", "body-file", "use-askpass", "config"];
    !it.has("e", "") && !longs.iter().any(|long| it.has("", long)) && !sends_what_is_printed(it)
}

/// Reports whether what a command prints becomes a part of an address or a header.
fn sends_what_is_printed(it: &Invocation<'_>) -> bool {
    it.arguments.iter().any(|argument| argument.printed)
}
