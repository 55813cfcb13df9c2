//! From one status to another.

use serde_json::{Value, json};

use super::{create, done, json, kanban, refused, status, task};
use crate::support::World;

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
    let world = World::new();
    let parent = create(&world, &["parent"]);
    let child = create(&world, &["child", "--parent", &parent]);
    let other = create(&world, &["other"]);
    assert_eq!(status(&world, &child), "todo");
    let finished = json(&world, &["complete", &parent, "--summary", "well", "--json"]);
    let finished = moved(&finished[0], &Value::Null, &json!([child]));
    assert_eq!(finished["status"], "done");
    assert_eq!(status(&world, &child), "ready");
    assert_eq!(json(&world, &["show", &parent, "--json"])["latest_summary"], "well");
    let both = kanban(&world, &["complete", &child, &other]).exits(0);
    assert_eq!(both.text(), format!("completed {child}  (done)\ncompleted {other}  (done)\n"));
    // One that cannot be moved does not keep the others, and is not forgotten.
    let third = create(&world, &["third"]);
    let mixed = kanban(&world, &["complete", &child, "t_zzzzzzzzzzzz", &third, "--json"]).exits(1);
    let views = mixed.json();
    assert_eq!(views.as_array().unwrap().len(), 3);
    assert_eq!(views[0]["task_id"], child.as_str());
    assert!(views[0]["error"].as_str().unwrap().contains("it is done"), "{views}");
    assert!(views[1]["error"].as_str().unwrap().contains("there is no task"), "{views}");
    assert_eq!(views[2]["task"]["status"], "done");
    kanban(&world, &["complete", &child, &other, "--summary", "x"]).exits(2);
}

#[test]
fn links_are_made_and_unmade_and_never_in_a_circle() {
    let world = World::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| create(&world, &[name]));
    let linked = json(&world, &["link", &a, &b, "--json"]);
    assert_eq!(moved(&linked, &Value::Null, &json!([]))["status"], "todo");
    done(&world, &["link", &b, &c]);
    let circle = refused(&world, &["link", &c, &a], 1);
    assert!(circle.contains("cannot wait for"), "{circle}");
    let own = refused(&world, &["link", &a, &a], 1);
    assert!(own.contains("they are the same"), "{own}");
    done(&world, &["unlink", &a, &b]);
    assert_eq!(status(&world, &b), "ready");
    refused(&world, &["link", &a, "t_zzzzzzzzzzzz"], 1);
}

#[test]
fn a_blocked_task_waits_for_a_person_and_goes_on_by_their_word() {
    let world = World::new();
    let id = create(&world, &["a"]);
    let blocked = json(&world, &["block", &id, "which", "one?", "--kind", "needs_input", "--json"]);
    let blocked = moved(&blocked[0], &Value::Null, &json!([]));
    assert_eq!(blocked["status"], "blocked");
    assert_eq!(blocked["block_kind"], "needs_input");
    assert_eq!(blocked["block_reason"], "which one?");
    assert!(blocked["attention"].is_string(), "{blocked}");
    let on = kanban(&world, &["unblock", &id, "--reason", "the red one"]).exits(0);
    assert_eq!(on.text(), format!("unblocked {id}  (ready)  the red one\n"));
    let again = kanban(&world, &["block", &id, "which?", "--kind", "needs_input"]).exits(0);
    assert!(again.text().contains("(triage)"), "{again:?}");
    assert!(again.stderr.contains(&format!("{id} needs you")), "{again:?}");
    refused(&world, &["block", &id, "again"], 1);
    done(&world, &["promote", &id, "it", "is", "clear", "now"]);
    assert_eq!(status(&world, &id), "ready");
    let alone = refused(&world, &["block", &id, "for others", "--kind", "dependency"], 1);
    assert!(alone.contains("link"), "{alone}");
    kanban(&world, &["block", &id, "x", "--kind", "boredom"]).exits(2);
    kanban(&world, &["block", &id]).exits(2);
    let other = create(&world, &["b"]);
    let both = json(&world, &["block", &id, "closed", "--ids", &other, "--json"]);
    assert_eq!(both.as_array().unwrap().len(), 2);
    assert_eq!(status(&world, &other), "blocked");
}

#[test]
fn a_task_is_put_off_until_a_moment_or_for_good() {
    let world = World::new();
    let id = create(&world, &["a"]);
    let put = json(&world, &["schedule", &id, "offices", "closed", "--in", "2h", "--json"]);
    let put = moved(&put[0], &Value::Null, &json!([]));
    assert_eq!(put["status"], "scheduled");
    assert!(put["wake_at"].is_i64(), "{put}");
    done(&world, &["unblock", &id]);
    done(&world, &["schedule", &id, "not", "this", "year"]);
    assert_eq!(task(&world, &id)["wake_at"], Value::Null);
    kanban(&world, &["schedule", &id, "x", "--at", "09:00", "--in", "1h"]).exits(2);
}

