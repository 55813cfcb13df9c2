//! Sandboxes, jobs, snapshots.

use std::fs;

use super::Transcript;
use crate::support::ProgramFixture;

#[test]
fn sandboxes_and_jobs() {
    let fixture = ProgramFixture::new();
    let mut calls = Transcript::new(&fixture);
    let ran = calls.learn(&["run", "--json", "true"]);
    calls.name(&ran["sandbox"]["id"], "instance");
    calls.name(&ran["job"], "first job");
    let job = calls.learn(&["run", "--json", "--background", "cat"]);
    let job = calls.name(&job["job"], "job");
    calls.call(&["run", "--json", "echo out; echo err >&2"]);
    calls.call_exiting(&["run", "--json", r"printf '\377'; exit 3"], 3);
    calls.call_exiting(&["run", "--json", "--workdir", "/nowhere", "true"], 126);
    calls.call_exiting(&["run", "--json", "--timeout", "0.01", "sleep 60"], 124);
    calls.call(&["ps"]);
    calls.call(&["inspect"]);
    calls.call(&["stats"]);
    calls.call(&["jobs"]);
    calls.call(&["kill", &job]);
    calls.call_exiting(&["wait", &job], 137);
    fs::write(fixture.work().join("file"), "content").unwrap();
    calls.call(&["cp", "file", ":copied"]);
    calls.call(&["stop", "default"]);
    calls.call_exiting(&["stop", "default", "no-such"], 125);
    calls.call_exiting(&["inspect", "no-such"], 125);
    calls.call(&["prune", "--dry-run"]);
    calls.call_exiting(&["rm", "-y", "--files", "default", "no-such"], 125);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn native_snapshots() {
    let fixture = ProgramFixture::native();
    fixture.run("echo one > file").exits(0);
    let mut calls = Transcript::new(&fixture);
    calls.call(&["snapshot", "--name", "good", "--note", "all is well"]);
    calls.call(&["snapshots"]);
    calls.call(&["fork", "default", "copy"]);
    calls.call(&["fork", "default", "other", "--from", "good"]);
    calls.call(&["restore", "-y", "default", "good"]);
    calls.call(&["rebuild", "-y", "default"]);
    calls.call_exiting(&["restore", "-y", "default", "goood"], 125);
    calls.call(&["snapshots", "rm", "-y", "default", "good"]);
    insta::assert_snapshot!(calls.text);
}
