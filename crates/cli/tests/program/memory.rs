//! `vestal memory`, and what the agent makes of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use vestal_scripted_model::ScriptedReply;

use crate::chat::fixture::ChatFixture;
use crate::support::{ProgramFixture, finish};

const BUILD: &str = "the build needs make";

#[test]
fn notes_are_added_shown_replaced_and_removed() {
    let fixture = ProgramFixture::new();
    let empty = fixture.vestal(["memory"]).exits(0).text();
    assert!(
        empty.contains("memory: the agent's own notes (0 notes, 0 of 2200 characters)"),
        "{empty}"
    );
    let added = fixture.vestal(["memory", "add", BUILD]).exits(0);
    assert_eq!(added.text(), "added; memory has 1 note, 20 of 2200 characters\n");
    let piped = ["memory", "add", "--target", "user", "-"];
    fixture.vestal_with(piped, b"likes tea\nand cake\n").exits(0);
    let shown = fixture.vestal(["memory", "show"]).exits(0).text();
    assert!(shown.contains("\n  - the build needs make\n"), "{shown}");
    assert!(
        shown.contains(
            "user: about you (1 note, 18 of 1375 characters)\n  - likes tea\n    and cake\n"
        ),
        "{shown}"
    );
    fixture.vestal(["memory", "replace", "build", "the build needs ninja"]).exits(0);
    let user = fixture.vestal(["memory", "user"]).exits(0).text();
    assert!(!user.contains("build") && user.contains("likes tea"), "{user}");
    let file = fixture.vestal(["memory", "path", "memory"]).exits(0).text();
    assert_eq!(fs::read_to_string(file.trim()).unwrap(), "the build needs ninja\n");
    assert_eq!(fs::metadata(file.trim()).unwrap().permissions().mode() & 0o777, 0o600);
    fixture.vestal(["memory", "remove", "ninja"]).exits(0);
    assert_eq!(fs::read_to_string(file.trim()).unwrap(), "");
}

#[test]
fn the_json_has_the_promised_shape() {
    let fixture = ProgramFixture::new();
    let added = fixture.vestal(["memory", "add", BUILD, "--json"]).exits(0).json();
    let path = fixture.home().join("memories/MEMORY.md");
    let expected = json!({"target": "memory", "path": path, "enabled": true, "entries": [BUILD],
        "characters": 20, "limit": 2200, "error": null});
    assert_eq!(added, expected);
    let shown = fixture.vestal(["memory", "--json"]).exits(0).json();
    assert_eq!(shown[0], expected);
    assert_eq!((&shown[1]["target"], &shown[1]["limit"]), (&json!("user"), &json!(1375)));
    let left = fixture.vestal(["memory", "clear", "memory", "-y", "--json"]).exits(0).json();
    assert_eq!(left["entries"], json!([]));
}

