//! What is old goes, and what may be wrong is told.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{create, done, json, kanban};
use crate::support::World;

#[test]
fn what_is_old_goes_and_a_dry_run_only_says_so() {
    let world = World::new();
    let id = create(&world, &["a"]);
    for number in 0..55 {
        done(&world, &["comment", &id, &number.to_string()]);
    }
    let logs = world.home().join("kanban/boards/default/logs");
    fs::create_dir_all(&logs).unwrap();
    let (old, new) = (logs.join(format!("{id}.log.1")), logs.join(format!("{id}.log")));
    fs::write(&new, "new").unwrap();
    let file = fs::File::create(&old).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(24 * 31)).unwrap();
    let all = json!({"events": 5, "runs": 0, "logs": 1, "attachments": 0, "worktrees": 0,
        "places": 0, "kept": []});
    let args = ["gc", "--event-retention-days", "0"];
    assert_eq!(json(&world, &[&args[..], &["--dry-run", "--json"]].concat()), all);
    let said = done(&world, &[&args[..], &["-n"]].concat());
    assert_eq!(said, "would remove 5 events, 1 logs\n");
    assert!(old.exists());
    assert_eq!(json(&world, &[&args[..], &["--json"]].concat()), all);
    assert!(!old.exists() && new.exists());
    assert_eq!(done(&world, &args), "removed nothing\n");
    // What people said is no event, and stays.
    let shown = json(&world, &["show", &id, "--json"]);
    assert_eq!(shown["comments"].as_array().unwrap().len(), 55);
}

#[test]
fn what_may_be_wrong_is_told_with_what_to_do() {
    let world = World::new();
    let id = create(&world, &["a", "--assignee", "default"]);
    create(&world, &["b", "--assignee", "default"]);
    kanban(&world, &["diagnostics"]).exits(0);
    done(&world, &["block", &id, "which one?", "--kind", "needs_input"]);
    let found = kanban(&world, &["diag", "--json"]).exits(1).json();
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&found[0]["kind"], &found[0]["task_id"]), (&json!("needs_attention"), &json!(id)));
    let text = kanban(&world, &["diagnostics", "--task", &id]).exits(1).text();
    assert!(text.contains(&format!("vestal kanban unblock {id}")), "{text}");
    kanban(&world, &["diagnostics", "--severity", "critical"]).exits(0);
    kanban(&world, &["diagnostics", "--severity", "bad"]).exits(2);
}
