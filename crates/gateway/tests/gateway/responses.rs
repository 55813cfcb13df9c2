//! Responses: kept, gone on from, and told as they are made.

use serde_json::{Value, json};
use vestal_gateway::ShutdownCause;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::support::{EventStream, TestGateway};

fn echo() -> Script {
    Script::rules([ReplyRule::always()
        .reply_with(|request| ScriptedReply::text(request.last_user_text().unwrap_or_default()))])
}

fn text(response: &Value) -> &str {
    let items = response["output"].as_array().unwrap();
    items.last().unwrap()["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn a_response_is_kept_and_gone_on_from_in_any_order() {
    let gateway = TestGateway::start(echo()).await;
    let first = gateway.say("/v1/responses", json!({ "input": "one" })).await;
    assert_eq!((first.status, text(&first.body)), (200, "one"), "{}", first.body);
    let id = first.body["id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body, first.body);
    let mut sessions = vec![first.header("x-vestal-session-id").unwrap().to_owned()];
    for input in ["two", "another two"] {
        let body = json!({ "input": input, "previous_response_id": id });
        let next = gateway.say("/v1/responses", body).await;
        assert_eq!((next.status, text(&next.body)), (200, input), "{}", next.body);
        sessions.push(next.header("x-vestal-session-id").unwrap().to_owned());
        // Each saw what came before it, and nothing of the other.
        let requests = gateway.model.requests();
        let sent = format!("{:?}", requests.last().unwrap().messages());
        assert!(sent.contains("one"), "{sent}");
        assert_eq!(sent.contains("\"two\""), input == "two", "{sent}");
    }
    assert_eq!(sessions[0], sessions[1]);
    assert_ne!(sessions[0], sessions[2]);
    assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.body["deleted"], true);
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
    let lost = json!({ "input": "three", "previous_response_id": id });
    let lost = gateway.say("/v1/responses", lost).await;
    assert_eq!(lost.status, 400);
    assert_eq!(lost.body["error"]["code"], "previous_response_not_found");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn what_is_not_to_be_kept_leaves_nothing() {
    let gateway = TestGateway::start(echo()).await;
    let body = json!({ "input": "forget me", "store": false });
    let answered = gateway.say("/v1/responses", body).await;
    assert_eq!((answered.status, text(&answered.body)), (200, "forget me"), "{}", answered.body);
    let id = answered.body["id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
    assert_eq!(gateway.get("/api/sessions").await.body["data"], json!([]));
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_stream_has_the_agents_messages_and_calls_in_order() {
    let gateway = TestGateway::start(Script::replies([
        ScriptedReply::tool_call("terminal", json!({ "command": "echo lantern" }))
            .with_text("let me look"),
        ScriptedReply::text("It is lantern.").chunked(5),
    ]))
    .await;
    let body = json!({ "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "go" }] }],
        "stream": true });
    let events = EventStream::open(gateway.post("/v1/responses", &body)).await.rest().await;
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.data["sequence_number"], json!(number));
        assert_eq!(event.name.as_deref(), event.data["type"].as_str());
    }
    let kinds: Vec<&str> = events.iter().filter_map(|event| event.name.as_deref()).collect();
    assert_eq!(kinds[..2], ["response.created", "response.in_progress"]);
    let last = &events.last().unwrap().data;
    assert_eq!(last["type"], "response.completed", "{kinds:?}");
    let response = &last["response"];
    let items: Vec<&str> = response["output"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["type"].as_str())
        .collect();
    assert_eq!(items, ["message", "function_call", "function_call_output", "message"]);
    let [_, call, result, _] = &response["output"].as_array().unwrap()[..] else { panic!() };
    assert_eq!(call["name"], "terminal");
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({ "command": "echo lantern" }));
    assert_eq!(call["call_id"], result["call_id"]);
    assert!(result["output"].as_str().unwrap().contains("lantern"), "{result}");
    assert_eq!(text(response), "It is lantern.");
    let deltas: String = events
        .iter()
        .filter(|event| event.name.as_deref() == Some("response.output_text.delta"))
        .filter_map(|event| event.data["delta"].as_str())
        .collect();
    assert_eq!(deltas, "let me lookIt is lantern.");
    assert!(response["usage"]["total_tokens"].as_u64().unwrap() > 0);
    let id = response["id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body, *response);
    // What a response had can be sent back as input.
    let mut input = response["output"].clone();
    input.as_array_mut().unwrap().push(json!({ "role": "user", "content": "thanks" }));
    gateway.model.push(ScriptedReply::text("welcome"));
    let again = gateway.say("/v1/responses", json!({ "input": input })).await;
    assert_eq!((again.status, text(&again.body)), (200, "welcome"), "{}", again.body);
    gateway.remove_sandbox().await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_failure_is_never_a_response() {
    let gateway = TestGateway::start(Script::replies([
        ScriptedReply::error(500, "no"),
        ScriptedReply::error(500, "no"),
        ScriptedReply::text("half of it").chunked(4).cut_after(1),
    ]))
    .await;
    for stream in [false, true] {
        let body = json!({ "input": "go", "stream": stream });
        assert_eq!(gateway.say("/v1/responses", body).await.status, 502);
    }
    let body = json!({ "input": "go", "stream": true });
    let events = EventStream::open(gateway.post("/v1/responses", &body)).await.rest().await;
    let last = &events.last().unwrap().data;
    assert_eq!(last["type"], "response.failed");
    assert_eq!(last["response"]["status"], "failed");
    for (wrong, status) in [
        (json!({ "input": [] }), 400),
        (json!({ "input": "x", "background": true }), 400),
        (json!({ "input": "x", "tools": [{ "type": "web_search" }] }), 400),
        (
            json!({ "input": [{ "type": "function_call_output", "call_id": "c", "output": "x" }] }),
            400,
        ),
        (json!({ "input": [{ "type": "item_reference", "id": "x" }] }), 400),
        (json!({ "input": 7 }), 422),
    ] {
        assert_eq!(gateway.say("/v1/responses", wrong.clone()).await.status, status, "{wrong}");
    }
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn two_that_go_on_from_one_response_at_once_both_get_their_answer() {
    let script = Script::rules([
        ReplyRule::when_user_contains("at once").reply(ScriptedReply::text("both").hold_after(0)),
        ReplyRule::always().reply(ScriptedReply::text("first")),
    ]);
    let gateway = TestGateway::start(script).await;
    let first = gateway.say("/v1/responses", json!({ "input": "one" })).await;
    let body = json!({ "input": "at once", "previous_response_id": first.body["id"] });
    let releasing = async {
        gateway.model.wait_for_holds(3).await;
        gateway.model.release_many(3);
    };
    let (a, b, c, ()) = tokio::join!(
        gateway.say("/v1/responses", body.clone()),
        gateway.say("/v1/responses", body.clone()),
        gateway.say("/v1/responses", body.clone()),
        releasing
    );
    let mut sessions = Vec::new();
    for answered in [&a, &b, &c] {
        assert_eq!((answered.status, text(&answered.body)), (200, "both"), "{}", answered.body);
        sessions.push(answered.header("x-vestal-session-id").unwrap());
    }
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!(sessions.len(), 3);
    gateway.end(ShutdownCause::Planned).await;
}
