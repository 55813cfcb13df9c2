//! Servers that die, come back, and leave nothing behind.

use serde_json::json;
use vestal_agent::ToolSource as _;
use vestal_mcp::ServerState;
use vestal_testkit::processes::{group_of, is_alive, state_of};

use crate::fixture::{ServersFixture, kill, marker, names, processes_with, server, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_during_a_call_is_started_again_by_the_next() {
    let fixture = ServersFixture::with("stdio", "");
    let servers = fixture.servers().await;
    let before = fixture.process(&servers).await;
    let crashed = fixture.call(&servers, "crash").await;
    assert!(crashed.is_error, "{crashed:?}");
    for word in ["went away during the call", "exit status: 3", "the disk is on fire"] {
        assert!(crashed.content.contains(word), "{word}: {crashed:?}");
    }
    let after = fixture.process(&servers).await;
    assert_ne!(before, after);
    let news = servers.take_notices();
    assert!(news.iter().any(|news| news.contains("went away")), "{news:?}");
    assert!(news.iter().any(|news| news.contains("answers again")), "{news:?}");
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_is_started_again_by_itself_and_keeps_its_tools() {
    let fixture = ServersFixture::with("stdio", "");
    let servers = fixture.servers().await;
    let (before, version) = (fixture.process(&servers).await, servers.version());
    kill(before);
    until(|| servers.take_notices().iter().any(|news| news.contains("answers again"))).await;
    assert_eq!((names(&servers).len(), servers.version()), (16, version));
    assert_ne!(fixture.process(&servers).await, before);
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_server_is_left_when_it_is_closed() {
    let mark = marker();
    let fixture = ServersFixture::with(&format!("stdio --child {mark}"), "");
    let servers = fixture.servers().await;
    let pid = fixture.process(&servers).await;
    assert!(processes_with(&mark).len() >= 2);
    let guard = group_of(pid).unwrap();
    assert!(is_alive(guard) && group_of(std::process::id()) != Some(guard));
    servers.close().await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert!(state_of(pid).is_none() && state_of(guard).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_server_is_left_when_everything_is_dropped() {
    let mark = marker();
    let fixture = ServersFixture::with(&format!("stdio --child {mark}"), "");
    let servers = fixture.servers().await;
    assert!(processes_with(&mark).len() >= 2);
    drop(servers);
    until(|| processes_with(&mark).is_empty()).await;
}

#[test]
fn nothing_of_a_server_is_left_when_the_runtime_goes_away() {
    let mark = marker();
    let fixture = ServersFixture::with(&format!("stdio --child {mark}"), "");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let servers = runtime.block_on(fixture.servers());
    assert!(processes_with(&mark).len() >= 2);
    runtime.shutdown_background();
    drop(servers);
    let waiting = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    waiting.block_on(until(|| processes_with(&mark).is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_server_is_left_when_its_user_is_killed() {
    let mark = marker();
    let fixture = ServersFixture::with(&format!("stdio --child {mark}"), "");
    let mut user = std::process::Command::new(env!("CARGO_BIN_EXE_mcp-test-server"))
        .args(["hold", "--notes"])
        .arg(fixture.dir.path())
        .spawn()
        .unwrap();
    // The server, and the shell and the sleep that it has started.
    until(|| processes_with(&mark).len() >= 3).await;
    // The group has the number of its leader.
    let guard = group_of(processes_with(&mark)[0]).unwrap();
    user.kill().unwrap();
    user.wait().unwrap();
    until(|| processes_with(&mark).is_empty() && state_of(guard).is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_left_behind_when_it_crashed_is_ended_too() {
    let mark = marker();
    let fixture = ServersFixture::with(&format!("stdio --child {mark}"), "");
    let servers = fixture.servers().await;
    let before = processes_with(&mark);
    assert!(fixture.call(&servers, "crash").await.is_error);
    until(|| !before.iter().any(|pid| processes_with(&mark).contains(pid))).await;
    servers.close().await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_after_the_end_say_so() {
    let fixture = ServersFixture::with("stdio", "");
    let servers = fixture.servers().await;
    let echo = crate::fixture::find(&servers, "mcp_it_echo");
    servers.close().await;
    let output = echo.call(&fixture.context(), json!({"text": "x"})).await;
    assert!(output.is_error && output.content.contains("is being closed"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_asked_for_its_tools_when_it_is_closed_leaves_nothing_either() {
    let mark = marker();
    let fixture = ServersFixture::new("");
    let notes = fixture.file("notes");
    let mode = format!("stdio --child {mark} --notes {}", notes.display());
    let config = format!("mcp_servers:\n  it: {}\n", server(&mode, ""));
    std::fs::write(fixture.file("config.yaml"), config).unwrap();
    let servers = fixture.servers().await;
    fixture.call_with(&servers, "grow", json!({"stall": true})).await;
    fixture.noted("stalled").await;
    assert!(processes_with(&mark).len() >= 2);
    servers.close().await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

/// Speaks the protocol, does not end with its input, and notes that it is asked to end.
const DEAF: &str = r#"trap 'echo asked > "$0"; exit 0' TERM
while read -r line; do
  case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"deaf","version":"1"}}}' ;;
  esac
done
while :; do sleep 1; done"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_end_by_itself_is_asked_before_it_is_killed() {
    let fixture = ServersFixture::new("");
    let settings = json!({"mcp_servers": {"it": {
        "command": "/bin/sh",
        "args": ["-c", DEAF, fixture.file("notes")],
    }}});
    // What is JSON is YAML, but a dollar sign is written twice.
    let text = settings.to_string().replace('$', "$$");
    std::fs::write(fixture.file("config.yaml"), text).unwrap();
    let servers = fixture.servers().await;
    until(|| servers.statuses()[0].state == ServerState::Connected).await;
    servers.close().await;
    assert_eq!(std::fs::read_to_string(fixture.file("notes")).unwrap(), "asked\n");
}
