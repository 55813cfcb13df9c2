//! How options of programs are written.
//!
//! A specification is a text of words:
//!
//! | word | meaning |
//! |---|---|
//! | `-abc` | short options without a value, which may be joined |
//! | `-ab:` | short options with a value, joined or in the next word |
//! | `-o>` | the value names a file or directory that is written |
//! | `-f!` | the value names code that is run, or settings that name programs |
//! | `-i?` | the value is joined, if there is one |
//! | `--name`, `--name:`, `--name>`, `--name!`, `--name?` | the same by a long name; a value follows `=` or in the next word |
//! | `+name…` | a long name after one dash or two |
//! | `w*`, `w1`, `w-1` | which operands are written: all, all but the first, the last |
//! | `w.` | the working directory is written to |
//! | `c*`, `c1` | which operands name code: all, all but the first |
//! | `stop` | the first operand ends the options |
//!
//! Whatever is not in it is not understood, abbreviations included: what a program
//! makes of one depends on options that a specification leaves out. Neither is a value in
//! a word of its own that looks like an option: the program may take it for one.

use std::sync::LazyLock;

use super::super::expand::{Argument, UNKNOWN};

/// The working directory, where a program writes to it without naming it.
pub(in crate::approvals::shell) static HERE: LazyLock<Argument> =
    LazyLock::new(|| Argument::known("."));

/// What a program is given, taken apart.
#[derive(Debug, Default)]
pub(in crate::approvals::shell) struct ParsedLine<'a> {
    /// Options by their names without dashes, and their values.
    pub(in crate::approvals::shell) options: Vec<(&'a str, Option<PathTarget<'a>>)>,
    /// What is not an option.
    pub(in crate::approvals::shell) operands: Vec<&'a Argument>,
    /// What follows the first operand, where that ends the options.
    pub(in crate::approvals::shell) rest: &'a [Argument],
    pub(in crate::approvals::shell) written: Vec<PathTarget<'a>>,
}

/// A file or directory that is named by an argument, or by a part of one.
#[derive(Debug, Clone, Copy)]
pub(in crate::approvals::shell) struct PathTarget<'a> {
    /// Its path as it is written.
    pub(in crate::approvals::shell) text: &'a str,
    /// The argument it stands in.
    pub(in crate::approvals::shell) argument: &'a Argument,
    /// Whether the file is replaced or removed, and no link to another is followed.
    pub(in crate::approvals::shell) replaced: bool,
    /// Whether it is not written but run, or read for what to run.
    pub(in crate::approvals::shell) code: bool,
}

impl<'a> PathTarget<'a> {
    /// Returns an argument as a target.
    pub(in crate::approvals::shell) fn whole(argument: &'a Argument) -> Self {
        Self { text: &argument.text, argument, replaced: false, code: false }
    }

    /// Returns an argument that names code.
    pub(in crate::approvals::shell) fn code(argument: &'a Argument) -> Self {
        Self { code: true, ..Self::whole(argument) }
    }

    /// Returns the working directory as what is written.
    pub(in crate::approvals::shell) fn here() -> Self {
        Self::whole(&HERE)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionTakes {
    Nothing,
    Value,
    Written,
    Code,
    Joined,
}

impl<'a> ParsedLine<'a> {
    /// Reports whether one of these options is given.
    pub(in crate::approvals::shell) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(name))
    }

    /// Returns the values of one option, by any of its names.
    pub(in crate::approvals::shell) fn values(
        &self,
        names: &[&str],
    ) -> impl Iterator<Item = PathTarget<'a>> {
        self.options.iter().filter(|(name, _)| names.contains(name)).filter_map(|(_, value)| *value)
    }

    /// Returns the operands' texts.
    pub(in crate::approvals::shell) fn words(&self) -> Vec<&'a str> {
        self.operands.iter().map(|operand| operand.text.as_str()).collect()
    }
}

/// Takes arguments apart; nothing if one of them is not understood.
pub(in crate::approvals::shell) fn read<'a>(
    arguments: &'a [Argument],
    specification: &str,
) -> Option<ParsedLine<'a>> {
    let mut line = ParsedLine::default();
    let stops = specification.split_ascii_whitespace().any(|word| word == "stop");
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        let text = word.text.as_str();
        // It may become any number of words, or an option.
        if word.splits || text.starts_with(UNKNOWN) {
            return None;
        }
        if text == "--" {
            line.operands.extend(&arguments[at..]);
            if arguments[at..].iter().any(|operand| operand.splits) {
                return None;
            }
            break;
        }
        if text == "-" || !text.starts_with('-') {
            line.operands.push(word);
            if stops {
                line.rest = &arguments[at..];
                break;
            }
            continue;
        }
        let next = arguments.get(at).filter(|next| !next.splits);
        at += usize::from(option(&mut line, word, next, specification)?);
    }
    operands(&mut line, specification);
    Some(line)
}

