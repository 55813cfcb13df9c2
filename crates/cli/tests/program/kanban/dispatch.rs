//! Dispatching by hand and for as long as it is wanted.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use vestal_scripted_model::{Script, ScriptedReply};

use super::{create, done, json, kanban, profile, status, steady, task};
use crate::chat::fixture::ChatFixture;
use crate::support::{ProgramFixture, RunningProgram, finish, is_alive};

/// Returns all files below a directory with what is in them. The database's own
/// notes of who reads it, and a log with nothing in it, are not contents.
fn contents(dir: &std::path::Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let (name, bytes) = (path.to_string_lossy(), fs::read(&path).unwrap());
            let nothing = bytes.is_empty() && name.ends_with("-wal");
            if !nothing && !name.ends_with("-shm") {
                found.insert(path.clone(), bytes);
            }
        }
    }
    found
}

#[test]
fn a_dry_run_says_what_would_be_done_and_changes_nothing() {
    let fixture = ProgramFixture::new();
    profile(&fixture, "alpha");
    profile(&fixture, "beta");
    for (title, assignee) in [("a", "alpha"), ("b", "alpha"), ("c", "beta"), ("d", "gamma")] {
        create(&fixture, &[title, "--assignee", assignee]);
    }
    create(&fixture, &["e"]);
    let before = contents(&fixture.home());
    let args = ["--set", "kanban.max_in_progress_per_host=8", "dispatch", "--dry-run"];
    let plain = done(&fixture, &args);
    insta::assert_snapshot!(steady(&fixture, &plain));
    let more = [
        "--set",
        "kanban.default_assignee= Beta ",
        "--set",
        "kanban.max_in_progress_per_profile=1",
    ];
    let balanced = done(&fixture, &[&more[..], &args].concat());
    insta::assert_snapshot!(steady(&fixture, &balanced));
    let after = contents(&fixture.home());
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(after == before, "a file was changed");
}

#[test]
fn a_dry_run_says_which_workers_would_fail_for_want_of_a_model() {
    let chat = hanging();
    let fixture = &chat.fixture;
    profile(fixture, "alpha");
    // A profile with a key of its own does not ask the model of another.
    fs::write(fixture.home().join("profiles/alpha/.env"), "OPENAI_API_KEY=sk-alpha\n").unwrap();
    for assignee in ["default", "alpha"] {
        create(fixture, &["a", "--assignee", assignee]);
        create(fixture, &["b", "--assignee", assignee]);
    }
    let args = ["--set", "kanban.max_in_progress_per_host=8", "dispatch", "--dry-run", "--json"];
    let planned = kanban(fixture, &args).exits(0);
    assert_eq!(planned.json()["counts"]["spawned"], 4);
    let reported: Vec<&str> = planned.stderr.lines().filter(|line| line.contains("fail")).collect();
    assert_eq!(reported.len(), 1, "{planned:?}");
    assert!(
        reported[0].starts_with("warning: workers of alpha would fail: no model"),
        "{reported:?}"
    );
    assert!(reported[0].contains("vestal -p alpha model setup"), "{reported:?}");
}

#[test]
fn the_plan_in_json_has_every_bucket() {
    let fixture = ProgramFixture::new();
    profile(&fixture, "alpha");
    let ids = ["a", "b"].map(|title| create(&fixture, &[title, "--assignee", "alpha"]));
    let nobody = create(&fixture, &["c"]);
    let args = ["--set", "kanban.max_in_progress_per_profile=1", "dispatch", "--dry-run", "--json"];
    assert_eq!(
        json(&fixture, &args),
        json!({"reclaimed": 0, "promoted": 0, "crashed": [], "no_report": [], "timed_out": [],
            "stale": [], "rate_limited": [], "auto_blocked": [],
            "spawned": [{"task_id": ids[0], "assignee": "alpha", "workspace": ""}],
            "auto_assigned_default": [], "skipped_unassigned": [nobody],
            "skipped_nonspawnable": [],
            "skipped_per_profile_capped":
                [{"task_id": ids[1], "assignee": "alpha", "current": 1}],
            "skipped_capped": [], "skipped_workspace_busy": [], "skipped_other_host": [],
            "respawn_guarded": [], "skipped_locked": false,
            "counts": {"crashed": 0, "no_report": 0, "timed_out": 0, "stale": 0,
                "rate_limited": 0, "auto_blocked": 0, "spawned": 1, "auto_assigned_default": 0,
                "skipped_unassigned": 1, "skipped_nonspawnable": 0,
                "skipped_per_profile_capped": 1, "skipped_capped": 0,
                "skipped_workspace_busy": 0, "skipped_other_host": 0, "respawn_guarded": 0}})
    );
    let fresh = ProgramFixture::new();
    assert_eq!(json(&fresh, &["dispatch", "--json"])["spawned"], json!([]));
    assert!(!fresh.home().exists());
    kanban(&fixture, &["dispatch", "--max", "0"]).exits(2);
    kanban(&fixture, &["dispatch", "--watch", "--dry-run"]).exits(2);
}

