//! MCP clients of other people against the program: the SDK for Python and the Inspector.
//! `scripts/test` installs them and names them by `VESTAL_TEST_CLIENTS`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use vestal_testkit::processes::{marker, processes_with, with_variable};
use vestal_testkit::programs::{ProgramOutcome, RunningProgram, run};
use vestal_testkit::wait_until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_vestal");

/// Where the clients are. A run without them is red, and says why.
#[expect(clippy::disallowed_methods, reason = "it is no setting: scripts/test tells it to tests")]
fn clients() -> PathBuf {
    let dir = std::env::var_os("VESTAL_TEST_CLIENTS");
    PathBuf::from(dir.expect("VESTAL_TEST_CLIENTS is not set; scripts/test installs the clients"))
}

/// Returns a program in a home of the test's own, with native sandboxes.
fn command(home: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(home)
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

fn python(home: &Path, arguments: &[&str]) -> Command {
    let mut command = command(home, &clients().join("python/bin/python"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_clients/client.py");
    command.arg(script).args(arguments);
    command
}

fn inspect(home: &Path, arguments: &[&str]) -> ProgramOutcome {
    let inspector = clients().join("node/node_modules/.bin/mcp-inspector");
    let mut command = command(home, &inspector);
    for name in ["HOME", "VESTAL_HOME", "TERMINAL_ENV", "PATH"] {
        let value = command.get_envs().find(|(known, _)| *known == name).unwrap().1.unwrap();
        let pair = format!("{name}={}", value.to_str().unwrap());
        command.args(["-e", &pair]);
    }
    command.args(["--cli", PROGRAM, "mcp", "serve"]).args(arguments);
    run(&mut command)
}

#[test]
fn the_python_sdk_uses_every_part_of_the_server() {
    let home = tempfile::tempdir().unwrap();
    let outcome = run(&mut python(home.path(), &["all"])).exits(0);
    assert!(outcome.text().ends_with("ok\n"), "{outcome:?}");
    stop(home.path());
}

#[test]
fn a_python_client_that_is_killed_leaves_no_server_and_no_foreground_command() {
    let home = tempfile::tempdir().unwrap();
    let mark = marker();
    let mut client = RunningProgram::start(python(home.path(), &["wait", &mark]));
    wait_until("the command runs", || processes_with(&mark).len() >= 2);
    client.kill();
    let home_variable = format!("VESTAL_HOME={}", home.path().join("vestal").display());
    wait_until("nothing of it is left", || {
        processes_with(&mark).is_empty() && with_variable(&home_variable).is_empty()
    });
    stop(home.path());
}

#[test]
fn the_inspector_lists_the_tools_and_calls_them() {
    let home = tempfile::tempdir().unwrap();
    let listed: Value = inspect(home.path(), &["--method", "tools/list"]).exits(0).json();
    let names: Vec<&str> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(names.contains(&"run") && names.contains(&"file_edit"), "{names:?}");
    let arguments =
        ["--method", "tools/call", "--tool-name", "run", "--tool-arg", "command=echo lantern"];
    let called: Value = inspect(home.path(), &arguments).exits(0).json();
    assert_eq!(called["structuredContent"]["stdout"], "lantern\n", "{called}");
    let templates = inspect(home.path(), &["--method", "resources/templates/list"]).exits(0).json();
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 3, "{templates}");
    stop(home.path());
}

/// Ends the sandboxes of a home.
fn stop(home: &Path) {
    let mut listing = command(home, Path::new(PROGRAM));
    listing.args(["ps", "--json"]);
    for sandbox in run(&mut listing).exits(0).json().as_array().unwrap() {
        let mut removing = command(home, Path::new(PROGRAM));
        removing.args(["rm", "-y", "--files", sandbox["task"].as_str().unwrap()]);
        run(&mut removing).exits(0);
    }
}
