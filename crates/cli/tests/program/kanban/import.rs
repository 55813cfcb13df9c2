//! Many tasks at once.

use serde_json::json;

use super::{create, json, kanban};
use crate::support::ProgramFixture;

#[test]
fn all_tasks_of_a_file_are_made_or_none() {
    let fixture = ProgramFixture::new();
    let parent = create(&fixture, &["parent"]);
    let lines = [
        json!({"title": "one", "assignee": "default", "priority": 3, "tenant": "t"}),
        json!({"title": "two", "parents": [parent], "skills": ["s"], "max_runtime": "5m"}),
        json!({"title": "three", "triage": true}),
        json!({"title": "four", "blocked": true}),
        json!({"title": "five", "at": "2099-01-01T00:00:00Z", "review": true}),
    ];
    let text = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n") + "\n\n";
    let file = fixture.work().join("tasks.jsonl");
    std::fs::write(&file, &text).unwrap();
    let made = json(&fixture, &["create", "--from", "tasks.jsonl", "--created-by", "me", "--json"]);
    let facts: Vec<_> = made
        .as_array()
        .unwrap()
        .iter()
        .map(|task| json!([task["title"], task["status"], task["created_by"]]))
        .collect();
    assert_eq!(
        json!(facts),
        json!([
            ["one", "ready", "me"],
            ["two", "todo", "me"],
            ["three", "triage", "me"],
            ["four", "blocked", "me"],
            ["five", "scheduled", "me"]
        ])
    );
    let piped = fixture.vestal_with(["kanban", "create", "--from", "-"], text.as_bytes()).exits(0);
    assert_eq!(piped.text(), "Created 5 tasks\n");
    let wrong = format!("{text}{{\"title\": \"six\", \"parents\": [\"t_nope\"]}}\n");
    for (bad, printed) in [
        (wrong.as_str(), "line 11"),
        ("{\"title\": \"\"}", "the title is empty"),
        ("{\"titel\": \"x\"}", "titel"),
        ("{\"title\": \"x\", \"triage\": true, \"blocked\": true}", "use only one of triage"),
        ("{\"title\": \"x\"}\n{\"title\": \"y\",}", "line 2: trailing comma, column 15"),
        ("", "no task in standard input"),
    ] {
        let outcome = fixture.vestal_with(["kanban", "create", "--from", "-"], bad.as_bytes());
        assert!([1, 2].contains(&outcome.code), "{bad}: {outcome:?}");
        assert!(outcome.stderr.contains(printed), "{bad}: {outcome:?}");
    }
    kanban(&fixture, &["create", "--from", "no-such-file"]).exits(125);
    let count = json(&fixture, &["list", "--all", "--json"]).as_array().unwrap().len();
    assert_eq!(count, 11);
}

#[test]
fn a_line_waits_for_an_earlier_one_by_its_ref() {
    let fixture = ProgramFixture::new();
    let lines = [
        json!({"ref": "design", "title": "design"}),
        json!({"ref": "build", "title": "build", "parents": ["design"]}),
        json!({"title": "ship", "parents": ["design", "build"]}),
    ];
    let text = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let made = fixture
        .vestal_with(["kanban", "create", "--from", "-", "--json"], text.as_bytes())
        .exits(0)
        .json();
    let facts =
        json!([0, 1, 2].map(|at: usize| json!([made[at]["status"], made[at]["pending_parents"]])));
    assert_eq!(facts, json!([["ready", 0], ["todo", 1], ["todo", 2]]));
    let shown = json(&fixture, &["show", made[1]["id"].as_str().unwrap(), "--json"]);
    assert_eq!(shown["parents"][0]["id"], made[0]["id"]);
    let known = &made[0]["id"];
    for (first, second, printed) in [
        // One that comes later is not there yet; no task is called so, for its letters are in no id.
        (json!({"title": "a", "parents": ["oil"]}), json!({"ref": "oil", "title": "b"}), "line 1"),
        // One that comes later, and is called as a task is.
        (json!({"title": "a", "parents": [known]}), json!({"ref": known, "title": "b"}), "line 2"),
        (json!({"ref": "a", "title": "a"}), json!({"ref": "a", "title": "b"}), "line 2"),
    ] {
        let bad = format!("{first}\n{second}\n");
        let refused = fixture.vestal_with(["kanban", "create", "--from", "-"], bad.as_bytes());
        assert!([1, 2].contains(&refused.code) && refused.stderr.contains(printed), "{refused:?}");
    }
    assert_eq!(json(&fixture, &["list", "--all", "--json"]).as_array().unwrap().len(), 3);
}
