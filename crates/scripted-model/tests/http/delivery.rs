//! Answers that are held, cut, stalled, refused or nonsense.

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};

use crate::client::{Client, asking};

const PATHS: [&str; 2] = ["/v1/chat/completions", "/v1/messages"];

#[tokio::test]
async fn a_held_answer_goes_on_when_it_is_released() {
    for path in PATHS {
        let model = ScriptedModel::start(Script::replies([ScriptedReply::text("onetwo")
            .chunked(3)
            .hold_after(1)
            .hold_after(2)]));
        let mut client = Client::connect(model.address()).await;
        client.start(path, &asking("hi")).await;
        client.head().await;
        let first = client.until("one").await;
        model.wait_for_holds(1).await;
        assert!(!first.contains("two"));
        assert!(client.nothing_more());
        model.release();
        let second = client.until("two").await;
        model.wait_for_holds(2).await;
        assert!(!second.contains("stop"));
        assert!(client.nothing_more());
        model.release();
        client.until("stop").await;
        model.wait_for_answers(1).await;
        assert_eq!(model.hangups(), 0);
    }
}

#[tokio::test]
async fn a_cut_answer_sends_its_deltas_and_closes_without_an_end() {
    for path in PATHS {
        let model = ScriptedModel::start(Script::replies([ScriptedReply::text("onetwo")
            .chunked(3)
            .cut_after(1)]));
        let mut client = Client::connect(model.address()).await;
        let response = client.post(path, &asking("hi")).await;
        assert!(!response.complete);
        assert!(response.text().contains("one"));
        assert!(!response.text().contains("two"));
        assert_eq!(model.hangups(), 0);
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_can_be_cut_too() {
    let model = ScriptedModel::start(Script::replies([ScriptedReply::text("one").cut_after(0)]));
    let mut body = asking("hi");
    body["stream"] = json!(false);
    let response = Client::connect(model.address()).await.post(PATHS[0], &body).await;
    assert_eq!((response.status, response.complete), (200, false));
    assert_eq!(response.text(), "");
}

#[tokio::test]
async fn a_stalled_request_hears_nothing_and_its_hang_up_is_seen() {
    for path in PATHS {
        let model = ScriptedModel::start(Script::replies([ScriptedReply::stall()]));
        let mut client = Client::connect(model.address()).await;
        client.start(path, &asking("hi")).await;
        model.wait_for_requests(1).await;
        assert!(client.nothing_more());
        assert_eq!(model.hangups(), 0);
        drop(client);
        model.wait_for_hangup().await;
        assert_eq!(model.hangups(), 1);
    }
}

#[tokio::test]
async fn a_hang_up_in_the_middle_of_an_answer_is_seen() {
    let script = [
        ScriptedReply::text("onetwo").chunked(3).stall_after(1),
        ScriptedReply::text("onetwo").chunked(3).hold_after(1),
    ];
    let model = ScriptedModel::start(Script::replies(script));
    for count in 1..=2 {
        let mut client = Client::connect(model.address()).await;
        client.start(PATHS[1], &asking("hi")).await;
        client.head().await;
        client.until("one").await;
        drop(client);
        model.wait_for_hangups(count).await;
    }
}

#[tokio::test]
async fn an_error_has_its_status_its_shape_and_retry_after() {
    let model = ScriptedModel::start(Script::replies([
        ScriptedReply::error(429, "slow down").retry_after(3),
        ScriptedReply::error(429, "slow down").retry_after(3),
        ScriptedReply::error_body(400, json!({"detail": "no"})),
        ScriptedReply::error_body(502, "<html>").header("x-more", "yes"),
    ]));
    let mut client = Client::connect(model.address()).await;
    let response = client.post(PATHS[0], &asking("hi")).await;
    assert_eq!((response.status, response.header("retry-after")), (429, Some("3")));
    assert_eq!(
        response.json(),
        json!({"error": {"message": "slow down", "type": "requests", "param": null,
            "code": "rate_limit_exceeded"}})
    );
    let response = client.post(PATHS[1], &asking("hi")).await;
    assert_eq!((response.status, response.header("retry-after")), (429, Some("3")));
    assert_eq!(
        response.json(),
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"},
            "request_id": "req_scripted"})
    );
    let response = client.post(PATHS[0], &asking("hi")).await;
    assert_eq!((response.status, response.json()), (400, json!({"detail": "no"})));
    let response = client.post(PATHS[0], &asking("hi")).await;
    assert_eq!((response.status, response.text()), (502, "<html>"));
    assert_eq!(response.header("x-more"), Some("yes"));
}

#[tokio::test]
async fn garbage_is_sent_byte_for_byte() {
    let bytes = [b"data: {\"cho".as_slice(), &[0xff, 0, b'\n']].concat();
    let model = ScriptedModel::start(Script::replies([ScriptedReply::garbage(bytes.clone())]));
    let response = Client::connect(model.address()).await.post(PATHS[0], &asking("hi")).await;
    assert_eq!((response.status, response.body), (200, bytes));
}

#[tokio::test]
async fn a_script_that_http_cannot_express_is_reported() {
    let model = ScriptedModel::start(Script::replies([
        ScriptedReply::error(7, "no"),
        ScriptedReply::text("hi").header("a b", "c"),
    ]));
    let mut client = Client::connect(model.address()).await;
    for word in ["status", "header"] {
        let response = client.post(PATHS[0], &asking("hi")).await;
        assert_eq!(response.status, 500);
        assert!(response.text().contains(word), "{}", response.text());
    }
}
