//! Commands, completion, settings, and what the agent works with.

use serde_json::{Value, json};
use vestal_scripted_model::{Model, ReplyRule, Script, ScriptedReply};
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
    assert_eq!(retried["output"], "sent again\n");
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
        ("/kanban nope", 5019),
        ("/sandbox rebild", 4002),
        ("/sandbox restore", 4002),
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
        "/jobs --all",
        "/sandbox",
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
    let setup = client.call("setup.status", json!({})).await;
    assert_eq!(setup, json!({ "ready": true, "model": "custom:m" }));
    let taken = client.call("insights.get", json!({})).await;
    assert_eq!(taken["models"][0]["model"], "custom:other", "{taken}");
    let parts = client.call("session.context_breakdown", json!({ "session_id": session })).await;
    let names: Vec<&Value> =
        parts["categories"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
    assert_eq!(names, ["system", "tools", "user", "assistant"], "{parts}");
    let cwd = json!({ "session_id": session, "cwd": "/" });
    assert_eq!(client.refused("session.cwd.set", cwd).await, 4018);
    let fresh = client.create().await;
    let cwd = json!({ "session_id": fresh, "cwd": server.home.path() });
    let set = client.call("session.cwd.set", cwd).await;
    assert_eq!(set["info"]["cwd"], server.home.path().display().to_string());
    assert_eq!(client.call("reload.mcp", json!({})).await, json!({ "servers": [] }));
    server.end().await;
}

#[tokio::test]
async fn background_jobs_are_listed_completed_and_ended_and_the_model_hears_of_them() {
    let start = json!({ "command": "sleep 1000", "background": true });
    let server = TestServer::start(Script::rules([
        ReplyRule::when_user_contains("start").reply(ScriptedReply::tool_call("terminal", start)),
        ReplyRule::when_user_contains("cat").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            let call =
                json!({ "command": command, "background": true, "notify_on_complete": true });
            ScriptedReply::tool_call("terminal", call)
        }),
        ReplyRule::always().reply(ScriptedReply::text("done")),
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

#[tokio::test]
async fn verbs_of_the_command_line_are_run_wherever_the_session_is_and_the_model_hears_of_its_sandbox()
 {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let exec = |command: &str| json!({ "session_id": session, "command": command });
    client.say(&session, "one").await;
    for (typed, line) in [
        ("/kanban", "kanban list\n"),
        ("/kanban show t_1", "kanban show t_1\n"),
        ("/sandbox", "inspect -t default\n"),
        ("/sandbox snapshot before", "snapshot -t default --name before\n"),
        ("/sandbox stop", "stop -t default\n"),
        ("/jobs j-12", "logs -t default j-12\n"),
    ] {
        assert_eq!(client.call("slash.exec", exec(typed)).await["output"], line, "{typed}");
    }
    let done = client.call("cli.exec", json!({ "argv": ["ps", "--json"] })).await;
    assert_eq!(done, json!({ "blocked": false, "ok": true, "output": "ps --json\n" }));
    let blocked = client.call("cli.exec", json!({ "argv": ["-p", "x", "chat"] })).await;
    assert_eq!((&blocked["blocked"], &blocked["ok"]), (&json!(true), &json!(false)), "{blocked}");
    let completed = client.call("complete.slash", json!({ "text": "/kanban kan" })).await;
    assert_eq!(completed["items"][0]["text"], "kanban-kan-completed ", "{completed}");
    // A verb that failed has changed nothing that the model should know.
    assert_eq!(client.refused("slash.exec", exec("/sandbox rebuild nope")).await, 5019);
    let moved = client.call("slash.exec", exec("/sandbox switch other")).await;
    assert!(moved["output"].as_str().unwrap().contains("/sandbox switch default"), "{moved}");
    client.say(&session, "two").await;
    let history = client.call("session.history", json!({ "session_id": session })).await;
    let reply: Vec<String> = history["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            format!(
                "{} {:.40}",
                message["role"].as_str().unwrap(),
                message["text"].as_str().unwrap()
            )
        })
        .collect();
    // The model repeats what it was told, notes and all.
    assert_eq!(
        reply[..5],
        [
            "user one",
            "assistant one",
            "note [The user has stopped the sandbox: proce",
            "note [The user has moved this conversation to",
            "user two",
        ]
    );
    let active = client.call("session.activate", json!({ "session_id": session })).await;
    assert_eq!(active["info"]["task"], "other");
    server.end().await;
}

