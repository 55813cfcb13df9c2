//! What the tests have in common.

use std::time::Duration;

use vestal_model::{
    AnswerProgress, ApiKey, Endpoint, Message, ModelAnswer, ModelError, ModelOptions, ModelRequest,
    Models, ProviderApi,
};
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};

/// A key that must never be seen anywhere.
pub(crate) const KEY: &str = "sk-never-to-be-seen-0123456789";

/// All shapes.
pub(crate) const APIS: [ProviderApi; 3] =
    [ProviderApi::ChatCompletions, ProviderApi::AnthropicMessages, ProviderApi::Responses];

/// Returns options with pauses so short that retries do not slow a test.
pub(crate) fn options() -> ModelOptions {
    ModelOptions { backoff_base: Duration::from_millis(1), ..ModelOptions::default() }
}

pub(crate) fn models() -> Models {
    Models::new(options()).unwrap_or_else(|error| panic!("no client: {error}"))
}

pub(crate) fn endpoint(api: ProviderApi, base_url: &str) -> Endpoint {
    Endpoint {
        name: "scripted".to_owned(),
        api,
        base_url: base_url.to_owned(),
        key: Some(ApiKey::new(KEY)),
        model: "scripted-1".to_owned(),
        context_length: None,
        prices: None,
        reasoning: vestal_model::ReasoningOptions::AUTO,
    }
}

pub(crate) fn server(replies: impl IntoIterator<Item = ScriptedReply>) -> ScriptedModel {
    ScriptedModel::start(Script::replies(replies).strict())
}

/// Returns the shape's name for messages of tests that run for both.
pub(crate) fn label(api: ProviderApi) -> &'static str {
    match api {
        ProviderApi::ChatCompletions => "chat completions",
        ProviderApi::AnthropicMessages => "anthropic",
        ProviderApi::Responses => "responses",
    }
}

/// The result of a call, and what its watcher received.
pub(crate) struct Outcome {
    pub(crate) result: Result<ModelAnswer, ModelError>,
    pub(crate) reported: Vec<AnswerProgress>,
}

impl Outcome {
    /// Returns the codes of the tellings: `text`, `retrying 2`, `fell back m`, ….
    pub(crate) fn story(&self) -> Vec<String> {
        let story = self.reported.iter().map(|progress| match progress {
            AnswerProgress::Text(text) => format!("text {text}"),
            AnswerProgress::Reasoning(text) => format!("reasoning {text}"),
            AnswerProgress::Call { name } => format!("call {name}"),
            AnswerProgress::Retrying { attempt, .. } => format!("retrying {attempt}"),
            AnswerProgress::FellBack { provider, model, .. } => {
                format!("fell back {provider} {model}")
            }
        });
        story.collect()
    }

    pub(crate) fn text(&self) -> &str {
        match &self.result {
            Ok(completion) => &completion.message.text,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    pub(crate) fn error(&self) -> &ModelError {
        match &self.result {
            Ok(completion) => panic!("an answer: {completion:?}"),
            Err(error) => error,
        }
    }
}

/// Asks a chain for an answer to one word.
pub(crate) async fn ask(models: &Models, chain: Vec<Endpoint>) -> Outcome {
    let messages = [Message::user("hello")];
    ask_with(&models.chat(chain), &ModelRequest { messages: &messages, ..ModelRequest::default() })
        .await
}

pub(crate) async fn ask_with(
    chat: &vestal_model::ModelChain,
    request: &ModelRequest<'_>,
) -> Outcome {
    let mut reported = Vec::new();
    let result = chat.complete(request, &mut |progress| reported.push(progress)).await;
    Outcome { result, reported }
}

/// Asserts that the key is in none of the texts an error has.
pub(crate) fn assert_keyless(error: &ModelError) {
    let texts = [format!("{error}"), format!("{error:?}"), format!("{error:#?}"), error.advice()];
    for text in texts {
        assert!(!text.contains(KEY), "the key is in: {text}");
    }
}