#[test]
fn what_is_refused_ends_with_1_and_changes_nothing() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["memory", "add", BUILD]).exits(0);
    fixture.vestal(["memory", "add", "the tests need make"]).exits(0);
    let before = fs::read(fixture.home().join("memories/MEMORY.md")).unwrap();
    for (words, says) in [
        (&["add", BUILD][..], "is there already"),
        (&["add", " "], "a note must not be empty"),
        (&["add", "one\n§\ntwo"], "stands between notes"),
        (&["remove", "zebra"], "no note of memory has the words"),
        (&["remove", "make"], "2 notes have the words"),
        (&["replace", "build", "the tests need make"], "is there already"),
    ] {
        let outcome = fixture.vestal(["memory"].iter().chain(words)).exits(1);
        assert!(outcome.stderr.contains(says), "{words:?}: {outcome:?}");
    }
    let long = "x".repeat(2_200);
    let full = fixture.vestal(["memory", "add", &long]).exits(1);
    assert!(full.stderr.contains("of 2200 characters, and would have"), "{full:?}");
    fixture.vestal(["memory", "clear", "memory"]).exits(2);
    fixture.vestal(["memory", "show", "dogs"]).exits(2);
    assert_eq!(fs::read(fixture.home().join("memories/MEMORY.md")).unwrap(), before);
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_left_alone() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["memory", "add", "--target", "user", "likes tea"]).exits(0);
    let file = fixture.home().join("memories/MEMORY.md");
    fs::write(&file, b"not \xff text").unwrap();
    let shown = fixture.vestal(["memory"]).exits(1);
    assert!(shown.stderr.contains("line 1 is not UTF-8"), "{shown:?}");
    assert!(shown.text().contains("likes tea"), "{shown:?}");
    for verb in [&["add", "x"][..], &["clear", "memory", "-y"], &["edit"]] {
        let outcome = fixture.vestal(["memory"].iter().chain(verb)).exits(125);
        assert!(outcome.stderr.contains("not UTF-8"), "{outcome:?}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"not \xff text");
}

#[test]
fn many_processes_that_add_notes_at_once_lose_none() {
    let fixture = ProgramFixture::new();
    let racing: Vec<_> = (0..20)
        .map(|n| fixture.command(["memory", "add", &format!("note {n}.")]).spawn().unwrap())
        .collect();
    for child in racing {
        finish(child).exits(0);
    }
    let shown = fixture.vestal(["memory", "memory", "--json"]).exits(0).json();
    let mut notes: Vec<&str> =
        shown[0]["entries"].as_array().unwrap().iter().filter_map(|note| note.as_str()).collect();
    notes.sort_unstable();
    let mut expected: Vec<String> = (0..20).map(|n| format!("note {n}.")).collect();
    expected.sort();
    assert_eq!(notes, expected);
}

#[test]
fn an_editor_changes_the_notes_unless_somebody_else_did_meanwhile() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["memory", "add", BUILD]).exits(0);
    let edit = |editor: &str| {
        let mut command = fixture.command(["memory", "edit"]);
        finish(command.env("EDITOR", editor).spawn().unwrap())
    };
    edit("sed -i s/make/ninja/").exits(0);
    let file = fixture.home().join("memories/MEMORY.md");
    assert_eq!(fs::read_to_string(&file).unwrap(), "the build needs ninja\n");
    let same = edit("true").exits(0);
    assert!(same.stderr.contains("nothing was changed"), "{same:?}");
    let failed = edit("false").exits(125);
    assert!(!failed.stderr.contains("what you wrote is in"), "{failed:?}");
    let program = env!("CARGO_BIN_EXE_vestal");
    let meanwhile = format!("{program} memory add another >/dev/null; echo mine >");
    let late = edit(&meanwhile).exits(1);
    assert!(late.stderr.contains("have changed meanwhile"), "{late:?}");
    let (_, draft) = late.stderr.trim_end().rsplit_once("what you wrote is in ").unwrap();
    assert_eq!(fs::read_to_string(draft).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "the build needs ninja\n§\nanother\n");
    let drafts = fs::read_dir(fixture.home().join("run")).unwrap().flatten();
    let drafts = drafts.filter(|entry| entry.file_name().to_string_lossy().starts_with("edit-"));
    assert_eq!(drafts.count(), 1);
}

#[test]
fn what_is_switched_off_is_reported_as_such() {
    let fixture = ProgramFixture::new();
    let off = ["--set", "memory.memory_enabled=false", "memory", "add", BUILD];
    let added = fixture.vestal(off).exits(0);
    assert!(added.stderr.contains("memory.memory_enabled is off"), "{added:?}");
    let secret = ["memory", "add", "token ghp_0123456789abcdefghijklmnopqrstuvwxyz"];
    let secret = fixture.vestal(secret).exits(0);
    assert!(secret.stderr.contains("secret was left out"), "{secret:?}");
    let text = fs::read_to_string(fixture.home().join("memories/MEMORY.md")).unwrap();
    assert!(!text.contains("ghp_0123456789"), "{text}");
}

#[test]
fn the_agent_notes_something_and_knows_it_and_finds_the_conversation_next_time() {
    let chat = ChatFixture::replies([
        ScriptedReply::tool_call(
            "memory",
            json!({"action": "add", "content": "the walrus is called Otto"}),
        ),
        ScriptedReply::text("Noted."),
        ScriptedReply::tool_call("session_search", json!({"query": "walrus"})),
        ScriptedReply::text("Otto."),
    ]);
    chat.ask("my walrus is called Otto").exits(0);
    chat.ask("what is its name?").exits(0);
    let requests = chat.model.requests();
    assert!(!requests[0].system().contains("Otto"), "{}", requests[0].system());
    assert!(
        requests[2].system().contains("- the walrus is called Otto"),
        "{}",
        requests[2].system()
    );
    let results = requests[3].last_tool_results();
    assert!(results[0].contains("my **walrus** is called Otto"), "{results:?}");
    let shown = chat.vestal(["memory"]).exits(0).text();
    assert!(shown.contains("the walrus is called Otto"), "{shown}");
}

#[test]
fn an_unreadable_file_costs_a_chat_a_warning_and_nothing_else() {
    let chat = ChatFixture::replies([ScriptedReply::text("Hello.")]);
    fs::create_dir_all(chat.fixture.home().join("memories/MEMORY.md")).unwrap();
    let outcome = chat.ask("greet").exits(0);
    assert_eq!(outcome.text(), "Hello.\n");
    assert_eq!(outcome.stderr.matches("MEMORY.md").count(), 1, "{outcome:?}");
}
