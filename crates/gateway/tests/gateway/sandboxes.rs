//! Sandboxes over HTTP: the verbs of the command line, without it.

use serde_json::{Value, json};
use vestal_gateway::ShutdownCause;
use vestal_scripted_model::Script;

use crate::support::{TestGateway, answer, found};

async fn run(gateway: &TestGateway, body: Value) -> Value {
    let ran = gateway.say("/api/sandboxes/lab/run", body.clone()).await;
    assert_eq!(ran.status, 200, "{body}: {}", ran.body);
    ran.body
}

async fn remove(gateway: TestGateway) {
    let removed = gateway.delete("/api/sandboxes/lab?files=true").await;
    assert_eq!((removed.status, &removed.body["files_removed"]), (200, &json!(true)));
    assert_eq!(gateway.get("/api/sandboxes/lab").await.status, 404);
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_command_is_run_and_its_session_is_kept() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let first =
        run(&gateway, json!({ "command": "word=lantern; cat; exit 3", "stdin": "in" })).await;
    assert_eq!((&first["exit_code"], &first["stdout"]), (&json!(3), &json!("in")), "{first}");
    assert_eq!(first["sandbox"]["state_before"], "absent");
    let second =
        run(&gateway, json!({ "command": "echo $word $extra", "env": { "extra": "too" } }));
    let second = second.await;
    assert_eq!(second["stdout"], "lantern too\n");
    assert_eq!(
        (&second["sandbox"]["state_before"], &second["sandbox"]["attached"]),
        (&json!("running"), &json!(true))
    );
    let plain = run(&gateway, json!({ "argv": ["echo", "$word"], "session": "none" })).await;
    assert_eq!(plain["stdout"], "$word\n");
    let late = run(&gateway, json!({ "command": "sleep 1000", "timeout_seconds": 1 })).await;
    assert_eq!(late["exit_code"], 124, "{late}");
    for (wrong, status) in [
        (json!({}), 400),
        (json!({ "command": "true", "argv": ["true"] }), 400),
        (json!({ "command": "true", "timeout_seconds": 0 }), 400),
        (json!({ "command": "true", "workdir": "/no/such/dir" }), 400),
        (json!({ "command": "true", "time_out": 1 }), 422),
    ] {
        let refused = gateway.say("/api/sandboxes/lab/run", wrong.clone()).await;
        assert_eq!(refused.status, status, "{wrong}: {}", refused.body);
    }
    let shown = gateway.get("/api/sandboxes/lab").await.body;
    assert_eq!((&shown["state"], &shown["task"]), (&json!("running"), &json!("lab")), "{shown}");
    assert!(shown["jobs"].as_array().unwrap().len() >= 4, "{shown}");
    assert_eq!(gateway.get("/api/sandboxes").await.body["data"][0]["task"], "lab");
    let stopped = gateway.say("/api/sandboxes/lab/stop", json!({})).await;
    assert_eq!(stopped.body["was_running"], true, "{}", stopped.body);
    let again = run(&gateway, json!({ "command": "true" })).await;
    assert_eq!(again["sandbox"]["state_before"], "stopped");
    remove(gateway).await;
}

#[tokio::test]
async fn a_request_cannot_choose_a_backend_that_the_operator_does_not_allow() {
    let gateway = TestGateway::start(Script::replies([])).await;
    for backend in ["docker", "auto", "no-such", ""] {
        let wanted = json!({ "command": "true", "backend": backend });
        let refused = gateway.say("/api/sandboxes/lab/run", wanted).await;
        assert_eq!(refused.status, 403, "{backend}: {}", refused.body);
        assert_eq!(refused.body["error"]["code"], "backend_not_permitted", "{}", refused.body);
    }
    assert_eq!(gateway.get("/api/sandboxes/lab").await.status, 404, "nothing was made");
    run(&gateway, json!({ "command": "true", "backend": "local" })).await;
    remove(gateway).await;
}

