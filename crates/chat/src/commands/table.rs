//! Names and values, one below the other.

use vestal_tui::{Line, Span, style};

use crate::chat::Chat;

/// Says rows of a name and a value; a value that is too wide goes on below
/// itself.
pub(super) fn say(chat: &mut Chat, rows: &[(&str, String)]) {
    say_after(chat, "", rows);
}

/// The same, as a part of a page with headings.
pub(super) fn say_indented(chat: &mut Chat, rows: &[(&str, String)]) {
    say_after(chat, "  ", rows);
}

fn say_after(chat: &mut Chat, indent: &str, rows: &[(&str, String)]) {
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
