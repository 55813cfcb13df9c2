//! Tasks are created and changed, also by many processes at once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{create, done, json, kanban, profile, refused, status, task};
use crate::support::{ProgramFixture, finish};

#[test]
fn a_new_task_is_reported_in_a_line_and_in_json_as_a_whole() {
    let fixture = ProgramFixture::new();
    profile(&fixture, "alpha");
    let made =
        kanban(&fixture, &["create", "Write report", "--assignee", "Alpha", "--priority", "5"])
            .exits(0);
    let line = made.text();
    assert!(
        line.starts_with("Created t_") && line.ends_with("  (ready, assignee=alpha)\n"),
        "{line}"
    );
    let parent = line.split_whitespace().nth(1).unwrap();
    let args = [
        "create",
        "Send it",
        "--body",
        "to all",
        "--parent",
        parent,
        "--tenant",
        "acme",
        "--priority",
        "-2",
        "--skill",
        "mail",
        "--skill",
        "mail",
        "--max-runtime",
        "5m",
        "--max-retries",
        "3",
        "--model",
        "some/model",
        "--reviewer",
        "alpha",
        "--created-by",
        "carol",
        "--idempotency-key",
        "k1",
        "--json",
    ];
    let mut reported = json(&fixture, &args);
    let id = reported["id"].as_str().unwrap().to_owned();
    for key in ["id", "created_at", "updated_at"] {
        assert!(!reported[key].is_null(), "{reported}");
        reported[key] = Value::Null;
    }
    assert_eq!(
        reported,
        json!({"id": null, "title": "Send it", "body": "to all", "assignee": null,
            "status": "todo", "priority": -2, "tenant": "acme", "workspace_kind": "scratch",
            "workspace_path": null, "workspace_host": null, "branch_name": null,
            "created_by": "carol", "created_at": null, "updated_at": null, "started_at": null,
            "completed_at": null, "result": null, "skills": ["mail"], "model": "some/model",
            "max_runtime_seconds": 300, "max_retries": 3, "session_id": null,
            "idempotency_key": "k1", "current_run_id": null, "pending_parents": 1,
            "wake_at": null, "guard": null, "block_kind": null, "block_reason": null,
            "block_recurrences": 0, "gate": false, "attention": null, "needs_review": true,
            "reviewer": "alpha", "project_id": null, "workflow_template_id": null,
            "current_step_key": null})
    );
    // The same key means the same task.
    let again = kanban(&fixture, &["create", "Another", "--idempotency-key", "k1"]).exits(0);
    assert!(again.text().starts_with(&format!("Exists already {id}")), "{again:?}");
    assert_eq!(json(&fixture, &["list", "--json"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_task_begins_in_the_state_that_was_asked_for() {
    let fixture = ProgramFixture::new();
    let made = |args: &[&str]| create(&fixture, args);
    assert_eq!(status(&fixture, &made(&["a"])), "ready");
    assert_eq!(status(&fixture, &made(&["b", "--triage"])), "triage");
    let gate = task(&fixture, &made(&["c", "--initial-status", "blocked"]));
    assert_eq!((&gate["status"], &gate["gate"]), (&json!("blocked"), &json!(true)));
    let later = task(&fixture, &made(&["d", "--in", "2h"]));
    assert_eq!(later["status"], "scheduled");
    let wait = later["wake_at"].as_i64().unwrap() - later["created_at"].as_i64().unwrap();
    assert!((7199..=7260).contains(&wait), "{later}");
    let at = task(&fixture, &made(&["e", "--at", "2099-01-01T00:00:00Z"]));
    assert_eq!(at["wake_at"], 4_070_908_800_i64);
    kanban(&fixture, &["create", "f", "--triage", "--in", "2h"]).exits(2);
    kanban(&fixture, &["create", "f", "--at", "soon"]).exits(2);
    kanban(&fixture, &["create", "f", "--initial-status", "done"]).exits(2);
}

#[test]
fn a_directory_is_named_from_here_or_by_the_board() {
    let fixture = ProgramFixture::new();
    let here = fixture.work();
    let made = json(&fixture, &["create", "a", "--workspace", "dir:.", "--json"]);
    assert_eq!(made["workspace_kind"], "dir");
    assert_eq!(made["workspace_path"], json!(here));
    assert!(made["workspace_host"].is_string(), "{made}");
    let missing = kanban(&fixture, &["create", "b", "--workspace", "worktree"]).exits(2);
    assert!(missing.stderr.contains("set-default-workdir"), "{missing:?}");
    done(&fixture, &["boards", "set-default-workdir", "default", here.to_str().unwrap()]);
    // A worktree needs a repository.
    let args = ["create", "b", "--workspace", "worktree", "--branch", "fix/it", "--json"];
    kanban(&fixture, &args).exits(2);
    let made = std::process::Command::new("git").args(["init", "-q"]).arg(&here).status();
    assert!(made.unwrap().success());
    let tree = json(&fixture, &args);
    assert_eq!(tree["workspace_path"], json!(here));
    assert_eq!(tree["branch_name"], "fix/it");
    kanban(&fixture, &["create", "c", "--branch", "x"]).exits(2);
    kanban(&fixture, &["create", "c", "--workspace", "scratch:/x"]).exits(2);
    kanban(&fixture, &["create", "c", "--workspace", "dir:.", "--branch", "x"]).exits(2);
}

#[test]
fn a_body_and_a_comment_come_from_standard_input() {
    let fixture = ProgramFixture::new();
    let made =
        fixture.vestal_with(["kanban", "create", "a", "--body", "-", "--json"], b"from\nhere\n");
    let id = made.exits(0).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(task(&fixture, &id)["body"], "from\nhere\n");
    fixture.vestal_with(["kanban", "comment", &id, "-"], b"said so").exits(0);
    fixture.vestal_with(["kanban", "edit", &id, "--body", "-"], b"better").exits(0);
    let shown = json(&fixture, &["show", &id, "--json"]);
    assert_eq!(shown["comments"][0]["body"], "said so");
    assert_eq!(shown["comments"][0]["author"], "user");
    assert_eq!(shown["task"]["body"], "better");
    fixture.vestal_with(["kanban", "comment", &id, "-"], b"\xff").exits(2);
}

#[test]
fn a_profile_that_is_not_there_is_reported_with_the_one_that_was_meant() {
    let fixture = ProgramFixture::new();
    profile(&fixture, "writer");
    let made = kanban(&fixture, &["create", "a", "--assignee", "wirter"]).exits(0);
    assert!(made.stderr.contains("there is no profile wirter"), "{made:?}");
    assert!(made.stderr.contains("did you mean writer?"), "{made:?}");
    let id = create(&fixture, &["b"]);
    let assigned = kanban(&fixture, &["assign", &id, "zzz"]).exits(0);
    assert!(assigned.stderr.contains("vestal profile create zzz"), "{assigned:?}");
    refused(&fixture, &["assign", &id, "../x"], 1);
}

#[test]
fn create_warns_once_that_nothing_dispatches() {
    let fixture = ProgramFixture::new();
    let hint = |args: &[&str]| {
        let outcome = kanban(&fixture, args).exits(0);
        outcome.stderr.matches("vestal kanban dispatch --watch").count()
    };
    assert_eq!(hint(&["create", "a", "--assignee", "default"]), 1);
    assert_eq!(hint(&["create", "b"]), 0, "nobody would work on it anyway");
    assert_eq!(hint(&["create", "c", "--assignee", "default", "--triage"]), 0);
}

#[test]
fn only_what_is_named_is_changed() {
    let fixture = ProgramFixture::new();
    let id = create(
        &fixture,
        &["a", "--body", "b", "--tenant", "t", "--model", "m", "--max-runtime", "60"],
    );
    let before = task(&fixture, &id);
    let nothing = kanban(&fixture, &["edit", &id]).exits(2);
    assert!(nothing.stderr.contains("nothing to change"), "{nothing:?}");
    let args = [
        "edit",
        &id,
        "--title",
        "A",
        "--priority",
        "7",
        "--tenant",
        "none",
        "--model",
        "",
        "--max-runtime",
        "none",
        "--review",
        "true",
        "--skill",
        "s",
        "--json",
    ];
    let mut after = json(&fixture, &args)["task"].clone();
    assert!(after["updated_at"].as_i64() >= before["updated_at"].as_i64());
    after["updated_at"] = before["updated_at"].clone();
    let mut expected = before;
    expected["title"] = json!("A");
    expected["priority"] = json!(7);
    expected["tenant"] = Value::Null;
    expected["model"] = Value::Null;
    expected["max_runtime_seconds"] = Value::Null;
    expected["needs_review"] = json!(true);
    expected["skills"] = json!(["s"]);
    assert_eq!(after, expected);
    done(&fixture, &["complete", &id, "--result", "r", "--summary", "s"]);
    done(
        &fixture,
        &["edit", &id, "--result", "better", "--summary", "S", "--metadata", "{\"n\":1}"],
    );
    let shown = json(&fixture, &["show", &id, "--json"]);
    assert_eq!(shown["task"]["result"], "better");
    assert_eq!(shown["latest_summary"], "S");
    assert_eq!(shown["runs"][0]["metadata"], json!({"n": 1}));
    kanban(&fixture, &["edit", &id, "--metadata", "[]"]).exits(2);
}

#[test]
fn of_a_hundred_processes_at_once_every_task_is_there() {
    let fixture = ProgramFixture::new();
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let title = format!("task {number}");
            let mut command = fixture.command(["kanban", "create", &title, "--json"]);
            command.spawn().unwrap()
        })
        .collect();
    let made: BTreeSet<String> = calls
        .into_iter()
        .map(|call| finish(call).exits(0).json()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(made.len(), 100);
    let listed = json(&fixture, &["list", "--all", "--json"]);
    let found: BTreeSet<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(made, found);
}

#[test]
fn of_many_with_one_idempotency_key_one_makes_the_task() {
    let fixture = ProgramFixture::new();
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let args = ["kanban", "create", "a", "--idempotency-key", "k", "--json"];
            fixture.command(args).spawn().unwrap()
        })
        .collect();
    let made: BTreeSet<String> = calls
        .into_iter()
        .map(|call| finish(call).exits(0).json()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(made.len(), 1);
    assert_eq!(json(&fixture, &["list", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn of_many_who_claim_a_task_one_gets_it() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let calls: Vec<_> =
        (0..16).map(|_| fixture.command(["kanban", "claim", &id]).spawn().unwrap()).collect();
    let mut codes: Vec<i32> = calls.into_iter().map(|call| finish(call).code).collect();
    codes.sort_unstable();
    let mut expected = vec![1; 16];
    expected[0] = 0;
    assert_eq!(codes, expected);
    assert_eq!(json(&fixture, &["runs", &id, "--json"]).as_array().unwrap().len(), 1);
}
