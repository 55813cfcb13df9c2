//! What could be typed next.

use std::ops::Range;

use super::command::{Command, Reach, Value};
use super::table::{COMMANDS, find};

/// What could stand where somebody types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completing {
    /// The bytes of the text that give way to what is chosen.
    pub replaces: Range<usize>,
    /// The words that fit what is there already.
    pub candidates: Vec<Candidate>,
    /// What else may stand there, for whoever knows the names.
    pub wanted: Option<Value>,
    /// What is there already.
    pub typed: String,
    /// Of a verb of the command line: its words before that one.
    pub verb: Vec<String>,
}

/// Something that could be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What is put into the text.
    pub text: String,
    /// What it does, in a line.
    pub about: String,
}

/// Returns what could be typed at `cursor`, a place between characters; nothing
/// where the text is no command.
pub fn complete(text: &str, cursor: usize) -> Option<Completing> {
    let before = text.get(..cursor)?;
    let after_slash = before.strip_prefix('/')?;
    let Some((name, rest)) = after_slash.split_once(char::is_whitespace) else {
        return (!after_slash.contains('/')).then(|| of_names(after_slash, cursor));
    };
    let command = find(name)?;
    // The word that is being typed, and those that are complete.
    let typed = rest.rsplit(char::is_whitespace).next().unwrap_or_default();
    let complete: Vec<&str> =
        rest.get(..rest.len() - typed.len()).unwrap_or_default().split_whitespace().collect();
    let replaces = cursor - typed.len()..cursor;
    let (candidates, wanted) = of_words(command, &complete, typed);
    let verb = match (command.reach, wanted) {
        (Reach::Verb(verb), Some(Value::Verb)) => {
            verb.iter().chain(&complete).map(|word| (*word).to_owned()).collect()
        }
        _ => Vec::new(),
    };
    Some(Completing { replaces, candidates, wanted, typed: typed.to_owned(), verb })
}

fn of_names(typed: &str, cursor: usize) -> Completing {
    let begins = |name: &str| {
        name.get(..typed.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(typed))
    };
    let candidate = |command: &Command| {
        // What is written out, else the name if it fits, else the alias that was begun.
        let name = command
            .names()
            .find(|name| name.eq_ignore_ascii_case(typed))
            .or_else(|| command.names().find(|name| begins(name)))?;
        Some(Candidate { text: format!("/{name} "), about: command.summary.to_owned() })
    };
    let mut candidates: Vec<Candidate> = COMMANDS.iter().filter_map(candidate).collect();
    // A command that is written out comes before those that begin with it.
    candidates.sort_by_key(|candidate| candidate.text.trim_end().len() != typed.len() + 1);
    Completing {
        replaces: 0..cursor,
        candidates,
        wanted: None,
        typed: format!("/{typed}"),
        verb: Vec::new(),
    }
}

fn of_words(command: &Command, complete: &[&str], typed: &str) -> (Vec<Candidate>, Option<Value>) {
    let Some((first, _)) = complete.split_first() else {
        let fits = command
            .words
            .iter()
            .filter(|word| !word.word.is_empty() && word.word.starts_with(typed));
        let candidates = fits.map(|word| Candidate {
            text: format!("{} ", word.word),
            about: word.about.to_owned(),
        });
        let by_itself = command.words.iter().find(|word| word.word.is_empty());
        let mut candidates: Vec<Candidate> = candidates.collect();
        let wanted = by_itself.and_then(|word| word.value);
        if wanted == Some(Value::Command) {
            candidates.extend(of_commands(typed));
        }
        return (candidates, wanted);
    };
    let known = command.words.iter().find(|word| !word.word.is_empty() && word.word == *first);
    match known {
        Some(word) => (Vec::new(), word.value),
        // Of a verb, all words are its own.
        None => (
            Vec::new(),
            command.words.iter().find_map(|word| word.value).filter(|value| *value == Value::Verb),
        ),
    }
}

fn of_commands(typed: &str) -> impl Iterator<Item = Candidate> {
    let typed = typed.trim_start_matches('/').to_owned();
    COMMANDS.iter().filter(move |command| command.name.starts_with(&typed)).map(|command| {
        Candidate { text: format!("{} ", command.name), about: command.summary.to_owned() }
    })
}
