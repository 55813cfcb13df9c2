//! Files of tasks; and what `gc` removes and `diagnostics` reports.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{create, done, json, kanban, refused};
use crate::support::ProgramFixture;

#[test]
fn a_file_is_added_found_and_taken_away() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    fs::write(fixture.work().join("figures.csv"), "1,2\n").unwrap();
    let file =
        json(&fixture, &["attach", &id, "figures.csv", "--content-type", "text/csv", "--json"]);
    assert_eq!((&file["filename"], &file["size"]), (&json!("figures.csv"), &json!(4)));
    done(&fixture, &["attach", &id, "figures.csv"]);
    let listed = json(&fixture, &["attachments", &id, "--json"]);
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|file| &file["filename"]).collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
    let path = listed[0]["path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "1,2\n");
    assert!(done(&fixture, &["attachments", &id]).contains("figures.csv"));
    let shown = json(&fixture, &["show", &id, "--json"]);
    assert_eq!(shown["attachments"], listed);
    let number = file["id"].to_string();
    done(&fixture, &["attach-rm", &number]);
    assert!(!std::path::Path::new(path).exists());
    refused(&fixture, &["attach-rm", &number], 1);
}

#[test]
fn no_name_of_a_file_leads_out_of_its_place() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    fs::write(fixture.work().join("x"), "x").unwrap();
    let board = fixture.home().join("kanban/boards/default").canonicalize().unwrap();
    for bad in ["../../kanban.db", "/etc/passwd", "..", ".hidden", "a/../b", "a\nb"] {
        let outcome = kanban(&fixture, &["attach", &id, "x", "--name", bad, "--json"]);
        if outcome.code == 0 {
            let listed = json(&fixture, &["attachments", &id, "--json"]);
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
    kanban(&fixture, &["show", &id]).exits(0);
}

#[test]
fn what_is_too_large_or_no_file_is_refused_and_leaves_nothing() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let large = fixture.work().join("large");
    fs::File::create(&large).unwrap().set_len((25 << 20) + 1).unwrap();
    let reported = kanban(&fixture, &["attach", &id, "large"]).exits(2);
    assert!(reported.stderr.contains("25"), "{reported:?}");
    for wrong in ["no-such-file", ".", "/dev/zero", "/"] {
        let reported = kanban(&fixture, &["attach", &id, wrong]);
        assert!(
            [2, 125].contains(&reported.code) && reported.stderr.starts_with("error:"),
            "{reported:?}"
        );
    }
    assert_eq!(json(&fixture, &["attachments", &id, "--json"]), json!([]));
    let kept = fixture.home().join("kanban/boards/default/attachments");
    let left =
        fs::read_dir(&kept).into_iter().flatten().flatten().filter(|entry| {
            fs::read_dir(entry.path()).is_ok_and(|mut files| files.next().is_some())
        });
    assert_eq!(left.count(), 0);
}

#[test]
fn what_is_old_goes_and_a_dry_run_only_says_so() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    for number in 0..55 {
        done(&fixture, &["comment", &id, &number.to_string()]);
    }
    let logs = fixture.home().join("kanban/boards/default/logs");
    fs::create_dir_all(&logs).unwrap();
    let (old, new) = (logs.join(format!("{id}.log.1")), logs.join(format!("{id}.log")));
    fs::write(&new, "new").unwrap();
    let file = fs::File::create(&old).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(24 * 31)).unwrap();
    let all = json!({"events": 5, "runs": 0, "logs": 1, "attachments": 0, "worktrees": 0,
        "places": 0, "kept": []});
    let args = ["gc", "--event-retention-days", "0"];
    assert_eq!(json(&fixture, &[&args[..], &["--dry-run", "--json"]].concat()), all);
    let printed = done(&fixture, &[&args[..], &["-n"]].concat());
    assert_eq!(printed, "would remove 5 events, 1 logs\n");
    assert!(old.exists());
    assert_eq!(json(&fixture, &[&args[..], &["--json"]].concat()), all);
    assert!(!old.exists() && new.exists());
    assert_eq!(done(&fixture, &args), "removed nothing\n");
    // What people said is not an event, and stays.
    let shown = json(&fixture, &["show", &id, "--json"]);
    assert_eq!(shown["comments"].as_array().unwrap().len(), 55);
}

#[test]
fn what_may_be_wrong_is_reported_with_what_to_do() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a", "--assignee", "default"]);
    create(&fixture, &["b", "--assignee", "default"]);
    kanban(&fixture, &["diagnostics"]).exits(0);
    done(&fixture, &["block", &id, "which one?", "--kind", "needs_input"]);
    let found = kanban(&fixture, &["diag", "--json"]).exits(1).json();
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&found[0]["kind"], &found[0]["task_id"]), (&json!("needs_attention"), &json!(id)));
    let text = kanban(&fixture, &["diagnostics", "--task", &id]).exits(1).text();
    assert!(text.contains(&format!("vestal kanban unblock {id}")), "{text}");
    kanban(&fixture, &["diagnostics", "--severity", "critical"]).exits(0);
    kanban(&fixture, &["diagnostics", "--severity", "bad"]).exits(2);
}
