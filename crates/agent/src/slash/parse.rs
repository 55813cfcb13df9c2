//! Parses what was typed.

use std::path::Path;

use super::command::{ArgumentStyle, CommandTiming, SlashCommand};
use super::table::{COMMANDS, find};

/// A command and what follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The command.
    pub command: &'static SlashCommand,
    /// What follows it, by words.
    pub words: Vec<String>,
    /// What follows it, as it was typed, blanks around it left out.
    pub rest: String,
}

/// Why a command cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlashError {
    /// Nothing follows the `/`.
    #[error("no command follows the /")]
    Empty,
    /// There is no such command.
    #[error("there is no command /{name}")]
    Unknown {
        /// What was typed.
        name: String,
        /// The command that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A quote is not closed.
    #[error(transparent)]
    Unclosed(#[from] Unclosed),
    /// The command takes nothing.
    #[error("/{command} takes no arguments")]
    TakesNothing {
        /// The command.
        command: &'static str,
    },
}

impl SlashError {
    /// Returns what to do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Unknown { nearest: Some(meant), .. } => format!("did you mean /{meant}?"),
            Self::Empty | Self::Unknown { nearest: None, .. } => "/help lists them".to_owned(),
            Self::Unclosed(unclosed) => unclosed.advice(),
            Self::TakesNothing { command } => format!("type /{command} by itself"),
        }
    }
}

/// Parses what was typed; nothing where it is meant for the model.
///
/// That is whatever does not begin with `/`, and of what does: `//…`, and paths
/// (`/etc/hosts …`; `/tmp …`, where there is such a directory).
pub fn parse(text: &str) -> Option<Result<Invocation, SlashError>> {
    parse_unless(text, |path| Path::new(path).exists())
}

/// The same, with the caller's idea of which paths there are.
pub(super) fn parse_unless(
    text: &str,
    is_path: impl FnOnce(&str) -> bool,
) -> Option<Result<Invocation, SlashError>> {
    let text = text.trim();
    let after = text.strip_prefix('/')?;
    let (name, rest) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    if name.contains('/') {
        return None;
    }
    if name.is_empty() {
        // With a blank after the slash it is text for the model.
        return rest.is_empty().then_some(Err(SlashError::Empty));
    }
    let Some(command) = find(name) else {
        if is_path(&format!("/{name}")) {
            return None;
        }
        let known = COMMANDS.iter().flat_map(SlashCommand::names);
        let nearest = nearest(name, known).and_then(find).map(|command| command.name);
        return Some(Err(SlashError::Unknown { name: name.to_owned(), nearest }));
    };
    Some(invocation(command, rest.trim()))
}

fn invocation(command: &'static SlashCommand, rest: &str) -> Result<Invocation, SlashError> {
    let words = match command.takes {
        ArgumentStyle::Nothing if !rest.is_empty() => {
            return Err(SlashError::TakesNothing { command: command.name });
        }
        ArgumentStyle::Nothing => Vec::new(),
        ArgumentStyle::Words => words(rest)?,
        ArgumentStyle::Text => rest.split_whitespace().map(str::to_owned).collect(),
    };
    Ok(Invocation { command, words, rest: rest.to_owned() })
}

impl Invocation {
    /// Returns whether it has to wait until no turn runs. What only shows
    /// something does not.
    pub fn timing(&self) -> CommandTiming {
        match (self.command.name, self.words.is_empty()) {
            ("sandbox" | "model" | "reasoning", true) => CommandTiming::AtOnce,
            _ => self.command.timing,
        }
    }

    /// Returns the words as they are compared.
    pub fn strs(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }
}

/// A quote that is never closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the quote {0} is not closed")]
pub struct Unclosed(pub char);

impl Unclosed {
    /// Returns what to do about it.
    pub fn advice(self) -> String {
        format!("for the sign itself: \\{}", self.0)
    }
}

/// Splits a line into words as shells do: blanks divide them, except in quotes
/// and after a backslash. Nothing is expanded.
pub fn words(line: &str) -> Result<Vec<String>, Unclosed> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                let next = characters.next();
                let word = word.get_or_insert_default();
                match (quote, next) {
                    // In double quotes a backslash stands for itself before most.
                    (Some(_), Some(next)) if !"\\\"".contains(next) => {
                        word.push('\\');
                        word.push(next);
                    }
                    (_, next) => word.extend(next),
                }
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(Unclosed(open));
    }
    words.extend(word);
    Ok(words)
}

/// Returns a word so that [`words`] reads it as one.
pub fn quoted(word: &str) -> String {
    let is_plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '\'' | '"' | '\\');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains('\'') {
        return format!("'{word}'");
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the candidate that was most likely meant: the one it is the
/// beginning of, else one that a slip or two turned into it.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let mut best: Option<(usize, &str)> = None;
    let mut begun: Option<&str> = None;
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        if name.chars().count() >= 2 && lower.starts_with(&name) && begun.is_none() {
            begun = Some(candidate);
        }
        let distance = strsim::damerau_levenshtein(&name, &lower);
        if distance <= tolerance(&name, &lower) && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    match (best, begun) {
        // One letter off is nearer than a beginning.
        (Some((0 | 1, candidate)), _) => Some(candidate),
        (_, Some(begun)) => Some(begun),
        (best, None) => best.map(|(_, candidate)| candidate),
    }
}

/// Returns how many slips may be between two names; of one letter, none: it
/// would be another.
fn tolerance(name: &str, candidate: &str) -> usize {
    match name.chars().count().min(candidate.chars().count()) {
        0 | 1 => 0,
        shorter => (shorter / 3).clamp(1, 3),
    }
}