/// Takes one word of options apart. Returns whether it took the next for a value.
fn option<'a>(
    line: &mut ParsedLine<'a>,
    word: &'a Argument,
    next: Option<&'a Argument>,
    specification: &str,
) -> Option<bool> {
    let text = word.text.as_str();
    let name = text.trim_start_matches('-');
    let (name, joined) = name.split_once('=').map_or((name, None), |(n, v)| (n, Some(v)));
    let long = takes(specification, if text.starts_with("--") { "--" } else { "+" }, name);
    let long = long.or_else(|| takes(specification, "+", name));
    if let Some(takes) = long {
        let value = joined.map(|text| PathTarget { text, ..PathTarget::whole(word) });
        return line.add(name, takes, value, next);
    }
    if text.starts_with("--") {
        return None;
    }
    let mut rest = &text[1..];
    while let Some(letter) = rest.chars().next() {
        let (name, after) = rest.split_at(letter.len_utf8());
        rest = after;
        let takes = takes_short(specification, letter)?;
        if takes == OptionTakes::Nothing {
            line.options.push((name, None));
            continue;
        }
        let value = PathTarget { text: after, ..PathTarget::whole(word) };
        let value = Some(value).filter(|value| !value.text.is_empty());
        return line.add(name, takes, value, next);
    }
    Some(false)
}

impl<'a> ParsedLine<'a> {
    fn add(
        &mut self,
        name: &'a str,
        takes: OptionTakes,
        joined: Option<PathTarget<'a>>,
        next: Option<&'a Argument>,
    ) -> Option<bool> {
        let takes_next = joined.is_none()
            && matches!(takes, OptionTakes::Value | OptionTakes::Written | OptionTakes::Code);
        if takes == OptionTakes::Nothing && joined.is_some() {
            return None;
        }
        if takes_next && next.is_some_and(|next| looks_like_option(&next.text)) {
            return None;
        }
        let value = if takes_next { Some(PathTarget::whole(next?)) } else { joined };
        match takes {
            OptionTakes::Written => self.written.extend(value),
            OptionTakes::Code => {
                self.written.extend(value.map(|value| PathTarget { code: true, ..value }));
            }
            OptionTakes::Nothing | OptionTakes::Value | OptionTakes::Joined => {}
        }
        self.options.push((name, value));
        Some(takes_next)
    }
}

/// Reports whether a word looks like an option, and not like a number: `-1 day`.
fn looks_like_option(text: &str) -> bool {
    let rest = text.strip_prefix('-').unwrap_or_default();
    rest.starts_with(|c: char| !c.is_ascii_digit() && c != ' ')
}

fn operands(line: &mut ParsedLine<'_>, specification: &str) {
    let all = line.operands.len();
    for word in specification.split_ascii_whitespace() {
        let from = match word {
            "w*" | "c*" => 0,
            "w1" | "c1" => 1,
            // With one operand alone it is not the last that is meant.
            "w-1" if all > 1 => all - 1,
            "w." => {
                line.written.push(PathTarget::here());
                continue;
            }
            _ => continue,
        };
        let target = if word.starts_with('c') { PathTarget::code } else { PathTarget::whole };
        let written: Vec<_> = line.operands.iter().skip(from).map(|o| target(o)).collect();
        line.written.extend(written);
    }
}

fn kind(word: &str) -> (&str, OptionTakes) {
    match word.as_bytes().last() {
        Some(b':') => (&word[..word.len() - 1], OptionTakes::Value),
        Some(b'>') => (&word[..word.len() - 1], OptionTakes::Written),
        Some(b'!') => (&word[..word.len() - 1], OptionTakes::Code),
        Some(b'?') => (&word[..word.len() - 1], OptionTakes::Joined),
        _ => (word, OptionTakes::Nothing),
    }
}

/// Returns what a long option takes.
fn takes(specification: &str, dashes: &str, name: &str) -> Option<OptionTakes> {
    specification.split_ascii_whitespace().find_map(|word| {
        let (own, takes) = kind(word.strip_prefix(dashes)?);
        (own == name).then_some(takes)
    })
}

/// Returns what a short option takes.
fn takes_short(specification: &str, letter: char) -> Option<OptionTakes> {
    specification.split_ascii_whitespace().find_map(|word| {
        let word = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
        let (letters, takes) = kind(word);
        letters.contains(letter).then_some(takes)
    })
}
