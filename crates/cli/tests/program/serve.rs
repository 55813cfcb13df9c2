//! `vestal serve`: frames on standard output, and its end.

use std::io::Write as _;
use std::process::{ChildStdin, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::processes::{marker, processes_with};
use vestal_testkit::programs::RunningProgram;
use vestal_testkit::wait_until;

use crate::support::ProgramFixture;

struct Serve {
    program: RunningProgram,
    stdin: Option<ChildStdin>,
}

impl Serve {
    fn start(fixture: &ProgramFixture, model: &ScriptedModel) -> Self {
        let base = format!("model.base_url={}", model.base_url());
        let mut command =
            fixture.command(["serve", "--stdio", "--set", &base, "--set", "model.default=m"]);
        command.stdin(Stdio::piped());
        let mut program = RunningProgram::start(command);
        let stdin = program.child.stdin.take();
        let mut serve = Self { program, stdin };
        assert_eq!(serve.frame()["params"]["type"], "gateway.ready");
        serve
    }

    fn frame(&mut self) -> Value {
        let line = self.program.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let frame = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        self.send(format!("{frame}\n").as_bytes());
        loop {
            let mut frame = self.frame();
            if frame["id"] == method {
                assert!(frame["error"].is_null(), "{frame}");
                return frame["result"].take();
            }
        }
    }

    fn event(&mut self, kind: &str) -> Value {
        loop {
            let mut frame = self.frame();
            if frame["params"]["type"] == kind {
                return frame["params"]["payload"].take();
            }
        }
    }

    /// Begins a turn with a command, and returns the number on that command's line.
    fn at_work(fixture: &ProgramFixture) -> (Self, ScriptedModel, String) {
        let mark = marker();
        let call =
            ScriptedReply::tool_call("terminal", json!({ "command": format!("sleep {mark}") }));
        let model = ScriptedModel::start(Script::replies([call]));
        let mut serve = Self::start(fixture, &model);
        let session = serve.call("session.create", &json!({}))["session_id"].clone();
        serve.call("prompt.submit", &json!({ "session_id": session, "text": "wait" }));
        serve.event("tool.start");
        wait_until("the command runs", || !processes_with(&mark).is_empty());
        (serve, model, mark)
    }
}

#[test]
fn a_conversation_is_held_over_stdio_and_garbage_does_not_end_it() {
    let fixture = ProgramFixture::new();
    let model = ScriptedModel::start(Script::replies([ScriptedReply::text("hello")]));
    let mut serve = Serve::start(&fixture, &model);
    serve.send(b"{ half a frame\n\xff\xfe\n");
    assert_eq!(serve.frame()["error"]["code"], -32700);
    assert_eq!(serve.frame()["error"]["code"], -32700);
    let long = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        serve.send(&long);
    }
    serve.send(b"\n");
    assert_eq!(serve.frame()["error"]["code"], -32600);
    let session = serve.call("session.create", &json!({}))["session_id"].clone();
    let params = json!({ "session_id": session, "text": "hi" });
    serve.call("prompt.submit", &params);
    assert_eq!(serve.event("message.complete")["text"], "hello");
    // A verb of the command line, in the same home.
    let params = json!({ "session_id": session, "command": "/sessions" });
    let listed = serve.call("slash.exec", &params);
    assert!(listed["output"].as_str().unwrap().contains("hi"), "{listed}");
    let completed = serve.call("complete.slash", &json!({ "text": "/kanban cre" }));
    assert_eq!(completed["items"][0]["text"], "create ", "{completed}");
    drop(serve.stdin.take());
    assert_eq!(vestal_testkit::programs::wait(&mut serve.program.child).code(), Some(0));
    let ended = fixture.vestal(["conversations", "list", "--json"]).exits(0).json();
    assert_eq!(ended[0]["end_reason"], "left", "{ended}");
}

#[test]
fn the_end_of_input_ends_a_running_command_and_everything_else() {
    let fixture = ProgramFixture::new();
    let (mut serve, _model, mark) = Serve::at_work(&fixture);
    drop(serve.stdin.take());
    assert_eq!(vestal_testkit::programs::wait(&mut serve.program.child).code(), Some(0));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let kept = fixture.vestal(["conversations", "list", "--json"]).exits(0).json();
    assert_eq!(kept[0]["end_reason"], "left", "{kept}");
}

#[test]
fn sigterm_ends_it_like_the_end_of_input() {
    let fixture = ProgramFixture::new();
    let (mut serve, _model, mark) = Serve::at_work(&fixture);
    serve.program.signal(Signal::TERM);
    assert_eq!(vestal_testkit::programs::wait(&mut serve.program.child).code(), Some(0));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}
