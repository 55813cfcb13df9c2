//! `vestal serve --sandboxes` without a transport: sandboxes on this machine, real commands.

use std::collections::HashMap;

use serde_json::{Value, json};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{Engine, FilesOnRemoval};
use vestal_serve::{BadFrame, ClientFrames, IsolationRule, SandboxConnection, SandboxService};
use vestal_testkit::processes::{marker, processes_with};
use vestal_testkit::until;

struct SandboxClient {
    home: tempfile::TempDir,
    engine: Engine,
    server: SandboxService,
    connection: SandboxConnection,
    frames: ClientFrames,
    /// Events that came while an answer was awaited.
    events: Vec<Value>,
    /// Answers that came before they were awaited: they come in any order.
    answers: HashMap<String, Value>,
}

impl SandboxClient {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(settings(home.path())).unwrap();
        let boards = vestal_board::settings::boards(engine.settings()).unwrap();
        let server = SandboxService::new(engine.clone(), IsolationRule::AsSet, boards, None);
        let (connection, frames) = server.connect();
        let (events, answers) = (Vec::new(), HashMap::new());
        let mut client = Self { home, engine, server, connection, frames, events, answers };
        assert_eq!(client.frame().await["params"]["type"], "sandboxes.ready");
        client.call("sandbox.open", json!({ "task": "t" })).await;
        client
    }

    async fn frame(&mut self) -> Value {
        serde_json::from_str(&self.frames.next().await.unwrap()).unwrap()
    }

    async fn send(&self, id: &str, method: &str, params: Value) {
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.connection.receive(&frame.to_string()).await;
    }

    async fn answer(&mut self, id: &str) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(id) {
                return answer;
            }
            let frame = self.frame().await;
            match frame["id"].as_str() {
                Some(answered) => drop(self.answers.insert(answered.to_owned(), frame)),
                None => self.events.push(frame),
            }
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(method, method, params).await;
        let mut answer = self.answer(method).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    async fn failure(&mut self, method: &str, params: Value) -> Value {
        self.send(method, method, params).await;
        let mut answer = self.answer(method).await;
        assert!(answer["result"].is_null(), "{method}: {answer}");
        answer["error"].take()
    }

    async fn end(self) {
        self.server.shutdown().await;
        for summary in self.engine.list().await.unwrap() {
            let task = summary.task.parse().unwrap();
            self.engine.remove(&task, FilesOnRemoval::Remove).await.unwrap();
        }
        self.engine.close(vestal_testkit::TEST_TIMEOUT).await;
        drop(self.home);
    }
}

