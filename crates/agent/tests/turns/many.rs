//! Many conversations at once.

use futures_util::future::join_all;
use serde_json::json;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::fixture::{TurnFixture, new, user_prompt};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_conversations_at_once_each_keep_their_own_thread() {
    let fixture = TurnFixture::new(Script::rules([
        ReplyRule::when_user_contains("say ").reply_with(|request| {
            let words = request.last_user_text().unwrap_or_default();
            ScriptedReply::tool_call(
                "terminal",
                json!({"command": format!("x=$x.; echo {words} $x")}),
            )
        }),
        ReplyRule::after_tool_results(1)
            .reply_with(|request| ScriptedReply::text(request.tool_results().concat())),
    ]));
    let agent = fixture.agent().await;
    let talks = (0..12).map(|who| {
        let (agent, fixture) = (&agent, &fixture);
        async move {
            let mut conversation = agent.open(fixture.opening(new())).await.unwrap();
            for turn in 1..=3 {
                let words = format!("say {who}");
                let result = conversation.run(user_prompt(&words), &fixture.ears()).await;
                let expected = format!("say {who} {}", ".".repeat(turn));
                assert!(result.outcome.is_completed(), "{:?}", result.outcome);
                assert!(result.text.contains(&expected), "{} in {}", expected, result.text);
            }
            conversation.messages().len()
        }
    });
    assert_eq!(join_all(talks).await, vec![12; 12]);
}
