//! Texts of messages, short enough to be read on the way.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use vestal_model::Message;

/// Returns a time as the user's clock shows it.
pub(super) fn moment(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Returns the beginning of a text, with how much is left out.
pub(super) fn beginning(text: &str, most: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let left = text.chars().count().saturating_sub(most);
            format!("{} [… {left} more characters]", &text[..end])
        }
        None => text.to_owned(),
    }
}

/// Returns what a message says, the tools it calls included.
pub(super) fn of(message: &Message) -> String {
    match message {
        Message::User(user) => {
            let images = user.parts.iter().any(|part| matches!(part, vestal_model::Part::Image(_)));
            let text = user.text();
            if images { format!("{text} [with images]") } else { text }
        }
        Message::Assistant(said) => {
            let calls = said
                .calls
                .iter()
                .map(|call| format!("[calls {} {}]", call.name, beginning(&call.arguments, CALL)));
            let texts = std::iter::once(said.text.clone()).filter(|text| !text.trim().is_empty());
            texts.chain(calls).collect::<Vec<_>>().join("\n")
        }
        Message::Tool(result) => format!("[{}] {}", result.name, result.content),
    }
}

/// Characters of a call's arguments.
const CALL: usize = 200;

/// Returns whose message it is.
pub(super) const fn role(message: &Message) -> &'static str {
    match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::Tool(_) => "tool",
    }
}
