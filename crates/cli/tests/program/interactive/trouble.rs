//! What is broken is said once, in place, and the chat goes on.

use std::fs;

use vestal_scripted_model::{Script, ScriptedReply};

use super::fixture::{ChatTerminal, columns};
use crate::chat::fixture::ChatFixture;

fn reported_once_and_goes_on(chat: &ChatFixture, reported: &str) {
    let mut tty = ChatTerminal::take(chat);
    tty.submits("are you there?");
    tty.sees("Still here.");
    tty.sees_prompt();
    tty.submits("and now?");
    tty.sees("Here as well.");
    assert_eq!(tty.count(reported), 1, "{}", tty.all());
    assert_eq!(tty.leaves(), 0);
}

fn answering() -> ChatFixture {
    let chat = ChatFixture::replies(["Still here.", "Here as well."].map(ScriptedReply::text));
    fs::create_dir_all(chat.fixture.home()).unwrap();
    chat
}

#[test]
fn a_broken_mcp_server() {
    let chat = answering();
    let config = "mcp_servers:\n  broken:\n    command: \"false\"\n";
    fs::write(chat.fixture.home().join("config.yaml"), config).unwrap();
    reported_once_and_goes_on(&chat, "broken");
}

#[test]
fn a_memory_that_cannot_be_read() {
    let chat = answering();
    fs::create_dir_all(chat.fixture.home().join("memories/MEMORY.md")).unwrap();
    reported_once_and_goes_on(&chat, "MEMORY.md");
}

#[test]
fn a_malformed_skill() {
    let chat = answering();
    let skill = chat.fixture.home().join("skills/odd");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: [\n---\nwords\n").unwrap();
    reported_once_and_goes_on(&chat, "odd is broken");
}

#[test]
fn a_provider_that_fails_leaves_the_words_for_another_try() {
    let chat = ChatFixture::new(Script::replies([
        ScriptedReply::error(500, "the model is on fire"),
        ScriptedReply::text("Better now."),
    ]));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("hello");
    tty.sees("the model is on fire");
    tty.sees_prompt();
    tty.submits("/retry");
    tty.sees("Better now.");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn a_store_of_a_newer_version_is_refused_before_anything_is_drawn() {
    let chat = ChatFixture::new(Script::new());
    chat.model.push(ScriptedReply::text("x"));
    chat.ask("x").exits(0);
    let store = chat.fixture.home().join("state.db");
    let changed = std::process::Command::new("python3")
        .arg("-c")
        .arg("import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('pragma user_version=9999'); c.commit()")
        .arg(&store)
        .status()
        .unwrap();
    assert!(changed.success());
    let mut tty = ChatTerminal::take_with(&chat, &["chat"], super::fixture::columns(80));
    tty.sees("error:");
    assert_eq!(tty.ends(), 125);
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_not_drawn_on() {
    let chat = answering();
    let mut variables = chat.variables();
    variables.push(("TERM", "dumb".to_owned()));
    let mut tty = ChatTerminal::start(&chat, &["chat"], columns(80), &variables);
    tty.sees("a chat cannot be drawn on this terminal (TERM=dumb)");
    tty.sees("vestal chat -q");
    assert_eq!(tty.ends(), 2);
    let written = String::from_utf8_lossy(&tty.pty.written()).into_owned();
    assert!(!written.contains('\x1b'), "{written:?}");
}
