use serde_json::json;

use super::*;
use crate::files::NoteLimits;
use crate::testing::{KEY, MemoryFixture, redactor};

const BOTH: Enabled = Enabled { memory: true, user: true };

fn tool(stage: &MemoryFixture, enabled: Enabled) -> MemoryTool {
    let limits = NoteLimits { memory: 100, user: 50 };
    MemoryTool::new(NoteFiles::of_home(&stage.dir.path().join("home"), limits, redactor()), enabled)
}

#[tokio::test]
async fn notes_are_kept_and_every_answer_shows_them_and_how_full_they_are() {
    let stage = MemoryFixture::new().await;
    let tool = tool(&stage, BOTH);
    let (result, failed) =
        stage.call(&tool, json!({"action": "add", "content": "tea is at four"})).await;
    assert!(!failed);
    assert_eq!(
        result,
        json!({"success": true, "target": "memory", "entries": ["tea is at four"],
            "usage": "14%, 14 of 100 characters", "message": "the note is kept"})
    );
    let (result, _) = stage
        .call(&tool, json!({"action": "replace", "old_text": "tea", "content": "tea is at five"}))
        .await;
    assert_eq!(result["entries"], json!(["tea is at five"]));
    let (result, _) =
        stage.call(&tool, json!({"action": "add", "target": "user", "content": "likes tea"})).await;
    assert_eq!((&result["entries"], &result["target"]), (&json!(["likes tea"]), &json!("user")));
    let (result, _) = stage.call(&tool, json!({"action": "remove", "old_text": "five"})).await;
    assert_eq!(result["entries"], json!([]));
    let (result, _) = stage.call(&tool, json!({"action": "read", "target": "user"})).await;
    assert_eq!(result["entries"], json!(["likes tea"]));
}

#[tokio::test]
async fn a_refusal_shows_what_there_is_so_that_it_can_be_mended() {
    let stage = MemoryFixture::new().await;
    let tool = tool(&stage, BOTH);
    stage.call(&tool, json!({"action": "add", "content": "x".repeat(90)})).await;
    let (result, failed) =
        stage.call(&tool, json!({"action": "add", "content": "this is too much"})).await;
    assert!(failed);
    assert_eq!(result["success"], false);
    let error = result["error"].as_str().unwrap();
    assert!(error.contains("90 of 100") && error.contains("would have 109"), "{error}");
    assert_eq!(result["entries"], json!(["x".repeat(90)]));
    assert_eq!(result["usage"], "90%, 90 of 100 characters");
}

#[tokio::test]
async fn what_makes_no_sense_is_answered_with_what_would() {
    let stage = MemoryFixture::new().await;
    let tool = tool(&stage, Enabled { memory: true, user: false });
    for (arguments, says) in [
        (json!({}), "`action` is required"),
        (json!({"action": "sing"}), "add, replace, remove or read"),
        (json!({"action": "add"}), "`content` is required"),
        (json!({"action": "remove"}), "`old_text` is required"),
        (json!({"action": "add", "target": "dog", "content": "x"}), "memory or user"),
        (json!({"action": "add", "target": "user", "content": "x"}), "switched off"),
        (json!({"action": "remove", "old_text": "nothing"}), "no note of memory"),
        (json!("words"), "must be an object"),
        (json!({"action": ["add"], "content": {"a": 1}}), "must be a string"),
    ] {
        let (result, failed) = stage.call(&tool, arguments.clone()).await;
        assert!(failed, "{arguments}");
        assert!(result["error"].as_str().unwrap().contains(says), "{arguments}: {result}");
    }
    let targets = &tool.spec().parameters["properties"]["target"]["enum"];
    assert_eq!(targets, &json!(["memory"]));
    assert!(!tool.is_for_children());
}

#[tokio::test]
async fn a_secret_is_left_out_of_the_note_and_the_model_gets_a_notice() {
    let stage = MemoryFixture::new().await;
    let tool = tool(&stage, BOTH);
    let note = format!("the deploy key is {KEY}");
    let (result, failed) = stage.call(&tool, json!({"action": "add", "content": note})).await;
    assert!(!failed && !result.to_string().contains(KEY), "{result}");
    assert_eq!(result["message"], "the note is kept, without the secret in it");
    let file = stage.dir.path().join("home/memories/MEMORY.md");
    assert!(!std::fs::read_to_string(file).unwrap().contains(KEY));
}

#[tokio::test]
async fn an_unreadable_file_fails_the_call_and_nothing_else() {
    let stage = MemoryFixture::new().await;
    let tool = tool(&stage, BOTH);
    let file = stage.dir.path().join("home/memories/MEMORY.md");
    std::fs::create_dir_all(&file).unwrap();
    for action in ["add", "read"] {
        let (result, failed) =
            stage.call(&tool, json!({"action": action, "content": "note"})).await;
        assert!(failed, "{result}");
        assert!(result["error"].as_str().unwrap().contains("not a regular file"), "{result}");
    }
    let (_, failed) =
        stage.call(&tool, json!({"action": "add", "target": "user", "content": "fine"})).await;
    assert!(!failed);
}
