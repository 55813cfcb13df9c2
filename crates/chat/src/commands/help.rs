//! `/help`.

use vestal_agent::slash::{self, COMMANDS, Command, Group, Invocation, nearest};
use vestal_tui::{Line, style};

use super::table;
use crate::chat::Chat;
use crate::keys;
use crate::program::Trouble;

/// What shows the keys alone.
const KEYS: &str = "keys";

pub(super) fn run(chat: &mut Chat, invocation: &Invocation) {
    let Some(name) = invocation.words.first() else {
        let is_heading = |line: &str| Group::ALL.iter().any(|group| group.heading() == line);
        show(chat, &slash::help(), is_heading);
        // Not the keys too: the commands would be scrolled away.
        return chat.say(Line::plain("/help keys says what the keys do."));
    };
    let name = name.trim_start_matches('/');
    match slash::find(name) {
        Some(command) => show(chat, &slash::help_of(command), |line| line == command.usage()),
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
        [("Keys of the input", keys::of_input()), ("Keys of the chat", keys::of_chat())]
    {
        chat.say(Line::styled(heading, style::BOLD));
        let rows: Vec<(&str, String)> =
            keys.iter().map(|(keys, what)| (*keys, (*what).to_owned())).collect();
        table::say_indented(chat, &rows);
    }
}

fn show(chat: &mut Chat, page: &str, is_heading: impl Fn(&str) -> bool) {
    for line in page.trim_end().lines() {
        let style = if is_heading(line) { style::BOLD } else { vestal_tui::Style::default() };
        chat.say(Line::styled(line, style));
    }
}
