use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::*;
use crate::testing::AgentFixture;

/// A stage whose results go to a directory of their own.
fn stage(call: &str) -> AgentFixture {
    let mut stage = AgentFixture::new();
    stage.context.call = call.to_owned();
    stage
}

fn path_in(preview: &str) -> &str {
    let start = preview.find(DIRECTORY).unwrap();
    preview[start..].split(':').next().unwrap()
}

#[tokio::test]
async fn what_fits_stays_as_it_is() {
    let stage = stage("fits");
    let output = ToolOutput::ok("x".repeat(100));
    assert_eq!(fit(&stage.context, output.clone(), 100).await, output);
    let bounded = ToolOutput { oversized: Oversized::Keep, ..ToolOutput::ok("x".repeat(100)) };
    assert_eq!(fit(&stage.context, bounded.clone(), 50).await, bounded);
    assert!(stage.context.sandbox.attached().is_none(), "no sandbox was needed");
}

#[tokio::test]
async fn a_long_result_is_in_a_file_and_its_ends_in_the_conversation() {
    let stage = stage("../weird/call id é");
    let lines: Vec<String> = (0..20_000).map(|n| format!("{n}\n")).collect();
    let text = lines.concat();
    let output = fit(&stage.context, ToolOutput::error(text.clone()), 50_000).await;
    assert!(output.is_error);
    let value: Value = serde_json::from_str(&output.content).unwrap();
    let preview = value["error"].as_str().unwrap();
    let path = path_in(preview);
    assert!(path.starts_with(&format!("{DIRECTORY}/___weird_call_id__-")), "{path}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::remove_file(path).unwrap();
    assert!(preview.contains(&format!("has {} bytes", text.len())) && preview.len() < 2000);
    let (head, tail) = preview.split_once("\n\n[… ").unwrap();
    assert!(head.ends_with(&text[..HEAD]) && tail.ends_with(&text[text.len() - TAIL..]));
    assert!(tail.starts_with(&format!("{} bytes left out", text.len() - HEAD - TAIL)));
}

#[tokio::test]
async fn the_rest_of_a_result_stays_in_place() {
    let stage = stage("call-with-fields");
    let result = json!({"output": "line\n".repeat(10_000), "exit_code": 3, "error": null});
    let output = fit(&stage.context, ToolOutput::json(&result), 20_000).await;
    let value: Value = serde_json::from_str(&output.content).unwrap();
    assert_eq!((&value["exit_code"], &value["error"]), (&json!(3), &Value::Null));
    let path = path_in(value["output"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(path).unwrap(), "line\n".repeat(10_000));
    std::fs::remove_file(path).unwrap();
    // What is long all over is put away as it is.
    let many: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    let long = json!({ "lines": many });
    let output = fit(&stage.context, ToolOutput::json(&long), 20_000).await;
    let path = path_in(&output.content);
    assert_eq!(std::fs::read_to_string(path).unwrap(), long.to_string());
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn a_sandbox_that_cannot_take_it_leaves_a_preview_that_says_so() {
    let stage = stage("lost");
    let sandboxes = stage.scratch("vestal").join("sandboxes");
    std::fs::create_dir_all(sandboxes.parent().unwrap()).unwrap();
    std::fs::remove_dir_all(&sandboxes).ok();
    std::fs::write(&sandboxes, "").unwrap();
    let output = fit(&stage.context, ToolOutput::ok("ä".repeat(50_000)), 20_000).await;
    assert!(output.content.contains("could not be kept in the sandbox"), "{}", output.content);
    assert!(output.content.contains("97000 bytes left out here") && output.content.len() < 4000);
    std::fs::remove_file(&sandboxes).unwrap();
}

#[tokio::test]
async fn a_tool_that_bounds_its_results_itself_is_bounded_by_the_context_all_the_same() {
    let stage = stage("bounded");
    let bounded = ToolOutput { oversized: Oversized::Keep, ..ToolOutput::ok("x".repeat(9_000)) };
    let output = fit(&stage.context, bounded, 4_000).await;
    assert!(output.content.contains("This result has 9000 bytes"), "{}", output.content);
    assert!(output.content.len() < 4_000);
}
