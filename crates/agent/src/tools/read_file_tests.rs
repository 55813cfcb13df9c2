use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::redact::Redactor;
use crate::testing::AgentFixture;

fn put(stage: &AgentFixture, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(stage.start_dir().join(name), bytes).unwrap();
}

#[tokio::test]
async fn lines_come_with_their_numbers() {
    let stage = AgentFixture::new();
    put(&stage, "f.txt", "\u{feff}one\r\ntwo\nthree");
    let read = stage.call(&ReadFile, json!({ "path": "f.txt" })).await;
    assert_eq!(
        read,
        json!({ "content": "1|one\n2|two\n3|three", "total_lines": 3, "file_size": 17, "truncated": false })
    );
}

#[tokio::test]
async fn a_part_says_where_to_go_on() {
    let stage = AgentFixture::new();
    put(&stage, "f", "a\nb\nc\nd\n");
    let read = stage.call(&ReadFile, json!({ "path": "~/f", "offset": "2", "limit": 2 })).await;
    assert_eq!(
        read,
        json!({
            "content": "2|b\n3|c", "total_lines": 4, "file_size": 8, "truncated": true, "next_offset": 4,
            "hint": "Lines 2 to 3 of 4 are shown; go on with offset=4.",
        })
    );
    let read = stage.call(&ReadFile, json!({ "path": "f", "offset": 9 })).await;
    assert_eq!(read["hint"], "The file has 4 lines; there is no line 9.");
}

#[tokio::test]
async fn a_large_file_is_read_in_bounded_parts() {
    let stage = AgentFixture::new().with_limits(|limits| limits.line_length = 100);
    let line = format!("{}\n", "x".repeat(1_023));
    put(&stage, "big", line.repeat(50 << 10));
    let read =
        stage.call(&ReadFile, json!({ "path": "big", "offset": 51_000, "limit": 5_000 })).await;
    assert_eq!(read["total_lines"], 50 << 10);
    assert_eq!(read["file_size"], 50 << 20);
    let content = read["content"].as_str().unwrap();
    assert!(content.starts_with("51000|xxx"));
    assert_eq!(content.lines().count(), 201);
    assert_eq!(read["lines_cut"], 201);
    assert!(content.lines().all(|line| line.chars().count() < 130));
}

