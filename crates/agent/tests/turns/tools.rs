//! What happens to tool calls, good and bad.

use serde_json::json;
use vestal_agent::{TurnEvent, TurnOutcome};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply, ScriptedToolCall};

use crate::fixture::TurnFixture;

#[tokio::test]
async fn a_model_that_errs_gets_the_error_and_goes_on() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminl", json!({"command": "true"})),
        ScriptedReply::tool_call("terminal", "{\"command\": \"tru"),
        ScriptedReply::tool_call("terminal", "[1]"),
        ScriptedReply::text("sorry"),
    ]));
    let result = fixture.turn("go").await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    let output = fixture.model.requests()[3].tool_results().join("\n");
    assert!(output.contains("did you mean \\\"terminal\\\""), "{output}");
    assert!(output.contains("not valid JSON"), "{output}");
    assert!(output.contains("must be a JSON object, not a list"), "{output}");
}

#[tokio::test]
async fn calls_of_one_answer_all_get_their_results_in_order() {
    let reads =
        (0..5).map(|n| ScriptedToolCall::new("read_file", json!({"path": format!("f{n}")})));
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_calls(reads),
        ScriptedReply::text("read"),
    ]));
    for n in 0..5 {
        std::fs::write(fixture.file(&format!("f{n}")), format!("content {n}\n")).unwrap();
    }
    let result = fixture.turn("read them").await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    assert_eq!(result.tool_calls, 5);
    let results = fixture.model.requests()[1].tool_results();
    for (n, result) in results.iter().enumerate() {
        assert!(result.contains(&format!("content {n}")), "{result}");
    }
}

#[tokio::test]
async fn a_result_that_is_too_long_is_put_into_a_file_with_a_preview() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "seq 1 400000"})),
        ScriptedReply::text("long"),
    ]))
    .with("tool_output.max_bytes=1000000");
    let result = fixture.turn("count").await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    let results = fixture.model.requests()[1].tool_results();
    assert!(results[0].len() < 10_000, "{}", results[0].len());
    assert!(results[0].contains("vestal-results"), "{}", results[0]);
}

#[tokio::test]
async fn fifty_megabytes_and_broken_text_are_survived() {
    let command = r"head -c 50000000 /dev/zero | tr '\0' x; printf '\377\376end\n'";
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": command})),
        ScriptedReply::text("done"),
    ]));
    let result = fixture.turn("flood").await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    let results = fixture.model.requests()[1].tool_results();
    assert!(results[0].len() < 120_000 && results[0].contains("end"), "{}", results[0].len());
}

#[tokio::test]
async fn a_model_that_never_stops_is_stopped_at_its_budget_with_a_summary() {
    let fixture = TurnFixture::new(Script::rules([
        ReplyRule::when_user_contains("limit of model calls")
            .after_any_tool_results()
            .reply(ScriptedReply::text("so far")),
        ReplyRule::when_user_contains("go").after_any_tool_results().reply_with(|request| {
            let n = request.tool_results().len();
            ScriptedReply::tool_call("terminal", json!({"command": format!("echo {n}")}))
        }),
    ]))
    .with("agent.max_turns=4");
    let result = fixture.turn("go").await;
    assert!(matches!(result.outcome, TurnOutcome::BudgetExhausted), "{:?}", result.outcome);
    assert_eq!(result.text, "so far");
    assert_eq!((result.model_calls, result.tool_calls), (5, 4));
    assert!(fixture.model.requests()[4].tool_names().is_empty());
}

#[tokio::test]
async fn a_model_that_goes_round_in_circles_is_warned_then_stopped() {
    let fixture = TurnFixture::new(Script::rules([ReplyRule::when_user_contains("go")
        .after_any_tool_results()
        .reply(ScriptedReply::tool_call("terminal", json!({"command": "echo same"})))]))
    .with("tool_loop_guardrails.warn_after=2")
    .with("tool_loop_guardrails.stop_after=4");
    let result = fixture.turn("go").await;
    assert!(matches!(result.outcome, TurnOutcome::Looping { .. }), "{:?}", result.outcome);
    assert_eq!(result.tool_calls, 4);
    let output = fixture.model.requests()[3].tool_results().join("\n");
    assert!(output.contains("the same arguments and the same result"), "{output}");
}

#[tokio::test]
async fn a_tool_that_is_switched_off_is_neither_offered_nor_run() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "touch ran"})),
        ScriptedReply::text("well"),
    ]));
    let agent = fixture.agent().await;
    let mut opening = fixture.opening(crate::fixture::new());
    opening.selection.without_tools = vec!["terminal".to_owned(), "no_such_tool".to_owned()];
    let mut conversation = agent.open(opening).await.unwrap();
    let result = conversation.run(crate::fixture::user_prompt("go"), &fixture.ears()).await;
    assert!(result.outcome.is_completed());
    let requests = fixture.model.requests();
    assert!(!requests[0].tool_names().contains(&"terminal"));
    assert!(requests[1].tool_results()[0].contains("there is no tool"));
    assert!(!fixture.file("ran").exists());
    let warned = |event: &TurnEvent| matches!(event, TurnEvent::Warning { text } if text.contains("no_such_tool"));
    assert_eq!(fixture.events().iter().filter(|event| warned(event)).count(), 1);
}

#[tokio::test]
async fn a_todo_list_is_there_when_the_conversation_is_resumed() {
    let todos = json!({"todos": [{"id": "1", "content": "dig", "status": "in_progress"}]});
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("todo", todos),
        ScriptedReply::text("noted"),
        ScriptedReply::tool_call("todo", json!({})),
        ScriptedReply::text("there"),
    ]));
    let result = fixture.turn("plan").await;
    let mut again = fixture.resume(&result.conversation).await;
    again.run(crate::fixture::user_prompt("what is left?"), &fixture.ears()).await;
    let results = fixture.model.requests()[3].tool_results();
    assert!(results[0].contains("dig"), "{results:?}");
}

/// Somebody who answers nothing, but is there.
struct There;

#[async_trait::async_trait]
impl vestal_agent::Human for There {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, _: &vestal_agent::ApprovalRequest) -> vestal_agent::Approval {
        vestal_agent::Approval::Deny(None)
    }

    async fn clarify(&self, _: &vestal_agent::Question) -> Option<String> {
        None
    }
}

#[tokio::test]
async fn clarify_is_offered_only_where_somebody_can_be_asked() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::text("alone"),
        ScriptedReply::text("together"),
    ]));
    fixture.turn("go").await;
    let opening = vestal_agent::ConversationOptions {
        human: std::sync::Arc::new(There),
        ..fixture.opening(crate::fixture::new())
    };
    let mut attended = fixture.agent().await.open(opening).await.unwrap();
    attended.run(crate::fixture::user_prompt("go"), &fixture.ears()).await;
    let requests = fixture.model.requests();
    let offered = |at: usize| requests[at].tool_names().contains(&"clarify");
    assert_eq!((offered(0), offered(1)), (false, true));
}
