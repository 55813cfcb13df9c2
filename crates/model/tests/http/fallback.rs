//! Where one model fails, the next of the chain is asked.

use std::time::Duration;

use vestal_model::{Message, ModelError, ModelOptions, ModelRequest, Models, ProviderApi};
use vestal_scripted_model::ScriptedReply;

use crate::support::{ask, ask_with, endpoint, models, options, server};

#[tokio::test]
async fn the_next_model_answers_and_its_name_is_reported() {
    let first = server([ScriptedReply::error(401, "no")]);
    let second = server([ScriptedReply::text("I am here")]);
    let mut other = endpoint(ProviderApi::AnthropicMessages, &second.base_url());
    other.name = "second".to_owned();
    other.model = "m2".to_owned();
    let outcome =
        ask(&models(), vec![endpoint(ProviderApi::ChatCompletions, &first.base_url()), other])
            .await;
    assert_eq!(outcome.story(), ["fell back second m2", "text I am here"]);
    let completion = outcome.result.unwrap();
    assert_eq!((&*completion.provider, &*completion.model), ("second", "m2"));
}

#[tokio::test]
async fn a_provider_that_wants_too_long_a_pause_is_left_for_the_next() {
    let first = server([ScriptedReply::error(429, "tomorrow").retry_after(3600)]);
    let second = server([ScriptedReply::text("now")]);
    let chain =
        [&first, &second].map(|server| endpoint(ProviderApi::ChatCompletions, &server.base_url()));
    let outcome = ask(&models(), chain.to_vec()).await;
    assert_eq!(outcome.text(), "now");
    assert_eq!(first.requests().len(), 1);
}

#[tokio::test]
async fn a_busy_provider_is_not_waited_for_while_another_can_be_asked() {
    let first = server((0..9).map(|_| ScriptedReply::error(429, "busy")));
    let second = server([ScriptedReply::text("now")]);
    let chain =
        [&first, &second].map(|server| endpoint(ProviderApi::ChatCompletions, &server.base_url()));
    let outcome = ask(&models(), chain.to_vec()).await;
    assert_eq!(outcome.text(), "now");
    assert_eq!(first.requests().len(), 4);
}

#[tokio::test]
async fn when_all_fail_each_reason_is_named() {
    let first = server([ScriptedReply::error(401, "wrong key")]);
    let second = server([ScriptedReply::error(404, "no such model")]);
    let chain =
        [&first, &second].map(|server| endpoint(ProviderApi::ChatCompletions, &server.base_url()));
    let outcome = ask(&models(), chain.to_vec()).await;
    let ModelError::Exhausted { failures } = outcome.error() else {
        panic!("{:?}", outcome.error());
    };
    let codes: Vec<_> = failures.iter().map(ModelError::code).collect();
    assert_eq!(codes, ["authentication", "not_found"]);
    let text = outcome.error().to_string();
    assert!(text.contains("wrong key") && text.contains("no such model"), "{text}");
}

#[tokio::test]
async fn a_conversation_stays_with_the_model_it_fell_back_to_for_a_while() {
    let messages = [Message::user("hello")];
    let request = ModelRequest { messages: &messages, ..ModelRequest::default() };
    for (hold, asked) in [(Duration::from_mins(10), 1), (Duration::ZERO, 2)] {
        let first = server((0..2).map(|_| ScriptedReply::error(401, "no")));
        let second = server((0..2).map(|_| ScriptedReply::text("yes")));
        let chain = [&first, &second]
            .map(|server| endpoint(ProviderApi::ChatCompletions, &server.base_url()));
        let models = Models::new(ModelOptions { fallback_hold: hold, ..options() }).unwrap();
        let chat = models.chat(chain.to_vec());
        for _ in 0..2 {
            assert_eq!(ask_with(&chat, &request).await.text(), "yes");
        }
        assert_eq!(first.requests().len(), asked);
    }
}

#[tokio::test]
async fn a_conversation_too_long_is_reported_and_nobody_else_is_asked() {
    let first =
        server([ScriptedReply::error(400, "This model's maximum context length is 10 tokens.")]);
    let second = server([ScriptedReply::text("never")]);
    let chain =
        [&first, &second].map(|server| endpoint(ProviderApi::ChatCompletions, &server.base_url()));
    let outcome = ask(&models(), chain.to_vec()).await;
    assert!(matches!(outcome.error(), ModelError::ContextOverflow { limit: Some(10), .. }));
    assert!(second.requests().is_empty());
}
