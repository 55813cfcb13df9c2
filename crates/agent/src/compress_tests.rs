use super::*;

mod compress {
    use super::*;

    #[test]
    fn what_every_request_has_does_not_use_up_the_threshold_of_a_small_model() {
        let compression = CompressionPolicy { threshold: 0.5, ..CompressionPolicy::default() };
        assert_eq!(compression.ceiling(200_000, 0), 100_000);
        assert_eq!(compression.ceiling(8_000, 4_200), 4_200 + 1_900);
        assert_eq!(compression.ceiling(4_000, 4_200), 4_200);
    }
}

mod cut {
    use super::*;
    use proptest::prelude::*;
    use vestal_model::{AssistantMessage, FinishReason, ToolCall, ToolResult};

    fn calls(size: usize) -> Message {
        let call = ToolCall { id: "1".into(), name: "t".into(), arguments: "x".repeat(size) };
        Message::Assistant(AssistantMessage {
            calls: vec![call],
            finish: FinishReason::ToolCalls,
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

mod summary {
    use super::*;

    #[test]
    fn what_the_person_asked_for_is_quoted_word_for_word() {
        let printed = [Message::user("build it, but never touch /etc")];
        let message = as_message(&printed, 3, " all well ", &SummaryRoom::of(None));
        let text = message.text();
        assert!(text.contains("USER: build it, but never touch /etc"), "{text}");
        assert!(text.ends_with("all well"), "{text}");
    }

    #[test]
    fn a_long_text_keeps_both_ends_and_says_what_is_missing() {
        let text = clipped(&format!("a{}z", "é".repeat(50_000)), 1_000);
        assert!(text.starts_with('a') && text.ends_with('z') && text.len() < 1_200);
        assert!(text.contains("bytes left out"));
    }
}
