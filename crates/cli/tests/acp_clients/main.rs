//! Editors' SDKs of other people against the program: the Agent Client Protocol for Python and for
//! TypeScript, whose types every message must fit. `scripts/test` installs them and names them by
//! `VESTAL_TEST_CLIENTS`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply, ScriptedToolCall};
use vestal_testkit::processes::{marker, processes_with, with_variable};
use vestal_testkit::programs::{RunningProgram, run, wait};
use vestal_testkit::wait_until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_vestal");

/// Where the clients are. A run without them is red, and says why.
#[expect(clippy::disallowed_methods, reason = "it is no setting: scripts/test tells it to tests")]
fn clients() -> PathBuf {
    let dir = std::env::var_os("VESTAL_TEST_CLIENTS");
    PathBuf::from(dir.expect("VESTAL_TEST_CLIENTS is not set; scripts/test installs the clients"))
}

/// A home of the test's own with native sandboxes, a project, and a model that works in it.
struct Editor {
    home: tempfile::TempDir,
    model: ScriptedModel,
    /// On the command line of what the model has waited for.
    mark: String,
}

impl Editor {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("project")).unwrap();
        let mark = marker();
        let model = ScriptedModel::start(script(&mark));
        Self { home, model, mark }
    }

    fn project(&self) -> PathBuf {
        self.home.path().join("project")
    }

    fn command(&self, program: &Path) -> Command {
        let home = self.home.path();
        let mut command = Command::new(program);
        command
            .current_dir(self.project())
            .env_clear()
            .env("HOME", home)
            .env("VESTAL_HOME", home.join("vestal"))
            .env("TERMINAL_ENV", "native")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("VESTAL_PROGRAM", PROGRAM)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Chooses the model of the settings.
    fn configure(&self) {
        let address = self.model.base_url();
        for (key, value) in [("model.base_url", address.as_str()), ("model.default", "m")] {
            let mut command = self.command(Path::new(PROGRAM));
            run(command.args(["config", "set", key, value])).exits(0);
        }
    }

    fn python(&self, what: &str) -> Command {
        let mut command = self.command(&clients().join("python/bin/python"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp_clients/client.py");
        command.arg(script).arg(what).arg(self.project());
        command
    }

    /// Ends the sandboxes.
    fn end(self) {
        let mut listing = self.command(Path::new(PROGRAM));
        listing.args(["ps", "--json"]);
        for sandbox in run(&mut listing).exits(0).json().as_array().unwrap() {
            let mut removing = self.command(Path::new(PROGRAM));
            removing.args(["rm", "-y", "--files", sandbox["task"].as_str().unwrap()]);
            run(&mut removing).exits(0);
        }
    }
}

fn script(mark: &str) -> Script {
    let call = |name: &str, arguments| ScriptedReply::tool_call(name, arguments);
    let todos = json!({ "todos": [{ "id": "1", "content": "burn", "status": "in_progress" }] });
    let wait = json!({ "command": format!("setsid sleep {mark} & sleep {mark}") });
    Script::rules([
        ReplyRule::after_tool_result_contains("from the box").reply(ScriptedReply::text("Boxed.")),
        ReplyRule::when_user_contains("boxes")
            .reply(call("mcp_boxes_run", json!({ "command": "echo from the box" }))),
        ReplyRule::after_tool_result_contains("approved").reply(ScriptedReply::text("Planned.")),
        ReplyRule::when_user_contains("plan")
            .reply(call("present_plan", json!({ "plan": "Light it." }))),
        ReplyRule::when_user_contains("wait").reply(call("terminal", wait)),
        ReplyRule::when_user_contains("work").reply(
            ScriptedReply::tool_call("terminal", json!({ "command": "pwd" }))
                .with_reasoning("Is it lit?"),
        ),
        ReplyRule::after_tool_results(1)
            .reply(call("write_file", json!({ "path": "notes.txt", "content": "one\n" }))),
        ReplyRule::after_tool_results(2)
            .reply(call("terminal", json!({ "command": "cat notes.txt" }))),
        ReplyRule::after_tool_results(3)
            .reply(ScriptedReply::message().with_tool_call(ScriptedToolCall::new("todo", todos))),
        ReplyRule::always().reply(ScriptedReply::text("It burns.")),
    ])
}

#[test]
fn the_python_sdk_uses_every_part_of_the_agent() {
    let editor = Editor::new();
    editor.configure();
    let outcome = run(&mut editor.python("all")).exits(0);
    assert!(outcome.text().ends_with("ok\n"), "{outcome:?}");
    assert_eq!(processes_with(&editor.mark), Vec::<u32>::new());
    editor.end();
}

#[test]
fn the_typescript_sdk_uses_every_part_of_the_agent() {
    let editor = Editor::new();
    editor.configure();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp_clients/client.mjs");
    let mut command = editor.command(Path::new("node"));
    command.env("VESTAL_NODE_MODULES", clients().join("node/node_modules"));
    let outcome = run(command.arg(script).arg(editor.project())).exits(0);
    assert!(outcome.text().ends_with("ok\n"), "{outcome:?}");
    assert_eq!(processes_with(&editor.mark), Vec::<u32>::new());
    editor.end();
}

#[test]
fn an_editor_that_is_killed_leaves_no_agent_and_no_foreground_command() {
    let editor = Editor::new();
    editor.configure();
    let mut client = RunningProgram::start(editor.python("wait"));
    wait_until("the command runs", || processes_with(&editor.mark).len() >= 2);
    client.kill();
    let home_variable = format!("VESTAL_HOME={}", editor.home.path().join("vestal").display());
    wait_until("nothing of it is left", || {
        processes_with(&editor.mark).is_empty() && with_variable(&home_variable).is_empty()
    });
    editor.end();
}

#[test]
fn nothing_but_messages_is_on_standard_output_and_the_end_of_input_is_a_good_end() {
    let editor = Editor::new();
    let mut command = editor.command(Path::new(PROGRAM));
    let mut program = RunningProgram::start({
        command.arg("acp").stdin(Stdio::piped());
        command
    });
    let mut stdin = program.child.stdin.take().unwrap();
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 },
    });
    // Without a model there is an error that says what to do.
    let new = json!({
        "jsonrpc": "2.0", "id": 2, "method": "session/new",
        "params": { "cwd": editor.project(), "mcpServers": [] },
    });
    stdin.write_all(format!("{initialize}\nhello\n{new}\n").as_bytes()).unwrap();
    let mut lines: Vec<serde_json::Value> =
        (0..3).map(|_| serde_json::from_str(&program.line()).unwrap()).collect();
    lines.sort_by_key(|line| line["id"].as_i64());
    assert_eq!(lines[0]["error"]["code"], -32700);
    assert_eq!(lines[1]["result"]["agentInfo"]["name"], "vestal");
    let advice = lines[2]["error"]["message"].as_str().unwrap();
    assert!(advice.contains("vestal model"), "{advice}");
    drop(stdin);
    assert_eq!(wait(&mut program.child).code(), Some(0));
    editor.end();
}