#[test]
fn an_invalid_cap_is_reported_once_and_holds_nothing_back() {
    let fixture = ProgramFixture::new();
    profile(&fixture, "alpha");
    for title in ["a", "b", "c"] {
        create(&fixture, &[title, "--assignee", "alpha"]);
    }
    for cap in ["0", "-1", "many"] {
        let set = format!("kanban.max_in_progress_per_profile={cap}");
        let args = ["--set", &set, "--set", "kanban.max_in_progress_per_host=8"];
        let planned = kanban(&fixture, &[&args[..], &["dispatch", "--dry-run", "--json"]].concat());
        let planned = planned.exits(0);
        assert_eq!(planned.json()["counts"]["spawned"], 3, "{planned:?}");
        let reported = planned.stderr.matches("cap ignored").count();
        assert_eq!(reported, 1, "{planned:?}");
    }
}

/// A fixture whose profile `default` has a model, and what it asks never ends.
fn hanging() -> ChatFixture {
    saying([ScriptedReply::text("Words.").hold_after(9)])
}

/// A fixture whose profile `default` has a model that says this.
fn saying(replies: impl IntoIterator<Item = ScriptedReply>) -> ChatFixture {
    let chat = ChatFixture::new(Script::replies(replies));
    fs::create_dir_all(chat.fixture.home()).unwrap();
    // Workers get their settings from their profile's files alone.
    let config = format!(
        "model:\n  default: scripted\n  base_url: {}\nterminal:\n  backend: local\n",
        chat.model.base_url()
    );
    fs::write(chat.fixture.home().join("config.yaml"), config).unwrap();
    chat
}

fn worker(fixture: &ProgramFixture, id: &str) -> String {
    let runs = json(fixture, &["runs", id, "--json"]);
    runs.as_array().unwrap().last().unwrap()["worker_pid"].to_string()
}

#[test]
fn taking_a_task_from_its_worker_stops_the_worker() {
    for (args, after) in [
        (&["archive"][..], "archived"),
        (&["complete"], "done"),
        (&["reclaim"], "ready"),
        (&["block", "no", "more"], "blocked"),
        (&["schedule", "later"], "scheduled"),
        (&["reassign", "default", "--reclaim"], "ready"),
    ] {
        let chat = hanging();
        let fixture = &chat.fixture;
        let id = create(fixture, &["a", "--assignee", "default"]);
        let started = json(fixture, &["dispatch", "--json"]);
        assert_eq!(started["spawned"][0]["task_id"], json!(id), "{started}");
        chat.until(|model| model.wait_for_holds(1));
        let pid = worker(fixture, &id);
        assert!(is_alive(&pid), "{pid}");
        let all = [&args[..1], &[id.as_str()], &args[1..], &["--json"]].concat();
        let moved = json(fixture, &all);
        let moved = if moved.is_array() { moved[0].clone() } else { moved };
        assert_eq!(moved["worker"], "stopped", "{args:?}: {moved}");
        assert!(!is_alive(&pid), "{args:?}");
        assert_eq!(status(fixture, &id), after, "{args:?}");
    }
}

