//! A conversation for people to read.

use vestal_api::dollars;
use vestal_conversations::{Kind, Standing, Stored, Totals};
use vestal_model::{Message, Part, ToolCall};

use crate::console::text;

/// Lines shown of what a tool came to.
const TOOL_LINES: usize = 6;
/// Characters shown of a tool's arguments or of a line of its output.
const LONGEST: usize = 160;

/// How much of a conversation is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Tools in a few lines.
    Short,
    /// Everything.
    Full,
}

/// Who says something, and what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// Who says it.
    pub(super) speaker: String,
    /// What is said about it.
    pub(super) remark: Option<&'static str>,
    /// The words, raw: they may have control characters in them.
    pub(super) words: String,
    /// The calls of tools in it.
    pub(super) calls: Vec<String>,
}

/// Returns a message for people to read.
pub(super) fn passage(stored: &Stored, detail: Detail) -> Passage {
    let remark = match (stored.standing, stored.kind) {
        (Standing::Undone, _) => Some("undone"),
        (_, Kind::Summary) => Some("summary of what came before"),
        (_, Kind::Note) => Some("put in by vestal"),
        (Standing::Active | Standing::Compacted, Kind::Said | Kind::Aside) => None,
    };
    match &stored.message {
        Message::User(message) => {
            let parts = message.parts.iter().map(|part| match part {
                Part::Text { text } => text.clone(),
                Part::Image(image) => {
                    let size = text::bytes(image.data.len() as u64 / 4 * 3);
                    format!("[{}, {size}]", image.media_type)
                }
            });
            let words = parts.collect::<Vec<_>>().join("\n");
            Passage { speaker: "user".to_owned(), remark, words, calls: Vec::new() }
        }
        Message::Assistant(message) => Passage {
            speaker: "assistant".to_owned(),
            remark,
            words: message.text.clone(),
            calls: message.calls.iter().map(|called| call(called, detail)).collect(),
        },
        Message::Tool(result) => Passage {
            speaker: format!("tool {}", result.name),
            remark: remark.or(result.is_error.then_some("failed")),
            words: match detail {
                Detail::Full => result.content.clone(),
                Detail::Short => beginning(&result.content),
            },
            calls: Vec::new(),
        },
    }
}

fn call(call: &ToolCall, detail: Detail) -> String {
    let arguments = match detail {
        Detail::Full => call.arguments.clone(),
        Detail::Short => shortened(&call.arguments),
    };
    format!("{} {arguments}", call.name)
}

/// Returns the first lines of what a tool came to.
fn beginning(content: &str) -> String {
    let mut lines = content.lines();
    let mut shown: Vec<String> = lines.by_ref().take(TOOL_LINES).map(shortened).collect();
    let more = lines.count() as u64;
    if more > 0 {
        shown.push(format!("… {} more", text::count(more, "line")));
    }
    shown.join("\n")
}

fn shortened(line: &str) -> String {
    let mut characters = line.chars();
    let shown: String = characters.by_ref().take(LONGEST).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}

/// Returns what a conversation cost, as far as that is known.
pub(super) fn cost(totals: &Totals) -> String {
    match (totals.calls, totals.unpriced) {
        (0, _) => "-".to_owned(),
        (calls, unpriced) if unpriced >= calls => "?".to_owned(),
        (_, 0) => format!("${:.4}", dollars(totals.micro_usd)),
        _ => format!("${:.4}+", dollars(totals.micro_usd)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_the_beginning_is_shown_and_the_rest_counted() {
        assert_eq!(beginning("a\nb"), "a\nb");
        assert_eq!(beginning(&"x\n".repeat(8)), format!("{}… 2 lines more", "x\n".repeat(6)));
        assert_eq!(beginning(&"é".repeat(161)), format!("{}…", "é".repeat(160)));
    }

    #[test]
    fn a_cost_says_whether_it_is_all() {
        let totals =
            |calls, micro_usd, unpriced| Totals { calls, micro_usd, unpriced, ..Totals::default() };
        assert_eq!(cost(&totals(0, 0, 0)), "-");
        assert_eq!(cost(&totals(2, 0, 2)), "?");
        assert_eq!(cost(&totals(2, 12_300, 0)), "$0.0123");
        assert_eq!(cost(&totals(2, 12_300, 1)), "$0.0123+");
    }
}
