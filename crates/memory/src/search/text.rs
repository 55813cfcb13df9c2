//! Texts of messages, short enough to be read on the way.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use vestal_agent::redact::Redactor;
use vestal_conversations::{Kind, Stored};
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

/// Returns what a message says, the tools it calls included. Secrets are masked
/// before anything is cut off: half of one would not be known for what it is.
pub(super) fn of(message: &Message, redactor: &Redactor) -> String {
    let text = match message {
        Message::User(user) => {
            let images = user.parts.iter().any(|part| matches!(part, vestal_model::Part::Image(_)));
            let text = user.text();
            if images { format!("{text} [with images]") } else { text }
        }
        Message::Assistant(said) => {
            let calls = said.calls.iter().map(|call| {
                let arguments = redactor.redact_result(&call.arguments);
                format!("[calls {} {}]", call.name, beginning(&arguments, CALL))
            });
            let texts = std::iter::once(said.text.clone()).filter(|text| !text.trim().is_empty());
            texts.chain(calls).collect::<Vec<_>>().join("\n")
        }
        Message::Tool(result) => {
            format!("[{}] {}", result.name, redactor.redact_result(&result.content))
        }
    };
    redactor.redact(&text).into_owned()
}

/// Characters of a call's arguments.
const CALL: usize = 200;

/// Returns whose message it is. What the program put in, or let stand for other
/// messages, is nobody's words.
pub(super) const fn role(stored: &Stored) -> &'static str {
    match (stored.kind, &stored.message) {
        (Kind::Summary, _) => "summary",
        (Kind::Note, _) => "note",
        (Kind::Said | Kind::Aside, Message::User(_)) => "user",
        (Kind::Said | Kind::Aside, Message::Assistant(_)) => "assistant",
        (Kind::Said | Kind::Aside, Message::Tool(_)) => "tool",
    }
}
