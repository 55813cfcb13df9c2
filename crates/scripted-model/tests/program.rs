//! The program as another program uses it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "http/client.rs"]
#[allow(dead_code, reason = "the client serves two test programs, each with its own needs")]
mod client;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use client::{Client, asking};
use serde_json::{Value, json};

const PATH: &str = "/v1/chat/completions";

/// A running program, ended with the test.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scripted-model"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("http://").and_then(|l| l.strip_suffix("/v1"));
        let address = address.expect("a base URL").parse().unwrap();
        Self { child, address }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn write_script(directory: &Path, script: &Value) -> String {
    let path = directory.join("script.json");
    std::fs::write(&path, script.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn it_serves_a_script_logs_requests_without_keys_and_ends_on_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let script = json!({
        "rules": [{"when": {"user_contains": "held"}, "reply": {"text": "go", "hold": 1}}],
        "replies": [{"text": "first"}],
    });
    let script = write_script(directory.path(), &script);
    let log = directory.path().join("log");
    for signal in ["-TERM", "-INT"] {
        let mut program = Program::start(&["--script", &script, "--log", log.to_str().unwrap()]);
        let mut client = Client::connect(program.address).await;
        let head = format!("POST {PATH} HTTP/1.1\r\nauthorization: Bearer sk-secret");
        client.send(&head, asking("hi").to_string().as_bytes()).await;
        assert!(client.response().await.text().contains("first"));
        client.start(PATH, &asking("held")).await;
        client.head().await;
        client.until("go").await;
        program.signal("-USR1");
        client.until("[DONE]").await;
        program.signal(signal);
        assert!(program.child.wait().unwrap().success());
    }
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reply: Vec<&Value> =
        lines.iter().map(|line| &line["body"]["messages"][0]["content"]).collect();
    assert_eq!(reply, ["hi", "held", "hi", "held"]);
    assert_eq!(lines[0]["headers"]["authorization"], "***");
    assert!(!log.contains("sk-secret"));
}

#[tokio::test]
async fn it_echoes_without_a_script() {
    let program = Program::start(&["--echo"]);
    let response = Client::connect(program.address).await.post(PATH, &asking("hello")).await;
    assert_eq!(response.status, 200);
    assert!(response.text().contains("hello"));
}

#[test]
fn what_it_cannot_serve_is_reported_in_one_line_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let script = write_script(directory.path(), &json!({"replys": []}));
    for (arguments, word) in [
        (vec!["--script", &script], "unknown field `replys`"),
        (vec!["--script", "/nowhere/script.json"], "/nowhere/script.json"),
        (vec!["--echo", "--log", "/nowhere/log"], "/nowhere/log"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_scripted-model")).args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(word) && error.lines().count() == 1, "{error}");
        assert_eq!(output.status.code(), Some(1));
    }
}
