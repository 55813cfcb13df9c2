//! What becomes of a turn when a signal comes.

use std::fs;

use rustix::process::Signal;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::files::Fifo;

use super::fixture::{ChatFixture, terminal};
use crate::support::{RunningProgram, is_alive};

/// Makes a pipe that a command in the sandbox writes to when it runs.
fn pipe(chat: &ChatFixture, name: &str) -> Fifo {
    Fifo::create(chat.fixture.work().join(name))
}

#[test]
fn an_interrupt_kills_the_running_command_and_all_it_started() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let chat = ChatFixture::replies([terminal("setsid sleep 1000 & echo $$ $! > pids; wait")]);
        let pids = pipe(&chat, "pids");
        let started = RunningProgram::start(chat.command(["chat", "-q", "go"]));
        let pids = pids.read();
        started.signal(signal);
        let (exit, stderr) = started.end();
        assert_eq!(exit, code, "{stderr}");
        assert!(pids.split_whitespace().count() == 2, "{pids}");
        assert!(pids.split_whitespace().all(|pid| !is_alive(pid)), "{pids}");
        // The sandbox is still there, and so is the conversation.
        chat.model.push(ScriptedReply::text("Where were we?"));
        let outcome = chat.vestal(["chat", "-c", "-q", "go on"]).exits(0);
        assert_eq!(outcome.text(), "Where were we?\n");
    }
}

/// Returns what the model last received about a call.
fn reported(chat: &ChatFixture) -> serde_json::Value {
    let requests = chat.model.requests();
    let messages = requests.last().unwrap().messages();
    let result = messages.iter().rfind(|message| message["role"] == "tool").unwrap();
    serde_json::from_str(result["content"].as_str().unwrap()).unwrap()
}

#[test]
fn a_command_that_outlives_its_killed_caller_is_not_run_again_and_its_result_is_used() {
    let command = "echo > began; read word < go; echo the word is $word; echo ran >> runs";
    let chat = ChatFixture::replies([terminal(command)]);
    let (began, go) = (pipe(&chat, "began"), pipe(&chat, "go"));
    let started = RunningProgram::start(chat.command(["chat", "-q", "go"]));
    began.read();
    started.signal(Signal::KILL);
    started.end();
    // It still runs, and the next process says so.
    chat.model.push(ScriptedReply::text("It runs."));
    chat.vestal(["chat", "-c", "-q", "what of it?"]).exits(0);
    let running = reported(&chat);
    let job = running["session_id"].as_str().unwrap().to_owned();
    assert!(running["hint"].as_str().unwrap().contains("still runs"), "{running}");
    // Nobody takes the number for how it ended.
    let meaning = running["exit_code_meaning"].as_str().unwrap();
    assert!(meaning.contains("no exit code yet"), "{running}");
    go.write("lantern\n");
    chat.fixture.vestal(["wait", &job]).exits(0);
    assert_eq!(fs::read_to_string(chat.fixture.work().join("runs")).unwrap(), "ran\n");
}

#[test]
fn the_result_of_a_command_whose_caller_was_killed_is_the_result_of_its_call() {
    let command = "echo > began; read word < go; echo the word is $word; false";
    let chat = ChatFixture::replies([terminal(command)]);
    let (began, go) = (pipe(&chat, "began"), pipe(&chat, "go"));
    let started = RunningProgram::start(chat.command(["chat", "-q", "go"]));
    began.read();
    let jobs = chat.fixture.vestal(["jobs", "--json"]).exits(0).json();
    let job = jobs[0]["id"].as_str().unwrap().to_owned();
    started.signal(Signal::KILL);
    started.end();
    go.write("lantern\n");
    chat.fixture.vestal(["wait", &job]).exits(1);
    chat.model.push(ScriptedReply::text("I see."));
    chat.vestal(["chat", "-c", "-q", "what of it?"]).exits(0);
    let found = reported(&chat);
    assert_eq!(found["output"].as_str().unwrap().trim(), "the word is lantern");
    assert_eq!(found["exit_code"], 1);
    assert!(found["hint"].as_str().unwrap().contains("Do not run it again"), "{found}");
    // It is on record: the conversation shows the call with what it came to.
    let shown = chat.vestal(["conversations", "list", "--json"]).exits(0).json();
    let id = shown[0]["id"].as_str().unwrap().to_owned();
    let shown = chat.vestal(["conversations", "show", &id]).exits(0).text();
    assert!(shown.contains("the word is lantern"), "{shown}");
}

#[test]
fn an_interrupted_turn_is_reported_in_json() {
    let chat = ChatFixture::new(Script::replies([ScriptedReply::text("Words.").hold_after(9)]));
    let mut started = RunningProgram::start(chat.command(["chat", "--json", "-q", "go"]));
    chat.until(|model| model.wait_for_holds(1));
    started.signal(Signal::INT);
    let json: serde_json::Value = serde_json::from_str(&started.line()).unwrap();
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["completed"], false);
    assert_eq!(json["turn_exit_reason"], "interrupted");
    assert_eq!(json["exit_code"], 130);
    assert_eq!(started.end().0, 130);
    chat.until(ScriptedModel::wait_for_hangup);
}

#[test]
fn a_second_interrupt_leaves_at_once() {
    let chat = ChatFixture::replies([terminal("echo > began; sleep 1000")]);
    let began = pipe(&chat, "began");
    let mut started = RunningProgram::start(chat.command(["chat", "-q", "go"]));
    began.read();
    // A guest that does not move cannot kill anything, so the turn does not end.
    let guest = chat.fixture.guest();
    guest.signal(Signal::STOP);
    started.signal(Signal::INT);
    // Nothing shows from outside that the first was heard; so the second is
    // sent until it is.
    while started.child.try_wait().unwrap().is_none() {
        started.signal(Signal::INT);
        std::thread::yield_now();
    }
    assert_eq!(started.end().0, 130);
    guest.signal(Signal::CONT);
}

#[test]
fn a_reader_that_left_ends_the_turn() {
    let chat = ChatFixture::replies([
        terminal("true").with_text("Words that nobody reads."),
        terminal("sleep 1000"),
    ]);
    let mut command = chat.command(["chat", "-q", "go"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(vestal_testkit::programs::wait(&mut child).code(), Some(141));
}
