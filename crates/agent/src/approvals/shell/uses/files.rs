//! Uses of programs that find, pack, move and remove files.

use super::super::expand::{Argument, UNKNOWN};
use super::super::invocation::ProgramRun;
use super::WordList;
use super::grammar::{self, PathTarget};

/// Tests and actions of `find` that change nothing; `-exec` and `-delete` are
/// looked at elsewhere.
const FIND: WordList = WordList(
    "-L -H -P -O1 -O2 -O3 -name -iname -path -ipath -wholename -iwholename -regex -iregex \
     -regextype -type -xtype -size -empty -mtime -mmin -atime -amin -ctime -cmin -newer \
     -anewer -cnewer -newermt -newerct -newerat -daystart -user -group -uid -gid -nouser \
     -nogroup -perm -readable -writable -executable -links -inum -samefile -lname -ilname \
     -fstype -xdev -mount -depth -d -maxdepth -mindepth -follow -noleaf -ignore_readdir_race \
     -true -false -prune -quit -print -print0 -printf -ls -not -a -and -o -or -E -X -exec \
     -execdir -ok -okdir -delete",
);

/// Reports whether `find` only looks, but for what it runs.
pub(super) fn find(it: &ProgramRun<'_>) -> bool {
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

/// Names that `rm` is given: not whatever there is, nor what is only known later.
pub(super) fn removes_named<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "w* -firRdvI --force --recursive --dir --verbose --interactive? \
                   --preserve-root? --no-preserve-root --one-file-system";
    let named = |operand: &&Argument| {
        let last = operand.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let any = last.chars().all(|c| "*?.[]!^".contains(c)) && operand.glob;
        !operand.is_unknown() && !any
    };
    let mut line = grammar::read(it.arguments, options)?;
    mark_replaced(it.program, &mut line);
    (!it.xargs && line.operands.iter().all(named)).then_some(line.written)
}

/// Permissions that let nobody become another user.
pub(super) fn sets_mode<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    // A mode may look like an option: `chmod -x file`.
    let is_mode = |word: &Argument| {
        word.text
            .strip_prefix('-')
            .is_some_and(|mode| !mode.is_empty() && mode.chars().all(|c| "rwxXst".contains(c)))
    };
    let at = it.arguments.iter().position(is_mode);
    let (before, mode, after) = match at {
        Some(at) => (&it.arguments[..at], Some(&it.arguments[at]), &it.arguments[at + 1..]),
        None => (it.arguments, None, &[][..]),
    };
    let options = "-Rvcf --recursive --verbose --changes --silent --quiet --reference:";
    let (mut line, more) = (grammar::read(before, options)?, grammar::read(after, options)?);
    line.operands.extend(more.operands);
    let mut files = line.operands.into_iter();
    let mode = match mode {
        Some(mode) => Some(mode),
        None if line.options.iter().any(|(name, _)| *name == "reference") => None,
        None => files.next(),
    };
    let plain = mode.is_none_or(|mode| {
        let octal = mode.text.bytes().all(|byte| byte.is_ascii_digit());
        let special = if octal {
            mode.text.trim_start_matches('0').len() > 3
        } else {
            mode.text.contains('s')
        };
        !special && !mode.is_unknown() && !mode.splits
    });
    plain.then(|| files.map(PathTarget::whole).collect())
}

/// A link gives what it leads to another name, under which that can be changed.
pub(super) fn links<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "-bfinrsTvLP -S: -t> --symbolic --force --interactive --no-dereference \
                   --relative --verbose --no-target-directory --target-directory> --backup? \
                   --logical --physical";
    let line = grammar::read(it.arguments, options)?;
    // What a relative link leads to depends on where it lies.
    let elsewhere = |word: &&str| word.split('/').any(|part| part == "..");
    let from_here = line.has(&["r", "relative"]);
    let soft = line.has(&["s", "symbolic"]);
    if soft && !from_here && line.words().iter().any(elsewhere) {
        return None;
    }
    let mut written = line.written;
    written.extend(
        line.operands
            .into_iter()
            .map(|operand| PathTarget { replaced: true, ..PathTarget::whole(operand) }),
    );
    Some(written)
}

