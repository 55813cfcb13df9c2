//! Reading changes nothing and creates nothing, also from a conversation (`/kanban`).

use serde_json::json;

use super::{create, done, json, kanban, steady};
use crate::support::ProgramFixture;

#[test]
fn looking_at_a_fresh_home_makes_nothing_and_says_how_to_begin() {
    let fixture = ProgramFixture::new();
    let listed = kanban(&fixture, &["list"]).exits(0);
    assert_eq!(listed.text(), "");
    assert!(listed.stderr.contains("no tasks on board default yet"), "{listed:?}");
    assert!(listed.stderr.contains("vestal kanban create TITLE"), "{listed:?}");
    for args in
        [&["list", "--json"][..], &["list", "--attention", "--json"], &["diagnostics", "--json"]]
    {
        assert_eq!(json(&fixture, args), json!([]), "{args:?}");
    }
    assert_eq!(json(&fixture, &["stats", "--json"])["by_status"], json!({}));
    assert_eq!(
        json(&fixture, &["assignees", "--json"]),
        json!([{"name": "default", "exists": true, "counts": {}}])
    );
    assert_eq!(json(&fixture, &["init", "--json"])["exists"], json!(false));
    let boards = json(&fixture, &["boards", "list", "--json"]);
    assert_eq!(boards[0]["slug"], "default");
    done(&fixture, &["boards", "show"]);
    done(&fixture, &["init"]);
    for verb in ["show", "runs", "context", "log", "tail", "attachments", "claim", "unblock"] {
        let missing = kanban(&fixture, &[verb, "t_000000000000"]).exits(1);
        assert!(missing.stderr.contains("there is no task"), "{missing:?}");
    }
    assert!(!fixture.home().exists());
}

#[test]
fn a_list_of_what_was_made_is_pleasant_to_read() {
    let fixture = ProgramFixture::new();
    super::profile(&fixture, "alpha");
    let first = create(&fixture, &["Write the report", "--assignee", "alpha", "--priority", "5"]);
    create(&fixture, &["Send it", "--assignee", "alpha", "--parent", &first]);
    create(&fixture, &["A rough idea", "--triage", "--tenant", "acme"]);
    let gate = create(&fixture, &["Spend money", "--initial-status", "blocked"]);
    done(&fixture, &["complete", &create(&fixture, &["Done before"])]);
    let asks = create(&fixture, &["Choose a colour", "--assignee", "alpha"]);
    done(&fixture, &["block", &asks, "which", "one?", "--kind", "needs_input"]);
    let listed = kanban(&fixture, &["list"]).exits(0);
    insta::assert_snapshot!(steady(&fixture, &listed.text()));
    assert!(listed.stderr.contains(&format!("1 task needs you: {asks};")), "{listed:?}");
    let needy = json(&fixture, &["list", "--attention", "--json"]);
    assert_eq!(needy.as_array().unwrap().len(), 1);
    let blocked = json(&fixture, &["list", "--status", "blocked", "--json"]);
    assert_eq!(blocked.as_array().unwrap().len(), 2, "{gate}: {blocked}");
}

#[test]
fn a_sheet_says_everything_about_a_task() {
    let fixture = ProgramFixture::new();
    super::profile(&fixture, "alpha");
    let parent = create(&fixture, &["Gather the figures", "--assignee", "alpha"]);
    let args = ["Write the report", "--assignee", "alpha", "--parent", &parent];
    let id = create(&fixture, &[&args[..], &["--body", "Two pages.\nBy Friday."]].concat());
    done(&fixture, &["comment", &id, "the", "figures", "are", "in", "the", "annex"]);
    done(&fixture, &["complete", &parent, "--summary", "all twelve of them"]);
    done(&fixture, &["block", &id, "which quarter?", "--kind", "needs_input"]);
    insta::assert_snapshot!(steady(&fixture, &done(&fixture, &["show", &id])));
    // A beginning that only one has is enough, with or without the prefix.
    let mut beginning = 3;
    while parent.starts_with(&id[..beginning]) {
        beginning += 1;
    }
    let shown = json(&fixture, &["show", &id[..beginning], "--json"]);
    assert_eq!(shown["task"]["id"], id.as_str());
    let keys: Vec<&str> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "attachments",
            "children",
            "comments",
            "events",
            "failures",
            "latest_summary",
            "parents",
            "runs",
            "task"
        ]
    );
    assert_eq!(
        shown["parents"],
        json!([{"id": parent, "title": "Gather the figures", "status": "done"}])
    );
}

