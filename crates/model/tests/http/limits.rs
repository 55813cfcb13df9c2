//! Limits and habits are learned from a provider's own words.

use vestal_model::{ContextLimit, Message, ModelRequest, ProviderApi};
use vestal_scripted_model::{Model, Script, ScriptedModel, ScriptedReply};

use crate::support::{ask_with, endpoint, models, server};

#[tokio::test]
async fn a_context_limit_is_learned_from_a_refusal_and_never_guessed() {
    let messages = [Message::user("hello")];
    let request = ModelRequest { messages: &messages, ..ModelRequest::default() };
    let server = server([
        ScriptedReply::error(400, "Please reduce the length of the messages."),
        ScriptedReply::error(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    ]);
    let models = models();
    let chat = models.chat(vec![endpoint(ProviderApi::AnthropicMessages, &server.base_url())]);
    assert_eq!(chat.context_length(), ContextLimit::Unknown);
    assert_eq!(ask_with(&chat, &request).await.error().code(), "context_overflow");
    assert_eq!(chat.context_length(), ContextLimit::Unknown);
    assert_eq!(ask_with(&chat, &request).await.error().code(), "context_overflow");
    assert_eq!(chat.context_length(), ContextLimit::Learned(200_000));
    // Every conversation of the process knows it now.
    let mut configured = endpoint(ProviderApi::AnthropicMessages, &server.base_url());
    configured.context_length = Some(1000);
    assert_eq!(models.chat(vec![configured]).context_length(), ContextLimit::Configured(1000));
}

#[tokio::test]
async fn a_context_limit_is_learned_from_the_list_of_models() {
    let listed = [Model::new("scripted-1").context_length(4321), Model::new("other")];
    let server = ScriptedModel::start(Script::new().models(listed));
    let models = models();
    let endpoint = endpoint(ProviderApi::ChatCompletions, &server.base_url());
    let chat = models.chat(vec![endpoint.clone()]);
    assert_eq!(chat.context_length(), ContextLimit::Unknown);
    assert_eq!(models.list(&endpoint).await.unwrap().len(), 2);
    assert_eq!(chat.context_length(), ContextLimit::Learned(4321));
}

#[tokio::test]
async fn a_field_that_is_refused_by_name_is_given_up_for_good() {
    let refusal = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                   Use 'max_completion_tokens' instead.";
    let server = server([
        ScriptedReply::error(400, refusal),
        ScriptedReply::text("one"),
        ScriptedReply::text("two"),
    ]);
    let models = models();
    let endpoint = endpoint(ProviderApi::ChatCompletions, &server.base_url());
    let messages = [Message::user("hello")];
    let request = ModelRequest {
        messages: &messages,
        max_output_tokens: Some(77),
        ..ModelRequest::default()
    };
    for wanted in ["one", "two"] {
        let chat = models.chat(vec![endpoint.clone()]);
        let outcome = ask_with(&chat, &request).await;
        assert_eq!(outcome.story(), [format!("text {wanted}")]);
    }
    let sent: Vec<_> = server
        .requests()
        .iter()
        .map(|request| {
            (request.body["max_tokens"].as_u64(), request.body["max_completion_tokens"].as_u64())
        })
        .collect();
    assert_eq!(sent, [(Some(77), None), (None, Some(77)), (None, Some(77))]);
}

#[tokio::test]
async fn the_most_a_model_may_write_is_learned_from_a_refusal() {
    let refusal = "max_tokens: 32000 > 4096, which is the maximum allowed number of output tokens";
    let server = server([ScriptedReply::error(400, refusal), ScriptedReply::text("one")]);
    let models = models();
    let chat = models.chat(vec![endpoint(ProviderApi::AnthropicMessages, &server.base_url())]);
    let messages = [Message::user("hello")];
    let request = ModelRequest { messages: &messages, ..ModelRequest::default() };
    assert_eq!(ask_with(&chat, &request).await.text(), "one");
    let sent: Vec<_> =
        server.requests().iter().map(|request| request.body["max_tokens"].as_u64()).collect();
    assert_eq!(sent, [Some(32_000), Some(4096)]);
}
