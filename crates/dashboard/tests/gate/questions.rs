//! Questions of turns that run, in one place.

use serde_json::json;
use vestal_dashboard::gate::Right;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};

use crate::support::{DashboardFixture, questions_path};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_turn_is_listed_for_all_and_answered_by_an_operator_once() {
    let dangerous = ScriptedReply::tool_call("terminal", json!({ "command": "rm -rf ./precious" }));
    let model = ScriptedModel::start(Script::rules([
        ReplyRule::when_user_contains("remove").reply(dangerous),
        ReplyRule::after_tool_results(1).reply(ScriptedReply::text("so be it")),
    ]));
    let fixture = DashboardFixture::start_with_model(&model).await;
    let operator = fixture.login(Right::Operator).await;
    let viewer = fixture.login(Right::Viewer).await;
    let mut socket = fixture.socket("/api/chat/default", &operator).await;
    let created = socket.call("session.create", json!({})).await;
    let session = created["session_id"].as_str().unwrap();
    socket.call("prompt.submit", json!({ "session_id": session, "text": "remove it" })).await;
    socket.event("approval.request").await;

    let asked = fixture.get("/api/questions").cookie(&viewer).send().await.json();
    let asked = asked["questions"].clone();
    assert_eq!(asked.as_array().unwrap().len(), 1, "{asked}");
    assert_eq!([&asked[0]["kind"], &asked[0]["action"]], ["approval", "rm -rf ./precious"]);
    let other = fixture.get("/api/questions?profile=other").cookie(&viewer).send().await;
    assert_eq!(other.status, 404);

    let path = format!("/api/questions/default/{session}/{}", asked[0]["id"].as_str().unwrap());
    let answer = async |cookie: &str, body: serde_json::Value| {
        fixture.post(&path, &body).cookie(cookie).send().await.status
    };
    assert_eq!(answer(&viewer, json!({ "choice": "deny" })).await, 403);
    // What lasts is decided where the whole conversation is seen.
    assert_eq!(answer(&operator, json!({ "choice": "always" })).await, 422);
    assert_eq!(answer(&operator, json!({ "answer": "yes" })).await, 400);
    assert_eq!(answer(&operator, json!({})).await, 400);
    assert_eq!(answer(&operator, json!({ "choice": "deny" })).await, 200);
    socket.event("message.complete").await;
    assert_eq!(answer(&operator, json!({ "choice": "once" })).await, 409);
    let none = fixture.get("/api/questions").cookie(&viewer).send().await.json();
    assert_eq!(none, json!({ "questions": [], "troubles": [] }));
    drop(socket);
    fixture.stop_sandboxes().await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_gateway_is_listed_with_the_others_and_answered_there() {
    let fixture = DashboardFixture::start().await;
    let (operator, viewer) =
        (fixture.login(Right::Operator).await, fixture.login(Right::Viewer).await);
    let asked = json!([{
        "profile": "default", "asked_by": "gateway_run", "session": "run_1", "conversation": "c-1", "title": null,
        "id": "q3", "kind": "approval", "action": "rm -rf /", "reason": "it removes files", "pattern": "rm",
        "may_last": false,
    }]);
    std::fs::write(questions_path(&fixture.home), asked.to_string()).unwrap();
    let listed = fixture.get("/api/questions").cookie(&viewer).send().await.json();
    assert_eq!(listed, json!({ "questions": asked, "troubles": [] }));

    let body = json!({ "asked_by": "gateway_run", "choice": "session" });
    let path = "/api/questions/default/run_1/q3";
    assert_eq!(fixture.post(path, &body).cookie(&viewer).send().await.status, 403);
    assert_eq!(fixture.post(path, &body).cookie(&operator).send().await.status, 200);
    let answered = std::fs::read(fixture.home.join("run/answered.json")).unwrap();
    let answered: serde_json::Value = serde_json::from_slice(&answered).unwrap();
    assert_eq!(answered, json!({ "of": "run_1", "question": "q3", "answer": "session" }));
    let late = fixture.post(path, &body).cookie(&operator).send().await;
    assert_eq!(late.status, 409);

    // A gateway that cannot be asked is a card, and the rest is listed.
    std::fs::write(questions_path(&fixture.home), "{").unwrap();
    let listed = fixture.get("/api/questions").cookie(&viewer).send().await.json();
    assert_eq!(listed["questions"], json!([]));
    assert_eq!(listed["troubles"].as_array().unwrap().len(), 1, "{listed}");
    fixture.stop().await;
}
