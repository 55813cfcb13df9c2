//! The board.

use std::fs;

use super::Transcript;
use crate::support::ProgramFixture;

#[test]
fn tasks() {
    let fixture = ProgramFixture::new();
    let mut calls = Transcript::new(&fixture);
    let first = calls.learn(&["kanban", "create", "Gather", "--assignee", "default"]);
    let first = calls.name(&first["id"], "first");
    let second =
        calls.learn(&["kanban", "create", "Write", "--parent", &first, "--body", "Two pages."]);
    let second = calls.name(&second["id"], "second");
    calls.call(&["kanban", "list"]);
    calls.call(&["kanban", "comment", "--json", &first, "look"]);
    fs::write(fixture.work().join("file"), "content").unwrap();
    calls.call(&["kanban", "attach", &first, "file"]);
    let attached = calls.learn(&["kanban", "attachments", &first]);
    let file = attached[0]["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    calls.names.push((file, "[attachment]".to_owned()));
    calls.call(&["kanban", "attachments", &first]);
    calls.call(&["kanban", "claim", &first]);
    calls.call(&["kanban", "heartbeat", &first]);
    calls.call(&["kanban", "runs", &first]);
    calls.call(&["kanban", "complete", &first, "--summary", "done"]);
    calls.call(&["kanban", "show", &first]);
    calls.call(&["kanban", "attach-rm", "1"]);
    calls.call(&["kanban", "block", &second, "which?", "--kind", "needs_input"]);
    calls.call(&["kanban", "list", "--attention", "--all-boards"]);
    calls.call(&["kanban", "show", &second]);
    calls.call(&["kanban", "context", &second]);
    calls.call(&["kanban", "log", &second]);
    calls.call_exiting(&["kanban", "heartbeat", &second], 1);
    calls.call_exiting(&["kanban", "show", "t_none"], 1);
    calls.call_exiting(&["kanban", "complete", &first, "t_none"], 1);
    calls.call_exiting(&["kanban", "archive", "--rm", &first, "t_none"], 1);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn boards_and_dispatch() {
    let fixture = ProgramFixture::new();
    let mut calls = Transcript::new(&fixture);
    let task = calls.learn(&["kanban", "create", "Gather", "--assignee", "default"]);
    calls.name(&task["id"], "task");
    calls.call(&["kanban", "init"]);
    calls.call(&["kanban", "boards", "create", "site", "--name", "The site"]);
    calls.call(&["kanban", "boards", "switch", "site"]);
    calls.call(&["kanban", "boards", "show"]);
    calls.call(&["kanban", "boards", "rm", "site"]);
    calls.call(&["kanban", "boards", "restore", "site"]);
    calls.call(&["kanban", "boards", "list"]);
    calls.call(&["kanban", "boards", "rm", "site", "--delete"]);
    calls.call(&["kanban", "assignees"]);
    calls.call(&["kanban", "stats"]);
    calls.call(&["kanban", "diagnostics"]);
    calls.call(&["kanban", "gc"]);
    calls.call(&["kanban", "dispatch", "--dry-run"]);
    insta::assert_snapshot!(calls.text);
}