#[tokio::test]
async fn a_job_is_followed_written_to_waited_for_and_killed() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let script = "echo begin; while read line; do echo got $line; done; exit 5";
    let begun = run(&gateway, json!({ "command": script, "background": true })).await;
    let job = begun["job"].as_str().unwrap();
    let path = |verb: &str| format!("/api/sandboxes/lab/jobs/{job}{verb}");
    let mut follower = gateway.follow(&path("/logs?follow=true"), None).await;
    let first = follower.until("output").await;
    assert_eq!((&first.data["stream"], &first.data["text"]), (&json!("stdout"), &json!("begin\n")));
    drop(follower);
    let written = gateway.say(&path("/stdin"), json!({ "text": "one\n" })).await;
    assert_eq!(written.body["written"], 4, "{}", written.body);
    let running = gateway.get("/api/sandboxes/lab/jobs").await.body;
    assert_eq!(running["data"][0]["id"], json!(job), "{running}");
    let closed = gateway.say(&path("/stdin"), json!({ "text": "two\n", "close": true })).await;
    assert_eq!(closed.status, 200, "{}", closed.body);
    let ended = gateway.say(&path("/wait"), json!({ "timeout_seconds": 60 })).await.body;
    assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("ended"), &json!(5)), "{ended}");
    // A client that lost the connection continues at the byte where it was.
    let rest = gateway.follow(&path("/logs?follow=true"), first.id.as_deref()).await.rest().await;
    let text: String = rest.iter().filter_map(|event| event.data["text"].as_str()).collect();
    assert_eq!(text, "got one\ngot two\n");
    assert_eq!(rest.last().unwrap().name.as_deref(), Some("ended"));
    let piece = gateway.get(&path("/logs?stdout_from=6&limit=8")).await.body;
    assert_eq!(
        (&piece["stdout"]["text"], &piece["stdout"]["next"]),
        (&json!("got one\n"), &json!(14))
    );
    let begun = run(&gateway, json!({ "command": "sleep 1000", "background": true })).await;
    let other = begun["job"].as_str().unwrap();
    let killed = gateway.say(&format!("/api/sandboxes/lab/jobs/{other}/kill"), json!({})).await;
    assert_eq!((&killed.body["cause"], &killed.body["processes"]), (&json!("killed"), &json!(0)));
    for (path, status) in [
        ("/api/sandboxes/lab/jobs/j-nobody", 404),
        ("/api/sandboxes/lab/jobs/..%2f..", 400),
        ("/api/sandboxes/nobody/jobs", 404),
        ("/api/sandboxes/nobody", 404),
    ] {
        assert_eq!(gateway.get(path).await.status, status, "{path}");
    }
    remove(gateway).await;
}

#[tokio::test]
async fn files_go_in_and_out_byte_for_byte() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("deep/data.bin");
    let at = |verb: &str, more: &str| {
        format!("/api/sandboxes/lab/files{verb}?path={}{more}", file.display())
    };
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    assert_eq!(gateway.get(&at("", "")).await.status, 404, "reading makes no sandbox");
    let put = |more: &str| gateway.request("PUT", &at("", more)).body(bytes.clone());
    assert_eq!(answer(put("")).await.status, 404, "there is no such directory");
    let written = answer(put("&parents=true&mode=640")).await;
    assert_eq!((written.status, &written.body["created"]), (200, &json!(true)), "{}", written.body);
    assert_eq!((&written.body["size"], &written.body["mode"]), (&json!(200_000), &json!(0o640)));
    let read = gateway.request("GET", &at("", "&offset=1000&limit=500")).send().await.unwrap();
    assert_eq!(read.headers()["x-vestal-file-size"], "200000");
    assert_eq!(read.headers()["x-vestal-file-eof"], "false");
    assert_eq!(read.bytes().await.unwrap(), bytes[1000..1500]);
    assert_eq!(gateway.get(&at("/stat", "")).await.body["kind"], "file");
    let listed = format!("/api/sandboxes/lab/files/list?path={}", place.path().display());
    assert_eq!(gateway.get(&listed).await.body["entries"][0]["name"], "deep");
    std::fs::write(place.path().join("deep/note.txt"), "one\na lantern\n").unwrap();
    let query = json!({ "path": place.path(), "regex": "lant", "glob": "*.txt" });
    let found = gateway.say("/api/sandboxes/lab/files/search", query).await.body;
    assert_eq!(
        found["matches"],
        json!([{ "path": "deep/note.txt", "line": 2, "text": "a lantern", "context": false }])
    );
    let gone = gateway.delete(&at("", "")).await;
    assert_eq!((gone.status, &gone.body["file"]["size"]), (200, &json!(200_000)), "{}", gone.body);
    assert!(!file.exists());
    assert_eq!(gateway.get("/api/sandboxes/lab/files?path=").await.status, 400);
    // Files of the host's own backend are the host's: there is nothing to copy.
    let refused = gateway.say("/api/sandboxes/lab/snapshots", json!({ "name": "a" })).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (409, &json!("copy_refused")));
    let bad = gateway.say("/api/sandboxes/lab/snapshots", json!({ "name": "../a" })).await;
    assert_eq!(bad.status, 400);
    remove(gateway).await;
}