#[tokio::test]
async fn skills_are_shown_disabled_enabled_and_removed() {
    let server = TestServer::start(echo()).await;
    let folder = server.home.path().join("skills").join("forms");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("SKILL.md"),
        "---\nname: forms\ndescription: fills in forms\n---\nAsk for the form.\n",
    )
    .unwrap();
    let mut client = server.client().await;
    let session = client.create().await;
    let manage = |action: &str| json!({ "action": action, "name": "forms" });
    let shown = client.call("skills.manage", manage("show")).await;
    assert!(shown["content"].as_str().unwrap().contains("Ask for the form."), "{shown}");
    let disabled = client.call("skills.manage", manage("disable")).await;
    assert_eq!(disabled, json!({ "name": "forms", "changed": true }));
    let reported = client.event("session.info").await;
    assert_eq!(
        (&reported["session_id"], &reported["payload"]["skills"]),
        (&json!(session), &json!([]))
    );
    assert_eq!(client.call("skills.manage", manage("disable")).await["changed"], false);
    assert_eq!(client.call("skills.manage", manage("enable")).await["changed"], true);
    let reloaded = client.call("skills.reload", json!({})).await;
    assert_eq!(reloaded, json!({ "skills": ["forms"] }));
    assert_eq!(client.refused("skills.manage", json!({ "action": "show" })).await, 4002);
    let unknown = json!({ "action": "enable", "name": "form" });
    assert_eq!(client.refused("skills.manage", unknown).await, 4007);
    assert_eq!(client.refused("skills.manage", json!({ "action": "burn" })).await, -32602);
    let removed = client.call("skills.manage", manage("remove")).await;
    assert_eq!(removed["name"], "forms", "{removed}");
    assert!(!folder.exists());
    let skills = client.call("skills.manage", json!({})).await;
    assert_eq!(skills, json!({ "skills": [], "broken": [] }));
    server.end().await;
}

#[tokio::test]
async fn tools_are_listed_by_toolset_shown_and_configured() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let of = json!({ "session_id": session });
    let shown = client.call("tools.show", json!({ "name": "terminal" })).await;
    assert_eq!(
        (&shown["toolset"], &shown["parameters"]["type"]),
        (&json!("terminal"), &json!("object"))
    );
    assert_eq!(client.refused("tools.show", json!({ "name": "nope" })).await, 4007);
    // Looking stores nothing, and finds what the first prompt would.
    let before = client.call("toolsets.list", of.clone()).await;
    assert_eq!(client.refused("session.context_breakdown", of.clone()).await, 4018);
    assert_eq!(client.call("session.list", json!({})).await, json!({ "sessions": [] }));
    client.say(&session, "one").await;
    assert_eq!(client.call("toolsets.list", of.clone()).await, before);
    let off = json!({ "session_id": session, "names": ["terminal"], "enabled": false });
    let configured = client.call("tools.configure", off.clone()).await;
    let changed = configured["changed"].as_array().unwrap();
    assert!(changed.contains(&json!("terminal")), "{configured}");
    assert_eq!(client.call("tools.configure", off).await["changed"], json!([]));
    let toolsets = client.call("toolsets.list", of).await;
    let terminal = toolsets["toolsets"]
        .as_array()
        .unwrap()
        .iter()
        .find(|set| set["name"] == "terminal")
        .unwrap();
    assert_eq!(terminal["tools"][0]["enabled"], false, "{terminal}");
    server.end().await;
}

