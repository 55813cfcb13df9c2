//! Slash commands. The table of commands is in `vestal_agent::slash`.

mod agent;
mod conversations;
mod sandbox;
mod status;

use vestal_agent::Question;
use vestal_agent::slash::{
    self, COMMANDS, Command, Group, Invocation, Reach, SlashError, Timing, nearest, parse,
};
use vestal_tui::{Line, Span, style};

use crate::chat::Chat;
use crate::host::Trouble;
use crate::input;
use crate::questions::Pending;

pub(crate) use agent::known_models;
pub(crate) use conversations::store_trouble;

/// Does what a command says.
pub(crate) async fn obey(chat: &mut Chat, invocation: Invocation) {
    if invocation.timing() == Timing::BetweenTurns && chat.conversation().is_none() {
        return wait_for_turn(chat, &invocation);
    }
    let command = invocation.command;
    match (command.reach, command.name) {
        (Reach::Verb(verb), _) => run_verb(chat, verb, &invocation).await,
        (_, "new") => conversations::new_conversation(chat, &invocation).await,
        (_, "resume") => conversations::resume(chat, &invocation).await,
        (_, "branch") => conversations::branch(chat, &invocation).await,
        (_, "title") => conversations::title(chat, &invocation).await,
        (_, "undo") => conversations::undo(chat, &invocation).await,
        (_, "retry") => conversations::retry(chat).await,
        (_, "compress") => conversations::compress(chat),
        (_, "status") => status::status(chat).await,
        (_, "usage") => status::usage(chat).await,
        (_, "stop") => sandbox::stop(chat, &invocation).await,
        (_, "quit") => chat.leave(),
        (_, "model") => agent::model(chat, &invocation).await,
        (_, "tools") => agent::tools(chat, &invocation).await,
        (_, "yolo") => agent::yolo(chat, &invocation),
        (_, "approvals") => agent::approvals(chat, &invocation),
        (_, "sandbox") => sandbox::sandbox(chat, &invocation).await,
        (_, "jobs") => sandbox::jobs(chat, &invocation).await,
        (_, "help") => help(chat, &invocation),
        // A command of the table that this chat does not know.
        (_, name) => chat.warn(&format!("/{name} cannot be done here")),
    }
}

/// Says why something that was typed is no command, once, and leaves it to be
/// put right.
pub(crate) fn misread(chat: &mut Chat, error: &SlashError, typed: &str) {
    let advice = vec![error.advice()];
    chat.trouble(&Trouble { problem: error.to_string(), advice });
    keep(chat, typed);
}

/// Says that a command has to wait, and leaves it to be sent again.
fn wait_for_turn(chat: &mut Chat, invocation: &Invocation) {
    let name = invocation.command.name;
    chat.note(&format!(
        "/{name} has to wait until nothing runs in the conversation; Ctrl-C or /stop interrupts it"
    ));
    let typed = format!("/{name} {}", invocation.rest);
    keep(chat, typed.trim_end());
}

/// Puts something back into the input, unless something else is being written.
fn keep(chat: &mut Chat, typed: &str) {
    if chat.editor.is_empty() {
        chat.editor.set_text(typed);
    }
}

/// Says that what follows a command means nothing.
fn misused(chat: &mut Chat, invocation: &Invocation, problem: &str) {
    let command = invocation.command;
    let advice = vec![format!("{}; /help {} says more", command.usage(), command.name)];
    chat.trouble(&Trouble { problem: problem.to_owned(), advice });
}

/// Asks something, and does what the answer makes of it: a command. No answer
/// makes nothing.
///
/// The chat goes on meanwhile: nothing waits for the person.
pub(super) fn choose(
    chat: &mut Chat,
    question: &str,
    choices: Vec<String>,
    then: impl FnOnce(&str) -> Option<Invocation> + Send + 'static,
) {
    let question = Question { question: question.to_owned(), choices };
    chat.ask(Pending::Choose { question, then: Box::new(then) });
}

/// Asks whether something is to be done, and does it: a command, as it is typed.
pub(super) fn confirm(chat: &mut Chat, question: &str, command: String) {
    let choices = vec!["yes".to_owned(), "no".to_owned()];
    choose(chat, question, choices, move |answer| {
        is_yes(answer).then(|| parse_command(&command))?
    });
}

