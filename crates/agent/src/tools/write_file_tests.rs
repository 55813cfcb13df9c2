use super::*;

mod write_file {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::approvals::ApprovalPolicy;
    use crate::human::Approval;
    use crate::redact::Redactor;
    use crate::testing::{AgentFixture, Scripted};
    use crate::tools::ReadFile;

    fn content(stage: &AgentFixture, name: &str) -> Vec<u8> {
        std::fs::read(stage.start_dir().join(name)).unwrap()
    }

    fn put(stage: &AgentFixture, name: &str, bytes: &[u8]) {
        std::fs::write(stage.start_dir().join(name), bytes).unwrap();
    }

    #[tokio::test]
    async fn a_file_is_made_with_the_directories_it_needs() {
        let stage = AgentFixture::new();
        let wrote =
            stage.call(&WriteFile, json!({ "path": "a/b/c.txt", "content": "hello\n" })).await;
        let path = stage.start_dir().join("a/b/c.txt");
        assert_eq!(
            wrote,
            json!({ "path": path.to_str().unwrap(), "bytes_written": 6, "created": true })
        );
        assert_eq!(content(&stage, "a/b/c.txt"), b"hello\n");
    }

    #[tokio::test]
    async fn the_manner_of_a_file_is_kept() {
        let stage = AgentFixture::new();
        put(&stage, "dos", b"\xef\xbb\xbfa\r\nb\r\n");
        std::fs::set_permissions(stage.start_dir().join("dos"), PermissionsExt::from_mode(0o750))
            .unwrap();
        let wrote =
            stage.call(&WriteFile, json!({ "path": "dos", "content": "x\ny\r\nz\n" })).await;
        assert_eq!((&wrote["created"], &wrote["bytes_written"]), (&json!(false), &json!(12)));
        assert_eq!(content(&stage, "dos"), b"\xef\xbb\xbfx\r\ny\r\nz\r\n");
        let mode = std::fs::metadata(stage.start_dir().join("dos")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        put(&stage, "unix", b"a\nb\n");
        stage.call(&WriteFile, json!({ "path": "unix", "content": "x\ny\n" })).await;
        assert_eq!(content(&stage, "unix"), b"x\ny\n");
    }

    #[tokio::test]
    async fn a_link_is_written_through_and_stays_one() {
        let stage = AgentFixture::new();
        put(&stage, "target", b"old");
        std::os::unix::fs::symlink("target", stage.start_dir().join("link")).unwrap();
        stage.call(&WriteFile, json!({ "path": "link", "content": "new" })).await;
        assert_eq!(content(&stage, "target"), b"new");
        assert!(stage.start_dir().join("link").is_symlink());
    }

    #[tokio::test]
    async fn a_masked_secret_is_never_written_back() {
        let mut stage = AgentFixture::new();
        let secret = "correct-horse-battery-staple-1234";
        stage.context.redactor = Arc::new(Redactor::new([secret.to_owned()]));
        let file = format!("KEY={secret}\n");
        put(&stage, "f", file.as_bytes());
        let read = stage.call(&ReadFile, json!({ "path": "f" })).await;
        let masked = read["content"].as_str().unwrap().strip_prefix("1|").unwrap();
        let output = stage.output(&WriteFile, json!({ "path": "f", "content": masked })).await;
        assert!(output.is_error && output.content.contains("masked"), "{}", output.content);
        assert_eq!(content(&stage, "f"), file.as_bytes());
    }

    /// A policy under which this stage's own home counts as somebody's.
    fn careful(stage: &AgentFixture) -> ApprovalPolicy {
        ApprovalPolicy { user_home: Some(stage.start_dir()), ..ApprovalPolicy::default() }
    }

    #[tokio::test]
    async fn a_sensitive_file_is_not_written_unasked_whatever_name_it_is_reached_by() {
        let stage = AgentFixture::new();
        let policy = careful(&stage);
        let stage = stage.guarded_by(policy);
        std::fs::create_dir(stage.start_dir().join(".ssh")).unwrap();
        std::os::unix::fs::symlink(".ssh", stage.start_dir().join("innocent")).unwrap();
        std::os::unix::fs::symlink(".ssh/config", stage.start_dir().join("harmless")).unwrap();
        for path in
            ["~/.ssh/config", ".ssh/config", "x/../.ssh/config", "innocent/config", "harmless"]
        {
            let output = stage.output(&WriteFile, json!({ "path": path, "content": "x" })).await;
            let reported: Value = serde_json::from_str(&output.content).unwrap();
            assert!(output.is_error && reported["status"].is_string(), "{path}: {reported}");
            assert!(!stage.start_dir().join(".ssh/config").exists(), "{path}");
        }
        let wrote = stage.call(&WriteFile, json!({ "path": "plain", "content": "x" })).await;
        assert_eq!(wrote["created"], true, "{wrote}");
    }

    #[tokio::test]
    async fn a_person_may_allow_it() {
        let stage = AgentFixture::new();
        let policy = careful(&stage);
        let human = Scripted::approving([Approval::Once]);
        let stage = stage.guarded_by(policy).with_human(human.clone());
        let wrote =
            stage.call(&WriteFile, json!({ "path": "~/.ssh/config", "content": "x" })).await;
        assert_eq!(wrote["created"], true, "{wrote}");
        assert!(wrote["approval"].is_string(), "{wrote}");
        assert_eq!(human.asked().len(), 1, "{:?}", human.asked());
    }

    #[tokio::test]
    async fn what_read_file_shows_is_never_written_back() {
        let stage = AgentFixture::new();
        put(&stage, "f", b"a\nb\n");
        let read = stage.call(&ReadFile, json!({ "path": "f" })).await;
        let output =
            stage.output(&WriteFile, json!({ "path": "f", "content": read["content"] })).await;
        assert!(output.is_error && output.content.contains("line number"), "{}", output.content);
        assert_eq!(content(&stage, "f"), b"a\nb\n");
    }

    #[tokio::test]
    async fn broken_json_is_written_and_named() {
        let stage = AgentFixture::new();
        let wrote = stage.call(&WriteFile, json!({ "path": "f.json", "content": "{,}" })).await;
        assert_eq!(wrote["lint"]["status"], "error");
        assert_eq!(content(&stage, "f.json"), b"{,}");
        let wrote =
            stage.call(&WriteFile, json!({ "path": "f.json", "content": { "a": 1 } })).await;
        assert_eq!(wrote["lint"], json!({ "status": "ok" }));
    }

    #[tokio::test]
    async fn changes_of_others_that_are_overwritten_are_reported() {
        let stage = AgentFixture::new();
        put(&stage, "f", b"a\n");
        stage.call(&ReadFile, json!({ "path": "f" })).await;
        put(&stage, "f", b"somebody else's\n");
        let wrote = stage.call(&WriteFile, json!({ "path": "f", "content": "mine\n" })).await;
        assert!(
            wrote["warning"].as_str().unwrap().contains("changed by something else"),
            "{wrote}"
        );
        let wrote = stage.call(&WriteFile, json!({ "path": "f", "content": "mine again\n" })).await;
        assert_eq!(wrote.get("warning"), None);
    }

    #[tokio::test]
    async fn a_directory_and_a_missing_argument_are_refused_in_words() {
        let stage = AgentFixture::new();
        let output = stage.output(&WriteFile, json!({ "path": "~", "content": "x" })).await;
        assert!(output.is_error && output.content.contains("directory"), "{}", output.content);
        let output = stage.output(&WriteFile, json!({ "path": "f" })).await;
        assert!(output.is_error && output.content.contains("content"), "{}", output.content);
    }

    #[test]
    fn it_may_run_beside_calls_that_touch_other_files() {
        let footprint = WriteFile.footprint(&json!({ "path": "a", "content": "" }));
        assert_eq!(footprint, Footprint::Writes(vec!["a".to_owned()]));
    }

    /// Returns what watchers received about changed files.
    fn reported(stage: &AgentFixture) -> Vec<(String, String)> {
        let change = |event| match event {
            crate::TurnEvent::FileChanged { path, diff, .. } => Some((path, diff)),
            _ => None,
        };
        stage.events().into_iter().filter_map(change).collect()
    }

    #[tokio::test]
    async fn an_observer_gets_what_has_changed_without_secrets() {
        let mut stage = AgentFixture::new();
        let secret = "correct-horse-battery-staple-1234";
        stage.context.redactor = Arc::new(Redactor::new([secret.to_owned()]));
        let path = stage.start_dir().join("f").to_str().unwrap().to_owned();
        let first = json!({ "path": "f", "content": format!("KEY={secret}\nb\n") });
        stage.call(&WriteFile, first).await;
        let second = json!({ "path": "f", "content": format!("KEY={secret}\nc\n") });
        stage.call(&WriteFile, second).await;
        let reported = reported(&stage);
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(
            reported.iter().all(|(of, diff)| *of == path && !diff.contains(secret)),
            "{reported:?}"
        );
        assert!(reported[0].1.starts_with("--- /dev/null\n"), "{reported:?}");
        assert!(reported[1].1.ends_with("-b\n+c\n"), "{reported:?}");
    }

    #[tokio::test]
    async fn the_report_of_a_change_is_bounded() {
        let stage = AgentFixture::new();
        stage.context.emit_file_change("f", &"+é\n".repeat(100_000));
        let reported = reported(&stage);
        assert!(reported[0].1.len() <= 64 << 10, "{}", reported[0].1.len());
        assert!(reported[0].1.ends_with("+é\n"));
    }

    #[tokio::test]
    async fn a_file_that_stays_as_it_is_has_not_changed() {
        let stage = AgentFixture::new();
        put(&stage, "f", b"a\n");
        stage.call(&WriteFile, json!({ "path": "f", "content": "a\n" })).await;
        assert_eq!(reported(&stage), Vec::new());
    }
}

mod echo {
    use super::*;

    #[test]
    fn what_reading_shows_is_not_taken_for_content() {
        assert!(require_original(None, "1|a\n2|b\n3|\n").is_err());
        assert!(require_original(Some("a\nb\n"), "1|a\n2|b\n").is_err());
        assert!(require_original(None, UNCHANGED).is_err());
    }

    #[test]
    fn files_that_have_such_lines_or_only_look_like_it_are_written() {
        assert_eq!(require_original(Some("1|ann\n2|bob\n"), "1|ann\n2|bob\n3|cid\n"), Ok(()));
        for content in ["", "1|a", "1|a\nb\n", "a|b\nc|d\n"] {
            assert_eq!(require_original(None, content), Ok(()), "{content:?}");
        }
    }
}