#[tokio::test]
async fn the_model_makes_a_schedule_with_a_persons_approval_and_clients_manage_it() {
    let create = json!({ "action": "create", "schedule": "every 2h", "prompt": "look at the logs",
        "deliver": "this_conversation", "name": "logs" });
    let list = json!({ "action": "list" });
    let remove = json!({ "action": "remove", "id": "logs" });
    let server = TestServer::start(Script::replies([
        ScriptedReply::tool_call("schedule", create),
        ScriptedReply::text("done"),
        ScriptedReply::tool_call("schedule", list),
        ScriptedReply::text("this one"),
        ScriptedReply::tool_call("schedule", remove),
        ScriptedReply::text("kept"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.create().await;
    assert_eq!(client.call("cron.manage", json!({})).await, json!({ "jobs": [] }));
    assert!(!server.home.path().join("cron").exists(), "looking made a file");
    let submit = |text: &str| json!({ "session_id": session, "text": text });
    client.call("prompt.submit", submit("make one")).await;
    let asked = client.event("approval.request").await["payload"].take();
    let command = asked["command"].as_str().unwrap();
    assert!(command.contains("every 2h") && command.contains("look at the logs"), "{asked}");
    client.call("approval.respond", json!({ "session_id": session, "choice": "once" })).await;
    assert_eq!(client.complete().await["text"], "done");
    let jobs = client.call("cron.manage", json!({})).await["jobs"].take();
    let info = client.call("session.activate", json!({ "session_id": session })).await;
    let stored = info["stored_session_id"].as_str().unwrap();
    assert_eq!(jobs[0]["deliver"], format!("conversation:{stored}"));
    assert_eq!((&jobs[0]["name"], &jobs[0]["task"]), (&json!("logs"), &json!("default")), "{jobs}");
    // To look asks nobody; to remove one does, and a no is a no.
    client.say(&session, "which").await;
    let listed = server.model.requests()[3].last_tool_results().concat();
    assert!(listed.contains("every 2h"), "{listed}");
    client.call("prompt.submit", submit("drop it")).await;
    client.event("approval.request").await;
    client.call("approval.respond", json!({ "session_id": session, "choice": "deny" })).await;
    assert_eq!(client.complete().await["text"], "kept");
    let manage = |action: &str| json!({ "action": action, "id": "logs" });
    assert_eq!(client.call("cron.manage", manage("pause")).await["jobs"][0]["state"], "paused");
    assert_eq!(client.call("cron.manage", manage("resume")).await["jobs"][0]["state"], "active");
    let edit = json!({ "action": "edit", "id": "logs", "job": { "skills": ["nope"] } });
    assert_eq!(client.refused("cron.manage", edit).await, 4007, "an unknown skill is refused");
    assert_eq!(client.call("cron.manage", manage("run")).await["runs"][0]["status"], "requested");
    assert_eq!(client.refused("cron.manage", manage("run")).await, 4009);
    client.call("cron.manage", manage("remove")).await;
    assert_eq!(client.refused("cron.manage", manage("show")).await, 4007);
    server.end().await;
}

#[tokio::test]
async fn plan_mode_and_how_much_the_model_thinks_are_switched_by_their_commands() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let session = client.create().await;
    let run = |command: &str| json!({ "session_id": session, "command": command });
    let thinks = client.call("slash.exec", run("/reasoning high")).await;
    assert_eq!(thinks["output"], "reasoning from the next request on: high\n", "{thinks}");
    assert_eq!(client.call("slash.exec", run("/reasoning")).await["output"], "high\n");
    assert_eq!(client.refused("slash.exec", run("/reasoning much")).await, 4002);
    let on = client.call("slash.exec", run("/plan")).await;
    assert!(on["output"].as_str().unwrap().starts_with("plan mode is on"), "{on}");
    let off = client.call("slash.exec", run("/plan off")).await;
    assert!(off["output"].as_str().unwrap().starts_with("plan mode is off"), "{off}");
    let said = client.call("slash.exec", run("/plan paint the door")).await;
    assert_eq!((&said["type"], &said["message"]), (&json!("prompt"), &json!("paint the door")));
    client.say(&session, "hi").await;
    let request = &server.model.requests()[0];
    assert_eq!(request.body["reasoning_effort"], "high");
    assert!(request.tool_names().contains(&"present_plan"), "{:?}", request.tool_names());
    // Only a terminal has a clipboard and a directory to write into.
    assert_eq!(client.refused("slash.exec", run("/copy")).await, 4007);
    server.end().await;
}
