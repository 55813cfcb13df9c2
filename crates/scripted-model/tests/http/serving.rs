//! Who gets which reply, what is recorded, and how much a server bears.

use serde_json::{Value, json};
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};

use crate::client::{Client, asking};

const PATH: &str = "/v1/chat/completions";

/// Returns the text of a streamed answer in the shape of chat completions.
fn reply(data: &[Value]) -> String {
    data.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

#[tokio::test]
async fn an_exhausted_script_says_so_and_records_the_request() {
    let model = ScriptedModel::start(Script::replies([ScriptedReply::text("only")]));
    let mut client = Client::connect(model.address()).await;
    assert_eq!(client.post(PATH, &asking("first")).await.status, 200);
    for path in [PATH, "/v1/messages"] {
        let response = client.post(path, &asking("second")).await;
        assert_eq!(response.status, 500);
        let error = response.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(error.contains("script_exhausted") && error.contains("second"), "{error}");
    }
    let asked: Vec<_> = model.requests().iter().map(|request| request.path.clone()).collect();
    assert_eq!(asked, [PATH, PATH, "/v1/messages"]);
    model.push(ScriptedReply::text("more"));
    assert_eq!(client.post(PATH, &asking("third")).await.status, 200);
}

#[tokio::test]
async fn requests_are_recorded_with_headers_body_and_connection() {
    let model =
        ScriptedModel::start(Script::replies([ScriptedReply::text("a"), ScriptedReply::text("b")]));
    let mut client = Client::connect(model.address()).await;
    let body = asking("hi");
    client.post(PATH, &body).await;
    let head = format!("POST {PATH} HTTP/1.1\r\nAuthorization: Bearer sk-secret");
    client.send(&head, body.to_string().as_bytes()).await;
    client.response().await;
    let requests = model.wait_for_requests(2).await;
    assert_eq!(requests[1].header("authorization"), Some("Bearer sk-secret"));
    assert_eq!((&requests[1].body, requests[1].method.as_str()), (&body, "POST"));
    assert_eq!(requests[0].peer, requests[1].peer);
    assert_eq!(model.connections(), 1);
    Client::connect(model.address()).await.post(PATH, &body).await;
    assert_eq!(model.connections(), 2);
    assert_ne!(model.requests()[2].peer, requests[1].peer);
}

#[tokio::test]
async fn forgotten_bodies_leave_their_size() {
    let model = ScriptedModel::start(Script::replies([ScriptedReply::text("a")]).forget_bodies());
    let body = asking("hi");
    Client::connect(model.address()).await.post(PATH, &body).await;
    let request = model.requests().remove(0);
    assert_eq!((request.body, request.body_bytes), (Value::Null, body.to_string().len()));
}

#[tokio::test]
async fn rules_come_before_the_list_and_may_run_out() {
    let script = Script::rules([
        ReplyRule::when_user_contains("a").reply(ScriptedReply::text("rule once")).once(),
        ReplyRule::when_user_contains("a").reply(ScriptedReply::text("rule")),
    ])
    .then(ScriptedReply::text("list"))
    .or_echo();
    let model = ScriptedModel::start(script);
    let mut client = Client::connect(model.address()).await;
    let mut answers = Vec::new();
    for text in ["a", "a", "b", "b"] {
        answers.push(reply(&client.post(PATH, &asking(text)).await.data()));
    }
    assert_eq!(answers, ["rule once", "rule", "list", "b"]);
}

#[tokio::test]
async fn the_echo_runs_commands_and_tells_their_results() {
    let model = ScriptedModel::start(Script::echo());
    let mut client = Client::connect(model.address()).await;
    let response = client.post(PATH, &asking("$ echo hi")).await;
    assert!(response.text().contains(r#""name":"terminal""#));
    assert!(response.text().contains(r#"{\"command\":\"e"#));
    let mut body = asking("$ echo hi");
    let more = [json!({"role": "assistant"}), json!({"role": "tool", "content": "hi there"})];
    body["messages"].as_array_mut().unwrap().extend(more);
    assert_eq!(reply(&client.post(PATH, &body).await.data()), "hi there");
    assert_eq!(reply(&client.post(PATH, &asking("hello")).await.data()), "hello");
}

#[tokio::test]
async fn a_body_that_is_no_json_and_a_path_that_is_not_there_are_refused() {
    let model = ScriptedModel::start(Script::echo());
    let mut client = Client::connect(model.address()).await;
    client.send(&format!("POST {PATH} HTTP/1.1"), b"{").await;
    assert_eq!(client.response().await.status, 400);
    assert_eq!(model.requests()[0].body, Value::Null);
    client.send("GET /v1/models/m HTTP/1.1", b"").await;
    assert_eq!(client.response().await.status, 404);
    assert_eq!(model.other_requests()[0].path, "/v1/models/m");
}

#[tokio::test]
async fn a_strict_server_refuses_what_the_api_would_and_spends_no_reply() {
    let model = ScriptedModel::start(Script::replies([ScriptedReply::text("fine")]).strict());
    let mut client = Client::connect(model.address()).await;
    let mut body = asking("hi");
    let orphan = json!({"role": "tool", "tool_call_id": "1", "content": "done"});
    body["messages"].as_array_mut().unwrap().push(orphan);
    let response = client.post(PATH, &body).await;
    assert_eq!(response.status, 400);
    assert_eq!(response.json()["error"]["type"], "invalid_request_error");
    assert_eq!(client.post(PATH, &asking("hi")).await.status, 200);
}

#[tokio::test]
async fn a_list_of_models_can_be_an_error() {
    let model =
        ScriptedModel::start(Script::echo().models_reply(ScriptedReply::error(401, "who?")));
    let mut client = Client::connect(model.address()).await;
    client.send("GET /v1/models HTTP/1.1", b"").await;
    let response = client.response().await;
    assert_eq!(
        (response.status, &response.json()["error"]["code"]),
        (401, &json!("invalid_api_key"))
    );
    client.send("GET /v1/models HTTP/1.1\r\nanthropic-version: 2023-06-01", b"").await;
    let response = client.response().await;
    assert_eq!(
        (response.status, &response.json()["error"]["type"]),
        (401, &json!("authentication_error"))
    );
}

#[tokio::test]
async fn a_request_of_fifty_megabytes_is_taken() {
    let model = ScriptedModel::start(Script::replies([ScriptedReply::text("big")]));
    let body = asking(&"x".repeat(50 << 20));
    let response = Client::connect(model.address()).await.post(PATH, &body).await;
    assert_eq!(response.status, 200);
    assert!(model.requests()[0].body_bytes > 50 << 20);
}

#[tokio::test]
async fn three_hundred_conversations_share_one_server() {
    const COUNT: usize = 300;
    let script = Script::rules([ReplyRule::always().reply_with(|request| {
        let text = request.last_user_text().unwrap_or_default();
        ScriptedReply::text(text).chunked(1).hold_after(1)
    })]);
    let model = ScriptedModel::start(script);
    let address = model.address();
    let talks: Vec<_> = (0..COUNT)
        .map(|number| {
            tokio::spawn(async move {
                let text = format!("conversation {number}");
                let response = Client::connect(address).await.post(PATH, &asking(&text)).await;
                (reply(&response.data()), text)
            })
        })
        .collect();
    // All are in the middle of their answers at the same time.
    model.wait_for_holds(COUNT).await;
    model.release_many(COUNT);
    for talk in talks {
        let (answer, text) = talk.await.unwrap();
        assert_eq!(answer, text);
    }
    assert_eq!(model.connections(), COUNT);
}

#[tokio::test]
async fn a_dropped_server_closes_its_connections_and_its_port() {
    let model = ScriptedModel::start(Script::replies([ScriptedReply::text("one").hold_after(0)]));
    let address = model.address();
    let mut client = Client::connect(address).await;
    client.start(PATH, &asking("hi")).await;
    client.head().await;
    drop(model);
    assert!(client.chunk().await.is_err());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
