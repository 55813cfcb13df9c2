//! `Idempotency-Key`: nothing is done twice.

use serde_json::json;
use vestal_gateway::ShutdownCause;
use vestal_scripted_model::{Script, ScriptedReply};

use crate::support::{Answer, TestGateway, answer, found};

async fn send(gateway: &TestGateway, path: &str, key: &str, body: serde_json::Value) -> Answer {
    answer(gateway.post(path, &body).header("idempotency-key", key)).await
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_also_after_a_restart() {
    let replies = ["chat", "response", "run"].map(ScriptedReply::text);
    let gateway = TestGateway::start_killable(Script::replies(replies)).await;
    let chat = json!({ "messages": [{ "role": "user", "content": "go" }] });
    let input = json!({ "input": "go" });
    let routes =
        [("/v1/chat/completions", chat), ("/v1/responses", input.clone()), ("/v1/runs", input)];
    let mut first = Vec::new();
    for (path, body) in &routes {
        first.push(send(&gateway, path, "k", body.clone()).await);
    }
    gateway.model.wait_for_answers(3).await;
    let (home, model) = gateway.kill();
    let gateway = TestGateway::restart(home, model).await;
    for ((path, body), first) in routes.iter().zip(&first) {
        let again = send(&gateway, path, "k", body.clone()).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body), "{path}");
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        let session = "x-vestal-session-id";
        assert_eq!(again.header(session), first.header(session));
        let other = send(&gateway, path, "k", json!({ "input": "other", "messages": [] })).await;
        assert_eq!(other.status, 409, "{path}");
        assert_eq!(other.body["error"]["code"], "idempotency_conflict");
    }
    assert_eq!(gateway.model.requests().len(), 3, "something was done twice");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_request_whose_client_left_is_done_once_and_its_answer_is_kept() {
    let held = Script::replies([ScriptedReply::text("worth waiting for").hold_after(0)]);
    let gateway = TestGateway::start(held).await;
    let body = json!({ "messages": [{ "role": "user", "content": "go" }], "stream": true });
    let path = "/v1/chat/completions";
    let first = gateway.post(path, &body).header("idempotency-key", "k");
    let first = tokio::spawn(first.send());
    gateway.model.wait_for_requests(1).await;
    first.abort();
    let busy = send(&gateway, path, "k", body.clone()).await;
    assert_eq!((busy.status, busy.header("retry-after")), (409, Some("2")), "{}", busy.body);
    assert_eq!(busy.body["error"]["code"], "idempotency_in_progress");
    gateway.model.release();
    let kept = found("the answer is kept", async || {
        let again = send(&gateway, path, "k", body.clone()).await;
        (again.status != 409).then_some(again)
    })
    .await;
    assert_eq!(kept.status, 200, "{}", kept.body);
    assert_eq!(kept.header("content-type"), Some("text/event-stream"));
    let stream = kept.body.as_str().unwrap();
    assert!(stream.contains("worth waiting") && stream.contains("[DONE]"), "{stream}");
    assert_eq!(gateway.model.requests().len(), 1);
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_request_that_a_killed_gateway_left_is_not_done_again() {
    let held = Script::replies([ScriptedReply::text("lost").hold_after(0)]);
    let gateway = TestGateway::start_killable(held).await;
    let body = json!({ "input": "go" });
    let first = gateway.post("/v1/responses", &body).header("idempotency-key", "k");
    let first = tokio::spawn(first.send());
    gateway.model.wait_for_requests(1).await;
    let (home, model) = gateway.kill();
    first.abort();
    let gateway = TestGateway::restart(home, model).await;
    let again = send(&gateway, "/v1/responses", "k", body).await;
    assert_eq!((again.status, &again.body["error"]["code"]), (503, &json!("interrupted")));
    let session = again.header("x-vestal-session-id").unwrap();
    assert!(again.body["error"]["message"].as_str().unwrap().contains(session), "{}", again.body);
    assert_eq!(gateway.get(&format!("/api/sessions/{session}")).await.status, 200);
    assert_eq!(gateway.model.requests().len(), 1);
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_request_that_was_refused_may_be_sent_again() {
    let gateway = TestGateway::start(Script::replies([ScriptedReply::text("fine")])).await;
    let body = json!({ "messages": [{ "role": "user", "content": "x" }], "n": 2 });
    for _ in 0..2 {
        let refused = send(&gateway, "/v1/chat/completions", "k", body.clone()).await;
        assert_eq!((refused.status, refused.header("idempotent-replayed")), (400, None));
    }
    let body = json!({ "messages": [{ "role": "user", "content": "x" }] });
    assert_eq!(send(&gateway, "/v1/chat/completions", "k", body).await.text(), "fine");
    gateway.end(ShutdownCause::Planned).await;
}
