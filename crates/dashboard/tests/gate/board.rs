//! What a person does with tasks.

use serde_json::json;
use vestal_dashboard::gate::Right;

use crate::support::World;

async fn task(world: &World, operator: &str) -> String {
    let body = json!({ "title": "Light the fire", "assignee": "ada", "needs_review": true });
    let made = world.post("/api/board/default/tasks", &body).cookie(operator).send().await;
    assert_eq!(made.status, 200, "{}", made.body);
    made.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_is_moved_only_from_the_column_it_was_seen_in_and_with_the_words_it_needs() {
    let world = World::start().await;
    let operator = world.login(Right::Operator).await;
    let id = task(&world, &operator).await;
    let page = world.get(&format!("/api/board/default/tasks/{id}")).cookie(&operator);
    let page = page.send().await.json();
    assert_eq!((&page["task"]["status"], &page["log_bytes"]), (&json!("ready"), &json!(null)));
    let targets: Vec<_> = page["moves"].as_array().unwrap().iter().map(|one| &one["to"]).collect();
    assert_eq!(targets, ["blocked", "scheduled", "review", "done", "archived"]);
    let path = format!("/api/board/default/tasks/{id}/move");
    let moving = async |body: serde_json::Value| {
        let answer = world.post(&path, &body).cookie(&operator).send().await;
        (answer.status, answer.json())
    };
    let (status, said) = moving(json!({ "from": "blocked", "to": "done" })).await;
    assert_eq!((status, &said["error"]), (409, &json!("conflict")));
    let (status, said) = moving(json!({ "from": "ready", "to": "blocked", "text": " " })).await;
    assert_eq!((status, &said["detail"]), (400, &json!("the reason to block is missing")));
    let (status, said) = moving(json!({ "from": "ready", "to": "running" })).await;
    assert_eq!(status, 409, "{said}");
    let body = json!({ "from": "ready", "to": "blocked", "text": "no matches" });
    let (status, said) = moving(body).await;
    assert_eq!((status, &said["task"]["block_reason"]), (200, &json!("no matches")));
    world.stop().await;
}

#[tokio::test]
async fn a_file_of_a_task_is_kept_and_never_shown() {
    let world = World::start().await;
    let operator = world.login(Right::Operator).await;
    let id = task(&world, &operator).await;
    let path = format!("/api/board/default/tasks/{id}/files");
    let page = "PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==";
    let body = json!({ "name": "a\".html", "content_type": "text/html", "base64": page });
    let added = world.post(&path, &body).cookie(&operator).send().await.json();
    let file = added["attachments"][0]["id"].as_i64().unwrap();
    let viewer = world.login(Right::Viewer).await;
    let found = world.get(&format!("{path}/{file}")).cookie(&viewer).send().await;
    assert_eq!((found.status, found.body.as_str()), (200, "<script>alert(1)</script>"));
    assert_eq!(found.header("content-type"), Some("application/octet-stream"));
    let disposition = found.header("content-disposition");
    assert_eq!(disposition, Some("attachment; filename*=UTF-8''a%22.html"));
    let other = task(&world, &operator).await;
    let elsewhere = format!("/api/board/default/tasks/{other}/files/{file}");
    assert_eq!(world.get(&elsewhere).cookie(&viewer).send().await.status, 404);
    world.stop().await;
}

#[tokio::test]
async fn a_task_without_a_working_tree_says_so_and_nothing_is_merged() {
    let world = World::start().await;
    let operator = world.login(Right::Operator).await;
    let id = task(&world, &operator).await;
    for part in ["diff", "patch", "merge"] {
        let path = format!("/api/board/default/tasks/{id}/{part}");
        let said = world.get(&path).cookie(&operator).send().await;
        assert_eq!(said.status, 404, "{}", said.body);
        assert!(said.body.contains("has no git working tree"), "{}", said.body);
    }
    let path = format!("/api/board/default/tasks/{id}/review");
    let review = json!({ "summary": "", "comments": [] });
    assert_eq!(world.post(&path, &review).cookie(&operator).send().await.status, 400);
    let review = json!({ "summary": "again", "comments": [] });
    let said = world.post(&path, &review).cookie(&operator).send().await;
    assert_eq!(said.status, 409, "it is not in review: {}", said.body);
    world.stop().await;
}

#[tokio::test]
async fn what_was_spent_is_asked_for_in_a_time_zone_that_there_is() {
    let world = World::start().await;
    let viewer = world.login(Right::Viewer).await;
    let ask = async |query: &str| {
        let answer = world.get(&format!("/api/usage?{query}")).cookie(&viewer).send().await;
        (answer.status, answer.json())
    };
    let (status, said) = ask("by=model&days=7&zone=UTC").await;
    assert_eq!((status, &said["by"], &said["lines"]), (200, &json!("model"), &json!([])));
    assert_eq!(ask("zone=Nowhere/Else").await.0, 400);
    assert_eq!(ask("days=-1").await.0, 400);
    world.stop().await;
}
