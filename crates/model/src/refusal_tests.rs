use super::*;

fn code(status: u16, body: &str) -> &'static str {
    let refusal = ProviderRefusal::from_body(status, body.as_bytes());
    refusal.classify(FailureDetail::default(), None).code()
}

fn in_band(body: &str) -> &'static str {
    let value = serde_json::from_str(body).unwrap();
    ProviderRefusal::from_value(&value).classify(FailureDetail::default(), None).code()
}

/// Returns the limit an overflow names; an error of another kind returns its code.
fn limit(message: &str) -> Result<Option<u64>, &'static str> {
    let body = serde_json::json!({"error": {"message": message}}).to_string();
    match ProviderRefusal::from_body(400, body.as_bytes()).classify(FailureDetail::default(), None)
    {
        ModelError::ContextOverflow { limit, .. } => Ok(limit),
        error => Err(error.code()),
    }
}

#[test]
fn every_status_has_its_meaning() {
    let wanted = [
        (302, "protocol"),
        (400, "bad_request"),
        (401, "authentication"),
        (402, "quota"),
        (403, "authentication"),
        (404, "not_found"),
        (408, "server"),
        (409, "server"),
        (413, "context_overflow"),
        (422, "bad_request"),
        (425, "server"),
        (429, "rate_limited"),
        (500, "server"),
        (503, "server"),
        (529, "server"),
    ];
    for (status, meaning) in wanted {
        assert_eq!(code(status, "no JSON"), meaning, "{status}");
    }
}

#[test]
fn what_the_body_says_makes_the_meaning_clearer() {
    let body = |kind: &str, message: &str| {
        serde_json::json!({"error": {"code": kind, "message": message}}).to_string()
    };
    assert_eq!(code(429, &body("insufficient_quota", "")), "quota");
    assert_eq!(code(400, &body("x", "Your credit balance is too low to go on.")), "quota");
    assert_eq!(code(400, &body("content_filter", "")), "refused");
    assert_eq!(code(400, &body("context_length_exceeded", "")), "context_overflow");
    assert_eq!(code(400, &body("x", "API key not valid.")), "authentication");
    assert_eq!(code(429, &body("x", "maximum context length is 5 tokens")), "rate_limited");
}

#[test]
fn an_error_inside_of_a_stream_is_known_by_its_name_or_number() {
    assert_eq!(in_band(r#"{"type":"error","error":{"type":"overloaded_error"}}"#), "server");
    assert_eq!(in_band(r#"{"error":{"type":"rate_limit_error"}}"#), "rate_limited");
    assert_eq!(in_band(r#"{"error":{"type":"invalid_request_error"}}"#), "bad_request");
    assert_eq!(in_band(r#"{"error":{"code":401,"message":"x"}}"#), "authentication");
    assert_eq!(in_band(r#"{"error":{"code":"429","message":"x"}}"#), "rate_limited");
    assert_eq!(in_band(r#"{"error":"it broke"}"#), "server");
}

#[test]
fn words_are_found_in_every_shape() {
    let words = |body: &str| ProviderRefusal::from_body(400, body.as_bytes()).message;
    assert_eq!(words(r#"{"error":{"message":"m","type":"t"}}"#), "m");
    assert_eq!(words(r#"{"error":"m"}"#), "m");
    assert_eq!(words(r#"{"message":"m"}"#), "m");
    assert_eq!(words(r#"{"detail":"m"}"#), "m");
    assert_eq!(words(r#"{"detail":[{"msg":"m"}]}"#), r#"[{"msg":"m"}]"#);
    assert_eq!(words(r#"[{"error":{"message":"m"}}]"#), "m");
    assert_eq!(words(r#"{"error":{"message":"m","metadata":{"raw":"deep"}}}"#), "m: deep");
    assert_eq!(words("plain"), "plain");
}

#[test]
fn a_limit_is_taken_from_the_providers_words() {
    let cases = [
        (
            "This model's maximum context length is 4097 tokens. However, you requested 5000 \
             tokens (4000 in the messages, 1000 in the completion).",
            4097,
        ),
        ("This endpoint's maximum context length is 131,072 tokens.", 131_072),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, d", 200_000),
        (
            "The input token count (9) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
        ),
        (
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            32_768,
        ),
    ];
    for (message, wanted) in cases {
        assert_eq!(limit(message), Ok(Some(wanted)), "{message}");
    }
    let body = r#"{"error":{"type":"exceed_context_size_error","message":"m","n_ctx":2048}}"#;
    let error =
        ProviderRefusal::from_body(400, body.as_bytes()).classify(FailureDetail::default(), None);
    assert!(matches!(error, ModelError::ContextOverflow { limit: Some(2048), .. }), "{error:?}");
}

#[test]
fn a_limit_nobody_stated_is_not_made_up() {
    assert_eq!(limit("Please reduce the length of the messages."), Ok(None));
    let other = limit("max_tokens is too large: 99999. At most 4096 completion tokens");
    assert_eq!(other, Err("bad_request"));
    assert_eq!(limit("something else with 4096 in it"), Err("bad_request"));
}