/// Returns a command, as it is typed.
pub(super) fn parse_command(command: &str) -> Option<Invocation> {
    parse(command)?.ok()
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Says rows of a name and a value; a value that is too wide goes on below
/// itself.
pub(super) fn say_table(chat: &mut Chat, rows: &[(&str, String)]) {
    say_rows(chat, "", rows);
}

/// The same, as a part of a page with headings.
pub(super) fn say_indented_table(chat: &mut Chat, rows: &[(&str, String)]) {
    say_rows(chat, "  ", rows);
}

fn say_rows(chat: &mut Chat, indent: &str, rows: &[(&str, String)]) {
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = chat.width();
    let hanging = " ".repeat(indent.len() + widest + 2);
    for (name, value) in rows {
        for (number, value) in value.lines().enumerate() {
            let name = if number == 0 { *name } else { "" };
            let line = Line::from_spans(vec![
                Span::new(format!("{indent}{name:widest$}  "), style::DIM),
                Span::plain(value),
            ]);
            for line in line.wrap(width, &hanging) {
                chat.say(line);
            }
        }
    }
}

/// Runs the verb. What is typed without words shows what there is.
pub(super) async fn run_verb(chat: &mut Chat, verb: &[&str], invocation: &Invocation) {
    let mut words: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
    if invocation.words.is_empty() {
        words.extend(default_words(invocation.command.name).iter().map(|word| (*word).to_owned()));
    }
    words.extend(invocation.words.iter().cloned());
    let went_well = chat.aside(words).await;
    if went_well
        && matches!(
            (invocation.command.name, invocation.strs().as_slice()),
            ("config", ["set", ..])
        )
    {
        chat.note(
            "what is said of models and tools counts in the next conversation (/new), a model's address and key from the next turn on, all else in the next chat",
        );
    }
}

/// Returns the words of a verb that shows what there is.
fn default_words(command: &str) -> &'static [&'static str] {
    match command {
        "sessions" | "kanban" | "profile" | "skills" | "mcp" => &["list"],
        "config" | "memory" => &["show"],
        _ => &[],
    }
}

/// What shows the keys alone.
const KEYS: &str = "keys";

pub(super) fn help(chat: &mut Chat, invocation: &Invocation) {
    let Some(name) = invocation.words.first() else {
        let is_heading = |line: &str| Group::ALL.iter().any(|group| group.heading() == line);
        show_page(chat, &slash::help(), is_heading);
        // Not the keys too: the commands would be scrolled away.
        return chat.say(Line::plain("/help keys says what the keys do."));
    };
    let name = name.trim_start_matches('/');
    match slash::find(name) {
        Some(command) => show_page(chat, &slash::help_of(command), |line| line == command.usage()),
        None if name == KEYS => show_keys(chat),
        None => {
            let names = COMMANDS.iter().flat_map(Command::names).chain([KEYS]);
            let advice = match nearest(name, names) {
                Some(KEYS) => "did you mean /help keys?".to_owned(),
                Some(meant) => format!("did you mean /{meant}?"),
                None => "/help lists them".to_owned(),
            };
            let problem = format!("there is no command /{name}");
            chat.trouble(&Trouble { problem, advice: vec![advice] });
        }
    }
}

/// Shows what keys do: those of the input, as it reads them, and those of the chat.
fn show_keys(chat: &mut Chat) {
    for (heading, keys) in
        [("Keys of the input", input::of_input()), ("Keys of the chat", input::of_chat())]
    {
        chat.say(Line::styled(heading, style::BOLD));
        let rows: Vec<(&str, String)> =
            keys.iter().map(|(keys, what)| (*keys, (*what).to_owned())).collect();
        say_indented_table(chat, &rows);
    }
}

fn show_page(chat: &mut Chat, page: &str, is_heading: impl Fn(&str) -> bool) {
    for line in page.trim_end().lines() {
        let style = if is_heading(line) { style::BOLD } else { vestal_tui::Style::default() };
        chat.say(Line::styled(line, style));
    }
}