#[tokio::test]
async fn a_drain_waits_for_a_command_and_interrupts_it_when_its_time_is_up() {
    let place = tempfile::tempdir().unwrap();
    let (begun, gate) = (place.path().join("begun"), place.path().join("gate"));
    let command = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; until test -e {1}; do sleep 0.02; done; echo over",
        begun.display(),
        gate.display()
    );
    for is_interrupted in [false, true] {
        let drain = ["agent.restart_drain_timeout=600"];
        let gateway = TestGateway::start_with(Script::replies([]), &drain).await;
        let body = json!({ "command": command, "timeout_seconds": 600 });
        let running = tokio::spawn(answer(gateway.post("/api/sandboxes/lab/run", &body)));
        let shell: u32 = found("the command runs", async || {
            std::fs::read_to_string(&begun).ok()?.trim().parse().ok()
        })
        .await;
        gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
        if is_interrupted {
            gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
            let answered = running.await.unwrap();
            assert_eq!(
                (answered.status, &answered.body["error"]["code"]),
                (503, &json!("interrupted"))
            );
        } else {
            std::fs::write(&gate, "").unwrap();
            let answered = running.await.unwrap();
            assert_eq!((answered.status, &answered.body["stdout"]), (200, &json!("over\n")));
            std::fs::remove_file(&gate).unwrap();
            std::fs::remove_file(&begun).unwrap();
        }
        let (home, end) = gateway.ended().await;
        assert_eq!(end.stuck, 0);
        found("the command is gone", async || {
            let is_gone = !std::path::Path::new(&format!("/proc/{shell}")).exists();
            is_gone.then_some(())
        })
        .await;
        let reason = vestal_gateway::read_state(home.path()).unwrap().unwrap().exit_reason;
        let expected = if is_interrupted { "; 1 request was interrupted" } else { "" };
        assert_eq!(reason, Some(format!("stopped by an operator{expected}")));
        let gateway = TestGateway::restart(
            home,
            vestal_scripted_model::ScriptedModel::start(Script::replies([])),
        )
        .await;
        remove(gateway).await;
    }
}

#[tokio::test]
async fn a_sandbox_is_kept_brought_back_and_copied() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let native = |command: &str| json!({ "command": command, "backend": "native" });
    run(&gateway, native("echo kept > ~/note")).await;
    let lab = "/api/sandboxes/lab";
    let body = json!({ "name": "good", "note": "before the change", "stop": true });
    let snapshot = gateway.say(&format!("{lab}/snapshots"), body.clone()).await;
    assert_eq!(
        (snapshot.status, &snapshot.body["name"], &snapshot.body["note"]),
        (200, &json!("good"), &json!("before the change")),
        "{}",
        snapshot.body
    );
    let taken = gateway.say(&format!("{lab}/snapshots"), body).await;
    assert_eq!((taken.status, &taken.body["error"]["code"]), (409, &json!("snapshot_exists")));
    run(&gateway, native("echo changed > ~/note")).await;

    let copy = json!({ "task": "copy", "snapshot": "good", "stop": true });
    let forked = gateway.say(&format!("{lab}/fork"), copy.clone()).await;
    assert_eq!((forked.status, &forked.body["task"]), (200, &json!("copy")), "{}", forked.body);
    let again = gateway.say(&format!("{lab}/fork"), copy).await;
    assert_eq!((again.status, &again.body["error"]["code"]), (409, &json!("sandbox_exists")));
    let read = gateway.say("/api/sandboxes/copy/run", json!({ "command": "cat ~/note" })).await;
    assert_eq!(read.body["stdout"], "kept\n", "{}", read.body);

    assert_eq!(run(&gateway, json!({ "command": "cat ~/note" })).await["stdout"], "changed\n");
    let back = json!({ "snapshot": "good", "stop": true });
    let restored = gateway.say(&format!("{lab}/restore"), back).await;
    assert_eq!(restored.status, 200, "{}", restored.body);
    assert_eq!(run(&gateway, json!({ "command": "cat ~/note" })).await["stdout"], "kept\n");
    let missing = json!({ "snapshot": "never", "stop": true });
    let missing = gateway.say(&format!("{lab}/restore"), missing).await;
    assert_eq!(
        (missing.status, &missing.body["error"]["code"]),
        (404, &json!("snapshot_not_found"))
    );

    let listed = gateway.get(&format!("{lab}/snapshots")).await.body;
    assert_eq!(listed["data"][0]["name"], "good", "{listed}");
    assert_eq!(gateway.delete(&format!("{lab}/snapshots/good")).await.status, 200);
    assert_eq!(gateway.get(&format!("{lab}/snapshots")).await.body["data"], json!([]));
    let removed = gateway.delete("/api/sandboxes/copy?files=true").await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    remove(gateway).await;
}
