//! Questions of turns that run, in one place.

use serde_json::json;
use vestal_dashboard::gate::Right;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};

use crate::support::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_turn_is_listed_for_all_and_answered_by_an_operator_once() {
    let dangerous = ScriptedReply::tool_call("terminal", json!({ "command": "rm -rf ./precious" }));
    let model = ScriptedModel::start(Script::rules([
        ReplyRule::when_user_contains("remove").reply(dangerous),
        ReplyRule::after_tool_results(1).reply(ScriptedReply::text("so be it")),
    ]));
    let world = World::start_with_model(&model).await;
    let operator = world.login(Right::Operator).await;
    let viewer = world.login(Right::Viewer).await;
    let mut socket = world.socket("/api/chat/default", &operator).await;
    let created = socket.call("session.create", json!({})).await;
    let session = created["session_id"].as_str().unwrap();
    socket.call("prompt.submit", json!({ "session_id": session, "text": "remove it" })).await;
    socket.event("approval.request").await;

    let asked = world.get("/api/questions").cookie(&viewer).send().await.json();
    assert_eq!(asked.as_array().unwrap().len(), 1, "{asked}");
    assert_eq!([&asked[0]["kind"], &asked[0]["action"]], ["approval", "rm -rf ./precious"]);
    let nobody = world.get("/api/questions?profile=other").cookie(&viewer).send().await.json();
    assert_eq!(nobody, json!([]));

    let path = format!("/api/questions/default/{session}/{}", asked[0]["id"].as_str().unwrap());
    let answer = async |cookie: &str, body: serde_json::Value| {
        world.post(&path, &body).cookie(cookie).send().await.status
    };
    assert_eq!(answer(&viewer, json!({ "choice": "deny" })).await, 403);
    // What lasts is decided where the whole conversation is seen.
    assert_eq!(answer(&operator, json!({ "choice": "always" })).await, 422);
    assert_eq!(answer(&operator, json!({ "answer": "yes" })).await, 400);
    assert_eq!(answer(&operator, json!({})).await, 400);
    assert_eq!(answer(&operator, json!({ "choice": "deny" })).await, 200);
    socket.event("message.complete").await;
    assert_eq!(answer(&operator, json!({ "choice": "once" })).await, 409);
    assert_eq!(world.get("/api/questions").cookie(&viewer).send().await.json(), json!([]));
    drop(socket);
    world.stop_sandboxes().await;
    world.stop().await;
}
