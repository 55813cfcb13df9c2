use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::approvals::ApprovalPolicy;
use crate::redact::Redactor;
use crate::testing::AgentFixture;
use crate::tools::ReadFile;

fn put(stage: &AgentFixture, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(stage.start_dir().join(name), bytes).unwrap();
}

fn content(stage: &AgentFixture, name: &str) -> Vec<u8> {
    std::fs::read(stage.start_dir().join(name)).unwrap()
}

fn names(stage: &AgentFixture) -> Vec<String> {
    let entries = std::fs::read_dir(stage.start_dir()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn patched(stage: &AgentFixture, patch: &str) -> Value {
    stage.call(&Patch, json!({ "mode": "patch", "patch": patch })).await
}

#[tokio::test]
async fn a_text_is_replaced_and_the_result_shows_how() {
    let stage = AgentFixture::new();
    put(&stage, "f", "a\nb\nc\n");
    let arguments = json!({ "mode": "replace", "path": "f", "old_string": "b", "new_string": "B" });
    let done = stage.call(&Patch, arguments).await;
    let path = stage.start_dir().join("f").to_str().unwrap().to_owned();
    let diff = format!("--- {path}\n+++ {path}\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
    assert_eq!(done, json!({ "success": true, "path": path, "replacements": 1, "diff": diff }));
    assert_eq!(content(&stage, "f"), b"a\nB\nc\n");
}

#[tokio::test]
async fn a_file_that_is_no_utf8_keeps_every_byte_that_is_not_changed() {
    let stage = AgentFixture::new();
    put(&stage, "latin", b"\xef\xbb\xbfcaf\xe9\r\nb\r\nna\xefve\n");
    let arguments = json!({ "path": "latin", "old_string": "b\nna\u{fffd}ve", "new_string": "B\nna\u{fffd}ve!" });
    let done = stage.call(&Patch, arguments).await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(content(&stage, "latin"), b"\xef\xbb\xbfcaf\xe9\r\nB\r\nna\xefve!\n");
}

#[tokio::test]
async fn a_loose_match_is_called_one() {
    let stage = AgentFixture::new();
    put(&stage, "f", "  a(\n    b\n  )\n");
    let arguments = json!({ "path": "f", "old_string": "a(\n  b\n)", "new_string": "a(\n  c\n)" });
    let done = stage.call(&Patch, arguments).await;
    assert_eq!(done["matched_by"], "indentation");
    assert_eq!(content(&stage, "f"), b"  a(\n    c\n  )\n");
}

#[tokio::test]
async fn what_does_not_fit_changes_nothing_and_shows_the_closest_place() {
    let stage = AgentFixture::new();
    put(&stage, "f", "alpha = one\nbeta = two\n");
    let arguments =
        json!({ "path": "f", "old_string": "beta = three thousand", "new_string": "x" });
    let output = stage.output(&Patch, arguments).await;
    let result: Value = serde_json::from_str(&output.content).unwrap();
    assert!(
        output.is_error && result["closest"].as_str().unwrap().contains("2|beta = two"),
        "{result}"
    );
    let arguments = json!({ "path": "f", "old_string": " = ", "new_string": " := " });
    let result = stage.call(&Patch, arguments).await;
    assert!(result["error"].as_str().unwrap().contains("2 times, in lines 1, 2"), "{result}");
    assert_eq!(content(&stage, "f"), b"alpha = one\nbeta = two\n");
    let arguments =
        json!({ "path": "f", "old_string": " = ", "new_string": " := ", "replace_all": "true" });
    assert_eq!(stage.call(&Patch, arguments).await["replacements"], 2);
    assert_eq!(content(&stage, "f"), b"alpha := one\nbeta := two\n");
}

#[tokio::test]
async fn line_numbers_in_a_text_are_noticed() {
    let stage = AgentFixture::new();
    put(&stage, "f", "a\nb\n");
    let arguments = json!({ "path": "f", "old_string": "2|b", "new_string": "2|c" });
    let result = stage.call(&Patch, arguments).await;
    assert!(result["error"].as_str().unwrap().contains("line number"), "{result}");
}

#[tokio::test]
async fn masked_secrets_are_neither_looked_for_nor_written() {
    let mut stage = AgentFixture::new();
    let secret = "correct-horse-battery-staple-1234";
    stage.context.redactor = Arc::new(Redactor::new([secret.to_owned()]));
    let file = format!("KEY={secret}\nb\n");
    put(&stage, "f", &file);
    let masked = stage.context.redactor.redact_file(&file).into_owned();
    let masked = masked.lines().next().unwrap();
    for (old, new) in [(masked, "y"), ("b\n", masked)] {
        let arguments = json!({ "path": "f", "old_string": old, "new_string": new });
        let output = stage.output(&Patch, arguments).await;
        assert!(output.is_error && output.content.contains("masked"), "{}", output.content);
    }
    let result = patched(&stage, &format!("*** Add File: g\n+{masked}\n")).await;
    assert!(result["error"].as_str().unwrap().contains("masked"), "{result}");
    // Beside a secret a change is made, and shown without it.
    let arguments = json!({ "path": "f", "old_string": "b\n", "new_string": "c\n" });
    let done = stage.call(&Patch, arguments).await;
    assert!(!done.to_string().contains(secret), "{done}");
    assert_eq!(content(&stage, "f"), format!("KEY={secret}\nc\n").as_bytes());
}

#[tokio::test]
async fn a_patch_changes_adds_deletes_and_renames_files_together() {
    let stage = AgentFixture::new();
    put(&stage, "a", "1\r\n2\r\n3\r\n");
    put(&stage, "b", "gone\n");
    put(&stage, "c", "kept\n");
    put(&stage, "d", "x\ny\n");
    let done = patched(
        &stage,
        "*** Begin Patch\n*** Update File: a\n@@\n 1\n-2\n+zwei\n*** Delete File: b\n\
         *** Update File: c\n*** Move to: sub/c2\n*** Update File: d\n*** Move to: d2\n@@\n-x\n+X\n\
         *** Add File: sub/new\n+hello\n*** End Patch\n",
    )
    .await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(names(&stage), ["a", "d2", "sub"]);
    assert_eq!(content(&stage, "a"), b"1\r\nzwei\r\n3\r\n");
    assert_eq!(content(&stage, "sub/c2"), b"kept\n");
    assert_eq!(content(&stage, "d2"), b"X\ny\n");
    assert_eq!(content(&stage, "sub/new"), b"hello\n");
    let shown = |name: &str| stage.start_dir().join(name).to_str().unwrap().to_owned();
    assert_eq!(done["files_modified"], json!([shown("a")]));
    assert_eq!(done["files_created"], json!([shown("sub/new")]));
    assert_eq!(done["files_deleted"], json!([shown("b")]));
    assert_eq!(done["files_moved"].as_array().unwrap().len(), 2);
    assert!(done["diff"].as_str().unwrap().contains("+zwei"));
}

#[tokio::test]
async fn a_patch_that_does_not_fit_somewhere_changes_nothing_anywhere() {
    let stage = AgentFixture::new();
    put(&stage, "a", "1\n");
    put(&stage, "b", "2\n");
    for second in [
        "*** Update File: b\n-nowhere\n+x\n",
        "*** Add File: b\n+x\n",
        "*** Delete File: missing\n",
        "*** Update File: b\n*** Move to: a\n-2\n+3\n",
    ] {
        let result = patched(&stage, &format!("*** Update File: a\n-1\n+one\n{second}")).await;
        assert!(result.get("error").is_some(), "{second}: {result}");
        assert_eq!(
            (content(&stage, "a"), content(&stage, "b")),
            (b"1\n".to_vec(), b"2\n".to_vec())
        );
    }
}

#[tokio::test]
async fn a_patch_that_fails_half_way_is_taken_back() {
    let stage = AgentFixture::new();
    put(&stage, "a", "1\n");
    put(&stage, "b", "2\n");
    // Only when the first file is there it shows that nothing can be below it.
    let result = patched(
        &stage,
        "*** Update File: a\n-1\n+one\n*** Delete File: b\n*** Add File: new\n+x\n*** Add File: new/below\n+y\n",
    )
    .await;
    assert!(result["error"].as_str().unwrap().contains("unchanged"), "{result}");
    assert_eq!(names(&stage), ["a", "b"]);
    assert_eq!((content(&stage, "a"), content(&stage, "b")), (b"1\n".to_vec(), b"2\n".to_vec()));
    assert_eq!(result["rolled_back"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn one_file_may_be_changed_twice_in_a_patch() {
    let stage = AgentFixture::new();
    put(&stage, "a", "1\n2\n");
    let done =
        patched(&stage, "*** Update File: a\n-1\n+one\n*** Update File: ./a\n-2\n+two\n").await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(content(&stage, "a"), b"one\ntwo\n");
}

#[tokio::test]
async fn paths_of_a_patch_do_not_go_up() {
    let stage = AgentFixture::new();
    for patch in [
        "*** Add File: ../x\n+a\n",
        "*** Update File:a/../../x\n-a\n+b\n",
        "*** Update File: a\n*** Move to: ../b\n",
        "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n",
    ] {
        let result = patched(&stage, patch).await;
        assert!(result["error"].as_str().unwrap().contains("do not go up"), "{patch}: {result}");
    }
}

#[tokio::test]
async fn a_unified_diff_is_applied_too() {
    let stage = AgentFixture::new();
    put(&stage, "f", "a\nb\nc\n");
    let done = patched(&stage, "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n").await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(content(&stage, "f"), b"a\nB\nc\n");
}

#[tokio::test]
async fn a_file_that_somebody_changes_meanwhile_keeps_their_change() {
    let stage = AgentFixture::new();
    let lines: Vec<String> = (0..200).map(|n| format!("line {n}\n")).collect();
    put(&stage, "f", lines.concat());
    // Twenty edits of other lines at once: each is made on what the others left.
    let edits = (0..20).map(|n| {
        let arguments = json!({
            "path": "f", "old_string": format!("line {}\n", n * 10), "new_string": format!("LINE {}\n", n * 10),
        });
        stage.output(&Patch, arguments)
    });
    let outputs = futures_util::future::join_all(edits).await;
    let made = outputs.iter().filter(|output| !output.is_error).count();
    let now = String::from_utf8(content(&stage, "f")).unwrap();
    assert_eq!(now.matches("LINE").count(), made);
    assert_eq!(now.lines().count(), 200);
    assert!(made > 0);
    let refused = outputs.iter().filter(|output| output.is_error);
    for output in refused {
        assert!(output.content.contains("being changed by something else"), "{}", output.content);
    }
}

#[tokio::test]
async fn a_change_on_a_version_the_model_has_not_seen_is_made_with_a_warning() {
    let stage = AgentFixture::new();
    put(&stage, "f", "a\nb\n");
    stage.call(&ReadFile, json!({ "path": "f" })).await;
    put(&stage, "f", "a\nb\nc\n");
    let arguments = json!({ "path": "f", "old_string": "a", "new_string": "A" });
    let done = stage.call(&Patch, arguments).await;
    assert!(done["warning"].as_str().unwrap().contains("something else"), "{done}");
    assert_eq!(content(&stage, "f"), b"A\nb\nc\n");
}

#[tokio::test]
async fn every_file_of_a_patch_must_be_allowed_or_none_is_written() {
    let stage = AgentFixture::new();
    let policy = ApprovalPolicy { user_home: Some(stage.start_dir()), ..ApprovalPolicy::default() };
    let stage = stage.guarded_by(policy);
    put(&stage, "a", "1\n");
    put(&stage, ".bashrc", "2\n");
    for patch in [
        "*** Update File: a\n-1\n+one\n*** Update File: .bashrc\n-2\n+two\n",
        "*** Update File: a\n-1\n+one\n*** Delete File: .bashrc\n",
        "*** Update File: a\n*** Move to: .ssh/config\n-1\n+one\n",
    ] {
        let result = patched(&stage, patch).await;
        assert!(result["status"].is_string(), "{patch}: {result}");
        assert_eq!((names(&stage).len(), content(&stage, "a")), (2, b"1\n".to_vec()));
    }
    let arguments = json!({ "path": ".bashrc", "old_string": "2", "new_string": "3" });
    assert!(stage.call(&Patch, arguments).await["status"].is_string());
    assert_eq!(content(&stage, ".bashrc"), b"2\n");
}

#[test]
fn it_may_run_beside_calls_that_touch_other_files() {
    let patch = "*** Update File: a\n*** Move to: b\n*** Add File: c\n+x\n";
    let footprint = Patch.footprint(&json!({ "mode": "patch", "patch": patch }));
    assert_eq!(footprint, Footprint::Writes(["a", "b", "c"].map(str::to_owned).to_vec()));
    let footprint = Patch.footprint(&json!({ "path": "a", "old_string": "x", "new_string": "y" }));
    assert_eq!(footprint, Footprint::Writes(vec!["a".to_owned()]));
}

#[tokio::test]
async fn an_observer_gets_each_file_that_has_changed_and_no_other() {
    let stage = AgentFixture::new();
    put(&stage, "a", "1\n2\n");
    put(&stage, "b", "gone\n");
    let result = || -> Vec<(String, String)> {
        let change = |event| match event {
            crate::TurnEvent::FileChanged { path, diff, .. } => Some((path, diff)),
            _ => None,
        };
        stage.events().into_iter().filter_map(change).collect()
    };
    let refused = "*** Begin Patch\n*** Update File: a\n@@\n-no such line\n+x\n*** End Patch\n";
    patched(&stage, refused).await;
    assert_eq!(result(), Vec::new());
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n 1\n-2\n+zwei\n*** Delete File: b\n\
                 *** Add File: new\n+hello\n*** End Patch\n";
    patched(&stage, patch).await;
    let shown = |name: &str| stage.start_dir().join(name).to_str().unwrap().to_owned();
    let mut result = result();
    result.sort();
    let paths: Vec<&String> = result.iter().map(|(path, _)| path).collect();
    assert_eq!(paths, [&shown("a"), &shown("b"), &shown("new")]);
    assert!(result[0].1.ends_with("-2\n+zwei\n"), "{result:?}");
    assert!(
        result[1].1.ends_with("-gone\n") && result[1].1.contains("+++ /dev/null"),
        "{result:?}"
    );
}
