//! What is known to be harmless.
//!
//! On a machine without isolation a command runs unasked only if every program
//! in it is known here, and used in a way that is known. The tables say which
//! options change that; a function tells where options are not enough.

mod builds;
mod containers;
mod editors;
mod environment;
mod files;
mod git;
mod grammar;
mod options;
mod packages;
mod python;
mod table;
mod tools;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::expand::{NAME, UNKNOWN};
use super::invocation::ProgramRun;

pub(super) use environment::{decides_what_runs, is_system_program, may_be_handed};
pub(super) use files::{Brought, brings, prints_plain, relinks};
pub(super) use git::configures as configures_git;
pub(super) use grammar::{HERE, PathTarget, read as read_line};
pub(super) use python::{is_standard, look_at_module, only_computes};

/// Words with blanks between them.
pub(super) struct WordList(&'static str);

impl WordList {
    fn has(&self, word: &str) -> bool {
        self.iter().any(|own| own == word)
    }

    fn iter(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.0.split_ascii_whitespace()
    }
}

/// Which uses of a program are harmless.
pub(super) enum Uses {
    /// All of them, or what it runs is looked at elsewhere.
    Any,
    /// Those without these short options and these long ones.
    Without(&'static str, &'static [&'static str]),
    /// Those with these options and no others, in the words of `grammar.rs`.
    Options(&'static str),
    /// Those with one of these words first, or with none at all, and with these
    /// options and no others.
    Verbs(WordList, &'static str),
    /// Those that a function says are.
    Decides(fn(&ProgramRun<'_>) -> bool),
    /// Those of which a function says what they write.
    Writes(for<'a> fn(&ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>>),
    /// None: the program is known for what it can do.
    None,
}

/// What is known about a program that is run.
#[derive(Debug)]
pub(super) enum KnownProgram<'a> {
    /// It is used in a way that is harmless if this may be written.
    Harmless(Vec<PathTarget<'a>>),
    /// It is used in another way.
    OtherUse,
    /// Nobody knows the program.
    Unknown,
}

/// Options that take the next word for their value and may stand before a verb.
const VALUED: WordList = WordList(
    "-C --prefix --manifest-path --dir --cwd --project --directory --context --namespace -n \
     -R --repo --package -p",
);

/// Says what is known about a program with its arguments.
pub(super) fn look<'a>(it: &ProgramRun<'a>) -> KnownProgram<'a> {
    match find(it.program) {
        None => KnownProgram::Unknown,
        Some(uses) => uses.cover(it).map_or(KnownProgram::OtherUse, KnownProgram::Harmless),
    }
}

/// Reports whether a program is known by this name.
pub(super) fn is_known(program: &str) -> bool {
    find(program).is_some()
}

/// What of a project a tool runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectCode {
    /// Its code.
    Code,
    /// Programs that its settings name.
    Settings,
}

/// Says what a tool runs of the project that it works on.
pub(super) fn runs_of_project(program: &str) -> Option<ProjectCode> {
    static BUILDERS: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| builds::GROUPS.iter().flat_map(|(names, _)| names.iter()).collect());
    match program {
        "git" | "gh" => Some(ProjectCode::Settings),
        "terraform" | "tofu" | "unittest" | "doctest" | "build" => Some(ProjectCode::Code),
        _ => BUILDERS.contains(program).then_some(ProjectCode::Code),
    }
}

/// Reports whether a command of the shell's own hands no variables to a program.
pub(super) fn is_shells_own(program: &str) -> bool {
    const OWN: WordList = WordList(
        ": [ cd continue echo false getopts let mapfile printf pwd read readarray return shift \
         test true umask wait",
    );
    OWN.has(program)
}

/// Reports whether a program is known for what it can do, whatever its use.
pub(super) fn is_never_harmless(program: &str) -> bool {
    matches!(find(program), Some(Uses::None))
}

/// Every program that is known, by its name.
static KNOWN: LazyLock<HashMap<&'static str, &'static Uses>> = LazyLock::new(|| {
    let groups = table::GROUPS.iter().chain(options::GROUPS).chain(builds::GROUPS);
    let named = groups.flat_map(|(names, uses)| names.iter().map(move |name| (name, uses)));
    named.collect()
});

fn find(program: &str) -> Option<&'static Uses> {
    // Interpreters carry their version in their names: `python3.12`.
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let versioned = matches!(plain, "python" | "pypy" | "perl" | "ruby" | "php" | "lua" | "node");
    let known = KNOWN.get(program).or_else(|| KNOWN.get(plain).filter(|_| versioned));
    known.copied()
}

impl Uses {
    /// Returns what a harmless use writes; nothing for another.
    fn cover<'a>(&self, it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
        let if_so = |harmless: bool| harmless.then(Vec::new);
        match self {
            Self::Any => Some(Vec::new()),
            Self::Without(letters, longs) => {
                if_so(!it.has(letters, "") && !longs.iter().any(|long| it.has("", long)))
            }
            Self::Options(options) => {
                let mut line = read_line(it.arguments, options)?;
                files::mark_replaced(it.program, &mut line);
                Some(line.written)
            }
            Self::Verbs(verbs, options) => {
                let line = read_line(it.arguments, options)?;
                let Some((verb, rest)) = line.operands.split_first() else {
                    return Some(line.written);
                };
                // A setting may name a program.
                let sets =
                    rest.iter().any(|word| word.text.contains('=') || word.text.starts_with('@'));
                (verbs.has(&verb.text) && !sets).then_some(line.written)
            }
            Self::Decides(decides) => if_so(decides(it)),
            Self::Writes(writes) => writes(it),
            Self::None => None,
        }
    }
}

/// Returns the first word that is not an option, and what follows it.
fn verb<'a>(it: &ProgramRun<'a>) -> Option<(&'a str, Vec<&'a str>)> {
    let mut words = it.texts();
    while let Some(word) = words.next() {
        if VALUED.has(word) {
            words.next();
        } else if !word.starts_with(['-', '+']) {
            return Some((word, words.collect()));
        }
    }
    None
}

/// Reports whether every option is one of those: letters, alone or joined, and
/// long names, with or without a value.
fn only_options(it: &ProgramRun<'_>, letters: &str, longs: &[&str]) -> bool {
    it.texts().take_while(|text| *text != "--").all(|text| match text.strip_prefix("--") {
        Some(long) => longs.contains(&long.split('=').next().unwrap_or_default()),
        None => text
            .strip_prefix('-')
            .is_none_or(|short| short.chars().all(|letter| letters.contains(letter))),
    })
}

/// Reports whether everything about the arguments is known, but for numbers.
fn is_static(it: &ProgramRun<'_>) -> bool {
    !it.texts().any(|text| text.contains([UNKNOWN, NAME]))
}
