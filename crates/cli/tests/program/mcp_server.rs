//! `vestal mcp serve`: the sandboxes as tools of another agent.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{ChildStdin, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use vestal_testkit::processes::{marker, processes_with};
use vestal_testkit::programs::RunningProgram;
use vestal_testkit::wait_until;

use crate::support::ProgramFixture;

struct Client {
    program: RunningProgram,
    stdin: Option<ChildStdin>,
    calls: u64,
}

impl Client {
    fn start<A: AsRef<OsStr>>(
        fixture: &ProgramFixture,
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut command = fixture.command(["mcp", "serve"]);
        command.args(args).stdin(Stdio::piped());
        let mut program = RunningProgram::start(command);
        let stdin = program.child.stdin.take();
        let mut client = Self { program, stdin, calls: 0 };
        let begun = client.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": name, "version": "1" },
            }),
        );
        assert_eq!(begun["result"]["serverInfo"]["name"], "vestal", "{begun}");
        client
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.calls += 1;
        let frame =
            json!({ "jsonrpc": "2.0", "id": self.calls, "method": method, "params": params });
        self.stdin.as_mut().unwrap().write_all(format!("{frame}\n").as_bytes()).unwrap();
        self.calls
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let line = self.program.line();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id, "{line}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        answer["result"].take()
    }

    /// Runs a command that succeeds, and returns its structured result.
    fn run(&mut self, command: &str) -> Value {
        let mut result = self.call("run", &json!({ "command": command }));
        assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
        result["structuredContent"].take()
    }

    /// Begins to run a command that waits, and returns the number on its command line.
    fn wait_in_foreground(&mut self) -> String {
        let mark = marker();
        let arguments =
            json!({ "command": format!("setsid sleep {mark} & sleep {mark}"), "session": "none" });
        self.send("tools/call", &json!({ "name": "run", "arguments": arguments }));
        wait_until("the command runs", || processes_with(&mark).len() >= 2);
        mark
    }

    fn end(mut self) {
        drop(self.stdin.take());
        assert_eq!(vestal_testkit::programs::wait(&mut self.program.child).code(), Some(0));
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_client_finds_its_files_shell_and_jobs_again_in_the_next_conversation() {
    let fixture = ProgramFixture::native();
    let mut client = Client::start(&fixture, "Claude Code", NOTHING);
    let first = client.run("mkdir -p deep; cd deep; echo kept > file; export LANTERN=lit");
    let task = first["sandbox"]["task"].as_str().unwrap().to_owned();
    assert!(task.starts_with("mcp-claude-code-"), "{task}");
    let mark = marker();
    let background = json!({ "command": format!("sleep {mark}"), "background": true });
    let job = client.call("run", &background)["structuredContent"]["job"].clone();
    client.end();
    assert!(!processes_with(&mark).is_empty(), "what runs in the background goes on");
    let mut client = Client::start(&fixture, "Claude Code", NOTHING);
    let again = client.run("cat file; echo $LANTERN");
    assert_eq!(
        (&again["stdout"], &again["sandbox"]["task"]),
        (&json!("kept\nlit\n"), &json!(task))
    );
    assert_eq!(again["sandbox"]["id"], first["sandbox"]["id"]);
    client.call("job_kill", &json!({ "job": job }));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    client.end();
}

#[test]
fn two_clients_in_one_task_share_it_and_two_of_their_own_do_not() {
    let fixture = ProgramFixture::native();
    let mut ada = Client::start(&fixture, "ada", ["--task", "shared"]);
    let mut bob = Client::start(&fixture, "bob", ["--task", "shared"]);
    ada.call("file_write", &json!({ "path": "note", "text": "for bob" }));
    assert_eq!(bob.run("cat note")["stdout"], "for bob");
    let mut eve = Client::start(&fixture, "eve", NOTHING);
    assert_eq!(eve.run("test ! -e note; echo $?")["stdout"], "0\n");
    let refused = eve.call("run", &json!({ "command": "cat note", "task": "shared" }));
    assert_eq!(refused["isError"], true, "{refused}");
    for client in [ada, bob, eve] {
        client.end();
    }
}

#[test]
fn the_end_of_input_and_a_signal_leave_no_process_of_a_foreground_command() {
    let fixture = ProgramFixture::native();
    let mut client = Client::start(&fixture, "leaver", NOTHING);
    let mark = client.wait_in_foreground();
    client.end();
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let mut client = Client::start(&fixture, "leaver", NOTHING);
    let mark = client.wait_in_foreground();
    client.program.signal(Signal::TERM);
    assert_eq!(vestal_testkit::programs::wait(&mut client.program.child).code(), Some(0));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[test]
fn without_isolation_nothing_runs_until_the_user_says_so() {
    let fixture = ProgramFixture::new();
    let witness = fixture.work().join("witness");
    let touch = json!({ "command": format!("touch '{}'", witness.display()) });
    let mut client = Client::start(&fixture, "confined", NOTHING);
    let refused = client.call("run", &touch);
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("--allow-local"), "{refused}");
    assert!(!witness.exists());
    client.end();
    let mut client = Client::start(&fixture, "allowed", ["--allow-local"]);
    let done = client.call("run", &touch);
    assert_eq!(done["structuredContent"]["exit_code"], 0, "{done}");
    assert!(witness.exists());
    client.end();
}

#[test]
fn a_mounted_directory_is_the_workspace_and_snapshots_and_forks_work() {
    let fixture = ProgramFixture::native();
    std::fs::write(fixture.work().join("project.txt"), "mine").unwrap();
    let mut client = Client::start(&fixture, "mounter", ["--mount-cwd"]);
    let seen = client.run("cat project.txt; echo changed > project.txt");
    assert_eq!(seen["stdout"], "mine");
    assert_eq!(std::fs::read_to_string(fixture.work().join("project.txt")).unwrap(), "changed\n");
    let task = seen["sandbox"]["task"].as_str().unwrap();
    assert_eq!(task, format!("mcp-mounter@{}", fixture.work().display()));
    client.end();
    let mut client = Client::start(&fixture, "copier", NOTHING);
    client.run("echo one > file");
    let kept = client.call("snapshot_create", &json!({ "name": "before" }));
    assert_eq!(kept["isError"], false, "{kept}");
    let fork = client.call("sandbox_fork", &json!({ "name": "try" }));
    let copy = fork["structuredContent"]["task"].clone();
    let there = json!({ "command": "cat file; echo two > file", "task": copy });
    assert_eq!(client.call("run", &there)["structuredContent"]["stdout"], "one\n");
    assert_eq!(client.run("cat file; rm file")["stdout"], "one\n");
    let back = client.call("snapshot_restore", &json!({ "snapshot": "before", "stop": true }));
    assert_eq!(back["isError"], false, "{back}");
    assert_eq!(client.run("cat file")["stdout"], "one\n");
    client.end();
}
