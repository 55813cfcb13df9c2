//! From one status to another.

use serde_json::{Value, json};

use super::{create, done, json, kanban, refused, status, task};
use crate::support::ProgramFixture;

/// Asserts what a change prints in JSON, as a whole but for the task, and
/// returns the task.
#[track_caller]
fn moved(view: &Value, ended: &Value, promoted: &Value) -> Value {
    assert_eq!(
        *view,
        json!({"task": view["task"], "ended_run_id": ended, "worker": "none", "promoted": promoted})
    );
    view["task"].clone()
}

#[test]
fn finishing_a_parent_lets_its_child_go() {
    let fixture = ProgramFixture::new();
    let parent = create(&fixture, &["parent"]);
    let child = create(&fixture, &["child", "--parent", &parent]);
    let other = create(&fixture, &["other"]);
    assert_eq!(status(&fixture, &child), "todo");
    let finished = json(&fixture, &["complete", &parent, "--summary", "well", "--json"]);
    let finished = moved(&finished[0], &Value::Null, &json!([child]));
    assert_eq!(finished["status"], "done");
    assert_eq!(status(&fixture, &child), "ready");
    assert_eq!(json(&fixture, &["show", &parent, "--json"])["latest_summary"], "well");
    let both = kanban(&fixture, &["complete", &child, &other]).exits(0);
    assert_eq!(both.text(), format!("completed {child}  (done)\ncompleted {other}  (done)\n"));
    // One that cannot be moved does not keep the others, and is not forgotten.
    let third = create(&fixture, &["third"]);
    let mixed =
        kanban(&fixture, &["complete", &child, "t_zzzzzzzzzzzz", &third, "--json"]).exits(1);
    let views = mixed.json();
    assert_eq!(views.as_array().unwrap().len(), 3);
    assert_eq!(views[0]["task_id"], child.as_str());
    assert!(views[0]["error"].as_str().unwrap().contains("it is done"), "{views}");
    assert!(views[1]["error"].as_str().unwrap().contains("there is no task"), "{views}");
    assert_eq!(views[2]["task"]["status"], "done");
    kanban(&fixture, &["complete", &child, &other, "--summary", "x"]).exits(2);
}

#[test]
fn links_are_made_and_unmade_and_never_in_a_circle() {
    let fixture = ProgramFixture::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| create(&fixture, &[name]));
    let linked = json(&fixture, &["link", &a, &b, "--json"]);
    assert_eq!(moved(&linked, &Value::Null, &json!([]))["status"], "todo");
    done(&fixture, &["link", &b, &c]);
    let circle = refused(&fixture, &["link", &c, &a], 1);
    assert!(circle.contains("cannot wait for"), "{circle}");
    let own = refused(&fixture, &["link", &a, &a], 1);
    assert!(own.contains("they are the same"), "{own}");
    done(&fixture, &["unlink", &a, &b]);
    assert_eq!(status(&fixture, &b), "ready");
    refused(&fixture, &["link", &a, "t_zzzzzzzzzzzz"], 1);
}

#[test]
fn a_blocked_task_waits_for_a_person_and_goes_on_by_their_word() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let blocked =
        json(&fixture, &["block", &id, "which", "one?", "--kind", "needs_input", "--json"]);
    let blocked = moved(&blocked[0], &Value::Null, &json!([]));
    assert_eq!(blocked["status"], "blocked");
    assert_eq!(blocked["block_kind"], "needs_input");
    assert_eq!(blocked["block_reason"], "which one?");
    assert!(blocked["attention"].is_string(), "{blocked}");
    let on = kanban(&fixture, &["unblock", &id, "--reason", "the red one"]).exits(0);
    assert_eq!(on.text(), format!("unblocked {id}  (ready)  the red one\n"));
    let again = kanban(&fixture, &["block", &id, "which?", "--kind", "needs_input"]).exits(0);
    assert!(again.text().contains("(triage)"), "{again:?}");
    assert!(again.stderr.contains(&format!("{id} needs you")), "{again:?}");
    refused(&fixture, &["block", &id, "again"], 1);
    done(&fixture, &["promote", &id, "it", "is", "clear", "now"]);
    assert_eq!(status(&fixture, &id), "ready");
    let alone = refused(&fixture, &["block", &id, "for others", "--kind", "dependency"], 1);
    assert!(alone.contains("link"), "{alone}");
    kanban(&fixture, &["block", &id, "x", "--kind", "boredom"]).exits(2);
    kanban(&fixture, &["block", &id]).exits(2);
    let other = create(&fixture, &["b"]);
    let both = json(&fixture, &["block", &id, "closed", "--ids", &other, "--json"]);
    assert_eq!(both.as_array().unwrap().len(), 2);
    assert_eq!(status(&fixture, &other), "blocked");
}

#[test]
fn a_task_is_put_off_until_a_moment_or_for_good() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let put = json(&fixture, &["schedule", &id, "offices", "closed", "--in", "2h", "--json"]);
    let put = moved(&put[0], &Value::Null, &json!([]));
    assert_eq!(put["status"], "scheduled");
    assert!(put["wake_at"].is_i64(), "{put}");
    done(&fixture, &["unblock", &id]);
    done(&fixture, &["schedule", &id, "not", "this", "year"]);
    assert_eq!(task(&fixture, &id)["wake_at"], Value::Null);
    kanban(&fixture, &["schedule", &id, "x", "--at", "09:00", "--in", "1h"]).exits(2);
}