/// An archive that is packed, listed or unpacked, and nothing else.
pub(super) fn tar<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    const OPTIONS: &str = "-cxtrudvzjJakmpohOlwSn -fTXb: -gC> --extract --get --create --list \
         --append --update --diff --compare --file: --gzip --gunzip --ungzip --bzip2 --xz --lzma \
         --zstd --lzip --auto-compress --verbose --directory> --strip-components: --exclude: \
         --exclude-from: --exclude-vcs --wildcards --no-wildcards --anchored --no-anchored \
         --no-same-owner --same-owner --owner: --group: --mtime: --sort: --keep-old-files \
         --keep-newer-files --overwrite --skip-old-files --totals --numeric-owner \
         --one-file-system --null --files-from: --preserve-permissions --same-permissions \
         --no-same-permissions --no-recursion --touch --to-stdout --format: --version --help";
    let first = it.arguments.first();
    let bundled = first.filter(|first| !first.text.starts_with('-'));
    let Some(bundled) = bundled else {
        return tar_line(&grammar::read(it.arguments, OPTIONS)?);
    };
    // Letters without a dash take their values from the words that follow, in their order.
    let mut rest = &it.arguments[1..];
    let mut line = grammar::ParsedLine::default();
    if bundled.is_unknown() || bundled.splits {
        return None;
    }
    for (at, letter) in bundled.text.char_indices() {
        let name = &bundled.text[at..at + letter.len_utf8()];
        let value = match letter {
            'f' | 'T' | 'X' | 'b' | 'C' => {
                let (value, more) = rest.split_first()?;
                rest = more;
                if value.splits || value.text.starts_with(UNKNOWN) {
                    return None;
                }
                Some(PathTarget::whole(value))
            }
            letter if "cxtrudvzjJakmpohOlwSn".contains(letter) => None,
            _ => return None,
        };
        if letter == 'C' {
            line.written.extend(value);
        }
        line.options.push((name, value));
    }
    let more = grammar::read(rest, OPTIONS)?;
    line.options.extend(more.options);
    line.written.extend(more.written);
    line.operands = more.operands;
    tar_line(&line)
}

fn tar_line<'a>(line: &grammar::ParsedLine<'a>) -> Option<Vec<PathTarget<'a>>> {
    let mut written = line.written.clone();
    // What is packed is only read, but the archive is written.
    if line.has(&["c", "r", "u", "create", "append", "update"]) {
        written.extend(line.values(&["f", "file"]).filter(|archive| archive.text != "-"));
    }
    // A colon names another machine, and a program to reach it by.
    let elsewhere = line.values(&["f", "file"]).any(|archive| archive.text.contains(':'));
    if line.has(&["x", "extract", "get"]) && !line.has(&["C", "directory"]) {
        written.push(PathTarget::here());
    }
    (!elsewhere).then_some(written)
}

/// An archive that is listed, or unpacked where it says or right here.
pub(super) fn unzip<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let line = grammar::read(it.arguments, "-lvtzpcqnoujaLCBKXx -P: -d>")?;
    let mut written = line.written.clone();
    if !line.has(&["l", "v", "t", "z", "p", "c", "d"]) {
        written.push(PathTarget::here());
    }
    Some(written)
}

/// Files that are copied, by plain means and on this machine.
pub(super) fn rsync<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "w-1 -avrzhnPulptgoDcqiRxWHAX --archive --verbose --recursive --compress \
         --progress --dry-run --exclude: --include: --exclude-from: --links --perms --times \
         --update --checksum --stats --human-readable --itemize-changes --partial --info: \
         --ignore-existing --one-file-system";
    let line = grammar::read(it.arguments, options)?;
    let elsewhere = |word: &&str| {
        word.contains("::") || word.split('/').next().is_some_and(|first| first.contains(':'))
    };
    (!line.words().iter().any(elsewhere)).then_some(line.written)
}

/// Something that is fetched, while no file of this machine is sent.
pub(super) fn curl<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "-sSfLkIivgGNO#46012jRZ -HXdFAbueEmryzwxtYC: -oDc> --silent --show-error --fail \
         --fail-with-body --location --insecure --head --include --verbose --globoff --get \
         --no-buffer --remote-name --compressed --progress-bar \
         --no-progress-meter --http1.1 --http2 --http3 --ipv4 --ipv6 --remote-time --header: \
         --request: --data: --data-raw: --data-binary: --data-urlencode: --form: --json: \
         --user-agent: --cookie: --user: --referer: --max-time: --connect-timeout: --retry: \
         --retry-delay: --retry-max-time: --retry-all-errors --retry-connrefused --range: \
         --write-out: --proxy: --cacert: --url: --oauth2-bearer: --resolve: --output> \
         --output-dir> --dump-header> --cookie-jar> --create-dirs --tlsv1.2 --path-as-is \
         --max-redirs: --limit-rate: --continue-at: --parallel --version --help";
    let line = grammar::read(it.arguments, options)?;
    let sent = [
        "d",
        "data",
        "data-binary",
        "data-urlencode",
        "F",
        "form",
        "json",
        "b",
        "cookie",
        "H",
        "header",
    ];
    let from_file = |value: PathTarget<'_>| {
        value.text.contains("=@")
            || value.text.contains("=<")
            || value.text.starts_with('@')
            || value.text.contains('@') && !value.text.contains([':', '"', '='])
    };
    let files = line.values(&sent).any(from_file)
        || line
            .values(&["w", "write-out"])
            .any(|format| format.text.contains("output{") || format.text.starts_with('@'));
    // `#1` in a name stands for a part of the address.
    let templates = line.written.iter().any(|target| target.text.contains('#'));
    let mut written = line.written.clone();
    written.retain(|target| target.text != "-");
    if line.has(&["O", "remote-name"]) {
        written.extend(
            line.operands
                .iter()
                .copied()
                .chain(line.values(&["url"]).map(|url| url.argument))
                .map(named_by),
        );
    }
    (!files && !templates && !sends_what_is_printed(it)).then_some(written)
}

