//! The sandboxes as tools for MCP clients, at the gateway's address and with its key.

use serde_json::{Value, json};
use vestal_gateway::ShutdownCause;
use vestal_scripted_model::Script;

use crate::support::{Answer, TestGateway, answer, found};

const ACCEPT: &str = "application/json, text/event-stream";

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn message(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn run(command: &str) -> Value {
    let arguments = json!({ "command": command, "timeout_seconds": 600 });
    message(1, "tools/call", json!({ "name": "run", "arguments": arguments }))
}

async fn send(gateway: &TestGateway, path: &str, body: &Value) -> Answer {
    answer(gateway.post(path, body).header("accept", ACCEPT)).await
}

#[tokio::test]
async fn an_mcp_client_with_the_key_uses_a_sandbox_of_its_own() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let client = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "Some Editor", "version": "1" },
    });
    let begin = message(0, "initialize", client);
    let refused = reqwest::Client::new().post(gateway.url("/mcp")).json(&begin);
    assert_eq!(answer(refused.header("accept", ACCEPT)).await.status, 401);
    let begun = send(&gateway, "/mcp", &begin).await;
    assert_eq!(begun.body["result"]["serverInfo"]["name"], "vestal", "{}", begun.body);
    let session = begun.header("mcp-session-id").unwrap().to_owned();
    let request = gateway.post("/mcp", &run("echo lantern")).header("accept", ACCEPT);
    let ran = answer(request.header("mcp-session-id", session)).await;
    let result = &ran.body["result"]["structuredContent"];
    assert_eq!(
        (&result["stdout"], &result["sandbox"]["task"]),
        (&json!("lantern\n"), &json!("mcp-some-editor")),
        "{}",
        ran.body
    );
    let removed = gateway.delete("/api/sandboxes/mcp-some-editor?files=true").await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_page_of_an_unknown_origin_is_refused_also_with_the_key() {
    let origins = ["api_server.cors_origins=https://a.example"];
    let gateway = TestGateway::start_with(Script::replies([]), &origins).await;
    let list = message(1, "tools/list", json!({}));
    for (origin, status) in [("https://b.example", 403), ("null", 403), ("https://a.example", 200)]
    {
        let request = gateway.post("/mcp", &list).header("accept", ACCEPT);
        let answered = answer(request.header("origin", origin)).await;
        assert_eq!(answered.status, status, "{origin}: {}", answered.body);
    }
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_drain_waits_for_a_tool_and_interrupts_it_when_its_time_is_up() {
    let dir = tempfile::tempdir().unwrap();
    let (begun, gate) = (dir.path().join("begun"), dir.path().join("gate"));
    let command = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; until test -e {1}; do sleep 0.02; done; echo over",
        begun.display(),
        gate.display()
    );
    for is_interrupted in [false, true] {
        let drain = ["agent.restart_drain_timeout=600"];
        let gateway = TestGateway::start_with(Script::replies([]), &drain).await;
        let request = gateway.post("/mcp?task=lab", &run(&command)).header("accept", ACCEPT);
        let running = tokio::spawn(answer(request));
        let shell: u32 = found("the command runs", async || {
            std::fs::read_to_string(&begun).ok()?.trim().parse().ok()
        })
        .await;
        gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
        if is_interrupted {
            gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
            let answered = running.await.unwrap();
            let seen = (answered.status, &answered.body["error"]["code"]);
            assert_eq!(seen, (503, &json!("interrupted")));
        } else {
            std::fs::write(&gate, "").unwrap();
            let answered = running.await.unwrap();
            assert_eq!(answered.body["result"]["structuredContent"]["stdout"], "over\n");
            std::fs::remove_file(&gate).unwrap();
            std::fs::remove_file(&begun).unwrap();
        }
        let (home, _) = gateway.ended().await;
        found("the command is gone", async || {
            let is_gone = !std::path::Path::new(&format!("/proc/{shell}")).exists();
            is_gone.then_some(())
        })
        .await;
        let model = vestal_scripted_model::ScriptedModel::start(Script::replies([]));
        let gateway = TestGateway::restart(home, model).await;
        assert_eq!(gateway.delete("/api/sandboxes/lab?files=true").await.status, 200);
        gateway.end(ShutdownCause::Planned).await;
    }
}
