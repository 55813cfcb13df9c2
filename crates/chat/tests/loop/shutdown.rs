//! Interrupting, and leaving in all the ways there are.

use serde_json::json;
use vestal_chat::ChatExit;
use vestal_model::{FinishReason, Message};
use vestal_runtime::Termination;
use vestal_scripted_model::{Script, ScriptedReply};
use vestal_tui::{KeyCode, KeyPress, TerminalInput};

use crate::fixture::{BREAKS, ChatFixture, Person, marker, processes_with, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_interrupts_the_tool_that_runs_and_the_conversation_goes_on() {
    let marker = marker();
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": format!("sleep {marker}")})),
        ScriptedReply::text("going on"),
    ]));
    fixture
        .play(async |person| {
            person.submits("sleep");
            until("the command runs", || !processes_with(&marker).is_empty()).await;
            person.sees("terminal sleep").await;
            person.presses(KeyPress::control('c'));
            person.sees("interrupted; the conversation so far is kept").await;
            assert_eq!(processes_with(&marker), Vec::<u32>::new());
            person.submits("go on");
            person.sees("going on").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_clears_what_is_typed_before_it_interrupts_and_asks_before_it_leaves() {
    let fixture =
        ChatFixture::new(Script::replies([ScriptedReply::text("words").chunked(2).stall_after(2)]));
    let left = fixture
        .play(async |person| {
            person.submits("talk");
            person.sees("wo").await;
            person.types("a draft");
            person.sees("› a draft").await;
            person.presses(KeyPress::control('c'));
            person.sees_no("a draft").await;
            assert!(!person.all().iter().any(|row| row.contains("interrupted")));
            person.presses(KeyPress::control('c'));
            person.sees("interrupted").await;
            person.presses(KeyPress::control('c'));
            person.sees("press Ctrl-C again to quit").await;
            person.presses(KeyPress::control('c'));
        })
        .await;
    assert_eq!(left, ChatExit::Quit);
    let (_, stored) = fixture.stored().await;
    let Message::Assistant(kept) = &stored[1].message else { panic!("{:?}", stored[1]) };
    assert_eq!(kept.finish, FinishReason::Interrupted);
    assert!("words".starts_with(&kept.text) && !kept.text.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_closes_in_the_middle_of_a_turn_loses_no_word() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::text("I was about to say more").chunked(4).stall_after(3),
        ScriptedReply::text("as I was saying"),
    ]));
    let left = fixture
        .play(async |person| {
            person.submits("talk");
            person.sees("I was").await;
            person.types("half a draft");
            person.sees("half a draft").await;
            person.breaks_the_terminal();
            person.does(TerminalInput::Closed);
        })
        .await;
    assert_eq!(left, ChatExit::Closed);
    let (id, stored) = fixture.stored().await;
    assert_eq!(stored[0].message.text(), "talk");
    assert!(stored[1].message.text().starts_with("I was"), "{:?}", stored[1]);
    let history = std::fs::read_to_string(fixture.history()).unwrap();
    assert!(history.contains("half a draft"), "{history}");

    // The next chat finds all of it, and the conversation is free to continue.
    let fixture = fixture.resuming(id);
    fixture
        .play(async |person| {
            person.sees("› talk").await;
            person.sees("I was").await;
            person.submits("go on");
            person.sees("as I was saying").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_turn_stores_it_and_leaves() {
    let marker = marker();
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::tool_call(
        "terminal",
        json!({"command": format!("sleep {marker}")}),
    )]));
    let left = fixture
        .play(async |person| {
            person.submits("sleep");
            until("the command runs", || !processes_with(&marker).is_empty()).await;
            person.signals.send(Termination::Terminate).unwrap();
        })
        .await;
    assert_eq!(left, ChatExit::Signal(Termination::Terminate));
    assert_eq!(processes_with(&marker), Vec::<u32>::new());
    let (_, stored) = fixture.stored().await;
    // What was said, the call, and its outcome.
    assert_eq!(stored.len(), 3, "{stored:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_ctrl_c_leaves_at_once() {
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::stall()]));
    let left = fixture
        .play(async |person| {
            person.submits("talk");
            fixture.model.wait_for_requests(1).await;
            person.presses(KeyPress::control('c'));
            person.presses(KeyPress::control('c'));
            person.presses(KeyPress::control('c'));
        })
        .await;
    assert_eq!(left, ChatExit::Quit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_fails_is_reported_with_advice_and_the_chat_goes_on() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::error(401, "wrong key"),
        ScriptedReply::text("back again"),
    ]));
    fixture
        .play(async |person| {
            person.submits("hello");
            person.sees("error: ").await;
            person.sees("/retry tries again").await;
            person.submits("hello again");
            person.sees("back again").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_off_early_is_not_stored() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::text("first try").chunked(6).cut_after(1),
        ScriptedReply::text("second try"),
    ]))
    .with("agent.api_max_retries=3");
    fixture
        .play(async |person| {
            person.submits("talk");
            person.sees("second try").await;
            person.sees("warning: ").await;
            let all = person.all().join("\n");
            assert!(!all.contains("first"), "{all}");
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_did_not_reach_the_model_are_named_when_the_chat_is_left() {
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::text("an answer")
        .chunked(2)
        .stall_after(1)]));
    fixture
        .play(async |person| {
            person.submits("talk");
            person.sees("an").await;
            person.submits("use tabs");
            person.sees("› use tabs · queued").await;
            person.leaves();
            person.sees("some messages did not reach the model").await;
        })
        .await;
    let history = std::fs::read_to_string(fixture.history()).unwrap();
    assert!(history.contains("use tabs"), "{history}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_to_a_turn_that_breaks_come_back_and_the_chat_goes_on() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("clarify", json!({"question": BREAKS})).hold_after(1),
        ScriptedReply::text("here I am again"),
    ]));
    fixture
        .play(async |person| {
            person.submits("go");
            fixture.model.wait_for_holds(1).await;
            person.submits("use tabs");
            person.sees("› use tabs · queued").await;
            fixture.model.release();
            person.sees("because of a bug in this program").await;
            comes_back(&person, "use tabs").await;
            person.presses(KeyPress::plain(KeyCode::Enter));
            person.sees("here I am again").await;
            person.leaves();
        })
        .await;
    let requests = fixture.model.requests();
    assert_eq!(requests[1].last_user_text().as_deref(), Some("use tabs"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_sent_while_a_command_ran_come_back_when_it_is_interrupted() {
    let marker = marker();
    let fixture = ChatFixture::new(Script::new());
    fixture
        .play(async |person| {
            person.submits(&format!("!sleep {marker}"));
            until("the command runs", || !processes_with(&marker).is_empty()).await;
            person.submits("and then");
            person.sees("› and then · queued").await;
            person.presses(KeyPress::control('c'));
            comes_back(&person, "and then").await;
            person.leaves();
        })
        .await;
    assert_eq!(fixture.model.requests().len(), 0, "the model was not asked to say it");
}

/// Waits until words are in the input.
async fn comes_back(person: &Person, words: &str) {
    let input = format!("› {words}");
    person.sees_that("the input", |rows| rows.iter().any(|row| row.trim_end() == input)).await;
    person.sees_no("queued").await;
}
