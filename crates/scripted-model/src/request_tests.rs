use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{ReceivedRequest, RequestApi};

/// Returns a request to `path` with this body.
pub(crate) fn request(path: &str, body: Value) -> ReceivedRequest {
    ReceivedRequest {
        method: "POST".to_owned(),
        path: path.to_owned(),
        headers: BTreeMap::from([("authorization".to_owned(), "Bearer sk-secret".to_owned())]),
        body_bytes: body.to_string().len(),
        body,
        peer: SocketAddr::from(([127, 0, 0, 1], 1)),
    }
}

/// Returns the same conversation in both APIs: a question, a call of two tools
/// and their results.
pub(crate) fn after_two_tools() -> [ReceivedRequest; 2] {
    [
        request(
            "/v1/chat/completions",
            json!({"model": "m", "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "old question"},
                {"role": "assistant", "tool_calls": [{"id": "0"}]},
                {"role": "tool", "tool_call_id": "0", "content": "old result"},
                {"role": "assistant", "content": "old answer"},
                {"role": "user", "content": [{"type": "text", "text": "the hostname?"}]},
                {"role": "assistant", "tool_calls": [{"id": "1"}, {"id": "2"}]},
                {"role": "tool", "tool_call_id": "1", "content": "lantern"},
                {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "up"}]},
            ]}),
        ),
        request(
            "/v1/messages?beta=true",
            json!({"model": "m", "system": [{"type": "text", "text": "be brief"}], "messages": [
                {"role": "user", "content": "old question"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "0"}]},
                {"role": "user", "content": [{"type": "tool_result", "content": "old result"}]},
                {"role": "assistant", "content": "old answer"},
                {"role": "user", "content": [{"type": "text", "text": "the hostname?"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "lantern"},
                    {"type": "tool_result", "tool_use_id": "2",
                     "content": [{"type": "text", "text": "up"}]},
                ]},
            ]}),
        ),
    ]
}

#[test]
fn both_apis_are_read_as_the_same_conversation() {
    let read = after_two_tools().map(|request| {
        (
            request.system(),
            request.last_user_text(),
            request.tool_results(),
            request.last_tool_results(),
        )
    });
    let results = vec!["lantern".to_owned(), "up".to_owned()];
    let expected =
        ("be brief".to_owned(), Some("the hostname?".to_owned()), results.clone(), results);
    assert_eq!(read, [expected.clone(), expected]);
    assert_eq!(
        after_two_tools().map(|request| request.api()),
        [RequestApi::OpenAi, RequestApi::Anthropic]
    );
}

#[test]
fn the_last_tool_results_are_those_of_the_last_round() {
    let later = [
        [json!({"role": "assistant"}), json!({"role": "tool", "content": "later"})],
        [
            json!({"role": "assistant"}),
            json!({"role": "user", "content": [
            {"type": "tool_result", "content": "later"}]}),
        ],
    ];
    for (mut request, later) in after_two_tools().into_iter().zip(later) {
        request.body["messages"].as_array_mut().unwrap().extend(later);
        assert_eq!(request.last_tool_results(), ["later"]);
        assert_eq!(request.tool_results(), ["lantern", "up", "later"]);
    }
}

#[test]
fn a_key_is_recorded_for_the_test_and_shown_to_nobody() {
    let request = request("/v1/messages", json!({}));
    assert_eq!(request.header("Authorization"), Some("Bearer sk-secret"));
    assert!(!format!("{request:?}").contains("sk-secret"));
    assert!(!request.log_line().contains("sk-secret"));
}

#[test]
fn a_body_of_the_wrong_shape_is_read_as_an_empty_conversation() {
    for body in [json!(null), json!([1]), json!({"messages": "no"}), json!({"messages": [1]})] {
        let request = request("/v1/messages", body);
        assert_eq!(request.last_user_text(), None);
        assert_eq!(request.tool_results(), Vec::<String>::new());
        assert_eq!(request.model(), "");
    }
}
