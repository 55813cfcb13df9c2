//! The package for Python, with its own tests, its types, agents of other people, and as a wheel.
//! `scripts/test` installs what they need and names it by `VESTAL_TEST_CLIENTS`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_testkit::programs::{ProgramOutcome, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_vestal");

#[expect(clippy::disallowed_methods, reason = "it is no setting: scripts/test tells it to tests")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Where the packages of other people are. A run without them is red, and says why.
fn clients() -> PathBuf {
    let dir = variable("VESTAL_TEST_CLIENTS");
    PathBuf::from(dir.expect("VESTAL_TEST_CLIENTS is not set; scripts/test installs the clients"))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns a program in a home of the test's own, in the directory of the package.
fn command(home: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(repository().join("python"))
        .env_clear()
        .env("HOME", home)
        .env("TMPDIR", home)
        .env("VESTAL_HOME", home.join("vestal"))
        .env("TERMINAL_ENV", "native")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONPATH", repository().join("python/src"))
        .env("VESTAL_TEST_PYTHON_PROGRAM", PROGRAM)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in ["VESTAL_TEST_DOCKER_HOST", "XDG_RUNTIME_DIR"] {
        command.envs(variable(name).map(|value| (name, value)));
    }
    command
}

/// Runs a module of Python that succeeds.
fn python(home: &Path, arguments: &[&str], more: &[(&str, String)]) -> ProgramOutcome {
    let mut command = command(home, &clients().join("python/bin/python"));
    command.arg("-m").args(arguments).envs(more.iter().map(|(name, value)| (name, value)));
    run(&mut command).exits(0)
}

const PYTEST: &[&str] = &["pytest", "-q", "-p", "no:cacheprovider"];

#[test]
fn the_package_keeps_its_promises_on_every_backend_here() {
    let home = tempfile::tempdir().unwrap();
    let outcome = python(home.path(), &[PYTEST, &["--ignore=tests/examples"]].concat(), &[]);
    assert!(!outcome.text().contains("skipped"), "{outcome:?}");
}

#[test]
fn the_package_and_its_examples_are_typed() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("mypy").display().to_string();
    let arguments = ["mypy", "--strict", "--cache-dir", &cache, "src", "tests", "examples"];
    python(home.path(), &arguments, &[]);
}

#[test]
fn agents_of_other_people_work_in_a_durable_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let call = json!({ "command": "echo lit >> lantern; cat lantern" });
    let model = ScriptedModel::start(Script::rules([
        ReplyRule::after_tool_result_contains("lit\n[exit code 0]")
            .reply(ScriptedReply::text("The lantern is lit.")),
        ReplyRule::when_user_contains("lantern").reply(ScriptedReply::tool_call("terminal", call)),
    ]));
    let base = [("VESTAL_TEST_MODEL", model.base_url().clone())];
    python(home.path(), &[PYTEST, &["tests/examples"]].concat(), &base);
}

#[test]
fn the_wheel_works_in_a_fresh_environment_and_brings_the_command() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let stripped = home.join("stripped");
    let mut strip = command(home, Path::new("strip"));
    run(strip.args(["-g", "-o"]).arg(&stripped).arg(PROGRAM)).exits(0);
    let wheels: Vec<PathBuf> = ["one", "two"]
        .map(|name| {
            let mut make = command(home, Path::new("python3"));
            make.arg(repository().join("scripts/lib/wheel.py")).arg("--fast");
            make.arg(&stripped).arg(home.join(name)).env("SOURCE_DATE_EPOCH", "1700000000");
            PathBuf::from(run(&mut make).exits(0).text().trim())
        })
        .into();
    let [one, two] = [&wheels[0], &wheels[1]].map(|path| std::fs::read(path).unwrap());
    assert!(one == two, "the same input makes the same file");
    let fresh = home.join("fresh");
    let base = clients().join("python/bin/python");
    run(command(home, &base).args(["-m", "venv"]).arg(&fresh)).exits(0);
    let mut install = command(home, &fresh.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--no-index"]).arg(&wheels[0]);
    run(&mut install).exits(0);
    let code =
        "from vestal import Sandbox; print(Sandbox.open('w').run('echo lit > l; cat l').stdout)";
    let mut asked = command(home, &fresh.join("bin/python"));
    // Neither the sources nor another program can be what answers.
    asked.env_remove("PYTHONPATH").current_dir(home).args(["-c", code]);
    assert_eq!(run(&mut asked).exits(0).text().trim(), "lit");
    let program = fresh.join("bin/vestal");
    let again = run(command(home, &program).args(["run", "-t", "w", "cat l"])).exits(0);
    assert_eq!(again.text(), "lit\n");
    run(command(home, &program).args(["rm", "-y", "--files", "w"])).exits(0);
}
