use serde_json::{Value, json};

use super::TodoList;
use crate::testing::Stage;

async fn write(stage: &Stage, arguments: Value) -> Value {
    stage.call(&TodoList, arguments).await
}

fn item(id: &str, content: &str, status: &str) -> Value {
    json!({"id": id, "content": content, "status": status})
}

#[tokio::test]
async fn a_list_is_written_read_and_changed() {
    let stage = Stage::new();
    let empty = write(&stage, json!({})).await;
    assert_eq!(empty["todos"], json!([]));
    let written =
        json!({"todos": [item("1", "first", "in_progress"), item("2", "second", "pending")]});
    write(&stage, written.clone()).await;
    assert_eq!(write(&stage, json!({})).await["todos"], written["todos"]);
    // A change may leave out what stays, and come as models err.
    let change = json!({"merge": "true", "todos": [
        {"id": 1, "status": "done"}, {"id": "3", "content": "third"}]});
    let changed = write(&stage, change).await;
    let expected = [
        item("1", "first", "completed"),
        item("2", "second", "pending"),
        item("3", "third", "pending"),
    ];
    assert_eq!(changed["todos"], json!(expected));
    assert_eq!(
        changed["summary"],
        json!({"total": 3, "pending": 2, "in_progress": 0, "completed": 1, "cancelled": 0})
    );
    // Replacing forgets.
    write(&stage, json!({"todos": []})).await;
    assert_eq!(stage.context.notebook.read().todos, []);
}

#[tokio::test]
async fn a_list_that_cannot_be_is_refused_and_changes_nothing() {
    let stage = Stage::new();
    write(&stage, json!({"todos": [item("1", "first", "pending")]})).await;
    let before = stage.context.notebook.read();
    let many: Vec<Value> = (0..201).map(|n| item(&n.to_string(), "x", "pending")).collect();
    for (todos, complaint) in [
        (json!("soon"), "`todos` must be a list"),
        (json!([1]), "each of `todos` must be an object"),
        (json!([{"content": "x"}]), "`id` is required"),
        (json!([{"id": "9"}]), "needs `content`"),
        (json!([item("9", "x", "later")]), "`status` must be pending"),
        (json!([item("9", &"x".repeat(2001), "pending")]), "at most 2000 characters"),
        (json!(many), "at most 200 items"),
    ] {
        let result = write(&stage, json!({"todos": todos, "merge": true})).await;
        assert!(result["error"].as_str().unwrap().contains(complaint), "{result}");
        assert_eq!(stage.context.notebook.read(), before);
    }
}
