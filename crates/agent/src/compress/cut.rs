//! Where a conversation is cut: what is before gives way to a summary.

use vestal_model::Message;

use super::estimate::tokens_of;

/// Returns how many messages at the beginning give way; none when that would
/// gain nothing.
///
/// What fits into `budget` tokens stays, and the last `protect` messages even
/// when they take twice that. A call and its results are never torn apart.
pub(crate) fn cut(messages: &[Message], protect: usize, budget: u64) -> Option<usize> {
    let mut kept = 0_u64;
    let mut start = messages.len();
    while start > 0 {
        kept += tokens_of(&messages[start - 1]);
        let is_protected = messages.len() - start < protect;
        if kept > budget && !(is_protected && kept <= 2 * budget) {
            break;
        }
        start -= 1;
    }
    // Nothing fits: at least the last message and what belongs to it stay.
    start = start.min(messages.len().saturating_sub(1));
    let start = before_results(messages, start);
    // One message, which may be the last summary, is not worth a summary.
    (start > 1).then_some(start)
}

/// Moves a cut before the answer whose results it would tear off.
fn before_results(messages: &[Message], mut start: usize) -> usize {
    while start > 0 && matches!(messages.get(start), Some(Message::Tool(_))) {
        start -= 1;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vestal_model::{AssistantMessage, Finish, ToolCall, ToolResult};

    fn calls(size: usize) -> Message {
        let call = ToolCall { id: "1".into(), name: "t".into(), arguments: "x".repeat(size) };
        Message::Assistant(AssistantMessage {
            calls: vec![call],
            finish: Finish::ToolCalls,
            ..AssistantMessage::default()
        })
    }

    fn result(size: usize) -> Message {
        let (call, name) = ("1".into(), "t".into());
        Message::Tool(ToolResult { call, name, content: "x".repeat(size), ..ToolResult::default() })
    }

    #[test]
    fn a_call_and_its_results_are_never_torn_apart() {
        let messages = [Message::user("go"), calls(400), result(400), calls(400), result(400)];
        assert_eq!(cut(&messages, 1, 150), Some(3));
    }

    #[test]
    fn a_conversation_that_fits_is_not_cut() {
        assert_eq!(cut(&[Message::user("go"), calls(4), result(4)], 20, 1_000), None);
    }

    #[test]
    fn one_message_is_not_worth_a_summary() {
        assert_eq!(cut(&[Message::user(&*"x".repeat(9_000)), calls(4), result(4)], 20, 100), None);
    }

    proptest! {
        #[test]
        fn a_cut_never_begins_with_a_result(
            kinds in proptest::collection::vec((0_u8..3, 0_usize..2_000), 0..40),
            protect in 0_usize..10,
            budget in 0_u64..2_000,
        ) {
            let messages: Vec<Message> = kinds.iter().map(|(kind, size)| match kind {
                0 => Message::user("x".repeat(*size)),
                1 => calls(*size),
                _ => result(*size),
            }).collect();
            if let Some(start) = cut(&messages, protect, budget) {
                prop_assert!(start > 1 && start < messages.len());
                prop_assert!(!matches!(messages[start], Message::Tool(_)));
            }
        }
    }
}
