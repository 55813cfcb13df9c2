//! Runs every example as a user would, in a home of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use vestal_config::{Environment, Home, Settings};
use vestal_sandbox::{Engine, Error, FilesOnRemoval};
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::{TestHome, clean_up, processes_with, programs, wait_until};

/// A home for one test. Its sandbox is removed with it.
struct ExampleHome(TestHome);

impl ExampleHome {
    fn new() -> Self {
        Self(TestHome::create())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns a program in this home, with nothing else of the caller's environment.
    fn command(&self, program: &str) -> Command {
        let mut command = self.0.command(program);
        command.current_dir(self.path()).env("TERMINAL_BACKEND", "local");
        command
    }
}

impl Drop for ExampleHome {
    fn drop(&mut self) {
        let home = Home::at(self.0.vestal());
        clean_up(move || async move {
            let schema = vestal_sandbox::schema();
            let settings = Settings::load(&schema, home, Environment::default(), Vec::new());
            let engine = Engine::open(settings).unwrap();
            let task = "example".parse().unwrap();
            match Box::pin(engine.remove(&task, FilesOnRemoval::Remove)).await {
                Ok(_) | Err(Error::NoSandbox { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        });
        if !std::thread::panicking() {
            let home = self.path().to_str().unwrap();
            wait_until("no process is left", || processes_with(home).is_empty());
        }
    }
}

/// Runs a program that must succeed and returns what it prints.
fn run(command: &mut Command) -> String {
    programs::run(command).exits(0).text()
}

#[test]
fn a_command_continues_in_the_shell_of_the_process_before() {
    let home = ExampleHome::new();
    let program = env!("CARGO_BIN_EXE_run_command");
    assert_eq!(run(&mut home.command(program)), "run 1\n");
    assert_eq!(run(&mut home.command(program)), "run 2\n");
}

#[test]
fn a_follower_that_was_killed_goes_on_where_it_was() {
    let home = ExampleHome::new();
    let file = home.path().join("lines");
    let lines = || std::fs::read_to_string(&file).unwrap_or_default();
    let mut follow = home.command(env!("CARGO_BIN_EXE_follow_job"));
    follow.arg(&file);

    let mut first = follow.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the first lines are there", || lines().lines().count() >= 3);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(lines().lines().count() < 40, "it was killed half-way");

    assert_eq!(run(&mut follow), "it ended: Exited, code Some(0)\n");
    let all: Vec<String> = (1..=40).map(|n| format!("line {n}")).collect();
    assert_eq!(lines().lines().collect::<Vec<_>>(), all);
    // The job is on record, so a third process finds its end and prints nothing twice.
    assert_eq!(run(&mut follow), "it ended: Exited, code Some(0)\n");
    assert_eq!(lines().lines().collect::<Vec<_>>(), all);
}

#[test]
fn the_model_uses_the_custom_tool() {
    let home = ExampleHome::new();
    let model = ScriptedModel::start(Script::replies([
        ScriptedReply::tool_call("price", json!({"article": "lamp"})),
        ScriptedReply::text("A lamp is 42 dollars."),
    ]));
    let mut ask = home.command(env!("CARGO_BIN_EXE_custom_tool"));
    ask.env("VESTAL_BASE_URL", model.base_url()).env("VESTAL_MODEL", "scripted");
    assert_eq!(run(&mut ask), "A lamp is 42 dollars. (completed)\n");
    let requests = model.requests();
    let tool_result = requests.last().unwrap().body.to_string();
    assert!(tool_result.contains("4200"), "{tool_result}");
}

#[test]
fn a_task_waits_for_its_parent() {
    let home = ExampleHome::new();
    let printed = run(&mut home.command(env!("CARGO_BIN_EXE_put_work_on_board")));
    let tasks: Vec<&str> =
        printed.lines().filter_map(|line| line.split_once(' ').map(|(_, rest)| rest)).collect();
    assert_eq!(tasks, ["ready: build the release", "todo: publish the release"]);
}