#[test]
fn promoting_can_be_tried_before_it_is_done() {
    let world = World::new();
    let parent = create(&world, &["parent"]);
    let id = create(&world, &["a", "--parent", &parent]);
    let waits = refused(&world, &["promote", &id, "now"], 1);
    assert!(waits.contains(&parent) && waits.contains("--force"), "{waits}");
    let dry = kanban(&world, &["promote", &id, "now", "--force", "--dry-run"]).exits(0);
    assert!(dry.text().starts_with("would promote"), "{dry:?}");
    assert_eq!(status(&world, &id), "todo");
    kanban(&world, &["promote", &id, "now", "--dry-run"]).exits(1);
    done(&world, &["promote", &id, "now", "--force"]);
    assert_eq!(status(&world, &id), "ready");
    refused(&world, &["promote", &id, "again"], 1);
}

#[test]
fn work_that_was_submitted_is_approved_or_sent_back() {
    let world = World::new();
    let id = create(&world, &["a", "--review"]);
    done(&world, &["submit", &id, "--summary", "please look"]);
    assert_eq!(status(&world, &id), "review");
    done(&world, &["changes", &id, "a", "test", "is", "missing"]);
    let back = json(&world, &["show", &id, "--json"]);
    assert_eq!(back["task"]["status"], "ready");
    let said = back["comments"].as_array().unwrap().last().unwrap()["body"].as_str().unwrap();
    assert!(said.contains("a test is missing"), "{said}");
    refused(&world, &["changes", &id, "more"], 1);
    done(&world, &["block", &id, "review-required:", "branch", "wt/x"]);
    assert_eq!(status(&world, &id), "review");
    done(&world, &["complete", &id]);
    assert_eq!(status(&world, &id), "done");
}

#[test]
fn a_person_takes_a_task_keeps_it_and_gives_it_back() {
    let world = World::new();
    let id = create(&world, &["a"]);
    let run = json(&world, &["claim", &id, "--ttl", "1h", "--json"]);
    assert_eq!(run["task_id"], id.as_str());
    assert_eq!(run["host"], Value::Null);
    let running = task(&world, &id);
    assert_eq!(running["status"], "running");
    assert_eq!(running["current_run_id"], run["id"]);
    let taken = refused(&world, &["claim", &id], 1);
    assert!(taken.contains("cannot claim"), "{taken}");
    let beat = json(&world, &["heartbeat", &id, "--note", "half", "--ttl", "2h", "--json"]);
    assert_eq!(beat["run_id"], run["id"]);
    assert!(beat["expires_at"].as_i64() > run["claim_expires"].as_i64(), "{beat}");
    assert_eq!(json(&world, &["runs", &id, "--json"])[0]["note"], "half");
    let busy = refused(&world, &["assign", &id, "default"], 1);
    assert!(busy.contains("reclaim"), "{busy}");
    let again = json(&world, &["reassign", &id, "default", "--reclaim", "--json"]);
    let again = moved(&again, &run["id"], &json!([]));
    assert_eq!((&again["status"], &again["assignee"]), (&json!("ready"), &json!("default")));
    refused(&world, &["heartbeat", &id], 1);
    refused(&world, &["reclaim", &id], 1);
    done(&world, &["claim", &id]);
    let back = json(&world, &["reclaim", &id, "--reason", "mine", "--json"]);
    assert_eq!(back["task"]["status"], "ready");
    done(&world, &["assign", &id, "none"]);
    assert_eq!(task(&world, &id)["assignee"], Value::Null);
    let runs = kanban(&world, &["runs", &id]).exits(0).text();
    assert_eq!(runs.lines().count(), 3, "{runs}");
}

#[test]
fn what_is_put_away_comes_back_or_goes_for_good() {
    let world = World::new();
    let parent = create(&world, &["parent"]);
    let child = create(&world, &["child", "--parent", &parent]);
    let first = refused(&world, &["archive", "--rm", &parent], 1);
    assert!(first.contains("cannot delete"), "{first}");
    let archived = json(&world, &["archive", &parent, "--json"]);
    moved(&archived[0], &Value::Null, &json!([child]));
    assert_eq!(json(&world, &["list", "--json"]).as_array().unwrap().len(), 1);
    assert_eq!(json(&world, &["list", "--archived", "--json"]).as_array().unwrap().len(), 2);
    done(&world, &["reopen", &parent, "after", "all"]);
    assert_eq!(status(&world, &child), "todo");
    done(&world, &["archive", &parent]);
    let gone = json(&world, &["archive", "--rm", &parent, "--json"]);
    assert_eq!(gone, json!([{"task_id": parent, "deleted": true, "error": null}]));
    refused(&world, &["show", &parent], 1);
    kanban(&world, &["archive"]).exits(2);
}
