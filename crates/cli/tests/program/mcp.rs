//! `vestal mcp`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;

use crate::support::ProgramFixture;

/// Answers what a client asks first, in the order it does.
const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"small","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"say it","description":"Says.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}]}}' ;;
  esac
done
"#;

pub(crate) fn server(fixture: &ProgramFixture) -> PathBuf {
    fs::create_dir_all(fixture.home()).unwrap();
    let file = fixture.home().join("server");
    fs::write(&file, SERVER).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn a_server_is_added_if_it_answers_listed_tried_and_removed_and_comments_stay() {
    let fixture = ProgramFixture::automatic();
    let program = server(&fixture);
    let program = program.to_str().unwrap();
    let config = fixture.home().join("config.yaml");
    fs::write(&config, "# mine\nmodel: m # last\n").unwrap();
    let added = fixture.vestal(["mcp", "add", "small", "--", program, "word"]).exits(0);
    assert!(added.stderr.contains("small (small 1) answers"), "{added:?}");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.starts_with("# mine\nmodel: m # last\nmcp_servers:\n  small: {"), "{text}");
    let listed = fixture.vestal(["mcp", "list", "--json"]).exits(0).json();
    assert_eq!(listed[0]["name"], "small");
    assert_eq!(listed[0]["transport"], "stdio");
    assert_eq!(listed[0]["target"], format!("{program} word"));
    let tried = fixture.vestal(["mcp", "test", "small", "--json"]).exits(0).json();
    assert_eq!((&tried["ok"], &tried["protocol"]), (&json!(true), &json!("2025-06-18")));
    assert_eq!(tried["tools"], json!(["mcp_small_say_it"]));
    let tools = fixture.vestal(["mcp", "tools", "small", "--json"]).exits(0).json();
    assert_eq!(tools[0]["destructive"], true);
    assert_eq!(tools[0]["schema"], json!({"type": "object", "properties": {}}));
    let again = fixture.vestal(["mcp", "add", "small", "--", program]).exits(1);
    assert!(again.stderr.contains("--replace"), "{again:?}");
    fixture.vestal(["mcp", "remove", "small"]).exits(0);
    assert_eq!(fs::read_to_string(&config).unwrap(), "# mine\nmodel: m # last\nmcp_servers:\n");
    let gone = fixture.vestal(["mcp", "test", "smal"]).exits(1);
    assert!(gone.stderr.contains("unknown MCP server smal"), "{gone:?}");
}

#[test]
fn a_server_that_does_not_answer_is_not_added_and_the_reason_is_reported() {
    let fixture = ProgramFixture::automatic();
    fs::create_dir_all(fixture.home()).unwrap();
    let config = fixture.home().join("config.yaml");
    for (words, printed) in [
        (&["--", "sh", "-c", "echo no licence >&2; exit 4"][..], "exit status: 4"),
        (&["--", "no-such-program-anywhere"], "is not in the PATH"),
        (&["--url", "http://127.0.0.1:9/mcp?key=hunter2"], "127.0.0.1:9/mcp"),
        (&["--url", "http://127.0.0.1:9/", "--header", "A=${NOBODY_SET_THIS}"], "NOBODY_SET_THIS"),
    ] {
        let words: Vec<&str> = ["mcp", "add", "bad"].iter().chain(words).copied().collect();
        let refused = fixture.vestal(&words).exits(1);
        assert!(refused.stderr.contains(printed), "{refused:?}");
        assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
        assert!(!config.exists(), "{words:?}");
    }
    let secret =
        ["mcp", "add", "x", "--url", "http://h/", "--header", "Authorization=Bearer hunter2"];
    let refused = fixture.vestal(secret).exits(2);
    assert!(refused.stderr.contains(".env") && !refused.stderr.contains("hunter2"), "{refused:?}");
}
