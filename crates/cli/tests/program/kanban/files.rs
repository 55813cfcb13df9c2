//! Files of tasks; and what `gc` removes and `diagnostics` reports.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{create, done, json, kanban, refused};
use crate::support::World;

#[test]
fn a_file_is_added_found_and_taken_away() {
    let world = World::new();
    let id = create(&world, &["a"]);
    fs::write(world.work().join("figures.csv"), "1,2\n").unwrap();
    let file =
        json(&world, &["attach", &id, "figures.csv", "--content-type", "text/csv", "--json"]);
    assert_eq!((&file["filename"], &file["size"]), (&json!("figures.csv"), &json!(4)));
    done(&world, &["attach", &id, "figures.csv"]);
    let listed = json(&world, &["attachments", &id, "--json"]);
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|file| &file["filename"]).collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
    let path = listed[0]["path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "1,2\n");
    assert!(done(&world, &["attachments", &id]).contains("figures.csv"));
    let shown = json(&world, &["show", &id, "--json"]);
    assert_eq!(shown["attachments"], listed);
    let number = file["id"].to_string();
    done(&world, &["attach-rm", &number]);
    assert!(!std::path::Path::new(path).exists());
    refused(&world, &["attach-rm", &number], 1);
}

#[test]
fn no_name_of_a_file_leads_out_of_its_place() {
    let world = World::new();
    let id = create(&world, &["a"]);
    fs::write(world.work().join("x"), "x").unwrap();
    let board = world.home().join("kanban/boards/default").canonicalize().unwrap();
    for bad in ["../../kanban.db", "/etc/passwd", "..", ".hidden", "a/../b", "a\nb"] {
        let outcome = kanban(&world, &["attach", &id, "x", "--name", bad, "--json"]);
        if outcome.code == 0 {
            let listed = json(&world, &["attachments", &id, "--json"]);
            for file in listed.as_array().unwrap() {
                let path = fs::canonicalize(file["path"].as_str().unwrap()).unwrap();
                assert!(path.starts_with(board.join("attachments")), "{bad}: {path:?}");
                let name = file["filename"].as_str().unwrap();
                assert!(!name.contains(['/', '\n']) && !name.starts_with('.'), "{bad}: {name}");
            }
        } else {
            assert_eq!(outcome.code, 2, "{bad}: {outcome:?}");
        }
    }
    kanban(&world, &["show", &id]).exits(0);
}

#[test]
fn what_is_too_large_or_no_file_is_refused_and_leaves_nothing() {
    let world = World::new();
    let id = create(&world, &["a"]);
    let large = world.work().join("large");
    fs::File::create(&large).unwrap().set_len((25 << 20) + 1).unwrap();
    let told = kanban(&world, &["attach", &id, "large"]).exits(2);
    assert!(told.stderr.contains("25"), "{told:?}");
    for wrong in ["no-such-file", ".", "/dev/zero", "/"] {
        let told = kanban(&world, &["attach", &id, wrong]);
        assert!([2, 125].contains(&told.code) && told.stderr.starts_with("error:"), "{told:?}");
    }
    assert_eq!(json(&world, &["attachments", &id, "--json"]), json!([]));
    let kept = world.home().join("kanban/boards/default/attachments");
    let left =
        fs::read_dir(&kept).into_iter().flatten().flatten().filter(|entry| {
            fs::read_dir(entry.path()).is_ok_and(|mut files| files.next().is_some())
        });
    assert_eq!(left.count(), 0);
}

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
