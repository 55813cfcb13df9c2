//! What a person does with tasks.

use serde_json::json;
use vestal_dashboard::gate::Right;

use crate::support::DashboardFixture;

async fn task(fixture: &DashboardFixture, operator: &str) -> String {
    let body = json!({ "title": "Light the fire", "assignee": "ada", "needs_review": true });
    let made = fixture.post("/api/board/default/tasks", &body).cookie(operator).send().await;
    assert_eq!(made.status, 200, "{}", made.body);
    made.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_is_moved_only_from_the_column_it_was_seen_in_and_with_the_words_it_needs() {
    let fixture = DashboardFixture::start().await;
    let operator = fixture.login(Right::Operator).await;
    let id = task(&fixture, &operator).await;
    let page = fixture.get(&format!("/api/board/default/tasks/{id}")).cookie(&operator);
    let page = page.send().await.json();
    assert_eq!((&page["task"]["status"], &page["log_bytes"]), (&json!("ready"), &json!(null)));
    let targets: Vec<_> = page["moves"].as_array().unwrap().iter().map(|one| &one["to"]).collect();
    assert_eq!(targets, ["blocked", "scheduled", "review", "done", "archived"]);
    let path = format!("/api/board/default/tasks/{id}/move");
    let moving = async |body: serde_json::Value| {
        let answer = fixture.post(&path, &body).cookie(&operator).send().await;
        (answer.status, answer.json())
    };
    let (status, reply) = moving(json!({ "from": "blocked", "to": "done" })).await;
    assert_eq!((status, &reply["error"]), (409, &json!("conflict")));
    let (status, reply) = moving(json!({ "from": "ready", "to": "blocked", "text": " " })).await;
    assert_eq!((status, &reply["detail"]), (400, &json!("the reason to block is missing")));
    let (status, reply) = moving(json!({ "from": "ready", "to": "running" })).await;
    assert_eq!(status, 409, "{reply}");
    let body = json!({ "from": "ready", "to": "blocked", "text": "no matches" });
    let (status, reply) = moving(body).await;
    assert_eq!((status, &reply["task"]["block_reason"]), (200, &json!("no matches")));
    let now = fixture.get("/api/now").cookie(&operator).send().await.json();
    let needed: Vec<_> =
        now["needs_you"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(needed, [&json!(id)], "what a person has blocked waits for a person");
    assert_eq!(now["needs_you_total"], 1);
    fixture.stop().await;
}

#[tokio::test]
async fn a_file_of_a_task_is_kept_and_never_shown() {
    let fixture = DashboardFixture::start().await;
    let operator = fixture.login(Right::Operator).await;
    let id = task(&fixture, &operator).await;
    let path = format!("/api/board/default/tasks/{id}/files");
    let page = b"<script>alert(1)</script>";
    let upload = || fixture.upload(&format!("{path}?name=a%22.html&content_type=text/html"));
    let added = upload().cookie(&operator).send_bytes(page, page.len()).await.json();
    let file = added["attachments"][0]["id"].as_i64().unwrap();
    let viewer = fixture.login(Right::Viewer).await;
    let found = fixture.get(&format!("{path}/{file}")).cookie(&viewer).send().await;
    assert_eq!((found.status, found.body.as_str()), (200, "<script>alert(1)</script>"));
    assert_eq!(found.header("content-type"), Some("application/octet-stream"));
    let disposition = found.header("content-disposition");
    assert_eq!(disposition, Some("attachment; filename*=UTF-8''a%22.html"));
    let large = vec![7; 3 << 20];
    let added = upload().cookie(&operator).send_bytes(&large, large.len()).await.json();
    assert_eq!(added["attachments"][1]["size"], large.len());
    let refused = upload().cookie(&operator).send_bytes(b"", 1 << 30).await;
    assert_eq!(refused.status, 413, "{}", refused.body);
    let other = task(&fixture, &operator).await;
    let elsewhere = format!("/api/board/default/tasks/{other}/files/{file}");
    assert_eq!(fixture.get(&elsewhere).cookie(&viewer).send().await.status, 404);
    fixture.stop().await;
}

#[tokio::test]
async fn a_task_without_a_working_tree_says_so_and_nothing_is_merged() {
    let fixture = DashboardFixture::start().await;
    let operator = fixture.login(Right::Operator).await;
    let id = task(&fixture, &operator).await;
    for (part, why) in
        [("diff", "has no files"), ("patch", "has no files"), ("merge", "in a scratch directory")]
    {
        let path = format!("/api/board/default/tasks/{id}/{part}");
        let reply = fixture.get(&path).cookie(&operator).send().await;
        assert_eq!(reply.status, 404, "{}", reply.body);
        assert!(reply.body.contains(why), "{}", reply.body);
        assert_eq!(reply.json()["error"], "no_base");
    }
    let path = format!("/api/board/default/tasks/{id}/review");
    let review = json!({ "summary": "", "comments": [] });
    assert_eq!(fixture.post(&path, &review).cookie(&operator).send().await.status, 400);
    let review = json!({ "summary": "again", "comments": [] });
    let reply = fixture.post(&path, &review).cookie(&operator).send().await;
    assert_eq!(reply.status, 409, "it is not in review: {}", reply.body);
    fixture.stop().await;
}

#[tokio::test]
async fn what_a_task_has_made_in_its_sandbox_is_reviewed_by_operators_alone() {
    let fixture = DashboardFixture::start().await;
    let (operator, viewer) =
        (fixture.login(Right::Operator).await, fixture.login(Right::Viewer).await);
    let id = task(&fixture, &operator).await;
    std::fs::create_dir_all(fixture.home.join("run")).unwrap();
    std::fs::write(fixture.home.join("run/scratch.txt"), "one\ntwo\n").unwrap();
    let path = |part: &str| format!("/api/board/default/tasks/{id}/{part}");
    let found = fixture.get(&path("diff")).cookie(&operator).send().await.json();
    let file =
        json!({ "path": "notes.txt", "from": null, "change": "added", "added": 2, "removed": 0 });
    assert_eq!(found["files"], json!([file]), "{found}");
    assert_eq!([&found["branch"], &found["tree"]], ["", "/workspace/kanban"]);
    let patch = fixture.get(&path("patch")).cookie(&operator).send().await;
    assert!(
        patch.body.contains("+++ b/notes.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"),
        "{}",
        patch.body
    );
    // Of single attempts nothing is kept, and files of sandboxes are not for viewers.
    let attempt = fixture.get(&path("diff?attempt=1")).cookie(&operator).send().await;
    assert_eq!((attempt.status, &attempt.json()["error"]), (404, &json!("no_base")));
    for part in ["diff", "patch"] {
        let refused = fixture.get(&path(part)).cookie(&viewer).send().await;
        assert_eq!((refused.status, &refused.json()["error"]), (404, &json!("no_base")));
        assert!(refused.body.contains("shown to operators"), "{}", refused.body);
    }
    fixture.stop().await;
}

#[tokio::test]
async fn what_was_spent_is_asked_for_in_a_time_zone_that_there_is() {
    let fixture = DashboardFixture::start().await;
    let viewer = fixture.login(Right::Viewer).await;
    let ask = async |query: &str| {
        let answer = fixture.get(&format!("/api/usage?{query}")).cookie(&viewer).send().await;
        (answer.status, answer.json())
    };
    let (status, reply) = ask("by=model&days=7&zone=UTC").await;
    assert_eq!((status, &reply["by"], &reply["lines"]), (200, &json!("model"), &json!([])));
    assert_eq!(ask("zone=Nowhere/Else").await.0, 400);
    assert_eq!(ask("days=-1").await.0, 400);
    fixture.stop().await;
}
