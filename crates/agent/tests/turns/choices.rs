//! What a person chooses for one conversation: its title, its model, its tools.

use vestal_agent::{CompressError, EndReason, Start, Switch, SwitchToolError};
use vestal_conversations::{Error, InvalidTitle};
use vestal_model::{Endpoint, ReasoningEffort, ReasoningOptions};
use vestal_scripted_model::{BilledUsage, ReplyRule, Script, ScriptedReply};

use crate::fixture::{TurnFixture, new, user_prompt};

fn names(fixture: &TurnFixture) -> Vec<String> {
    let requests = fixture.model.requests();
    requests.last().unwrap().tool_names().into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_title_that_was_given_is_not_replaced_by_the_first_message() {
    let fixture = TurnFixture::new(Script::echo());
    let mut conversation = fixture.begin().await;
    assert_eq!(conversation.title().await.unwrap(), None);
    conversation.set_title("The build").await.unwrap();
    conversation.run(user_prompt("hello"), &fixture.ears()).await;
    assert_eq!(conversation.title().await.unwrap().as_deref(), Some("The build"));
    let empty = conversation.set_title("  ").await.unwrap_err();
    assert!(matches!(empty, Error::InvalidTitle(InvalidTitle::Empty)), "{empty:?}");
}

#[tokio::test]
async fn another_model_is_asked_from_the_next_turn_on_and_after_a_resume() {
    let fixture = TurnFixture::new(Script::echo());
    let agent = fixture.agent().await;
    let mut conversation = agent.open(fixture.opening(new())).await.unwrap();
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    let other =
        Endpoint { model: "other".to_owned(), context_length: Some(64_000), ..fixture.endpoint() };
    conversation.set_chain(vec![other]).await.unwrap();
    assert_eq!(conversation.context_used().window, Some(64_000));
    conversation.run(user_prompt("two"), &fixture.ears()).await;
    let asked: Vec<String> =
        fixture.model.requests().iter().map(|request| request.model().to_owned()).collect();
    assert_eq!(asked, ["m", "other"]);
    assert_eq!(conversation.model().unwrap().model, "other");
    let stored = agent.store().get(conversation.id()).await.unwrap();
    assert_eq!((stored.provider.as_str(), stored.model.as_str()), ("scripted", "other"));
    // Another conversation is asked as before.
    let next = agent.open(fixture.opening(new())).await.unwrap();
    assert_eq!(next.model().unwrap().model, "m");
}

#[tokio::test]
async fn what_it_took_is_reported_by_model_over_the_whole_conversation() {
    let usage = BilledUsage { input: 1000, output: 20, ..BilledUsage::default() };
    let fixture = TurnFixture::new(Script::rules([
        ReplyRule::always().reply(ScriptedReply::text("done").usage(usage))
    ]));
    let mut conversation = fixture.begin().await;
    assert_eq!(conversation.usage().await.unwrap(), []);
    let before = conversation.context_used();
    assert_eq!(before.window, None);
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    let other = Endpoint { model: "other".to_owned(), ..fixture.endpoint() };
    conversation.set_chain(vec![other]).await.unwrap();
    conversation.run(user_prompt("two"), &fixture.ears()).await;
    conversation.run(user_prompt("three"), &fixture.ears()).await;
    // What was taken back was spent all the same.
    conversation.undo(1).await.unwrap();
    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();
    let again = fixture.resume(&id).await;
    let taken: Vec<(String, u64, u64)> = again
        .usage()
        .await
        .unwrap()
        .into_iter()
        .map(|taken| (taken.model, taken.totals.calls, taken.totals.usage.total()))
        .collect();
    assert_eq!(taken, [("other".to_owned(), 2, 2040), ("m".to_owned(), 1, 1020)]);
}

#[tokio::test]
async fn the_context_used_is_what_the_provider_counted_last() {
    let usage = BilledUsage { input: 5000, output: 20, ..BilledUsage::default() };
    let fixture = TurnFixture::new(Script::rules([
        ReplyRule::always().reply(ScriptedReply::text("done").usage(usage))
    ]));
    let mut conversation = fixture.begin().await;
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    assert_eq!(conversation.context_used().tokens, 5020);
}

#[tokio::test]
async fn a_tool_that_was_taken_is_offered_no_more_also_when_resumed() {
    let fixture = TurnFixture::new(Script::echo());
    let mut conversation = fixture.begin().await;
    assert_eq!(
        conversation.switch_tool("terminal", Switch::Off).await.unwrap(),
        ["process", "terminal"]
    );
    assert_eq!(conversation.switch_tool("terminal", Switch::Off).await.unwrap(), [""; 0]);
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    assert!(!names(&fixture).contains(&"terminal".to_owned()), "{:?}", names(&fixture));

    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();
    let mut again = fixture.resume(&id).await;
    again.run(user_prompt("two"), &fixture.ears()).await;
    assert!(!names(&fixture).contains(&"terminal".to_owned()), "{:?}", names(&fixture));
    again.switch_tool("terminal", Switch::On).await.unwrap();
    again.run(user_prompt("three"), &fixture.ears()).await;
    assert!(names(&fixture).contains(&"terminal".to_owned()), "{:?}", names(&fixture));
}

#[tokio::test]
async fn a_tool_that_the_settings_leave_out_can_be_given() {
    let fixture = TurnFixture::new(Script::echo());
    let mut opening = fixture.opening(new());
    opening.selection.toolsets = vec!["todo".to_owned()];
    let mut conversation = fixture.agent().await.open(opening).await.unwrap();
    assert_eq!(conversation.switch_tool("read_file", Switch::On).await.unwrap(), ["read_file"]);
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    assert_eq!(names(&fixture), ["read_file", "todo"]);
    let unknown = conversation.switch_tool("read_fiel", Switch::On).await.unwrap_err();
    let SwitchToolError::Unknown { nearest, .. } = unknown else { panic!("{unknown:?}") };
    assert_eq!(nearest.as_deref(), Some("read_file"));
}

#[tokio::test]
async fn what_is_long_past_is_summed_up_when_somebody_asks_for_it() {
    let script = Script::new()
        .rule(
            ReplyRule::always()
                .after_any_tool_results()
                .when_system_contains("earlier part of a conversation")
                .reply(ScriptedReply::text("Goal: talk.")),
        )
        .or_echo();
    let fixture = TurnFixture::new(script);
    let mut conversation = fixture.begin().await;
    let short = conversation.compress(&fixture.ears()).await.unwrap_err();
    assert!(matches!(short, CompressError::TooShort { messages: 0, .. }), "{short:?}");
    for number in 0..8 {
        conversation
            .run(user_prompt(&format!("number {number} {}", "x".repeat(400))), &fixture.ears())
            .await;
    }
    let done = conversation.compress(&fixture.ears()).await.unwrap();
    assert_eq!(done.messages, 12, "{done:?}");
    assert!(done.tokens < done.tokens_before, "{done:?}");
    assert!(conversation.messages()[0].text().contains("Goal: talk."));

    let id = conversation.id().clone();
    let left = conversation.messages().len();
    conversation.close(EndReason::Left).await.unwrap();
    assert_eq!(fixture.resume(&id).await.messages().len(), left);
}

#[tokio::test]
async fn without_a_summary_the_conversation_is_as_it_was() {
    let script = Script::new()
        .rule(
            ReplyRule::always()
                .after_any_tool_results()
                .when_system_contains("earlier part of a conversation")
                .reply(ScriptedReply::error(401, "no"))
                .once(),
        )
        .rule(
            ReplyRule::always()
                .after_any_tool_results()
                .when_system_contains("earlier part of a conversation")
                .reply(ScriptedReply::text("Goal: talk.").hold_after(0)),
        )
        .or_echo();
    let fixture = TurnFixture::new(script);
    let mut conversation = fixture.begin().await;
    for number in 0..8 {
        conversation.run(user_prompt(&format!("number {number}")), &fixture.ears()).await;
    }
    let refused = conversation.compress(&fixture.ears()).await.unwrap_err();
    assert!(matches!(refused, CompressError::Model(_)), "{refused:?}");
    assert_eq!(conversation.messages().len(), 16);
    let control = conversation.control();
    let ears = fixture.ears();
    let (interrupted, ()) = tokio::join!(conversation.compress(&ears), async {
        fixture.model.wait_for_requests(10).await;
        assert!(control.interrupt());
    });
    assert!(matches!(interrupted, Err(CompressError::Interrupted)), "{interrupted:?}");
    assert_eq!(conversation.messages().len(), 16);
}

#[tokio::test]
async fn everything_allowed_here_is_not_allowed_in_the_next_conversation() {
    let fixture = TurnFixture::new(Script::echo());
    let agent = fixture.agent().await;
    let mut conversation = agent.open(fixture.opening(new())).await.unwrap();
    conversation.run(user_prompt("hello"), &fixture.ears()).await;
    conversation.guard().set_yolo(true);
    let id = conversation.id().clone();
    let next = agent.open(fixture.opening(new())).await.unwrap();
    assert!(conversation.guard().is_yolo() && !next.guard().is_yolo());
    conversation.close(EndReason::Left).await.unwrap();
    let again = agent.open(fixture.opening(Start::Resume(id))).await.unwrap();
    assert!(!again.guard().is_yolo());
}

#[tokio::test]
async fn how_much_the_model_thinks_is_as_configured_until_it_is_chosen_also_after_a_resume() {
    let fixture = TurnFixture::new(Script::echo());
    let sent = || {
        let requests = fixture.model.requests();
        requests.last().unwrap().body["reasoning_effort"].as_str().map(str::to_owned)
    };
    let mut opening = fixture.opening(new());
    opening.chain[0].reasoning = ReasoningOptions::effort(ReasoningEffort::Low);
    let mut conversation = fixture.agent().await.open(opening).await.unwrap();
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    assert_eq!(sent().as_deref(), Some("low"));
    assert_eq!(conversation.reasoning().effort, Some(ReasoningEffort::Low));
    let high = ReasoningOptions::effort(ReasoningEffort::High);
    conversation.set_reasoning(Some(high)).await.unwrap();
    assert_eq!(conversation.reasoning(), high);
    conversation.run(user_prompt("two"), &fixture.ears()).await;
    assert_eq!(sent().as_deref(), Some("high"));
    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();
    let mut again = fixture.resume(&id).await;
    assert!(again.is_reasoning_chosen());
    again.run(user_prompt("three"), &fixture.ears()).await;
    assert_eq!(sent().as_deref(), Some("high"));
    again.set_reasoning(None).await.unwrap();
    again.run(user_prompt("four"), &fixture.ears()).await;
    assert_eq!(sent(), None);
}