/// Files that are fetched, while nothing of this machine is sent.
pub(super) fn wget<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "-qvcNSrkpE46 -tTUlwARQDn: -OPoa> --quiet --verbose --no-verbose --continue \
         --timestamping --server-response --recursive --no-parent --no-check-certificate \
         --show-progress --spider --mirror --convert-links --page-requisites --tries: --timeout: \
         --user-agent: --header: --level: --wait: --accept: --reject: --max-redirect: --post-data: \
         --method: --body-data: --output-document> --directory-prefix> --output-file> \
         --append-output> --version --help --https-only --retry-connrefused";
    let line = grammar::read(it.arguments, options)?;
    let mut written = line.written.clone();
    written.retain(|target| target.text != "-");
    if !line.has(&["O", "output-document"]) {
        written.extend(line.operands.iter().copied().map(named_by));
    }
    (!sends_what_is_printed(it)).then_some(written)
}

/// Returns the file that is named by the end of an address.
fn named_by(address: &Argument) -> PathTarget<'_> {
    let path = address.text.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = if name.is_empty() { "index.html" } else { name };
    PathTarget { text: name, ..PathTarget::whole(address) }
}

/// Reports whether what a command prints becomes a part of an address or a header.
fn sends_what_is_printed(it: &ProgramRun<'_>) -> bool {
    it.arguments.iter().any(|argument| argument.printed)
}

/// Marks what a program removes or replaces, whatever it leads to.
pub(super) fn mark_replaced(program: &str, line: &mut grammar::ParsedLine<'_>) {
    let moves_into = line.has(&["t", "target-directory"]);
    let last = line.written.len().wrapping_sub(1);
    for (at, target) in line.written.iter_mut().enumerate() {
        target.replaced = match program {
            "rm" | "unlink" | "rmdir" => true,
            // What is moved leads where it led before; what it is moved into is followed.
            "mv" => at != last && !moves_into,
            _ => false,
        };
    }
}

/// Reports whether a command prints nothing but a number or a date.
pub(in crate::approvals::shell) fn prints_plain(program: &str, it: &ProgramRun<'_>) -> bool {
    let texts: Vec<&str> = it.texts().collect();
    match program {
        "nproc" => true,
        // With names of files it prints those, too.
        "wc" => it.operands().next().is_none(),
        "id" => matches!(texts.as_slice(), ["-u" | "-g"]),
        "seq" => texts.iter().all(|text| text.bytes().all(|b| b.is_ascii_digit())),
        "date" => match texts.as_slice() {
            [format] | ["-u", format] => format.strip_prefix("+%").is_some_and(|format| {
                format.chars().all(|c| c.is_ascii_digit() || "%YmdHMSsFTjy_-".contains(c))
            }),
            _ => false,
        },
        _ => false,
    }
}

/// Reports whether names may lead elsewhere after a command than before.
pub(in crate::approvals::shell) fn relinks(it: &ProgramRun<'_>) -> bool {
    match it.program {
        "ln" | "mv" | "rmdir" | "unzip" | "rsync" | "patch" => true,
        "tar" | "bsdtar" | "gtar" => {
            let first = it.texts().next().unwrap_or_default();
            let lists =
                |text: &str| !text.starts_with("--") && (text.contains('t') || text.contains('c'));
            !(lists(first) || it.has("", "list") || it.has("", "create"))
        }
        "cp" => {
            it.has("adPRrsl", "archive")
                || it.has("", "recursive")
                || it.has("", "symbolic-link")
                || it.has("", "link")
        }
        "git" => super::git::changes_files(it),
        _ => false,
    }
}

/// What a command has brought from elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::approvals::shell) enum Brought {
    #[default]
    Nothing,
    /// Commits of a repository, whose settings stay what they are.
    Commits,
    /// Files of any kind.
    Files,
}

/// Says what a command brings from elsewhere, or unpacks.
pub(in crate::approvals::shell) fn brings(it: &ProgramRun<'_>) -> Brought {
    let verb = || super::verb(it).map_or("", |(verb, _)| verb);
    match it.program {
        "unzip" => Brought::Files,
        "tar" | "bsdtar" | "gtar" if relinks(it) => Brought::Files,
        "git" if matches!(verb(), "clone" | "pull" | "fetch" | "submodule" | "lfs") => {
            Brought::Commits
        }
        "gh" => {
            let words = it.words();
            if words.contains(&"download") {
                Brought::Files
            } else if words.contains(&"clone") || words.contains(&"checkout") {
                Brought::Commits
            } else {
                Brought::Nothing
            }
        }
        _ => Brought::Nothing,
    }
}