#[test]
fn lists_are_filtered_sorted_and_paged() {
    let fixture = ProgramFixture::new();
    let names = ["b one", "a two", "c three", "d four"];
    for (index, name) in names.iter().enumerate() {
        let assignee = if index % 2 == 0 { "odd" } else { "even" };
        let body = format!("body {index}");
        create(&fixture, &[name, "--assignee", assignee, "--body", &body, "--tenant", "x"]);
    }
    create(&fixture, &["of nobody"]);
    let titles = |args: &[&str]| -> Vec<String> {
        let mut all = vec!["list", "--json"];
        all.extend(args);
        let listed = json(&fixture, &all);
        let titles = listed.as_array().unwrap().iter();
        titles.map(|task| task["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        titles(&["--sort", "title", "--tenant", "x"]),
        ["a two", "b one", "c three", "d four"]
    );
    assert_eq!(titles(&["--sort", "created", "--assignee", "ODD"]), ["b one", "c three"]);
    assert_eq!(titles(&["--sort", "created-desc", "--assignee", "even"]), ["d four", "a two"]);
    assert_eq!(titles(&["--assignee", "none"]), ["of nobody"]);
    assert_eq!(titles(&["--search", "BODY 2"]), ["c three"]);
    assert_eq!(titles(&["--search", "%"]), [""; 0]);
    assert_eq!(
        titles(&["--sort", "created", "--limit", "2", "--offset", "1"]),
        ["a two", "c three"]
    );
    assert_eq!(titles(&["--all"]).len(), 5);
    let page = kanban(&fixture, &["ls", "--limit", "2"]).exits(0);
    assert_eq!(page.text().lines().count(), 3, "{page:?}");
    assert!(page.stderr.contains("--offset 2"), "{page:?}");
    kanban(&fixture, &["list", "--status", "donee"]).exits(2);
    kanban(&fixture, &["list", "--sort", "sideways"]).exits(2);
}

#[test]
fn counts_follow_the_tasks() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a", "--assignee", "default"]);
    create(&fixture, &["b", "--assignee", "nobody-there"]);
    done(&fixture, &["complete", &id]);
    let stats = json(&fixture, &["stats", "--json"]);
    assert_eq!(stats["by_status"], json!({"ready": 1, "done": 1}));
    assert_eq!(stats["by_assignee"], json!({"default": {"done": 1}, "nobody-there": {"ready": 1}}));
    assert_eq!(stats["needs_attention"], 0);
    assert!(stats["oldest_ready_age_seconds"].is_u64() && stats["now"].is_i64(), "{stats}");
    assert_eq!(
        json(&fixture, &["assignees", "--json"]),
        json!([{"name": "default", "exists": true, "counts": {"done": 1}},
            {"name": "nobody-there", "exists": false, "counts": {"ready": 1}}])
    );
    assert!(done(&fixture, &["stats"]).contains("nobody-there 1"));
    assert!(done(&fixture, &["assignees"]).contains("nobody-there"));
}

#[test]
fn the_context_of_a_worker_can_be_read() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["Write it", "--body", "two pages \u{1b}[2J"]);
    let reported = done(&fixture, &["context", &id]);
    assert!(reported.contains("Write it") && reported.contains("two pages \\x1b[2J"), "{reported}");
    let json = json(&fixture, &["context", &id, "--json"]);
    assert_eq!(json["task_id"], id.as_str());
}

#[test]
fn a_command_of_the_board_is_done_without_asking_a_model() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["Write it"]);
    // There is no model here to be asked.
    let say = |text: &str| fixture.vestal(["chat", "-q", text]);
    let listed = say("/kanban list --json").exits(0).json();
    assert_eq!(listed[0]["id"], json!(id));
    let made = say("/kanban create 'Send it' --body \"to all\" --json").exits(0).json();
    assert_eq!((&made["title"], &made["body"]), (&json!("Send it"), &json!("to all")));
    let short = say("/kanban").exits(0).text();
    assert!(short.contains("/kanban unblock ID"), "{short}");
    assert!(short.len() < 1000);
    let help = say("/kanban create --help").exits(0).text();
    assert!(help.contains("--idempotency-key"), "{help}");
    say("/kanban show t_zzzzzzzzzzzz").exits(1);
    let wrong = say("/kanban lst").exits(2);
    assert!(wrong.stderr.contains("'list'"), "{wrong:?}");
    let open = say("/kanban comment it's").exits(2);
    assert!(open.stderr.contains("the quote ' is not closed"), "{open:?}");
    // Commands of a conversation need one; help does not.
    let undo = say("/undo").exits(2);
    assert!(undo.stderr.contains("/undo is for an open conversation"), "{undo:?}");
    assert!(say("/help").exits(0).text().contains("/kanban      the board"));
    assert_eq!(say("/sessions list --json").exits(0).json(), json!([]));
    // What only looks like one is meant for the model, and so is what is piped in.
    say("/kanbanx").exits(1);
    fixture.vestal_with(["chat", "-q", "-"], b"/kanban list").exits(1);
    assert!(kanban(&fixture, &["list"]).exits(0).text().contains("Send it"));
}
