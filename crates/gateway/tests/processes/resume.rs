//! Conversations that go on when a gateway does: woken by their background jobs, resumed after a
//! crash or a restart, and left alone when nobody wants them any more.

use serde_json::json;
use vestal_conversations::ConversationId;
use vestal_gateway::{ListenerPhase, ask_stop};
use vestal_scripted_model::ScriptedReply;
use vestal_testkit::{until, until_async};

use crate::fixture::{GatewayFixture, HEARD, STARTED, WENT_ON};

fn heard() -> ScriptedReply {
    ScriptedReply::text(HEARD)
}

#[tokio::test]
async fn a_background_job_wakes_its_conversation_when_it_ends() {
    let fixture = GatewayFixture::new(heard());
    let gateway = fixture.start();
    let session = fixture.start_job().await;
    fixture.gate.write("over");
    fixture.until_message(&session, HEARD).await;
    fixture.until_settled().await;
    assert_eq!(fixture.model.requests().len(), 3);
    fixture.stop(gateway).await;
}

#[tokio::test]
async fn a_background_job_wakes_its_conversation_also_after_the_gateway_was_killed() {
    let fixture = GatewayFixture::new(heard());
    let mut first = fixture.start();
    let session = fixture.start_job().await;
    first.kill();
    let second = fixture.start();
    fixture.gate.write("over");
    fixture.until_message(&session, HEARD).await;
    fixture.until_settled().await;
    assert_eq!(fixture.model.requests().len(), 3);
    fixture.stop(second).await;
}

#[tokio::test]
async fn a_job_that_ended_while_no_gateway_ran_wakes_its_conversation_at_the_next_start() {
    let fixture = GatewayFixture::new(heard());
    let first = fixture.start();
    let session = fixture.start_job().await;
    fixture.stop(first).await;
    fixture.gate.write("over");
    let second = fixture.start();
    fixture.until_message(&session, HEARD).await;
    assert_eq!(fixture.messages(&session).await, [STARTED, HEARD]);
    fixture.stop(second).await;
}

#[tokio::test]
async fn a_turn_that_a_kill_cut_off_is_resumed_once() {
    let fixture = GatewayFixture::new(heard().hold_after(0));
    let mut first = fixture.start();
    let session = fixture.start_job().await;
    fixture.gate.write("over");
    fixture.model.wait_for_holds(1).await;
    first.kill();
    let second = fixture.start();
    fixture.until_message(&session, WENT_ON).await;
    fixture.until_settled().await;
    fixture.stop(second).await;
    // The next one finds nothing to resume.
    let third = fixture.start();
    assert_eq!(fixture.ask("hello", Some(&session)).await.unwrap().0, "hello");
    assert_eq!(fixture.messages(&session).await, [STARTED, WENT_ON, "hello"]);
    assert_eq!(fixture.model.requests().len(), 5);
    fixture.stop(third).await;
}

#[tokio::test]
async fn a_turn_that_a_drain_interrupted_is_resumed_and_names_who_stopped_it() {
    let fixture = GatewayFixture::new(heard().hold_after(0));
    let first = fixture.start();
    let session = fixture.start_job().await;
    fixture.gate.write("over");
    fixture.model.wait_for_holds(1).await;
    fixture.stop(first).await;
    assert_eq!(
        fixture.state().exit_reason.as_deref(),
        Some("stopped by an operator; 1 turn was interrupted")
    );
    let second = fixture.start();
    fixture.until_message(&session, WENT_ON).await;
    fixture.until_settled().await;
    let last = fixture.model.requests().pop().unwrap();
    let words = format!("{:?}", last.messages());
    assert!(words.contains("was restarted and interrupted your work"), "{words}");
    fixture.stop(second).await;
}

#[tokio::test]
async fn a_turn_whose_client_is_gone_is_not_resumed() {
    let fixture = GatewayFixture::new(heard());
    let mut first = fixture.start();
    let asking = fixture.ask("wait for me", None);
    let (asked, ()) = tokio::join!(asking, async {
        fixture.model.wait_for_holds(1).await;
        first.kill();
    });
    assert_eq!(asked, None);
    let second = fixture.start();
    fixture.until_settled().await;
    assert_eq!(fixture.ask("hello", None).await.unwrap().0, "hello");
    assert_eq!(fixture.model.requests().len(), 2);
    fixture.stop(second).await;
}

#[tokio::test]
async fn a_turn_in_which_somebody_went_on_meanwhile_is_not_resumed() {
    let fixture = GatewayFixture::new(heard().hold_after(0));
    let mut first = fixture.start();
    let session = fixture.start_job().await;
    fixture.gate.write("over");
    fixture.model.wait_for_holds(1).await;
    first.kill();
    // A person says something and interrupts the answer before it is complete.
    let (store, id) = (fixture.store().await, session.parse::<ConversationId>().unwrap());
    let reply = vestal_model::Message::user("never mind");
    store.append(&id, &[vestal_conversations::NewMessage::new(reply)]).await.unwrap();
    store.close().await.unwrap();
    let second = fixture.start();
    fixture.until_settled().await;
    assert_eq!(fixture.messages(&session).await, [STARTED]);
    fixture.stop(second).await;
}

#[tokio::test]
async fn a_turn_over_which_three_processes_died_is_left_alone_and_the_state_says_so() {
    let fixture = GatewayFixture::new(heard().hold_after(0));
    let mut first = fixture.start();
    let session = fixture.start_job().await;
    fixture.gate.write("over");
    fixture.model.wait_for_holds(1).await;
    first.kill();
    let (store, id) = (fixture.store().await, session.parse::<ConversationId>().unwrap());
    let (_, mut record) = store.with_state("gateway").await.unwrap().pop().unwrap();
    record["turn"]["deaths"] = json!(2);
    store.set_state(&id, "gateway", Some(&record)).await.unwrap();
    store.close().await.unwrap();
    let second = fixture.start();
    until("the state says that it is left alone", || {
        fixture.state().platforms.get("resume").is_some_and(|part| {
            part.state == ListenerPhase::Stopped
                && part.error_code.as_deref() == Some("turn_left_alone")
                && part.error_message.as_ref().is_some_and(|text| text.contains(&session))
        })
    })
    .await;
    // A new message in it continues the conversation.
    assert_eq!(fixture.ask("say hello", Some(&session)).await.unwrap().0, "hello");
    fixture.until_settled().await;
    assert!(ask_stop(&fixture.home(), false).await.unwrap().is_some());
    assert_eq!(second.end().0, 0);
}

#[tokio::test]
async fn a_client_that_leaves_takes_no_watched_job_along() {
    let fixture = GatewayFixture::new(heard());
    let mut first = fixture.start();
    let session = fixture.start_job().await;
    // It says something in the conversation, and hangs up while the model answers.
    tokio::select! {
        answered = fixture.ask("wait for me", Some(&session)) => panic!("{answered:?}"),
        () = fixture.model.wait_for_holds(1) => {}
    }
    until_async("its turn has ended", || async {
        let store = fixture.store().await;
        let left = store.with_state("gateway").await.unwrap();
        store.close().await.unwrap();
        left.iter().all(|(_, record)| record["turn"].is_null())
    })
    .await;
    first.kill();
    let second = fixture.start();
    fixture.gate.write("over");
    fixture.until_message(&session, HEARD).await;
    fixture.until_settled().await;
    fixture.stop(second).await;
}
