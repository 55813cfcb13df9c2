//! The help pages.

use super::command::{Command, Group};
use super::table::COMMANDS;

/// Columns of the widest line, so that a narrow terminal shows it whole.
pub(super) const WIDTH: usize = 60;

/// Columns that the names take in the page of all commands.
const NAMES: usize = 12;

/// Returns the page of all commands, each on one line.
pub fn help() -> String {
    let mut page = String::new();
    for group in Group::ALL {
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
pub fn help_of(command: &Command) -> String {
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
