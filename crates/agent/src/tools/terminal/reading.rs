//! Which commands only read, as far as their text tells: those that plan mode lets run.
//!
//! The text is cut at every character that may begin another command, whether it is quoted or not,
//! and each piece must begin with a program that is known to change nothing. What is cut wrongly
//! is refused, never let through: a piece that is run is always among those that are looked at.

use std::sync::LazyLock;

use regex::Regex;

/// Programs that change nothing, whatever they are told.
const READERS: &[&str] = &[
    "[",
    "basename",
    "cat",
    "cd",
    "cmp",
    "column",
    "comm",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "fold",
    "free",
    "grep",
    "groups",
    "head",
    "id",
    "jq",
    "ls",
    "lscpu",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printenv",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "stat",
    "strings",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "type",
    "uname",
    "uptime",
    "wc",
    "which",
    "whoami",
];

/// Programs that change nothing unless one of their words begins like this.
const READERS_UNLESS: &[(&str, &[&str])] = &[
    ("date", &["-s", "--s"]),
    ("file", &["-C", "--c"]),
    ("find", &["-exec", "-ok", "-delete", "-fprint", "-fls"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("sort", &["-o", "--o", "--co", "-T", "-S"]),
    ("tree", &["-o"]),
];

/// What `git` does that changes nothing, and words that make it do so.
const GIT: &[&str] = &[
    "blame",
    "cat-file",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
];
const GIT_UNLESS: &[&str] =
    &["--output", "--ext-diff", "--textconv", "-O", "--open-files-in-pager", "--filters"];

/// Output that is thrown away, or that goes where the other goes.
static DISCARDED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:[0-9]|&)?>>?\s*(?:/dev/null|&[12])([\s;|&]|$)").ok());

/// Reports whether a command only reads.
pub(super) fn only_reads(command: &str) -> bool {
    let Some(discarded) = DISCARDED.as_ref() else { return false };
    // Twice: what ends one may begin the next.
    let command = discarded.replace_all(command, "$1");
    let command = discarded.replace_all(&command, "$1");
    if command.contains(['>', '`', '$', '{', '\0']) || command.contains("<(") {
        return false;
    }
    let mut pieces = command
        .split(['\n', ';', '|', '&', '\r'])
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
        .peekable();
    pieces.peek().is_some() && pieces.all(reads)
}

/// Reports whether one simple command reads.
fn reads(piece: &str) -> bool {
    let words: Vec<String> = piece.split_whitespace().map(bare).collect();
    let Some((program, words)) = words.split_first() else { return false };
    let begins = |unless: &[&str]| {
        words.iter().any(|word| unless.iter().any(|start| word.starts_with(start)))
    };
    if READERS.contains(&program.as_str()) {
        return true;
    }
    if let Some((_, unless)) = READERS_UNLESS.iter().find(|(name, _)| name == program) {
        // `sort -uo FILE`: an option may stand among others.
        let clustered = program == "sort"
            && words
                .iter()
                .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('o'));
        return !begins(unless) && !clustered;
    }
    if program == "git" {
        let mut rest = words.iter().skip_while(|word| *word == "--no-pager");
        let verb = rest.next().map(String::as_str).unwrap_or_default();
        return GIT.contains(&verb) && !begins(GIT_UNLESS);
    }
    false
}

/// Returns a word as a program gets it, as far as that matters here.
fn bare(word: &str) -> String {
    word.replace(['\'', '"', '\\'], "")
}

#[cfg(test)]
mod tests {
    use super::only_reads;

    #[test]
    fn commands_that_only_read_are_known() {
        for command in [
            "ls -la",
            "cat a.txt | grep -n foo | head -5",
            "cd src && ls; pwd",
            "git log --oneline -5 2>/dev/null",
            "git --no-pager diff HEAD~1 -- src",
            "find . -name '*.rs' -not -path './target/*' 2> /dev/null | wc -l",
            "rg -n pattern src 2>&1",
            "grep -r x . >/dev/null 2>&1 && echo yes",
            "sort -n -u names",
        ] {
            assert!(only_reads(command), "{command}");
        }
    }

    #[test]
    fn everything_else_is_taken_to_change_something() {
        for command in [
            "",
            ";",
            "rm -rf x",
            "ls > out",
            "ls >> out",
            "cat a >/dev/null/../../tmp/x",
            "cat a >/dev/nullx",
            "echo a &>x",
            "cat <(rm x)",
            "echo $(rm x)",
            "echo `rm x`",
            "ls; rm x",
            "ls\nrm x",
            "ls & rm x",
            "ls || rm x",
            "A=b ls",
            "(rm x)",
            "{ rm x; }",
            "\\rm x",
            "sudo ls",
            "env ls",
            "xargs rm",
            "find . -delete",
            "find . '-delete'",
            "find . -de\"lete\"",
            "find . \\-exec rm {} +",
            "find . -{delete,x}",
            "find . $'-delete'",
            "sort -o out in",
            "sort -uo out in",
            "sort --output=out in",
            "date -s now",
            "git commit -m x",
            "git diff --output=x",
            "git -c core.pager=x log",
            "git branch -D x",
            "git grep -Ovi x",
            "git",
            "rg --pre x y",
            "awk 'BEGIN{system(\"rm x\")}'",
            "sed -i s/a/b/ x",
            "tee x",
            "python -c 1",
        ] {
            assert!(!only_reads(command), "{command}");
        }
    }
}
