//! How far a client reaches that has the key: to the sandboxes that the settings give, and not to the
//! machine.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use vestal_gateway::ShutdownCause;
use vestal_sandbox::{Command, Engine, FilesOnRemoval, Overrides, TaskName};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::support::{TestGateway, answer, settings, usual};
use crate::websocket::with_key;

/// Where nothing can be made: no host is named.
const ISOLATED: &str = "terminal.backend=ssh";

/// Returns the engine of the operator at the machine.
fn operator(gateway: &TestGateway) -> Engine {
    let mut set = usual(&gateway.model);
    set.push(ISOLATED.to_owned());
    Engine::open(settings(gateway.home.path(), &set)).unwrap()
}

/// A script that has the model touch a file of the machine whenever it is asked to go.
fn touching(marker: &Path) -> Script {
    let touch = json!({ "command": format!("touch {}", marker.display()) });
    Script::rules([
        ReplyRule::when_user_contains("go").reply(ScriptedReply::tool_call("terminal", touch)),
        ReplyRule::always().reply(ScriptedReply::text("done")),
    ])
}

#[tokio::test]
async fn no_route_reaches_the_machine_where_the_settings_isolate() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("reached");
    let gateway = TestGateway::start_with(touching(&marker), &[ISOLATED]).await;
    // The operator at the machine has a sandbox without isolation.
    let own = operator(&gateway);
    let host: TaskName = "host".parse().unwrap();
    let local = Overrides { backend: Some("local".to_owned()), ..Overrides::default() };
    let sandbox = own.sandbox_with(&host, &local).await.unwrap();
    sandbox.run(Command::shell("true")).await.unwrap();
    let touch = format!("touch {}", marker.display());
    for (path, body) in [
        ("/api/sandboxes/lab/run", json!({ "command": touch, "backend": "local" })),
        ("/api/sandboxes/host/run", json!({ "command": touch, "backend": "local" })),
        ("/api/sandboxes/host/run", json!({ "command": touch })),
        ("/api/sandboxes/host/run", json!({ "command": touch, "background": true })),
    ] {
        let refused = gateway.say(path, body.clone()).await;
        let code = (refused.status, &refused.body["error"]["code"]);
        assert_eq!(code, (403, &json!("backend_not_permitted")), "{path} {body}: {}", refused.body);
    }
    // A task that names a directory is no way to have it mounted.
    let private = dir.path().join("private");
    std::fs::create_dir(&private).unwrap();
    for directory in [private.clone(), private.join("..")] {
        let task = format!("x@{}", directory.display()).replace('@', "%40").replace('/', "%2F");
        for path in [format!("/api/sandboxes/{task}/run"), format!("/mcp?task={task}")] {
            let call = json!({
                "command": "true", "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": { "name": "run", "arguments": { "command": "true" } },
            });
            let refused = gateway.say(&path, call).await;
            assert!(!refused.body.to_string().contains("exit_code"), "{path}: {}", refused.body);
        }
        let task = format!("x@{}", directory.display()).parse().unwrap();
        let found = own.inspect(&task).await;
        assert!(matches!(found, Err(vestal_sandbox::Error::NoSandbox { .. })), "{found:?}");
    }
    let file = gateway.get("/api/sandboxes/host/files?path=/etc/hostname").await;
    assert_eq!(file.status, 403, "{}", file.body);
    // Every route is asked for all that a sandbox can be asked for; most know nothing of it.
    let demand = json!({
        "command": touch, "script": touch, "input": "go", "prompt": "go", "text": "go", "message": "go",
        "messages": [{ "role": "user", "content": "go" }], "model": "m", "schedule": "in 1m",
        "name": "a", "task": "host", "snapshot": "a", "backend": "local", "image": "x", "cwd": "/",
        "mount": "/", "mounts": ["/"], "binds": ["/"], "volumes": ["/:/host"],
        "set": { "terminal.backend": "local" }, "overrides": { "backend": "local" },
    });
    let document = vestal_gateway::openapi_document();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|method| *method != "delete") {
            let path = path.replace("{task}", "host").replace(['{', '}'], "");
            for query in ["", "?backend=local&task=host&path=/etc/hostname"] {
                let request = gateway.request(&method.to_uppercase(), &format!("{path}{query}"));
                let request = request.header("content-type", "application/json");
                let request = request.timeout(Duration::from_mins(1));
                // What streams for as long as somebody listens says nothing here.
                request.body(demand.to_string()).send().await.ok();
            }
        }
    }
    // And those that take it as they want it.
    gateway.ask("go", None).await;
    gateway.say("/v1/responses", json!({ "model": "m", "input": "go" })).await;
    let run = gateway.run("go").await;
    gateway.follow(&format!("/v1/runs/{run}/events"), None).await.rest().await;
    let job = json!({ "name": "b", "schedule": "every 2h", "prompt": "go", "task": "host", "script": touch });
    let made = gateway.say("/api/jobs", job).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let id = made.body["id"].as_str().unwrap();
    let begun = gateway.say(&format!("/api/jobs/{id}/run"), json!({})).await;
    assert!(begun.status < 300, "{}", begun.body);
    crate::support::found("the end of the run", async || {
        let runs = gateway.get(&format!("/api/jobs/{id}/runs")).await.body;
        let status = runs["data"][0]["status"].as_str()?;
        (!matches!(status, "running" | "claimed" | "requested")).then_some(())
    })
    .await;
    let mut socket = with_key(&gateway).await;
    let session = socket.call("session.create", json!({})).await["session_id"].clone();
    let reply = json!({ "session_id": session, "text": "go" });
    socket.call("prompt.submit", reply).await;
    socket.event("message.complete").await;
    assert!(!marker.exists(), "the machine was reached");
    assert!(!gateway.home.path().join("config.yaml").exists());
    own.remove(&host, FilesOnRemoval::Remove).await.unwrap();
    own.close(Duration::from_secs(10)).await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn what_the_operator_lists_is_permitted_to_who_has_the_key() {
    let more = &[ISOLATED, "api_server.backends=local"];
    let gateway = TestGateway::start_with(Script::replies([]), more).await;
    let made = json!({ "command": "echo here", "backend": "local" });
    let ran = gateway.say("/api/sandboxes/host/run", made).await;
    assert_eq!(ran.body["stdout"], "here\n", "{}", ran.body);
    let again = gateway.say("/api/sandboxes/host/run", json!({ "command": "echo again" })).await;
    assert_eq!(again.body["stdout"], "again\n", "{}", again.body);
    gateway.delete("/api/sandboxes/host?files=true").await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn commands_on_the_machine_start_in_the_configured_directory_and_clients_learn_it() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = format!("terminal.cwd={}", dir.path().display());
    let gateway = TestGateway::start_with(Script::replies([]), &[&cwd]).await;
    let ran = gateway.say("/api/sandboxes/lab/run", json!({ "command": "pwd" })).await;
    assert_eq!(ran.body["stdout"], format!("{}\n", dir.path().display()), "{}", ran.body);
    let mut socket = with_key(&gateway).await;
    let made = socket.call("session.create", json!({})).await;
    assert_eq!(made["info"]["cwd"], json!(dir.path()), "{made}");
    gateway.ask("where am I?", None).await;
    let reported = gateway.model.requests()[0].messages()[0]["content"].to_string();
    assert!(reported.contains(&dir.path().display().to_string()), "{reported}");
    gateway.delete("/api/sandboxes/lab?files=true").await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn commands_of_a_service_begin_in_the_workspace_of_their_sandbox() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let workspace = |task: &str| gateway.home.path().join("sandboxes").join(task).join("workspace");
    let ran = gateway.say("/api/sandboxes/lab/run", json!({ "command": "pwd; touch kept" })).await;
    assert_eq!(ran.body["stdout"], format!("{}\n", workspace("lab").display()), "{}", ran.body);
    assert!(workspace("lab").join("kept").exists());
    let mut socket = with_key(&gateway).await;
    let made = socket.call("session.create", json!({})).await;
    assert_eq!(made["info"]["cwd"], json!(workspace("default")), "{made}");
    gateway.delete("/api/sandboxes/lab?files=true").await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn it_serves_on_a_socket_and_opens_no_port() {
    let more = &["api_server.socket=run/api/vestal.sock"];
    let gateway = TestGateway::start_with(Script::replies([]), more).await;
    let socket = gateway.home.path().join("run/api/vestal.sock");
    assert_eq!(gateway.url(""), format!("http://unix:{}", socket.display()));
    let client = reqwest::Client::builder().unix_socket(socket.as_path()).build().unwrap();
    let health: Value = answer(client.get("http://vestal/health")).await.body;
    assert_eq!(health["status"], "ok", "{health}");
    let refused = answer(client.get("http://vestal/v1/models")).await;
    assert_eq!(refused.status, 401, "the key is needed all the same");
    let (_home, _) = gateway.end(ShutdownCause::Planned).await;
    assert!(!socket.exists());
}
