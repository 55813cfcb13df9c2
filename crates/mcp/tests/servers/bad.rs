//! What a bad server does, and that it harms nobody.

use std::time::{Duration, Instant};

use serde_json::json;
use vestal_agent::ToolSource as _;
use vestal_mcp::{McpServerName, ServerError, ServerState, Servers, keys};

use crate::fixture::{ServersFixture, marker, names, processes_with, server, until};

/// Tries the server `it` once.
pub(crate) async fn probe(fixture: &ServersFixture) -> Result<vestal_mcp::Probe, ServerError> {
    let settings = fixture.settings();
    let servers = settings.get(&keys::MCP_SERVERS).unwrap().value;
    let it = servers.get(&McpServerName::new("it").unwrap()).unwrap();
    Servers::probe(&settings, "it", it).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_used_is_reported_once_and_the_others_work() {
    let config = format!(
        "mcp_discovery_timeout: 60\nmcp_servers:\n  bad: {}\n  gone: {{command: no-such-program-anywhere}}\n  it: {}\n  off: {{command: x, enabled: false}}\n",
        server("exit", ""),
        server("stdio", "")
    );
    let fixture = ServersFixture::new(&config);
    let servers = fixture.servers().await;
    assert_eq!(fixture.call_with(&servers, "echo", json!({"text": "here"})).await.content, "here");
    let news = servers.take_notices();
    assert_eq!(news.len(), 2, "{news:?}");
    let bad = news.iter().find(|news| news.contains("server bad")).unwrap();
    assert!(bad.contains("exit status: 7") && bad.contains("no licence"), "{bad}");
    let gone = news.iter().find(|news| news.contains("server gone")).unwrap();
    assert!(gone.contains("not in the PATH") && gone.contains("install it"), "{gone}");
    assert_eq!(servers.take_notices(), Vec::<String>::new());
    let states: Vec<(String, ServerState)> =
        servers.statuses().into_iter().map(|status| (status.name, status.state)).collect();
    assert_eq!(states.len(), 3);
    assert_eq!(states[2], ("it".to_owned(), ServerState::Connected));
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_be_understood_are_reported_and_nothing_else() {
    let fixture = ServersFixture::new("mcp_servers: {it: {comand: x}}\n");
    let servers = fixture.servers().await;
    assert!(servers.is_empty());
    let news = servers.take_notices();
    assert!(news.len() == 1 && news[0].contains("did you mean command?"), "{news:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_prints_garbage_is_reported_as_such() {
    let fixture = ServersFixture::with("garbage", ", connect_timeout: 1");
    let trouble = probe(&fixture).await.unwrap_err().to_string();
    assert!(trouble.contains("within 1 s") && trouble.contains("this is not JSON"), "{trouble}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_something_before_it_speaks_is_forgiven() {
    let fixture = ServersFixture::with("chatty", "");
    let probe = probe(&fixture).await.unwrap();
    assert_eq!((probe.about.as_deref(), probe.tools.len()), (Some("workbench 1.2.3"), 16));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_keeps_nobody_waiting() {
    let mark = marker();
    let silent = server(&format!("silent --millis {mark}"), "");
    let fixture =
        ServersFixture::new(&format!("mcp_discovery_timeout: 1.5\nmcp_servers:\n  it: {silent}\n"));
    let began = Instant::now();
    let servers = fixture.servers().await;
    let waited = began.elapsed();
    assert!(
        waited >= Duration::from_millis(1400) && waited < Duration::from_secs(20),
        "{waited:?}"
    );
    assert_eq!(names(&servers), Vec::<String>::new());
    assert_eq!(servers.statuses()[0].state, ServerState::Connecting);
    until(|| !processes_with(&mark).is_empty()).await;
    servers.close().await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_late_is_there_from_then_on() {
    let late = server("late --millis 700", "");
    let fixture =
        ServersFixture::new(&format!("mcp_discovery_timeout: 0\nmcp_servers:\n  it: {late}\n"));
    let servers = fixture.servers().await;
    assert_eq!(names(&servers), Vec::<String>::new());
    // That its tools are missing is said, once.
    let missing = "the MCP server it has not answered yet, so its tools are missing in this turn; \
                   mcp_discovery_timeout says how long they are waited for";
    assert_eq!(servers.take_notices(), [missing]);
    servers.settle().await;
    assert_eq!(servers.take_notices(), Vec::<String>::new());
    let before = servers.version();
    until(|| servers.version() != before).await;
    assert_eq!(names(&servers).len(), 16);
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_after_the_deadline_is_ended() {
    let mark = marker();
    let fixture = ServersFixture::with(&format!("late --millis {mark}"), ", connect_timeout: 1");
    let trouble = probe(&fixture).await.unwrap_err();
    assert!(matches!(trouble, ServerError::Late { .. }), "{trouble}");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_on_the_standard_error_is_in_nobodys_way() {
    let fixture = ServersFixture::with("flood", "");
    let servers = fixture.servers().await;
    assert_eq!(fixture.call_with(&servers, "echo", json!({"text": "dry"})).await.content, "dry");
    let log = fixture.file("logs/mcp-stderr.log");
    until(|| std::fs::read_to_string(&log).is_ok_and(|text| text.contains("[it] xxx"))).await;
    servers.close().await;
    let dir = std::fs::read_dir(fixture.file("logs")).unwrap();
    let size: u64 = dir.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(size < 3 << 20, "{size}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_ends_the_connection_and_the_next_call_works() {
    let fixture = ServersFixture::with("stdio", "");
    let servers = fixture.servers().await;
    let output = fixture.call(&servers, "too_large").await;
    assert!(output.is_error && output.content.contains("more than 16 MiB"), "{output:?}");
    assert_eq!(
        fixture.call_with(&servers, "echo", json!({"text": "again"})).await.content,
        "again"
    );
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_resolved_or_spoken_is_reported_with_its_place() {
    for (server, expected) in [
        (
            "{command: sh, env: {A: \"${NOBODY_SET_THIS}\"}}",
            "mcp_servers.it.env.A cannot be used: it refers to the variable NOBODY_SET_THIS",
        ),
        (
            "{url: \"http://127.0.0.1:9/\", headers: {A: \"${NOBODY_SET_THIS}\"}}",
            "mcp_servers.it.headers.A",
        ),
        ("{url: \"http://127.0.0.1:9/sse\", transport: sse}", "mcp_servers.it.transport is sse"),
        (
            "{command: sh, cwd: /no/such/place}",
            "mcp_servers.it.cwd, /no/such/place, is not a directory",
        ),
        ("{command: /no/such/program}", "/no/such/program cannot be started (No such file"),
    ] {
        let fixture = ServersFixture::new(&format!("mcp_servers:\n  it: {server}\n"));
        let trouble = probe(&fixture).await.unwrap_err().to_string();
        assert!(trouble.contains(expected), "{trouble}");
    }
}