#[test]
fn promoting_can_be_tried_before_it_is_done() {
    let fixture = ProgramFixture::new();
    let parent = create(&fixture, &["parent"]);
    let id = create(&fixture, &["a", "--parent", &parent]);
    let waits = refused(&fixture, &["promote", &id, "now"], 1);
    assert!(waits.contains(&parent) && waits.contains("--force"), "{waits}");
    let dry = kanban(&fixture, &["promote", &id, "now", "--force", "--dry-run"]).exits(0);
    assert!(dry.text().starts_with("would promote"), "{dry:?}");
    assert_eq!(status(&fixture, &id), "todo");
    kanban(&fixture, &["promote", &id, "now", "--dry-run"]).exits(1);
    done(&fixture, &["promote", &id, "now", "--force"]);
    assert_eq!(status(&fixture, &id), "ready");
    refused(&fixture, &["promote", &id, "again"], 1);
}

#[test]
fn work_that_was_submitted_is_approved_or_sent_back() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a", "--review"]);
    done(&fixture, &["submit", &id, "--summary", "please look"]);
    assert_eq!(status(&fixture, &id), "review");
    done(&fixture, &["changes", &id, "a", "test", "is", "missing"]);
    let back = json(&fixture, &["show", &id, "--json"]);
    assert_eq!(back["task"]["status"], "ready");
    let printed = back["comments"].as_array().unwrap().last().unwrap()["body"].as_str().unwrap();
    assert!(printed.contains("a test is missing"), "{printed}");
    refused(&fixture, &["changes", &id, "more"], 1);
    done(&fixture, &["block", &id, "review-required:", "branch", "wt/x"]);
    assert_eq!(status(&fixture, &id), "review");
    done(&fixture, &["complete", &id]);
    assert_eq!(status(&fixture, &id), "done");
}

#[test]
fn a_person_takes_a_task_keeps_it_and_gives_it_back() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let run = json(&fixture, &["claim", &id, "--ttl", "1h", "--json"]);
    assert_eq!(run["task_id"], id.as_str());
    assert_eq!(run["host"], Value::Null);
    let running = task(&fixture, &id);
    assert_eq!(running["status"], "running");
    assert_eq!(running["current_run_id"], run["id"]);
    let taken = refused(&fixture, &["claim", &id], 1);
    assert!(taken.contains("cannot claim"), "{taken}");
    let beat = json(&fixture, &["heartbeat", &id, "--note", "half", "--ttl", "2h", "--json"]);
    assert_eq!(beat["run_id"], run["id"]);
    assert!(beat["expires_at"].as_i64() > run["claim_expires"].as_i64(), "{beat}");
    assert_eq!(json(&fixture, &["runs", &id, "--json"])[0]["note"], "half");
    let busy = refused(&fixture, &["assign", &id, "default"], 1);
    assert!(busy.contains("reclaim"), "{busy}");
    let again = json(&fixture, &["reassign", &id, "default", "--reclaim", "--json"]);
    let again = moved(&again, &run["id"], &json!([]));
    assert_eq!((&again["status"], &again["assignee"]), (&json!("ready"), &json!("default")));
    refused(&fixture, &["heartbeat", &id], 1);
    refused(&fixture, &["reclaim", &id], 1);
    done(&fixture, &["claim", &id]);
    let back = json(&fixture, &["reclaim", &id, "--reason", "mine", "--json"]);
    assert_eq!(back["task"]["status"], "ready");
    done(&fixture, &["assign", &id, "none"]);
    assert_eq!(task(&fixture, &id)["assignee"], Value::Null);
    let runs = kanban(&fixture, &["runs", &id]).exits(0).text();
    assert_eq!(runs.lines().count(), 3, "{runs}");
}

#[test]
fn what_is_put_away_comes_back_or_goes_for_good() {
    let fixture = ProgramFixture::new();
    let parent = create(&fixture, &["parent"]);
    let child = create(&fixture, &["child", "--parent", &parent]);
    let first = refused(&fixture, &["archive", "--rm", &parent], 1);
    assert!(first.contains("cannot delete"), "{first}");
    let archived = json(&fixture, &["archive", &parent, "--json"]);
    moved(&archived[0], &Value::Null, &json!([child]));
    assert_eq!(json(&fixture, &["list", "--json"]).as_array().unwrap().len(), 1);
    assert_eq!(json(&fixture, &["list", "--archived", "--json"]).as_array().unwrap().len(), 2);
    done(&fixture, &["reopen", &parent, "after", "all"]);
    assert_eq!(status(&fixture, &child), "todo");
    done(&fixture, &["archive", &parent]);
    let gone = json(&fixture, &["archive", "--rm", &parent, "--json"]);
    assert_eq!(gone, json!([{"task_id": parent, "deleted": true, "error": null}]));
    refused(&fixture, &["show", &parent], 1);
    kanban(&fixture, &["archive"]).exits(2);
}