fn settings(home: &std::path::Path) -> Settings {
    let schema = vestal_api::schema();
    let set = vec![Override::parse(&schema, "terminal.backend=local").unwrap()];
    let environment = Environment::from_pairs([
        ("HOME", home.as_os_str().to_owned()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
    ]);
    Settings::load(&schema, Home::at(home.join("vestal")), environment, set)
}

/// A command that waits and is found among the processes by this number.
fn sleep() -> (String, String) {
    let mark = marker();
    (format!("sleep {mark}"), mark)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_keep_their_session_and_failures_have_a_kind_and_advice() {
    let mut client = SandboxClient::start().await;
    client.call("run", json!({ "task": "t", "command": "cd /tmp; LANTERN=lit" })).await;
    let env = json!({ "WICK": "long" });
    let command = "pwd; echo $LANTERN $WICK; cat; exit 3";
    let params = json!({ "task": "t", "command": command, "env": env, "stdin": "in\n" });
    let done = client.call("run", params).await;
    let seen = (&done["exit_code"], &done["stdout"], &done["cause"]);
    assert_eq!(seen, (&json!(3), &json!("/tmp\nlit long\nin\n"), &json!("exited")));
    let bytes = json!({ "task": "t", "argv": ["printf", "\\377"], "max_output": 10 });
    assert_eq!(client.call("run", bytes).await["stdout_base64"], "/w==");
    let late = json!({ "task": "t", "command": "sleep 60", "timeout": 0.2 });
    let late = client.call("run", late).await;
    assert_eq!((&late["exit_code"], &late["cause"]), (&json!(124), &json!("timed_out")));
    for (method, params, kind) in [
        ("run", json!({ "task": "t" }), "invalid"),
        ("run", json!({ "task": "t", "command": "true", "timeuot": 1 }), "invalid"),
        ("run", json!({ "task": "t", "command": "true", "timeout": -1 }), "invalid"),
        ("run", json!({ "task": "t", "command": "true", "job": "../j" }), "invalid"),
        ("run", json!({ "task": "t", "command": "true", "window": 1 }), "invalid"),
        ("run", json!({ "task": "mistyped", "command": "true" }), "no_sandbox"),
        ("run", json!({ "task": "t", "command": "true", "workdir": "/no/such" }), "no_workdir"),
        ("job.wait", json!({ "task": "t", "job": "j-0" }), "no_job"),
        ("file.read", json!({ "task": "t", "path": "/no/such" }), "no_file"),
        ("snapshot.restore", json!({ "task": "t", "snapshot": "x" }), "no_snapshot"),
        ("board.show", json!({ "id": "t_nothing" }), "no_task"),
        ("sandbox.open", json!({ "task": "u", "backend": "paper" }), "invalid"),
    ] {
        let error = client.failure(method, params).await;
        assert_eq!(error["data"]["kind"], kind, "{method}: {error}");
        assert!(error["data"]["advice"].is_array(), "{error}");
    }
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_run_once_by_the_same_id_however_often_it_is_asked_for() {
    let mut client = SandboxClient::start().await;
    let file = client.home.path().join("visits");
    let command = format!("cat >> {0}; echo once >> {0}", file.display());
    for method in ["run", "job.start"] {
        let job = format!("j-{}", method.replace('.', "-"));
        for _ in 0..2 {
            let params = json!({ "task": "t", "command": command, "job": job, "stdin": "in " });
            client.call(method, params).await;
            let ended = client.call("job.wait", json!({ "task": "t", "job": job })).await;
            assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("ended"), &json!(0)));
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "in once\nin once\n");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_streams_before_the_answer_and_no_further_than_it_was_granted() {
    let mut client = SandboxClient::start().await;
    let command = "printf 0123456789; cat; printf '\\377' >&2";
    let params = json!({ "task": "t", "command": command, "stream": true, "window": 4, "stdin_open": true, "job": "j-s" });
    client.send("r", "run", params).await;
    assert_eq!(client.frame().await["params"]["type"], "job.started");
    let first = client.frame().await["params"]["payload"].take();
    let expected = json!({ "request": "r", "stream": "stdout", "from": 0, "text": "0123" });
    assert_eq!(first, expected);
    // Nothing more comes, whatever else is asked for meanwhile.
    client.call("sandbox.list", json!({})).await;
    assert!(client.events.is_empty(), "{:?}", client.events);
    client.call("request.grant", json!({ "id": "r", "bytes": 100 })).await;
    let params = json!({ "task": "t", "job": "j-s", "text": "typed", "close": true });
    client.call("job.write", params).await;
    let done = client.answer("r").await;
    assert_eq!((&done["result"]["exit_code"], &done["result"]["stdout"]), (&json!(0), &json!("")));
    let (mut stdout, mut stderr) = (String::new(), Value::Null);
    for event in &client.events {
        let payload = &event["params"]["payload"];
        match payload["stream"].as_str().unwrap() {
            "stdout" => {
                assert_eq!(payload["from"], 4 + stdout.len());
                stdout.push_str(payload["text"].as_str().unwrap());
            }
            _ => stderr = payload["base64"].clone(),
        }
    }
    assert_eq!((stdout.as_str(), stderr), ("456789typed", json!("/w==")));
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_command_is_answered_when_none_of_its_processes_is_left() {
    let mut client = SandboxClient::start().await;
    let (command, mark) = sleep();
    let ((other, left), escaping) = (sleep(), format!("setsid {command} & {command}"));
    for stream in [false, true] {
        let params = json!({ "task": "t", "command": escaping, "stream": stream, "job": format!("j-{stream}") });
        client.send("long", "run", params).await;
        client.send("other", "run", json!({ "task": "t", "command": other, "session": "o" })).await;
        until("the commands run", || {
            processes_with(&mark).len() >= 2 && !processes_with(&left).is_empty()
        })
        .await;
        let cancelled = client.call("request.cancel", json!({ "id": "long" })).await;
        assert_eq!(cancelled["cancelled"], true);
        let answer = client.answer("long").await;
        let error = &answer["error"];
        assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32800), &json!("cancelled")));
        assert_eq!(error["data"]["job"], format!("j-{stream}"));
        assert!(processes_with(&mark).is_empty());
        assert!(!processes_with(&left).is_empty(), "the other command goes on");
        client.call("request.cancel", json!({ "id": "other" })).await;
        client.answer("other").await;
    }
    let nothing = client.call("request.cancel", json!({ "id": "long" })).await;
    assert_eq!(nothing["cancelled"], false);
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_is_still_heard_and_its_commands_are_held_up() {
    let mut client = SandboxClient::start().await;
    let mark = marker();
    // `yes` is found by the number, and ends with the request only.
    for at in 0..3 {
        let params = json!({ "task": "t", "command": format!("yes {mark}"), "stream": true, "session": "none" });
        client.send(&format!("y{at}"), "run", params).await;
    }
    until("the commands run", || processes_with(&mark).len() >= 3).await;
    for at in 0..3 {
        client.send("cancel", "request.cancel", json!({ "id": format!("y{at}") })).await;
    }
    until("the commands are killed", || processes_with(&mark).is_empty()).await;
    let mut waiting = 0;
    for at in 0..3 {
        client.answer(&format!("y{at}")).await;
        waiting += client.events.drain(..).map(|event| event.to_string().len()).sum::<usize>();
    }
    assert!(waiting < 4 << 20, "{waiting} bytes waited for the client");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_client_is_gone_its_commands_end_and_jobs_and_sandbox_go_on() {
    let mut client = SandboxClient::start().await;
    let ((waited, ended), (background, left)) = (sleep(), sleep());
    let params = json!({ "task": "t", "command": background, "job": "j-b" });
    client.call("job.start", params).await;
    client.send("w", "run", json!({ "task": "t", "command": waited })).await;
    client.send("f", "job.wait", json!({ "task": "t", "job": "j-b" })).await;
    until("the commands run", || {
        !processes_with(&ended).is_empty() && !processes_with(&left).is_empty()
    })
    .await;
    // What takes no time is answered all the same.
    client.send("l", "job.list", json!({ "task": "t" })).await;
    client.server.shutdown().await;
    assert!(processes_with(&ended).is_empty());
    assert!(!processes_with(&left).is_empty());
    assert_eq!(client.answer("l").await["result"]["jobs"].as_array().unwrap().len(), 2);
    let (server, frames) = {
        let boards = vestal_board::settings::boards(client.engine.settings()).unwrap();
        let server = SandboxService::new(client.engine.clone(), IsolationRule::AsSet, boards, None);
        let (connection, frames) = server.connect();
        client.connection = connection;
        (server, frames)
    };
    (client.server, client.frames) = (server, frames);
    let killed = client.call("job.kill", json!({ "task": "t", "job": "j-b" })).await;
    assert_eq!((&killed["state"], &killed["cause"]), (&json!("ended"), &json!("killed")));
    assert!(processes_with(&left).is_empty());
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_answered_and_the_rest_goes_on() {
    let mut client = SandboxClient::start().await;
    for (frame, code) in [
        ("{", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"run","params":[]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"jobs.list"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"run"}"#, -32602),
    ] {
        client.connection.receive(frame).await;
        assert_eq!(client.frame().await["error"]["code"], code, "{frame}");
    }
    client.connection.refuse(BadFrame::TooLong).await;
    assert_eq!(client.frame().await["error"]["code"], -32600);
    let (command, mark) = sleep();
    for _ in 0..2 {
        client.send("twice", "run", json!({ "task": "t", "command": command })).await;
    }
    assert_eq!(client.answer("twice").await["error"]["code"], -32600, "the id is in use");
    for at in 0..300 {
        client.send(&format!("w{at}"), "run", json!({ "task": "t", "command": "read x" })).await;
    }
    let refused = client.answer("w299").await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    client.call("request.cancel", json!({ "id": "twice" })).await;
    client.answer("twice").await;
    assert!(processes_with(&mark).is_empty());
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_tasks_of_the_board_are_used_by_the_same_requests() {
    let mut client = SandboxClient::start().await;
    let path = client.home.path().join("a/notes.bin");
    let path = path.to_str().unwrap();
    let written = json!({ "task": "t", "path": path, "base64": "/wAKYQ==", "mode": 0o600 });
    let written = client.call("file.write", written).await;
    assert_eq!((&written["created"], &written["mode"]), (&json!(true), &json!(0o600)));
    let part = json!({ "task": "t", "path": path, "offset": 3, "limit": 10 });
    let part = client.call("file.read", part).await;
    assert_eq!(
        (&part["text"], &part["more"], &part["next"]),
        (&json!("a"), &json!(false), &json!(4))
    );
    let edits = json!([{ "old": "a", "new": "lantern" }]);
    let patched = json!({ "task": "t", "path": path, "edits": edits });
    assert_eq!(client.call("file.patch", patched).await["replaced"], 1);
    let edits = json!([{ "old": "wick", "new": "" }]);
    let missing = json!({ "task": "t", "path": path, "edits": edits });
    assert_eq!(client.failure("file.patch", missing).await["data"]["kind"], "conflict");
    let new = json!({ "task": "t", "path": path, "text": "", "new": true });
    assert_eq!(client.failure("file.write", new).await["data"]["kind"], "exists");
    let gone = json!({ "task": "t", "path": client.home.path().join("a"), "recursive": true });
    client.call("file.delete", gone).await;
    let created = client.call("board.create", json!({ "title": "light it" })).await;
    let id = created["id"].clone();
    client.call("board.comment", json!({ "id": id, "text": "soon", "author": "ada" })).await;
    let shown = client.call("board.show", json!({ "id": id })).await;
    let comment = &shown["comments"][0];
    assert_eq!((&comment["author"], &comment["body"]), (&json!("ada"), &json!("soon")));
    let done = client.call("board.complete", json!({ "id": id, "summary": "lit" })).await;
    assert_eq!(done["status"], "done");
    client.end().await;
}
