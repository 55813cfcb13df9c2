//! A conversation as Markdown.

use std::fmt::Write as _;

use vestal_conversations::{Stored, Summary};
use vestal_model::Message;

use super::reading::{Detail, Passage, passage};
use crate::console::text;

/// Returns what was said as Markdown.
pub(super) fn render(summary: &Summary, history: &[Stored]) -> String {
    let conversation = &summary.conversation;
    let title = conversation.title.as_deref().unwrap_or("Conversation");
    let mut out = format!("# {}\n\n", text::printable(title));
    let facts = [
        ("id", conversation.id.to_string()),
        ("model", conversation.model.clone()),
        ("begun", conversation.started_at.to_string()),
        ("last used", conversation.updated_at.to_string()),
    ];
    for (name, fact) in facts {
        // Writing to a string cannot fail.
        writeln!(out, "- {name}: {}", text::printable(&fact)).ok();
    }
    for stored in history {
        let Passage { speaker, remark, words, calls } = passage(stored, Detail::Full);
        let remark = remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
        write!(out, "\n## {}{remark}\n", text::printable(&speaker)).ok();
        // What a tool says is no Markdown.
        if matches!(stored.message, Message::Tool(_)) {
            fenced(&mut out, &words);
        } else if !words.is_empty() {
            write!(out, "\n{}\n", words.trim_end_matches('\n')).ok();
        }
        for call in calls {
            fenced(&mut out, &format!("→ {call}"));
        }
    }
    out
}

/// Adds a block of code, with a fence longer than any in it.
fn fenced(out: &mut String, words: &str) {
    let longest = words.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    write!(out, "\n{fence}\n{}\n{fence}\n", words.trim_end_matches('\n')).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_in_the_output_does_not_end_the_block() {
        let mut out = String::new();
        fenced(&mut out, "a\n````\nb\n");
        assert_eq!(out, "\n`````\na\n````\nb\n`````\n");
    }
}
