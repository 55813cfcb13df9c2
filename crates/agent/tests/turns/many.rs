//! Many conversations at once.

use futures_util::future::join_all;
use serde_json::json;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::stage::{Stage, new, said};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_conversations_at_once_each_keep_their_own_thread() {
    let stage = Stage::new(Script::rules([
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
    let agent = stage.agent().await;
    let talks = (0..12).map(|who| {
        let (agent, stage) = (&agent, &stage);
        async move {
            let mut conversation = agent.open(stage.opening(new())).await.unwrap();
            for turn in 1..=3 {
                let words = format!("say {who}");
                let result = conversation.run(said(&words), &stage.ears()).await;
                let expected = format!("say {who} {}", ".".repeat(turn));
                assert!(result.outcome.is_completed(), "{:?}", result.outcome);
                assert!(result.text.contains(&expected), "{} in {}", expected, result.text);
            }
            conversation.messages().len()
        }
    });
    assert_eq!(join_all(talks).await, vec![12; 12]);
}
