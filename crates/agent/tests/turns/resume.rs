//! What outlives a turn, a conversation and a process.

use serde_json::json;
use vestal_agent::EndReason;
use vestal_conversations::Error;
use vestal_scripted_model::{Reply, Rule, Script};

use crate::stage::{Stage, new, said};

fn shell() -> Script {
    Script::rules([
        Rule::when_user_contains("$ ").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            Reply::tool_call("terminal", json!({"command": command.trim_start_matches("$ ")}))
        }),
        Rule::after_tool_results(1)
            .reply_with(|request| Reply::text(request.tool_results().concat())),
    ])
}

fn output(text: &str) -> String {
    let result: serde_json::Value = serde_json::from_str(text).unwrap();
    result["output"].as_str().unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_resumed_conversation_finds_its_directory_and_variables_again() {
    let stage = Stage::new(shell());
    let result = stage.turn("$ mkdir -p deep; cd deep; word=lit; export OTHER=too").await;
    let mut again = stage.resume(&result.conversation).await;
    let result = again.run(said("$ echo $(basename $PWD) $word $OTHER"), &stage.ears()).await;
    assert_eq!(output(&result.text), "deep lit too");
}

#[tokio::test]
async fn another_conversation_shares_the_files_and_not_the_shell() {
    let stage = Stage::new(shell());
    stage.turn("$ mkdir -p deep; cd deep; word=lit; echo x > file").await;
    let result = stage.turn("$ echo [$(basename $PWD)] [$word]; cat deep/file").await;
    assert_eq!(output(&result.text), "[user] []\nx");
}

#[tokio::test]
async fn a_turn_a_closed_conversation_and_another_process_end_nothing() {
    let stage = Stage::new(shell());
    let agent = stage.agent().await;
    let mut first = agent.open(stage.opening(new())).await.unwrap();
    let started = first.run(said("$ sleep 1000 & echo $!"), &stage.ears()).await;
    let instance = first.workshop().attached().unwrap().instance().await;
    first.close(EndReason::Left).await.unwrap();
    let mut second = stage.begin().await;
    second.run(said("$ true"), &stage.ears()).await;
    assert_eq!(second.workshop().attached().unwrap().instance().await, instance);
    assert!(!output(&started.text).is_empty());
}

#[tokio::test]
async fn a_conversation_is_run_by_one_process_at_a_time() {
    let stage = Stage::new(shell());
    let conversation = stage.begin().await;
    let start = vestal_agent::Start::Resume(conversation.id().clone());
    let refused = stage.agent().await.open(stage.opening(start)).await.unwrap_err();
    assert!(matches!(refused, vestal_agent::OpenError::Store(Error::Busy { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_sandbox_that_is_not_to_last_goes_with_its_turn() {
    let stage = Stage::new(shell())
        .with("terminal.persist_across_processes=false")
        .with("terminal.container_persistent=false");
    let agent = stage.agent().await;
    let mut conversation = agent.open(stage.opening(new())).await.unwrap();
    conversation.run(said("$ word=lit"), &stage.ears()).await;
    let first = conversation.workshop().attached().unwrap();
    assert!(first.wait_for_cleanup(crate::stage::PATIENCE).await);
    let result = conversation.run(said("$ echo [$word]"), &stage.ears()).await;
    assert_eq!(output(&result.text), "[]");
    let second = conversation.workshop().attached().unwrap();
    assert!(!first.is_same_hold(&second));
    assert!(second.wait_for_cleanup(crate::stage::PATIENCE).await);
    agent.engine().close(crate::stage::PATIENCE).await;
}
