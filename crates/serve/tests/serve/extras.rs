//! Commands, completion, settings, and what the agent works with.

use serde_json::{Value, json};
use vestal_scripted_model::{Model, Reply, Rule, Script};
use vestal_testkit::files::Fifo;

use crate::support::{TestServer, echo};

#[tokio::test]
async fn commands_are_listed_resolved_completed_and_carried_out() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let catalog = client.call("commands.catalog", json!({})).await;
    let names: Vec<&Value> = catalog["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| &command["canonical"])
        .collect();
    assert!(names.contains(&&json!("undo")) && names.contains(&&json!("kanban")), "{names:?}");
    let resolved = client.call("command.resolve", json!({ "name": "/rename" })).await;
    assert_eq!(resolved["canonical"], "title");
    assert_eq!(client.refused("command.resolve", json!({ "name": "nope" })).await, 4007);
    let completed = client.call("complete.slash", json!({ "text": "/un" })).await;
    assert_eq!(completed["items"][0]["text"], "/undo ", "{completed}");
    let completed = client
        .call("complete.slash", json!({ "text": "/tools enable term", "session_id": session }))
        .await;
    assert_eq!(
        (&completed["items"][0]["text"], &completed["replace_from"]),
        (&json!("terminal "), &json!(14))
    );
    let exec = |command: &str| json!({ "session_id": session, "command": command });
    client.say(&session, "one").await;
    let titled = client.call("slash.exec", exec("/title plans")).await;
    assert_eq!(titled, json!({ "type": "output", "output": "plans\n" }));
    let retried = client.call("slash.exec", exec("/retry")).await;
    assert_eq!(retried["output"], "said again\n");
    assert_eq!(client.complete().await["text"], "one");
    let params = json!({ "session_id": session, "name": "undo", "arg": "1" });
    let undone = client.call("command.dispatch", params).await;
    assert!(undone["output"].as_str().unwrap().starts_with("took back 1 turns"), "{undone}");
    let history = client.call("session.history", json!({ "session_id": session })).await;
    assert_eq!(history["count"], 0);
    let new = client.call("slash.exec", exec("/new other")).await;
    assert_eq!(new["type"], "session", "{new}");
    for (command, code) in [
        ("/nope", 4007),
        ("/quit", 4007),
        ("/undo x", 4002),
        ("/undo 'a", 4002),
        ("/kanban list", 5019),
    ] {
        assert_eq!(client.refused("slash.exec", exec(command)).await, code, "{command}");
    }
    for command in [
        "/help",
        "/help undo",
        "/status",
        "/usage",
        "/model",
        "/tools",
        "/approvals",
        "/jobs",
        "/stop",
    ] {
        let done = client.call("slash.exec", exec(command)).await;
        assert!(!done["output"].as_str().unwrap().is_empty(), "{command}: {done}");
    }
    let tools = client.call("slash.exec", exec("/tools disable clarify")).await;
    assert_eq!(tools["output"], "disabled: clarify\n");
    let tools = client.call("tools.list", json!({ "session_id": session })).await;
    assert!(!tools["tools"].as_array().unwrap().contains(&json!("clarify")), "{tools}");
    server.end().await;
}

#[tokio::test]
async fn settings_of_a_session_and_of_the_profile_are_read_and_changed() {
    let models = ["m", "other"].map(Model::new);
    let server = TestServer::start(echo().models(models)).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let options = client.call("model.options", json!({ "refresh": true })).await;
    assert_eq!(options["default"], json!({ "provider": "custom", "model": "m" }), "{options}");
    assert_eq!(options["providers"][0]["models"][1]["id"], "other", "{options}");
    let set =
        |key: &str, value: Value| json!({ "session_id": session, "key": key, "value": value });
    let typo = client.refused("config.set", set("model", json!("othr"))).await;
    assert_eq!(typo, 4007);
    let changed = client.call("config.set", set("model", json!("other"))).await;
    assert_eq!((&changed["value"], &changed["scope"]), (&json!("custom:other"), &json!("session")));
    client.say(&session, "hi").await;
    assert_eq!(server.model.requests()[0].model(), "other");
    client.call("config.set", set("yolo", json!(true))).await;
    let yolo = client.call("config.get", json!({ "session_id": session, "key": "yolo" })).await;
    assert_eq!(yolo["value"], true);
    client.call("config.set", set("agent.max_turns", json!(7))).await;
    let turns = client.call("config.get", json!({ "key": "agent.max_turns" })).await;
    assert_eq!((&turns["value"], &turns["scope"]), (&json!(7), &json!("profile")), "{turns}");
    assert_eq!(client.refused("config.get", json!({ "key": "agent.max_turn" })).await, 4007);
    assert_eq!(client.refused("config.set", set("agent.max_turns", json!("x"))).await, 4002);
    let shown = client.call("config.show", json!({ "changed": true })).await;
    let keys: Vec<&Value> =
        shown["keys"].as_array().unwrap().iter().map(|row| &row["key"]).collect();
    assert!(keys.contains(&&json!("agent.max_turns")), "{keys:?}");
    let skills = client.call("skills.manage", json!({ "action": "list" })).await;
    assert_eq!(skills, json!({ "skills": [], "broken": [] }));
    assert_eq!(client.call("reload.mcp", json!({})).await, json!({ "servers": [] }));
    server.end().await;
}