#[test]
fn a_dispatcher_that_watches_starts_new_tasks_and_ends_on_a_signal() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let chat = hanging();
        let fixture = &chat.fixture;
        let mut watching = fixture.start(["kanban", "dispatch", "--watch", "--json"]);
        let mut next = || -> Value { serde_json::from_str(&watching.line()).unwrap() };
        let begun = next();
        assert_eq!(begun["kind"], "begun");
        assert!(begun["what"].as_str().unwrap().contains("dispatching all boards"), "{begun}");
        let made = kanban(fixture, &["create", "a", "--assignee", "default"]).exits(0);
        assert!(!made.stderr.contains("no dispatcher watches"), "{made:?}");
        let id = made.text().split_whitespace().nth(1).unwrap().to_owned();
        let reported = next();
        assert_eq!((&reported["kind"], &reported["task_id"]), (&json!("started"), &json!(id)));
        chat.until(|model| model.wait_for_holds(1));
        watching.signal(signal);
        assert_eq!(watching.end().0, code);
        // The worker goes on, until somebody takes its task away.
        let pid = worker(fixture, &id);
        assert!(is_alive(&pid));
        done(fixture, &["archive", &id]);
        assert!(!is_alive(&pid));
        let after = kanban(fixture, &["create", "b", "--assignee", "default"]).exits(0);
        assert!(after.stderr.contains("no dispatcher watches"), "{after:?}");
    }
}

#[test]
fn the_end_of_a_worker_is_reported_with_the_outcome_of_its_task() {
    let done = ScriptedReply::tool_call("kanban_complete", json!({"summary": "all well"}));
    let chat = saying([done, ScriptedReply::text("That was it.")]);
    let fixture = &chat.fixture;
    let mut watching = fixture.start(["kanban", "dispatch", "--watch", "--json"]);
    let mut next = || -> Value { serde_json::from_str(&watching.line()).unwrap() };
    assert_eq!(next()["kind"], "begun");
    let id = create(fixture, &["a", "--assignee", "default"]);
    assert_eq!(next()["kind"], "started");
    let line = watching.line();
    let members = ["\"at\"", "\"board\"", "\"kind\"", "\"outcome\"", "\"task_id\""];
    assert!(members.map(|member| line.find(member).unwrap()).is_sorted(), "{line}");
    let mut ended: Value = serde_json::from_str(&line).unwrap();
    assert!(ended["at"].is_i64(), "{ended}");
    ended["at"] = Value::Null;
    let reported = json!({"at": null, "kind": "finished", "board": "default", "task_id": id,
        "outcome": "completed"});
    assert_eq!(ended, reported);
    watching.signal(Signal::INT);
    assert_eq!(watching.end().0, 130);
    assert_eq!(status(fixture, &id), "done");
}

#[test]
fn a_dispatcher_that_nobody_reads_any_more_ends() {
    let chat = hanging();
    let fixture = &chat.fixture;
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = fixture.command(["kanban", "dispatch", "--watch"]);
    let watching = command.stdout(writer).spawn().unwrap();
    drop(command);
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(reader), &mut first).unwrap();
    assert!(first.contains("dispatching all boards as host"), "{first}");
    let id = create(fixture, &["a", "--assignee", "default"]);
    let ended = finish(watching);
    assert_eq!(ended.code, 141, "{ended:?}");
    done(fixture, &["archive", &id]);
}

#[test]
fn only_the_board_that_is_named_is_dispatched() {
    let chat = hanging();
    let fixture = &chat.fixture;
    done(fixture, &["boards", "create", "web"]);
    let other = create(fixture, &["on default", "--assignee", "default"]);
    let args = ["kanban", "--board", "web", "dispatch", "--watch", "--json"];
    let mut watching = RunningProgram::start(fixture.command(args));
    assert!(watching.line().contains("dispatching board web"));
    let id = create(fixture, &["--board", "web", "on web", "--assignee", "default"]);
    let reported: Value = serde_json::from_str(&watching.line()).unwrap();
    assert_eq!(reported["task_id"], json!(id));
    watching.signal(Signal::INT);
    assert_eq!(watching.end().0, 130);
    done(fixture, &["--board", "web", "archive", &id]);
    assert_eq!(task(fixture, &other)["status"], "ready");
}
