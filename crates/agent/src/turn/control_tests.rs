use super::*;

mod control {
    use super::*;

    #[test]
    fn an_interrupt_reaches_only_the_turn_that_runs() {
        let control = Control::default();
        assert!(!control.interrupt());
        let first = control.begin(None);
        assert!(control.interrupt());
        assert!(first.token.is_cancelled());
        drop(first);
        let second = control.begin(None);
        assert!(!second.token.is_cancelled());
    }

    #[test]
    fn an_interrupt_of_the_parent_reaches_the_child() {
        let parent = CancellationToken::new();
        let turn = Control::default().begin(Some(&parent));
        parent.cancel();
        assert!(turn.token.is_cancelled());
    }
}

mod guardrails {
    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall { id: "c".into(), name: "terminal".into(), arguments: arguments.into() }
    }

    fn result(content: &str, is_error: bool) -> ToolResult {
        let (call, name) = ("c".into(), "terminal".into());
        ToolResult { call, name, content: content.into(), is_error, images: Vec::new() }
    }

    fn watch() -> LoopWatch {
        LoopWatch::new(Guardrails { warn_after: 2, stop_after: Some(4) })
    }

    #[test]
    fn the_same_call_with_the_same_result_is_warned_of_then_stopped() {
        let mut watch = watch();
        let mut note = || watch.note(&call("a"), &result("same", false));
        assert_eq!(note(), LoopFinding::Fine);
        assert!(matches!(note(), LoopFinding::Warn(_)));
        assert!(matches!(note(), LoopFinding::Warn(_)));
        assert!(matches!(note(), LoopFinding::Stop(_)));
    }

    #[test]
    fn a_poll_whose_answer_changes_is_fine() {
        let mut watch = watch();
        for n in 0..20 {
            assert_eq!(watch.note(&call("a"), &result(&n.to_string(), false)), LoopFinding::Fine);
        }
    }

    #[test]
    fn failures_in_a_row_are_stopped_and_a_success_ends_the_row() {
        let mut watch = watch();
        let fail = |n: u32, watch: &mut LoopWatch| {
            watch.note(&call(&n.to_string()), &result(&n.to_string(), true))
        };
        assert_eq!(fail(0, &mut watch), LoopFinding::Fine);
        assert!(matches!(fail(1, &mut watch), LoopFinding::Warn(_)));
        assert_eq!(watch.note(&call("x"), &result("x", false)), LoopFinding::Fine);
        for n in 2..5 {
            assert!(!matches!(fail(n, &mut watch), LoopFinding::Stop(_)));
        }
        assert!(matches!(fail(5, &mut watch), LoopFinding::Stop(_)));
    }

    #[test]
    fn without_a_limit_nothing_is_stopped() {
        let mut watch = LoopWatch::new(Guardrails { warn_after: 2, stop_after: None });
        for _ in 0..50 {
            assert!(!matches!(watch.note(&call("a"), &result("same", true)), LoopFinding::Stop(_)));
        }
    }
}
