//! `/help`.

use vestal_agent::slash::{self, COMMANDS, Command, Group, Invocation, nearest};
use vestal_tui::{Line, style};

use crate::chat::Chat;
use crate::program::Trouble;

/// What keys do, below the commands.
const KEYS: &str = "\
Keys
  Enter        send; while the model works, steer it
  Alt-Enter    a new line (also Shift-Enter, Ctrl-J, \\ Enter)
  Ctrl-C       clear, interrupt, leave
  Tab          complete     Ctrl-R  search what was typed
  Ctrl-O       unfold the last output
  Ctrl-T       show what the model thinks
  Ctrl-G       write in $EDITOR
  !command     run it yourself, in the same shell";

pub(super) fn run(chat: &mut Chat, invocation: &Invocation) {
    let Some(name) = invocation.words.first() else {
        let page = format!("{}\n{KEYS}", slash::help());
        let is_heading =
            |line: &str| line == "Keys" || Group::ALL.iter().any(|group| group.heading() == line);
        return show(chat, &page, is_heading);
    };
    let name = name.trim_start_matches('/');
    match slash::find(name) {
        Some(command) => show(chat, &slash::help_of(command), |line| line == command.usage()),
        None => {
            let meant = nearest(name, COMMANDS.iter().flat_map(Command::names));
            let advice = match meant {
                Some(meant) => format!("did you mean /{meant}?"),
                None => "/help lists them".to_owned(),
            };
            let problem = format!("there is no command /{name}");
            chat.trouble(&Trouble { problem, advice: vec![advice] });
        }
    }
}

fn show(chat: &mut Chat, page: &str, is_heading: impl Fn(&str) -> bool) {
    for line in page.trim_end().lines() {
        let style = if is_heading(line) { style::BOLD } else { vestal_tui::Style::default() };
        chat.say(Line::styled(line, style));
    }
}
