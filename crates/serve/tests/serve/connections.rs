//! Connections: garbage, floods, stalled readers, and what is left when they go.

use serde_json::{Value, json};
use vestal_scripted_model::{Script, ScriptedReply};
use vestal_serve::BadFrame;

use crate::support::{TEST_TIMEOUT, TestServer, echo};

#[tokio::test]
async fn garbage_is_answered_with_errors_and_the_rest_goes_on() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let deep = "[".repeat(1 << 20);
    for (frame, code) in [
        ("{", -32700),
        (deep.as_str(), -32700),
        ("[]", -32600),
        ("null", -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"session.close","params":[]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"session.close","params":{"session_id":7}}"#, -32602),
    ] {
        client.connection.receive(frame).await;
        assert_eq!(client.read().await.unwrap()["error"]["code"], code, "{frame:.80}");
    }
    client.connection.refuse(BadFrame::TooLong).await;
    assert_eq!(client.read().await.unwrap()["error"]["code"], -32600);
    // A notification is carried out and not answered.
    client.connection.receive(r#"{"jsonrpc":"2.0","method":"session.create"}"#).await;
    let active = client.call("session.active_list", json!({})).await;
    assert_eq!(active["sessions"].as_array().unwrap().len(), 1, "{active}");
    let error = client.error("session.creat", json!({})).await;
    assert_eq!(error["data"]["advice"], json!(["did you mean session.create?"]));
    server.end().await;
}

#[tokio::test]
async fn every_request_of_a_flood_is_answered() {
    const REQUESTS: usize = 500;
    let server = TestServer::start(echo()).await;
    let (connection, outgoing) = server.server.connect();
    let flood = async {
        for id in 0..REQUESTS {
            let method = if id % 2 == 0 { "session.list" } else { "commands.catalog" };
            let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method });
            connection.receive(&frame.to_string()).await;
        }
    };
    let answers = async {
        let mut answered = vec![0; REQUESTS];
        while answered.contains(&0) {
            let frame = outgoing.next().await.unwrap();
            let frame: Value = serde_json::from_str(&frame).unwrap();
            // Those beyond what may be under way at once are refused, not lost.
            let code = frame["error"]["code"].as_i64();
            assert!(code.is_none_or(|code| code == -32000), "{frame}");
            if let Some(id) = frame["id"].as_u64() {
                answered[usize::try_from(id).unwrap()] += 1;
            }
        }
        answered
    };
    let both = async { tokio::join!(flood, answers) };
    let ((), answered) = tokio::time::timeout(TEST_TIMEOUT, both).await.unwrap();
    assert_eq!(answered, vec![1; REQUESTS]);
    server.end().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_heard_and_its_turn_goes_on() {
    let long = "word ".repeat(400_000);
    let server =
        TestServer::start(Script::replies([ScriptedReply::text(long.as_str()).chunked(4096)]))
            .await;
    let mut stalled = server.client().await;
    let session = stalled.create().await;
    let params = json!({ "session_id": session, "text": "write a book" });
    stalled.call("prompt.submit", params).await;
    let mut other = server.client().await;
    other.call("session.activate", json!({ "session_id": session })).await;
    assert_eq!(other.complete().await["text"], long.trim());
    // Two megabytes wait: a further request is not taken before some of it is read.
    let waiting = stalled.send("commands.catalog", json!({}));
    tokio::select! {
        biased;
        _ = waiting => panic!("it was taken"),
        () = std::future::ready(()) => {}
    }
    let reply: usize = {
        stalled.complete().await;
        let deltas = stalled.come("message.delta");
        assert!(deltas.len() < 500, "{} deltas were not joined", deltas.len());
        deltas.iter().map(|event| event["payload"]["text"].as_str().unwrap().len()).sum()
    };
    assert_eq!(reply, long.trim().len());
    stalled.call("commands.catalog", json!({})).await;
    server.end().await;
}

#[tokio::test]
async fn a_session_outlives_its_connection_unless_it_was_made_not_to() {
    let reply = ScriptedReply::text("before, after").chunked(7).hold_after(1);
    let server = TestServer::start(Script::replies([reply])).await;
    let mut client = server.client().await;
    let kept = client.create().await;
    let made = client.call("session.create", json!({ "close_on_disconnect": true })).await;
    let gone = made["session_id"].as_str().unwrap().to_owned();
    client.call("prompt.submit", json!({ "session_id": kept, "text": "tell" })).await;
    client.event("message.delta").await;
    drop(client);
    let mut next = server.client().await;
    loop {
        let active = next.call("session.active_list", json!({})).await;
        let ids: Vec<&str> = active["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["id"].as_str().unwrap())
            .collect();
        assert!(ids.contains(&kept.as_str()), "{active}");
        if !ids.contains(&gone.as_str()) {
            break;
        }
        tokio::task::yield_now().await;
    }
    let joined = next.call("session.activate", json!({ "session_id": kept })).await;
    assert_eq!(
        (&joined["running"], &joined["inflight"]["text"]),
        (&json!(true), &json!("before,"))
    );
    server.model.release();
    assert_eq!(next.complete().await["text"], "before, after");
    server.end().await;
}

#[tokio::test]
async fn after_the_grace_a_session_ends_with_its_turn() {
    let script = Script::replies([ScriptedReply::text("to nobody").chunked(3).hold_after(1)]);
    let server = TestServer::start_with(script, &["serve.detach_grace_seconds=0"]).await;
    let mut client = server.client().await;
    let session = client.create().await;
    client.call("prompt.submit", json!({ "session_id": session, "text": "tell" })).await;
    client.event("message.delta").await;
    drop(client);
    let mut next = server.client().await;
    let active = next.call("session.active_list", json!({})).await;
    assert_eq!(active["sessions"][0]["status"], "running", "{active}");
    server.model.release();
    let closed = async {
        while next.call("session.active_list", json!({})).await["sessions"] != json!([]) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, closed).await.unwrap();
    let listed = next.call("session.list", json!({})).await;
    assert_eq!(listed["sessions"][0]["message_count"], 2, "what was said is lost: {listed}");
    server.end().await;
}
