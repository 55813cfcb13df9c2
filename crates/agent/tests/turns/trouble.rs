//! Providers that fail, and stores that cannot take a word.

use vestal_agent::{TurnError, TurnEvent, TurnOutcome};
use vestal_model::{ModelError, ProviderApi};
use vestal_scripted_model::{Script, ScriptedReply};

use crate::fixture::{TurnFixture, user_prompt};

#[tokio::test]
async fn a_failed_call_is_a_failure_and_messages_are_kept() {
    for api in [ProviderApi::ChatCompletions, ProviderApi::AnthropicMessages] {
        for status in [400, 401, 403, 404] {
            let fixture = TurnFixture::speaking(
                api,
                Script::replies([ScriptedReply::error(status, "no such luck")]),
            );
            let mut conversation = fixture.begin().await;
            let result = conversation.run(user_prompt("hello"), &fixture.ears()).await;
            let TurnOutcome::Failed(TurnError::Model(error)) = &result.outcome else {
                panic!("{status}: {:?}", result.outcome);
            };
            assert!(error.to_string().contains("no such luck"), "{error}");
            assert_eq!(result.text, "");
            let id = conversation.id().clone();
            drop(conversation);
            fixture.model.push(ScriptedReply::text("here I am"));
            let result = fixture.resume(&id).await.run(user_prompt("again"), &fixture.ears()).await;
            assert_eq!(result.text, "here I am");
            let words: Vec<String> = fixture
                .resume(&id)
                .await
                .messages()
                .iter()
                .map(vestal_model::Message::text)
                .collect();
            assert_eq!(words, ["hello", "again", "here I am"]);
        }
    }
}

#[tokio::test]
async fn a_broken_off_answer_is_asked_for_again_and_reported() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::text("half of it").chunked(4).cut_after(1),
        ScriptedReply::text("all of it"),
    ]));
    let result = fixture.turn("hello").await;
    assert_eq!(result.text, "all of it");
    assert!(
        fixture
            .events()
            .iter()
            .any(|event| matches!(event, TurnEvent::Discarded { retry_after: Some(_), .. }))
    );
}

#[tokio::test]
async fn an_answer_that_always_breaks_off_is_a_failure() {
    let broken = || ScriptedReply::text("half of it").chunked(4).cut_after(1);
    let fixture = TurnFixture::new(Script::replies([broken(), broken()]));
    let result = fixture.turn("hello").await;
    assert!(
        matches!(result.outcome, TurnOutcome::Failed(TurnError::Model(ModelError::Cut { .. }))),
        "{:?}",
        result.outcome
    );
}

#[tokio::test]
async fn another_provider_takes_over_where_one_fails() {
    let fixture = TurnFixture::new(Script::replies([ScriptedReply::text("from the second")]));
    let dead = TurnFixture::new(Script::replies([ScriptedReply::error(401, "who are you?")]));
    let mut opening = fixture.opening(crate::fixture::new());
    opening.chain.insert(0, dead.endpoint());
    opening.chain[0].name = "first".to_owned();
    let mut conversation = fixture.agent().await.open(opening).await.unwrap();
    let result = conversation.run(user_prompt("hello"), &fixture.ears()).await;
    assert_eq!((result.text.as_str(), result.provider.as_str()), ("from the second", "scripted"));
}
