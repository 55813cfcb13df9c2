//! What outlives a turn, a conversation and a process.

use serde_json::json;
use vestal_agent::EndReason;
use vestal_conversations::Error;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::fixture::{TurnFixture, new, user_prompt};

fn shell() -> Script {
    Script::rules([
        ReplyRule::when_user_contains("$ ").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            ScriptedReply::tool_call(
                "terminal",
                json!({"command": command.trim_start_matches("$ ")}),
            )
        }),
        ReplyRule::after_tool_results(1)
            .reply_with(|request| ScriptedReply::text(request.tool_results().concat())),
    ])
}

fn output(text: &str) -> String {
    let result: serde_json::Value = serde_json::from_str(text).unwrap();
    result["output"].as_str().unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_resumed_conversation_finds_its_directory_and_variables_again() {
    let fixture = TurnFixture::new(shell());
    let result = fixture.turn("$ mkdir -p deep; cd deep; word=lit; export OTHER=too").await;
    let mut again = fixture.resume(&result.conversation).await;
    let result =
        again.run(user_prompt("$ echo $(basename $PWD) $word $OTHER"), &fixture.ears()).await;
    assert_eq!(output(&result.text), "deep lit too");
}

#[tokio::test]
async fn another_conversation_shares_the_files_and_not_the_shell() {
    let fixture = TurnFixture::new(shell());
    fixture.turn("$ mkdir -p deep; cd deep; word=lit; echo x > file").await;
    let result = fixture.turn("$ echo [$(basename $PWD)] [$word]; cat deep/file").await;
    assert_eq!(output(&result.text), "[user] []\nx");
}

#[tokio::test]
async fn a_turn_a_closed_conversation_and_another_process_end_nothing() {
    let fixture = TurnFixture::new(shell());
    let agent = fixture.agent().await;
    let mut first = agent.open(fixture.opening(new())).await.unwrap();
    let started = first.run(user_prompt("$ sleep 1000 & echo $!"), &fixture.ears()).await;
    let instance = first.sandbox().attached().unwrap().instance().await;
    first.close(EndReason::Left).await.unwrap();
    let mut second = fixture.begin().await;
    second.run(user_prompt("$ true"), &fixture.ears()).await;
    assert_eq!(second.sandbox().attached().unwrap().instance().await, instance);
    assert!(!output(&started.text).is_empty());
}

#[tokio::test]
async fn a_conversation_is_run_by_one_process_at_a_time() {
    let fixture = TurnFixture::new(shell());
    let conversation = fixture.begin().await;
    let start = vestal_agent::Start::Resume(conversation.id().clone());
    let refused = fixture.agent().await.open(fixture.opening(start)).await.unwrap_err();
    assert!(matches!(refused, vestal_agent::OpenError::Store(Error::Busy { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_sandbox_that_is_not_to_last_goes_with_its_turn() {
    let fixture = TurnFixture::new(shell())
        .with("terminal.persist_across_processes=false")
        .with("terminal.container_persistent=false");
    let agent = fixture.agent().await;
    let mut conversation = agent.open(fixture.opening(new())).await.unwrap();
    conversation.run(user_prompt("$ word=lit"), &fixture.ears()).await;
    let first = conversation.sandbox().attached().unwrap();
    assert!(first.wait_for_cleanup(crate::fixture::TEST_TIMEOUT).await);
    let result = conversation.run(user_prompt("$ echo [$word]"), &fixture.ears()).await;
    assert_eq!(output(&result.text), "[]");
    let second = conversation.sandbox().attached().unwrap();
    assert!(!first.is_same_hold(&second));
    assert!(second.wait_for_cleanup(crate::fixture::TEST_TIMEOUT).await);
    agent.engine().close(crate::fixture::TEST_TIMEOUT).await;
}

/// Stores an answer that calls the terminal, as a process leaves it that is
/// killed before the call is carried out; and asks what the model is told then.
async fn result_of_a_call_cut_off(
    fixture: &TurnFixture,
    prepare: impl AsyncFnOnce(
        &vestal_conversations::ConversationStore,
        &vestal_conversations::ConversationId,
    ),
) -> String {
    let first = fixture.turn("hello").await;
    let agent = fixture.agent().await;
    let call = vestal_model::ToolCall {
        id: "cut-off".to_owned(),
        name: "terminal".to_owned(),
        arguments: json!({"command": "echo twice"}).to_string(),
    };
    let answer = vestal_model::AssistantMessage { calls: vec![call], ..Default::default() };
    let message = vestal_model::Message::Assistant(answer);
    agent.store().append(&first.conversation, &[message.into()]).await.unwrap();
    prepare(agent.store(), &first.conversation).await;
    let mut again = fixture.resume(&first.conversation).await;
    again.run(user_prompt("go on"), &fixture.ears()).await.text
}

fn repeats_everything() -> Script {
    Script::rules([
        ReplyRule::when_user_contains("go on").reply_with(|request| {
            ScriptedReply::text(serde_json::to_string(request.messages()).unwrap())
        }),
        ReplyRule::always().reply(ScriptedReply::text("Hello.")),
    ])
}

#[tokio::test]
async fn a_call_that_was_never_sent_is_reported_as_such_and_one_without_a_record_as_unknown() {
    let fixture = TurnFixture::new(repeats_everything());
    let shown = result_of_a_call_cut_off(&fixture, async |_, _| {}).await;
    assert!(shown.contains("nothing was run"), "{shown}");
    let fixture = TurnFixture::new(repeats_everything());
    let shown = result_of_a_call_cut_off(&fixture, async |store, id| {
        store.set_state(id, "jobs", None).await.unwrap();
    })
    .await;
    assert!(shown.contains("its outcome is unknown"), "{shown}");
}

#[tokio::test]
async fn the_words_of_an_answer_that_was_coming_outlive_a_process_that_is_killed() {
    let reply = ScriptedReply::text("First part, and never the second.").chunked(12).hold_after(1);
    let fixture = TurnFixture::new(Script::replies([reply, ScriptedReply::text("Going on.")]));
    let mut conversation = fixture.begin().await;
    let id = conversation.id().clone();
    let ears = fixture.ears();
    let turn = tokio::spawn(async move { conversation.run(user_prompt("tell me"), &ears).await });
    let store = vestal_conversations::ConversationStore::open(fixture.store_file()).await.unwrap();
    vestal_testkit::until_async("its beginning is on record", || async {
        store.state(&id, "partial_answer").await.unwrap().is_some()
    })
    .await;
    // As a kill does it: nothing is put in order.
    turn.abort();
    assert!(turn.await.unwrap_err().is_cancelled());
    let mut again = fixture.resume(&id).await;
    again.run(user_prompt("go on"), &fixture.ears()).await;
    let texts = |messages: &[vestal_model::Message]| -> Vec<String> {
        messages.iter().map(vestal_model::Message::text).collect()
    };
    assert_eq!(texts(again.messages()), ["tell me", "First part, ", "go on", "Going on."]);
    again.close(EndReason::Left).await.unwrap();
    let again = fixture.resume(&id).await;
    assert_eq!(texts(again.messages()).len(), 4, "it is there once");
}