#[tokio::test]
async fn a_result_is_never_longer_than_a_conversation_can_bear() {
    let stage = AgentFixture::new();
    put(&stage, "wide", format!("{}\n", "y".repeat(1_500)).repeat(500));
    let read = stage.call(&ReadFile, json!({ "path": "wide" })).await;
    let shown = read["content"].as_str().unwrap();
    assert!(shown.len() <= 100_000, "{}", shown.len());
    let next = shown.lines().count() + 1;
    assert_eq!(read["next_offset"], next);
    let output = stage.output(&ReadFile, json!({ "path": "wide" })).await;
    assert_eq!(output.oversized, Oversized::Keep);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_shown_and_named() {
    let stage = AgentFixture::new();
    put(&stage, "latin", b"caf\xe9 na\xefve\n");
    let read = stage.call(&ReadFile, json!({ "path": "latin" })).await;
    assert_eq!(read["content"], "1|caf\u{fffd} na\u{fffd}ve");
    assert!(read["hint"].as_str().unwrap().starts_with("2 bytes here are not UTF-8"), "{read}");
}

#[tokio::test]
async fn binary_files_are_not_shown_but_explained() {
    let stage = AgentFixture::new();
    put(&stage, "a.bin", [0, 1, 2, 3]);
    put(&stage, "a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let output = stage.output(&ReadFile, json!({ "path": "a.bin" })).await;
    assert!(output.is_error && output.content.contains("is_binary"));
    let read = stage.call(&ReadFile, json!({ "path": "a.png" })).await;
    assert_eq!((&read["is_image"], &read["is_binary"]), (&json!(true), &json!(true)));
    assert!(read["error"].as_str().unwrap().contains("cannot be shown"), "{read}");
}

#[tokio::test]
async fn a_picture_is_shown_to_the_model() {
    let stage = AgentFixture::new();
    let pixel = image::RgbImage::from_pixel(3, 2, image::Rgb([1, 2, 3]));
    let mut png = std::io::Cursor::new(Vec::new());
    pixel.write_to(&mut png, image::ImageFormat::Png).unwrap();
    put(&stage, "a.png", png.get_ref());
    let output = stage.output(&ReadFile, json!({ "path": "a.png" })).await;
    assert_eq!(output.images, [Image::from_bytes(png.get_ref()).unwrap()]);
    assert!(!output.is_error && output.content.contains("image/png, 3x2"), "{}", output.content);
}

#[tokio::test]
async fn a_file_that_is_not_there_is_answered_with_names_like_it() {
    let stage = AgentFixture::new();
    put(&stage, "settings.json", "{}");
    std::fs::create_dir_all(stage.start_dir().join("src/deep")).unwrap();
    put(&stage, "src/deep/unique_name.rs", "");
    let read = stage.call(&ReadFile, json!({ "path": "setings.json" })).await;
    let path = stage.start_dir().join("settings.json");
    assert_eq!(read["similar_files"], json!([path.to_str().unwrap()]));
    let read = stage.call(&ReadFile, json!({ "path": "unique_name.rs" })).await;
    assert_eq!(read["similar_files"], json!(["src/deep/unique_name.rs"]));
    let read = stage.call(&ReadFile, json!({ "path": "src" })).await;
    assert!(read["error"].as_str().unwrap().contains("is a directory"), "{read}");
}

#[tokio::test]
async fn devices_and_the_insides_of_processes_are_refused_by_any_name() {
    let stage = AgentFixture::new();
    std::os::unix::fs::symlink("/proc/self/environ", stage.start_dir().join("innocent")).unwrap();
    for path in
        ["/dev/zero", "/proc/self/environ", "innocent", "/proc/1/cmdline", "/proc/../dev/null"]
    {
        let output = stage.output(&ReadFile, json!({ "path": path })).await;
        assert!(
            output.is_error && output.content.contains("is not read"),
            "{path}: {}",
            output.content
        );
    }
}

#[tokio::test]
async fn lines_that_were_shown_and_have_not_changed_are_not_shown_again() {
    let stage = AgentFixture::new();
    put(&stage, "f", "a\n");
    let ask = json!({ "path": "f" });
    assert_eq!(stage.call(&ReadFile, ask.clone()).await["content"], "1|a");
    let again = stage.call(&ReadFile, ask.clone()).await;
    assert_eq!((&again["status"], again.get("content")), (&json!("unchanged"), None));
    // Other lines, a changed file, or a conversation that was summarised: all anew.
    assert_eq!(stage.call(&ReadFile, json!({ "path": "f", "limit": 1 })).await["content"], "1|a");
    put(&stage, "f", "changed\n");
    assert_eq!(stage.call(&ReadFile, ask.clone()).await["content"], "1|changed");
    stage.context.observed_files.clear();
    assert_eq!(stage.call(&ReadFile, ask).await["content"], "1|changed");
}

#[tokio::test]
async fn secrets_are_masked_without_moving_lines() {
    let mut stage = AgentFixture::new();
    let secret = "correct-horse-battery-staple-1234";
    stage.context.redactor = Arc::new(Redactor::new([secret.to_owned()]));
    put(&stage, "f", format!("a\nKEY={secret}\nb\n"));
    let read = stage.call(&ReadFile, json!({ "path": "f" })).await;
    let content = read["content"].as_str().unwrap();
    assert!(!content.contains(secret), "{content}");
    assert!(content.starts_with("1|a\n2|KEY=") && content.ends_with("\n3|b"), "{content}");
}

#[tokio::test]
async fn relative_paths_start_where_the_shell_is() {
    let stage = AgentFixture::new();
    std::fs::create_dir(stage.start_dir().join("sub")).unwrap();
    put(&stage, "sub/f", "here\n");
    let command = vestal_sandbox::Command::shell("cd sub").session(stage.context.sandbox.session());
    stage.sandbox().await.run(command).await.unwrap();
    assert_eq!(stage.call(&ReadFile, json!({ "path": "f" })).await["content"], "1|here");
}

#[tokio::test]
async fn wrong_arguments_are_explained() {
    let stage = AgentFixture::new();
    for (arguments, word) in [
        (json!({}), "path"),
        (json!({ "path": "f", "limit": "many" }), "limit"),
        (json!({ "path": "f", "offset": -1 }), "offset"),
    ] {
        let output = stage.output(&ReadFile, arguments).await;
        assert!(output.is_error && output.content.contains(word), "{}", output.content);
    }
}
