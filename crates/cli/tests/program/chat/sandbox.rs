//! The sandbox outlives the turn, the conversation and the process.

use serde_json::json;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use super::fixture::{ChatFixture, terminal};

/// Returns what the tool of the last turn printed.
fn printed(chat: &ChatFixture) -> String {
    let requests = chat.model.requests();
    let result = requests.last().unwrap().last_tool_results().pop().unwrap();
    let json: serde_json::Value = serde_json::from_str(&result).unwrap();
    json["output"].as_str().unwrap().trim().to_owned()
}

/// Lets the model run a command in a turn of its own and returns what it printed.
fn turn(chat: &ChatFixture, args: &[&str], command: &str) -> String {
    chat.model.push(terminal(command));
    chat.model.push(ScriptedReply::text("Done."));
    let args: Vec<&str> = [&["chat", "-q", "go"], args].concat();
    chat.vestal(args).exits(0);
    printed(chat)
}

#[test]
fn two_turns_see_the_same_sandbox_and_the_same_file() {
    let chat = ChatFixture::replies([]);
    let first = turn(&chat, &[], "hostname; echo $PPID; echo kept > file; cat file");
    let second = turn(&chat, &["-c"], "hostname; echo $PPID; cat file");
    assert_eq!(first, second);
    assert!(second.ends_with("kept"), "{second}");
    // And so does another conversation, and a person.
    assert_eq!(turn(&chat, &[], "cat file"), "kept");
    assert_eq!(chat.fixture.run("cat file").exits(0).text(), "kept\n");
}

#[test]
fn a_resumed_conversation_finds_its_directory_and_variables_and_no_other_does() {
    let chat = ChatFixture::replies([]);
    turn(&chat, &["--title", "the first"], "cd /usr; export COLOUR=red; plain=too");
    let other = turn(&chat, &[], "pwd; echo [$COLOUR$plain]");
    assert_eq!(other, format!("{}\n[]", chat.fixture.work().display()));
    let resumed = turn(&chat, &["-r", "the first"], "pwd; echo [$COLOUR$plain]");
    assert_eq!(resumed, "/usr\n[redtoo]");
}

#[test]
fn a_conversation_is_gone_on_with_in_the_sandbox_it_was_begun_in() {
    let chat = ChatFixture::replies([]);
    turn(&chat, &["-t", "web"], "cd /usr");
    assert_eq!(turn(&chat, &["-c"], "pwd"), "/usr");
    assert_eq!(chat.fixture.tasks(), ["web"]);
}

#[test]
fn a_conversation_sees_earlier_messages() {
    let chat = ChatFixture::new(Script::rules([
        ReplyRule::when_user_contains("what did").reply_with(|request| {
            let printed = serde_json::to_string(request.messages()).unwrap();
            ScriptedReply::text(if printed.contains("the word is lantern") {
                "lantern"
            } else {
                "nothing"
            })
        }),
        ReplyRule::always().reply(ScriptedReply::text("Noted.")),
    ]));
    chat.ask("the word is lantern").exits(0);
    let outcome = chat.vestal(["chat", "-c", "-q", "what did I say?"]).exits(0);
    assert_eq!(outcome.text(), "lantern\n");
    assert_eq!(chat.ask("what did I say?").exits(0).text(), "nothing\n");
}

#[test]
fn what_is_dangerous_on_this_machine_needs_somebody_to_ask_or_yolo() {
    let chat = ChatFixture::replies([]);
    let victim = chat.fixture.work().join("victim");
    std::fs::create_dir(&victim).unwrap();
    let command = format!("rm -rf {}", victim.display());
    let ask = |args: &[&str]| {
        chat.model.push(ScriptedReply::tool_call("terminal", json!({"command": command})));
        chat.model.push(ScriptedReply::text("Done."));
        chat.vestal([&["chat", "-q", "go"], args].concat()).exits(0)
    };
    ask(&[]);
    assert!(victim.is_dir());
    let requests = chat.model.requests();
    let refused = requests.last().unwrap().last_tool_results().concat();
    assert!(refused.contains("unattended"), "{refused}");
    ask(&["--yolo"]);
    assert!(!victim.exists());
}

#[test]
fn a_one_shot_is_on_record_as_ended_and_can_be_gone_on_with() {
    let chat = ChatFixture::replies([ScriptedReply::text("One."), ScriptedReply::text("Two.")]);
    chat.vestal(["chat", "-q", "go", "--title", "short"]).exits(0);
    chat.vestal(["chat", "-r", "short", "-q", "go on"]).exits(0);
    let listed = chat.vestal(["conversations", "list", "--json"]).exits(0).json();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["end_reason"], "one_shot");
    assert_eq!(listed[0]["messages"], 4);
}

#[test]
fn a_key_that_this_process_knows_reaches_neither_the_model_nor_the_store() {
    let chat = ChatFixture::replies([]);
    let ask = |args: &[&str]| {
        chat.model.push(terminal("echo lantern''light42"));
        chat.model.push(ScriptedReply::text("Done."));
        let mut command = chat.command([&["chat", "-q", "go"], args].concat());
        // It looks like nothing; that it is a key its name tells.
        command.env("GROQ_API_KEY", "lanternlight42");
        crate::support::finish(command.spawn().unwrap()).exits(0);
        chat.model.requests().last().unwrap().last_tool_results().concat()
    };
    let masked = ask(&[]);
    assert!(!masked.contains("lanternlight42"), "{masked}");
    let stored = ["state.db", "state.db-wal"].map(|name| chat.fixture.home().join(name));
    for stored in stored.iter().filter_map(|path| std::fs::read(path).ok()) {
        assert!(!stored.windows(14).any(|part| part == b"lanternlight42"));
    }
    let plain = ask(&["--set", "security.redact_secrets=false"]);
    assert!(plain.contains("lanternlight42"), "{plain}");
}
