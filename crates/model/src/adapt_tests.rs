use super::*;
use crate::effort::{ReasoningEffort, ReasoningOptions};
use crate::error::FailureDetail;
use crate::message::Image;
use crate::message::{Part, ToolResult, UserMessage};

fn adapted(message: &str, quirks: Quirks) -> Option<Quirks> {
    let request = ModelRequest { max_output_tokens: Some(5), ..ModelRequest::default() };
    let refusal = ProviderRefusal { message: message.to_owned(), ..ProviderRefusal::default() };
    adapt(&ModelError::BadRequest { detail: FailureDetail::default() }, &refusal, &request, quirks)
}

#[test]
fn a_field_that_is_not_taken_is_given_up_once() {
    let none = Quirks::default();
    let completion = Quirks { output_limit: OutputLimit::MaxCompletionTokens, ..none };
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                   Use 'max_completion_tokens' instead.";
    assert_eq!(adapted(message, none), Some(completion));
    assert_eq!(adapted(message, completion), None);

    let plain = Quirks { without_stream_options: true, ..none };
    assert_eq!(adapted("unknown field: stream_options", none), Some(plain));
    assert_eq!(adapted("unknown field: stream_options", plain), None);

    let thoughtless = Quirks { without_reasoning: true, ..none };
    let message = "property 'reasoning_content' is unsupported";
    assert_eq!(adapted(message, none), Some(thoughtless));
    let message = "messages.1.content.0: Invalid `signature` in `thinking` block";
    assert_eq!(adapted(message, none), Some(thoughtless));
}

#[test]
fn the_most_a_model_may_write_is_the_providers_word() {
    let message = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens \
                   for that-model";
    let none = Quirks::default();
    let less = Quirks { most_output: Some(8192), ..none };
    assert_eq!(adapted(message, none), Some(less));
    assert_eq!(adapted(message, less), None);
}

#[test]
fn a_refusal_of_something_else_changes_nothing() {
    assert_eq!(adapted("max_tokens must be at least 1", Quirks::default()), None);
    assert_eq!(adapted("unknown role", Quirks::default()), None);
    let refusal = ProviderRefusal {
        message: "unknown field: stream_options".to_owned(),
        ..ProviderRefusal::default()
    };
    let error = ModelError::Authentication { detail: FailureDetail::default() };
    assert_eq!(adapt(&error, &refusal, &ModelRequest::default(), Quirks::default()), None);
}

#[test]
fn pictures_that_words_do_without_are_left_out_where_a_model_takes_none_and_others_are_not() {
    let image =
        Image { media_type: "image/png".to_owned(), data: "QUJD".to_owned(), optional: false };
    let of_tool = [Message::Tool(ToolResult { images: vec![image.clone()], ..Default::default() })];
    let beside = Image { optional: true, ..image.clone() };
    let of_task = [Message::User(UserMessage { parts: vec![Part::Image(beside)] })];
    let of_person = [Message::User(UserMessage { parts: vec![Part::Image(image)] })];
    let refusal =
        ProviderRefusal { message: "image input is not supported".into(), ..Default::default() };
    let adapted = |messages: &[Message], error: &ModelError, quirks| {
        adapt(error, &refusal, &ModelRequest { messages, ..ModelRequest::default() }, quirks)
    };
    let detail = FailureDetail::default;
    let blind = Quirks { without_optional_images: true, ..Quirks::default() };
    for error in [
        ModelError::BadRequest { detail: detail() },
        ModelError::NotFound { detail: detail() },
        ModelError::Server { detail: detail(), retry_after: None },
    ] {
        for optional in [&of_tool, &of_task] {
            assert_eq!(adapted(optional, &error, Quirks::default()), Some(blind));
            assert_eq!(adapted(optional, &error, blind), None);
        }
        assert_eq!(adapted(&of_person, &error, Quirks::default()), None);
    }
}

#[test]
fn the_reasoning_effort_is_sent_as_the_model_takes_it_or_not_at_all() {
    let adapted = |message: &str, quirks: Quirks| {
        let reasoning = Some(ReasoningOptions::effort(ReasoningEffort::High));
        let request = ModelRequest { reasoning, ..ModelRequest::default() };
        let refusal = ProviderRefusal { message: message.to_owned(), ..ProviderRefusal::default() };
        let error = ModelError::BadRequest { detail: FailureDetail::default() };
        adapt(&error, &refusal, &request, quirks).map(|quirks| quirks.thinking)
    };
    let with = |thinking| Quirks { thinking, ..Quirks::default() };
    let plain = Quirks::default();
    for message in [
        "Unrecognized request argument supplied: reasoning_effort",
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "thinking: Extra inputs are not permitted",
        "'claude-x' does not support thinking.",
    ] {
        assert_eq!(adapted(message, plain), Some(ThinkingRule::LeftOut), "{message}");
        assert_eq!(adapted(message, with(ThinkingRule::LeftOut)), None, "{message}");
    }
    let newer = "\"thinking.type.enabled\" is not supported for this model. Use \
                 \"thinking.type.adaptive\" and \"output_config.effort\".";
    assert_eq!(adapted(newer, plain), Some(ThinkingRule::Adaptive));
    // Which values there are is for the person who chose another.
    let value = "Unsupported value: 'reasoning_effort' does not support 'high' with this model.";
    assert_eq!(adapted(value, plain), None);
}

#[test]
fn thoughts_are_asked_for_and_sent_back_as_the_model_takes_them() {
    let none = Quirks::default();
    let plain = Quirks { without_encrypted_reasoning: true, ..none };
    let message = "Encrypted content is not supported with this model.";
    assert_eq!(adapted(message, none), Some(plain));
    assert_eq!(adapted(message, plain), None);
    let silent = Quirks { without_reasoning_summary: true, ..none };
    let message = "Your organization must be verified to generate reasoning summaries.";
    assert_eq!(adapted(message, none), Some(silent));
    assert_eq!(adapted(message, silent), None);
    let thoughtless = Quirks { without_reasoning: true, ..none };
    for message in [
        "The encrypted content for item rs_1 could not be verified.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ] {
        assert_eq!(adapted(message, none), Some(thoughtless), "{message}");
    }
}
