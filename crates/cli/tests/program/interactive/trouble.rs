//! What is broken is said once, in place, and the chat goes on.

use std::fs;

use vestal_scripted_model::{Script, ScriptedReply};

use super::world::{Seat, columns};
use crate::chat::world::Chatting;

fn told_once_and_goes_on(chat: &Chatting, told: &str) {
    let mut seat = Seat::take(chat);
    seat.says("are you there?");
    seat.sees("Still here.");
    seat.sees_prompt();
    seat.says("and now?");
    seat.sees("Here as well.");
    assert_eq!(seat.count(told), 1, "{}", seat.all());
    assert_eq!(seat.leaves(), 0);
}

fn answering() -> Chatting {
    let chat = Chatting::replies(["Still here.", "Here as well."].map(ScriptedReply::text));
    fs::create_dir_all(chat.world.home()).unwrap();
    chat
}

#[test]
fn a_broken_mcp_server() {
    let chat = answering();
    let config = "mcp_servers:\n  broken:\n    command: \"false\"\n";
    fs::write(chat.world.home().join("config.yaml"), config).unwrap();
    told_once_and_goes_on(&chat, "broken");
}

#[test]
fn a_memory_that_cannot_be_read() {
    let chat = answering();
    fs::create_dir_all(chat.world.home().join("memories/MEMORY.md")).unwrap();
    told_once_and_goes_on(&chat, "MEMORY.md");
}

#[test]
fn a_malformed_skill() {
    let chat = answering();
    let skill = chat.world.home().join("skills/odd");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: [\n---\nwords\n").unwrap();
    told_once_and_goes_on(&chat, "odd is broken");
}

#[test]
fn a_provider_that_fails_leaves_the_words_for_another_try() {
    let chat = Chatting::new(Script::replies([
        ScriptedReply::error(500, "the model is on fire"),
        ScriptedReply::text("Better now."),
    ]));
    let mut seat = Seat::take(&chat);
    seat.says("hello");
    seat.sees("the model is on fire");
    seat.sees_prompt();
    seat.says("/retry");
    seat.sees("Better now.");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn a_store_of_a_newer_version_is_refused_before_anything_is_drawn() {
    let chat = Chatting::new(Script::new());
    chat.model.push(ScriptedReply::text("x"));
    chat.ask("x").exits(0);
    let store = chat.world.home().join("state.db");
    let changed = std::process::Command::new("python3")
        .arg("-c")
        .arg("import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('pragma user_version=9999'); c.commit()")
        .arg(&store)
        .status()
        .unwrap();
    assert!(changed.success());
    let mut seat = Seat::take_with(&chat, &["chat"], super::world::columns(80));
    seat.sees("error:");
    assert_eq!(seat.ends(), 125);
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_not_drawn_on() {
    let chat = answering();
    let mut variables = chat.variables();
    variables.push(("TERM", "dumb".to_owned()));
    let mut seat = Seat::start(&chat, &["chat"], columns(80), &variables);
    seat.sees("vestal chat -q");
    assert_eq!(seat.ends(), 2);
    let written = String::from_utf8_lossy(&seat.pty.written()).into_owned();
    assert!(!written.contains('\x1b'), "{written:?}");
}
