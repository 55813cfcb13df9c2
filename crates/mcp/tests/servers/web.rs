//! Servers that have an address.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use vestal_agent::ToolSource as _;
use vestal_mcp::ServerState;

use crate::fixture::{ServersFixture, names, until};

/// A server of the tests that has an address. It ends with the test.
struct Web {
    child: Child,
    address: String,
}

impl Web {
    fn start(port: u16, key: &str, notes: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-test-server"))
            .args(["http", "--key", key, "--millis", &port.to_string(), "--notes"])
            .arg(notes)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    fn port(&self) -> u16 {
        self.address.rsplit(':').next().unwrap().parse().unwrap()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn stage_for(web: &Web, headers: &str) -> ServersFixture {
    ServersFixture::new(&format!(
        "mcp_servers:\n  it: {{url: \"http://{}/mcp?token=hunter2-in-url\"{headers}}}\n",
        web.address
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_an_address_is_used_with_its_headers() {
    let dir = tempfile::tempdir().unwrap();
    let web = Web::start(0, "of-the-environment", &dir.path().join("notes"));
    let fixture = stage_for(&web, ", headers: {X-Key: \"${WORD}\"}");
    let servers = fixture.servers().await;
    assert_eq!(names(&servers).len(), 16);
    assert_eq!(fixture.call_with(&servers, "echo", json!({"text": "far"})).await.content, "far");
    assert_eq!(fixture.call(&servers, "large").await.content.len(), 10_000_000);
    assert_eq!(fixture.call(&servers, "progress").await.content, "done");
    assert!(!fixture.heard.lock().unwrap().is_empty());
    let before = servers.version();
    assert_eq!(fixture.call(&servers, "grow").await.content, "grown");
    until(|| servers.version() != before).await;
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_key_is_reported_with_where_to_put_it() {
    let dir = tempfile::tempdir().unwrap();
    let web = Web::start(0, "another", &dir.path().join("notes"));
    let fixture = stage_for(&web, ", headers: {X-Key: wrong-key}");
    let servers = fixture.servers().await;
    let news = servers.take_notices().join("\n");
    assert!(news.contains("mcp_servers.it.headers"), "{news}");
    assert!(!news.contains("hunter2-in-url") && !news.contains("wrong-key"), "{news}");
    assert_eq!(servers.statuses()[0].state, ServerState::Failed);
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_reaches_a_server_with_an_address() {
    let fixture = ServersFixture::new("");
    let web = Web::start(0, "k-k-k-k", &fixture.file("notes"));
    std::fs::write(
        fixture.file("config.yaml"),
        format!(
            "mcp_servers:\n  it: {{url: \"http://{}/mcp\", headers: {{X-Key: k-k-k-k}}}}\n",
            web.address
        ),
    )
    .unwrap();
    let servers = fixture.servers().await;
    let (hanging, ()) = tokio::join!(fixture.call(&servers, "hang"), async {
        fixture.noted("hanging").await;
        fixture.cancel.cancel();
    });
    assert!(hanging.is_error && hanging.content.contains("interrupted"), "{hanging:?}");
    fixture.noted("cancelled").await;
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_reported_and_found_when_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let web = Web::start(0, "k-k-k-k", &dir.path().join("notes"));
    let port = web.port();
    let fixture = stage_for(&web, ", headers: {X-Key: k-k-k-k}");
    drop(web);
    let servers = fixture.servers().await;
    let news = servers.take_notices().join("\n");
    assert!(news.contains("cannot be used") && !news.contains("hunter2-in-url"), "{news}");
    let _web = Web::start(port, "k-k-k-k", &dir.path().join("notes"));
    until(|| names(&servers).len() == 16).await;
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_started_anew_is_asked_anew() {
    let dir = tempfile::tempdir().unwrap();
    let web = Web::start(0, "k-k-k-k", &dir.path().join("notes"));
    let port = web.port();
    let fixture = stage_for(&web, ", headers: {X-Key: k-k-k-k}");
    let servers = fixture.servers().await;
    assert_eq!(fixture.call_with(&servers, "echo", json!({"text": "1"})).await.content, "1");
    drop(web);
    let gone = fixture.call_with(&servers, "echo", json!({"text": "2"})).await;
    assert!(gone.is_error && !gone.content.contains("hunter2-in-url"), "{gone:?}");
    let _web = Web::start(port, "k-k-k-k", &dir.path().join("notes"));
    let again = fixture.call_with(&servers, "echo", json!({"text": "3"})).await;
    assert_eq!(again.content, "3", "{again:?}");
    servers.close().await;
}
