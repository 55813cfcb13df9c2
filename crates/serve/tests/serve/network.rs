//! What a client over a network cannot do: it has a key, and is not at the machine.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};
use vestal_serve::{ClientLocation, catalogue};

use crate::support::{TestServer, echo};

const NOT_PERMITTED: i64 = 4003;

/// Methods whose params name nothing of the machine: sessions, words, pictures as bytes, jobs and
/// commands of the sandbox that the settings give.
const HARMLESS: &[&str] = &[
    "approval.respond",
    "clarify.respond",
    "command.resolve",
    "commands.catalog",
    "complete.path",
    "complete.slash",
    "config.show",
    "cron.manage",
    "delegation.status",
    "image.detach",
    "insights.get",
    "model.options",
    "process.kill",
    "process.list",
    "process.stop",
    "prompt.background",
    "prompt.submit",
    "reload.mcp",
    "session.activate",
    "session.active_list",
    "session.branch",
    "session.close",
    "session.compress",
    "session.context_breakdown",
    "session.delete",
    "session.history",
    "session.interrupt",
    "session.list",
    "session.most_recent",
    "session.resume",
    "session.save",
    "session.status",
    "session.steer",
    "session.title",
    "session.undo",
    "session.usage",
    "setup.status",
    "shell.exec",
    "skills.manage",
    "skills.reload",
    "subagent.interrupt",
    "tools.list",
    "tools.show",
    "toolsets.list",
];

/// Demands that would reach past the sandbox, by every method that takes such a thing.
fn demands(session: &Value) -> Vec<(&'static str, Value)> {
    let mut demands = Vec::new();
    for (key, value) in [
        ("terminal.backend", json!("local")),
        ("terminal.docker_volumes", json!("/:/host")),
        ("terminal.docker_extra_args", json!("--privileged")),
        ("terminal.docker_network", json!(true)),
        ("terminal.ssh_host", json!("elsewhere")),
        ("terminal.docker_binary", json!("/tmp/docker")),
        ("terminal.env_passthrough", json!("AWS_SECRET_ACCESS_KEY")),
        ("approvals.mode", json!("off")),
        ("approvals.deny", json!("")),
        ("command_allowlist", json!("script:any")),
        ("security.redact_secrets", json!(false)),
        ("api_server.backends", json!("local")),
        ("api_server.host", json!("0.0.0.0")),
        ("api_server.key", json!("0123456789abcdef0123")),
        ("dashboard.insecure", json!(true)),
        ("model.base_url", json!("http://elsewhere/v1")),
        ("toolsets", json!("all")),
        // Another name of a key is the key.
        ("terminal.docker_orphan_reaper", json!(false)),
    ] {
        demands.push(("config.set", json!({ "key": key, "value": value })));
    }
    for command in [
        "/config set terminal.backend local",
        "/settings set terminal.backend local",
        "/config -p default set terminal.backend local",
        "/kanban create x --workspace dir:/etc",
        "/mcp add x -- sh -c id",
        "/profile create x",
        "/sandbox rebuild --backend local -y",
        "/sandbox fork copy --mount-cwd",
        "/sessions export x /etc/cron.d/x",
        "/model --global m --base-url http://elsewhere",
        "/jobs --set=terminal.backend=local",
        "/tools enable schedule",
    ] {
        demands.push(("slash.exec", json!({ "session_id": session, "command": command })));
        let (name, arg) = command.split_once(' ').unwrap();
        let params = json!({ "session_id": session, "name": name, "arg": arg });
        demands.push(("command.dispatch", params));
    }
    let cwd = |params: &mut Value| params["cwd"] = json!("/");
    let (mut create, mut set) = (json!({}), json!({ "session_id": session }));
    cwd(&mut create);
    cwd(&mut set);
    demands.push(("session.create", create));
    demands.push(("session.cwd.set", set));
    let path = json!({ "session_id": session, "path": "/etc/hostname" });
    demands.push(("image.attach", path));
    let tools = json!({ "session_id": session, "names": ["schedule"], "enabled": true });
    demands.push(("tools.configure", tools));
    demands
}

