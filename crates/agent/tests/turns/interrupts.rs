//! Interrupting and steering.

use serde_json::json;
use vestal_agent::{TurnEvent, TurnOutcome};
use vestal_model::{FinishReason, Message};
use vestal_scripted_model::{Script, ScriptedReply};

use crate::fixture::{TEST_TIMEOUT, TurnFixture, marker, processes_with, until, user_prompt};

#[tokio::test]
async fn an_interrupt_reaches_the_running_command_and_nothing_of_it_is_left() {
    let marker = marker();
    let command = format!("(setsid sleep {marker} &) ; sleep {marker}");
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": command})),
        ScriptedReply::text("next turn"),
    ]));
    let mut conversation = fixture.begin().await;
    let control = conversation.control();
    let ears = fixture.ears();
    let (result, ()) = tokio::join!(conversation.run(user_prompt("sleep"), &ears), async {
        until("both commands run", || processes_with(&marker).len() >= 2).await;
        assert!(control.interrupt());
    });
    assert!(matches!(result.outcome, TurnOutcome::Interrupted), "{:?}", result.outcome);
    assert_eq!(processes_with(&marker), Vec::<u32>::new());
    // The conversation continues: the strict model refuses a call without a result.
    let result = conversation.run(user_prompt("go on"), &ears).await;
    assert_eq!(result.text, "next turn");
}

#[tokio::test]
async fn an_interrupt_reaches_the_provider_and_messages_are_kept() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::text("I was about to say").chunked(4).stall_after(2),
        ScriptedReply::text("fine"),
    ]));
    let mut conversation = fixture.begin().await;
    let control = conversation.control();
    let ears = fixture.ears();
    let (result, ()) = tokio::join!(conversation.run(user_prompt("talk"), &ears), async {
        fixture.hear(|event| matches!(event, TurnEvent::Text { .. })).await;
        control.interrupt();
    });
    assert!(matches!(result.outcome, TurnOutcome::Interrupted), "{:?}", result.outcome);
    assert!("I was about to say".starts_with(&result.text) && !result.text.is_empty());
    tokio::time::timeout(TEST_TIMEOUT, fixture.model.wait_for_hangup()).await.unwrap();
    let Some(Message::Assistant(kept)) = conversation.messages().last() else {
        panic!("nothing was kept");
    };
    assert_eq!((&kept.text, kept.finish), (&result.text, FinishReason::Interrupted));
    assert_eq!(conversation.run(user_prompt("go on"), &ears).await.text, "fine");
}

#[tokio::test]
async fn an_interrupt_ends_the_pause_before_the_next_attempt() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::error(429, "busy").retry_after(250),
        ScriptedReply::text("fine"),
    ]));
    let mut conversation = fixture.begin().await;
    let control = conversation.control();
    let ears = fixture.ears();
    let (result, ()) = tokio::join!(conversation.run(user_prompt("talk"), &ears), async {
        fixture
            .hear(|event| matches!(event, TurnEvent::Discarded { retry_after: Some(_), .. }))
            .await;
        control.interrupt();
    });
    assert!(matches!(result.outcome, TurnOutcome::Interrupted), "{:?}", result.outcome);
    assert_eq!(conversation.run(user_prompt("go on"), &ears).await.text, "fine");
}

#[tokio::test]
async fn a_message_during_the_turn_reaches_the_model_at_its_next_call() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "true"})).hold_after(1),
        ScriptedReply::text("as you wish"),
    ]));
    let mut conversation = fixture.begin().await;
    let control = conversation.control();
    let ears = fixture.ears();
    let (result, ()) = tokio::join!(conversation.run(user_prompt("go"), &ears), async {
        fixture.model.wait_for_requests(1).await;
        control.steer("use tabs");
        fixture.model.release();
    });
    assert_eq!(result.text, "as you wish");
    assert_eq!(fixture.model.requests()[1].last_user_text().as_deref(), Some("use tabs"));
    assert!(result.pending_steer.is_empty());
}

#[tokio::test]
async fn a_message_that_comes_too_late_for_the_turn_is_handed_back() {
    let fixture = TurnFixture::new(Script::replies([ScriptedReply::text("done").hold_after(1)]));
    let mut conversation = fixture.begin().await;
    let control = conversation.control();
    let ears = fixture.ears();
    let (result, ()) = tokio::join!(conversation.run(user_prompt("go"), &ears), async {
        fixture.hear(|event| matches!(event, TurnEvent::Text { .. })).await;
        control.steer("wait");
        fixture.model.release();
    });
    assert_eq!(result.pending_steer, ["wait"]);
}
