//! Help pages and completion, from the one table of commands.

use std::ops::Range;

use super::command::{ArgumentKind, CommandGroup, CommandKind, SlashCommand};
use super::table::{COMMANDS, find};

/// Columns of the widest line, so that a narrow terminal shows it whole.
pub(super) const WIDTH: usize = 60;

/// Columns that the names take in the page of all commands.
const NAMES: usize = 12;

/// Returns the page of all commands, each on one line.
pub fn help() -> String {
    let mut page = String::new();
    for group in CommandGroup::ALL {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(group.heading());
        page.push('\n');
        for command in COMMANDS.iter().filter(|command| command.group == group) {
            let name = format!("/{}", command.name);
            page.extend([&format!("  {name:NAMES$} "), command.summary, "\n"]);
        }
    }
    page.push_str("\n/help COMMAND says more. Text that begins with // is\nfor the model.\n");
    page
}

/// Returns the page of one command.
pub fn help_of(command: &SlashCommand) -> String {
    let mut page = command.usage();
    page.push('\n');
    fill(&mut page, "  ", command.summary);
    if !command.aliases.is_empty() {
        let aliases: Vec<String> =
            command.aliases.iter().map(|alias| format!("/{alias}")).collect();
        fill(&mut page, "  ", &format!("also: {}", aliases.join(", ")));
    }
    let words: Vec<(String, &str)> = command
        .words
        .iter()
        .filter(|word| !word.word.is_empty())
        .map(|word| {
            let value =
                word.value.map_or_else(String::new, |value| format!(" {}", value.placeholder()));
            (format!("{}{value}", word.word), word.about)
        })
        .collect();
    let widest = words.iter().map(|(word, _)| word.chars().count()).max().unwrap_or(0);
    if !words.is_empty() {
        page.push('\n');
    }
    for (word, about) in &words {
        let first = format!("  {word:widest$}  ");
        fill_after(&mut page, &first, &" ".repeat(widest + 4), about);
    }
    if !command.details.is_empty() {
        page.push('\n');
        for paragraph in command.details.lines() {
            fill(&mut page, "", paragraph);
        }
    }
    page
}

/// Writes a paragraph in lines that fit.
fn fill(page: &mut String, indent: &str, text: &str) {
    fill_after(page, indent, indent, text);
}

/// The same, with something else before the first line.
fn fill_after(page: &mut String, first: &str, indent: &str, text: &str) {
    let mut line = first.to_owned();
    let mut is_begun = false;
    for word in text.split_whitespace() {
        if is_begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            page.push_str(line.trim_end());
            page.push('\n');
            indent.clone_into(&mut line);
            is_begun = false;
        }
        if is_begun {
            line.push(' ');
        }
        line.push_str(word);
        is_begun = true;
    }
    page.push_str(line.trim_end());
    page.push('\n');
}

/// What can be typed at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completing {
    /// The bytes of the text that give way to what is chosen.
    pub replaces: Range<usize>,
    /// The words that fit what is there already.
    pub candidates: Vec<SlashCandidate>,
    /// What else may stand there, for a caller that knows the names.
    pub wanted: Option<ArgumentKind>,
    /// What is there already.
    pub typed: String,
    /// Of a verb of the command line: its words before that one.
    pub verb: Vec<String>,
}

/// Something that could be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCandidate {
    /// What is put into the text.
    pub text: String,
    /// What it does, in a line.
    pub about: String,
}

/// Returns what could be typed at `cursor`, a place between characters; nothing
/// where the text is not a command.
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
    let verb = match (command.kind, wanted) {
        (CommandKind::Verb(verb), Some(ArgumentKind::Verb)) => {
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
    let candidate = |command: &SlashCommand| {
        // What is written out, else the name if it fits, else the alias that was begun.
        let name = command
            .names()
            .find(|name| name.eq_ignore_ascii_case(typed))
            .or_else(|| command.names().find(|name| begins(name)))?;
        Some(SlashCandidate { text: format!("/{name} "), about: command.summary.to_owned() })
    };
    let mut candidates: Vec<SlashCandidate> = COMMANDS.iter().filter_map(candidate).collect();
    if candidates.is_empty() {
        // No name begins so: those that have it somewhere.
        let typed = typed.to_ascii_lowercase();
        let fits = COMMANDS.iter().filter(|command| command.name.contains(&typed));
        let fits = fits.map(|command| SlashCandidate {
            text: format!("/{} ", command.name),
            about: command.summary.to_owned(),
        });
        candidates.extend(fits);
    }
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

fn of_words(
    command: &SlashCommand,
    complete: &[&str],
    typed: &str,
) -> (Vec<SlashCandidate>, Option<ArgumentKind>) {
    let Some((first, _)) = complete.split_first() else {
        let fits = command
            .words
            .iter()
            .filter(|word| !word.word.is_empty() && word.word.starts_with(typed));
        let candidates = fits.map(|word| SlashCandidate {
            text: format!("{} ", word.word),
            about: word.about.to_owned(),
        });
        let by_itself = command.words.iter().find(|word| word.word.is_empty());
        let mut candidates: Vec<SlashCandidate> = candidates.collect();
        let wanted = by_itself.and_then(|word| word.value);
        if wanted == Some(ArgumentKind::Command) {
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
            command
                .words
                .iter()
                .find_map(|word| word.value)
                .filter(|value| *value == ArgumentKind::Verb),
        ),
    }
}

fn of_commands(typed: &str) -> impl Iterator<Item = SlashCandidate> {
    let typed = typed.trim_start_matches('/').to_owned();
    COMMANDS.iter().filter(move |command| command.name.starts_with(&typed)).map(|command| {
        SlashCandidate { text: format!("{} ", command.name), about: command.summary.to_owned() }
    })
}