#[tokio::test]
async fn no_method_lets_a_client_over_a_network_change_what_guards_the_machine() {
    let more = &[r#"agent.disabled_toolsets=["schedule"]"#, "model.api_key=sk-of-the-model-0001"];
    let server = TestServer::start_for(ClientLocation::Remote, echo(), more).await;
    let mut client = server.client().await;
    let session = json!(client.create().await);
    let mut tried = BTreeSet::from(["cli.exec".to_owned(), "config.get".to_owned()]);
    for (method, params) in demands(&session) {
        let refused = client.error(method, params.clone()).await;
        assert_eq!(refused["code"], NOT_PERMITTED, "{method} {params}: {refused}");
        assert!(refused["data"]["advice"][0].is_string(), "{method}: {refused}");
        tried.insert(method.to_owned());
    }
    for argv in [
        json!(["-b", "local", "run", "id"]),
        json!(["run", "id"]),
        json!(["config", "set", "terminal.backend", "local"]),
        json!(["config", "get", "model.api_key"]),
        json!(["ps", "-p", "other"]),
    ] {
        let blocked = client.call("cli.exec", json!({ "argv": argv })).await;
        assert_eq!((&blocked["blocked"], &blocked["ok"]), (&json!(true), &json!(false)), "{argv}");
    }
    let secret = client.call("config.get", json!({ "key": "model.api_key" })).await;
    assert!(!secret.to_string().contains("sk-of-the-model"), "{secret}");
    assert_eq!(*server.verbs.run.lock().unwrap(), Vec::<String>::new());
    assert!(!server.home.path().join("config.yaml").exists());
    // A method that is new is to be looked at: it belongs to one of the two.
    let mut catalogue = catalogue();
    let methods = catalogue["methods"].take();
    let methods = methods.as_array().unwrap().iter();
    let known: BTreeSet<String> =
        methods.map(|method| method["name"].as_str().unwrap().to_owned()).collect();
    tried.extend(HARMLESS.iter().map(|&name| name.to_owned()));
    assert_eq!(known, tried);
    server.end().await;
}

#[tokio::test]
async fn a_client_over_a_network_does_what_guards_nothing() {
    let server = TestServer::start_for(ClientLocation::Remote, echo(), &[]).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let set = json!({ "key": "agent.max_turns", "value": 7 });
    assert_eq!(client.call("config.set", set).await["value"], "7");
    let unknown = json!({ "key": "terminal.backen", "value": "local" });
    assert_eq!(client.refused("config.set", unknown).await, 4007);
    let exec = |command: &str| json!({ "session_id": session, "command": command });
    for (command, verb) in [
        ("/kanban list --json", "kanban list --json"),
        ("/config", "config show"),
        ("/sandbox rebuild -y", "rebuild -t default -y"),
    ] {
        let done = client.call("slash.exec", exec(command)).await;
        assert_eq!(done["output"], format!("{verb}\n"));
    }
    let done = client.call("cli.exec", json!({ "argv": ["ps", "--json"] })).await;
    assert_eq!(done["output"], "ps --json\n");
    client.call("slash.exec", exec("/tools disable clarify")).await;
    let back = client.call("slash.exec", exec("/tools enable clarify")).await;
    assert_eq!(back["output"], "enabled: clarify\n");
    let new = client.call("slash.exec", exec("/new other")).await;
    assert_eq!(new["type"], "session", "{new}");
    server.end().await;
}

#[tokio::test]
async fn what_a_client_over_a_network_approves_holds_no_longer_than_its_session() {
    let command = json!({ "command": "rm -rf /var/lib/nothing-of-this-name" });
    let server = TestServer::start_for(
        ClientLocation::Remote,
        Script::rules([
            ReplyRule::when_user_contains("go")
                .reply(ScriptedReply::tool_call("terminal", command)),
            ReplyRule::always().reply(ScriptedReply::text("done")),
        ]),
        &[],
    )
    .await;
    let mut client = server.client().await;
    let session = client.create().await;
    client.call("prompt.submit", json!({ "session_id": session, "text": "go" })).await;
    let asked = client.event("approval.request").await["payload"].take();
    assert_eq!(asked["choices"], json!(["once", "session", "deny"]), "{asked}");
    let always = json!({ "session_id": session, "choice": "always" });
    assert_eq!(client.refused("approval.respond", always).await, 4002);
    client.call("approval.respond", json!({ "session_id": session, "choice": "deny" })).await;
    client.complete().await;
    assert!(!server.home.path().join("config.yaml").exists());
    server.end().await;
}