#[tokio::test]
async fn background_jobs_are_listed_completed_and_ended_and_the_model_hears_of_them() {
    let start = json!({ "command": "sleep 1000", "background": true });
    let server = TestServer::start(Script::rules([
        Rule::when_user_contains("start").reply(Reply::tool_call("terminal", start)),
        Rule::when_user_contains("cat").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            let call =
                json!({ "command": command, "background": true, "notify_on_complete": true });
            Reply::tool_call("terminal", call)
        }),
        Rule::always().reply(Reply::text("done")),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.create().await;
    let of = json!({ "session_id": session });
    assert_eq!(client.call("process.list", of.clone()).await, json!({ "processes": [] }));
    client.say(&session, "start").await;
    let listed = client.call("process.list", of.clone()).await;
    assert_eq!(listed["processes"][0]["command"], "sleep 1000", "{listed}");
    let id = listed["processes"][0]["id"].as_str().unwrap();
    let params = json!({ "session_id": session, "process_id": "j-0000" });
    assert_eq!(client.refused("process.kill", params).await, 4044);
    let killed =
        client.call("process.kill", json!({ "session_id": session, "process_id": id })).await;
    assert_eq!(killed["killed"], id);
    client.say(&session, "start").await;
    let stopped = client.call("process.stop", of.clone()).await;
    assert_eq!(stopped["killed"].as_array().unwrap().len(), 1, "{stopped}");
    std::fs::create_dir(server.home.path().join("here")).unwrap();
    for name in ["file", ".hidden", "other"] {
        std::fs::write(server.home.path().join("here").join(name), "").unwrap();
    }
    let word = format!("@{}/here/f", server.home.path().display());
    let completed =
        client.call("complete.path", json!({ "session_id": session, "word": word })).await;
    assert_eq!(completed["items"].as_array().unwrap().len(), 1, "{completed}");
    assert_eq!(completed["items"][0]["text"], "file");
    assert_eq!(completed["replace_from"], word.len() - 1);
    // A turn that nobody asked for: the model hears that its job has ended.
    // Nobody is here to be asked about what it reads.
    let yolo = json!({ "session_id": session, "key": "yolo", "value": true });
    client.call("config.set", yolo).await;
    let gate = Fifo::create(server.home.path().join("gate"));
    client.say(&session, &format!("cat {}", gate.display())).await;
    tokio::task::spawn_blocking(move || gate.write("open")).await.unwrap();
    loop {
        let started = client.event("message.start").await;
        if started["payload"]["trigger"] == "jobs" {
            break;
        }
    }
    assert_eq!(client.complete().await["text"], "done");
    server.end().await;
}

#[tokio::test]
async fn something_can_be_done_beside_the_conversation() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let params = json!({ "session_id": session, "text": "aside" });
    let begun = client.call("prompt.background", params).await;
    let done = client.event("background.complete").await["payload"].take();
    assert_eq!(done["task_id"], begun["task_id"]);
    assert_eq!((&done["text"], &done["status"]), (&json!("aside"), &json!("complete")), "{done}");
    let history = client.call("session.history", json!({ "session_id": session })).await;
    assert_eq!(history["count"], 0, "it is not part of the conversation");
    server.end().await;
}
