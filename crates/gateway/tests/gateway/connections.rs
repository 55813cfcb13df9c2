//! Connections that ask nothing, or too slowly, harm nobody.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use vestal_gateway::{RequestTimeouts, ShutdownCause};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::support::{Changes, EventStream, KEY, TestGateway, answer};

#[tokio::test]
async fn a_thousand_connections_that_ask_nothing_take_no_place() {
    let gateway = TestGateway::start(Script::replies([ScriptedReply::text("unhurt")])).await;
    let address = gateway.url("").trim_start_matches("http://").to_owned();
    let mut idle = Vec::new();
    for number in 0..1000 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let garbage: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-slow: ",
            _ => b"\x16\x03\x01garbage",
        };
        // A server that has seen enough may have closed the connection.
        stream.write_all(garbage).await.ok();
        idle.push(stream);
    }
    assert_eq!(gateway.ask("are you there?", None).await.text(), "unhurt");
    // The oldest had to go.
    let mut reply = Vec::new();
    idle[0].read_to_end(&mut reply).await.ok();
    assert_eq!(reply, b"");
    drop(idle);
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let body = serde_json::json!({ "input": "x".repeat(33 << 20) });
    for key in [None, Some("k")] {
        let mut request = gateway.post("/v1/responses", &body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let refused = crate::support::answer(request).await;
        assert_eq!(refused.status, 413, "{}", refused.body);
        assert_eq!(refused.body["error"]["message"], "the body is larger than 32 MiB");
    }
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_request_is_let_go_of() {
    let soon = std::time::Duration::from_millis(100);
    let timeouts = Some(RequestTimeouts { head: soon, piece: soon });
    let changes = Changes { timeouts, ..Changes::default() };
    let gateway =
        TestGateway::start_changed(Script::replies([ScriptedReply::text("unhurt")]), &[], changes)
            .await;
    let address = gateway.url("").trim_start_matches("http://").to_owned();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"input\""
    );
    for (sent, expected) in [
        // Nothing can be answered before it is known what is asked.
        ("GET /v1/models HTTP/1.1\r\nhost: x\r\nx-slow: ".to_owned(), None),
        (head, Some("HTTP/1.1 400")),
    ] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut reply = String::new();
        // The end of the connection is what is waited for.
        stream.read_to_string(&mut reply).await.ok();
        match expected {
            Some(status) => {
                assert!(reply.starts_with(status), "{reply}");
                assert!(reply.contains("the body broke off before its end"), "{reply}");
            }
            None => assert!(!reply.contains("200 OK"), "{reply}"),
        }
    }
    assert_eq!(gateway.ask("are you there?", None).await.text(), "unhurt");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_session_is_made_named_spoken_in_and_forked() {
    let echo = ReplyRule::always()
        .reply_with(|request| ScriptedReply::text(request.last_user_text().unwrap_or_default()));
    let gateway = TestGateway::start(Script::rules([echo])).await;
    let made = gateway.say("/api/sessions", json!({ "title": "plans" })).await;
    assert_eq!((made.status, &made.body["title"]), (201, &json!("plans")), "{}", made.body);
    let id = made.body["id"].as_str().unwrap();
    let taken = gateway.say("/api/sessions", json!({ "title": "plans" })).await;
    assert_eq!((taken.status, &taken.body["error"]["code"]), (409, &json!("title_taken")));
    let reply = gateway.say(&format!("/api/sessions/{id}/chat"), json!({ "message": "one" })).await;
    assert_eq!((reply.status, reply.text()), (200, "one"), "{}", reply.body);
    let stream = format!("/api/sessions/{id}/chat/stream");
    let stream = EventStream::open(gateway.post(&stream, &json!({ "message": "two" }))).await;
    assert_eq!(stream.rest().await.last().unwrap().data, json!("[DONE]"));
    let renamed = gateway.request("PATCH", &format!("/api/sessions/{id}"));
    let renamed = renamed.header("content-type", "application/json");
    let renamed = answer(renamed.body(json!({ "title": "done" }).to_string())).await;
    assert_eq!((renamed.status, &renamed.body["title"]), (200, &json!("done")));
    let fork = format!("/api/sessions/{id}/fork");
    let forked = gateway.say(&fork, json!({ "title": "a copy", "at": 2 })).await;
    assert_eq!((forked.status, &forked.body["messages"]), (201, &json!(2)), "{}", forked.body);
    assert_eq!(forked.body["parent"]["id"], json!(id));
    assert_eq!(gateway.say(&fork, json!({ "at": 99 })).await.status, 404);
    let shown = gateway.get(&format!("/api/sessions/{id}")).await.body;
    assert_eq!(shown["messages"], 4);
    // One that nobody speaks in does not look like one that is in use.
    assert!(shown["ended_at"].is_string(), "{shown}");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_client_finds_out_what_there_is() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let capabilities = gateway.get("/v1/capabilities").await.body;
    assert_eq!(capabilities["features"]["runs"], true);
    let toolsets = gateway.get("/v1/toolsets").await.body;
    let tools = toolsets["data"].to_string();
    assert!(tools.contains("\"terminal\"") && tools.contains("read_file"), "{tools}");
    assert_eq!(gateway.get("/v1/skills").await.body["data"], json!([]));
    assert_eq!(gateway.get("/v1/models/vestal-agent").await.body["object"], "model");
    assert_eq!(gateway.get("/v1/models/other").await.status, 404);
    gateway.end(ShutdownCause::Planned).await;
}
