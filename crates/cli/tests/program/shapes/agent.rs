//! Turns, models, conversations.

use vestal_scripted_model::{Model, Script, ScriptedReply};

use super::Transcript;
use crate::chat::fixture::ChatFixture;
use crate::conversations;
use crate::support::ProgramFixture;

#[test]
fn turns_and_models() {
    let script =
        Script::replies([ScriptedReply::text("Done."), ScriptedReply::error(401, "no such key")]);
    let chat = ChatFixture::new(script.models([Model::new("scripted").context_length(8000)]));
    let mut calls = Transcript::new(&chat.fixture);
    calls.variables = chat.variables();
    calls.names.push((chat.model.base_url(), "[address]".to_owned()));
    calls.call(&["chat", "-q", "work"]);
    calls.call_exiting(&["chat", "-q", "work"], 3);
    calls.call(&["model", "list"]);
    calls.variables.clear();
    calls.call_exiting(&["chat", "-q", "work"], 1);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn conversations() {
    let fixture = ProgramFixture::new();
    conversations::seed(&fixture);
    let mut calls = Transcript::new(&fixture);
    calls.names.push(("AAAA".repeat(1000), "[image]".to_owned()));
    calls.call(&["conversations", "list"]);
    calls.call(&["conversations", "show", "k3f9ab"]);
    calls.call(&["conversations", "search", "missing semicolon"]);
    calls.call(&["conversations", "rename", "k3f9ab", "Mended"]);
    calls.call(&["conversations", "undo", "k3f9ab"]);
    calls.call(&["conversations", "export", "k3f9ab", "-o", "talk.jsonl"]);
    let exported = std::fs::read_to_string(fixture.work().join("talk.jsonl")).unwrap();
    let head = super::masked(exported.lines().next().unwrap());
    calls.text.push_str(&head);
    calls.text.push('\n');
    calls.call_exiting(&["conversations", "show", "k3f9"], 1);
    calls.call_exiting(&["conversations", "show", "nobody"], 1);
    calls.call(&["conversations", "delete", "-y", "k3f9ab"]);
    insta::assert_snapshot!(calls.text);
}
