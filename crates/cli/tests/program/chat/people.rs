//! A person at a terminal.

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::files::Fifo;

use super::fixture::{ChatFixture, terminal};
use crate::shell::ShellTerminal;

fn sit_down(chat: &ChatFixture, args: &[&str]) -> ShellTerminal {
    let variables = chat.variables();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ShellTerminal::start_with(&chat.fixture, args, &variables)
}

#[test]
fn on_a_terminal_the_answer_is_seen_as_it_comes() {
    let reply =
        ScriptedReply::text("\nFirst part, and here is the second.").chunked(12).hold_after(1);
    let chat = ChatFixture::new(Script::replies([reply]));
    let mut person = sit_down(&chat, &["chat", "-q", "go"]);
    person.sees("First part,");
    chat.model.release();
    person.sees(" and here is the second.\r\n");
    person.sees("tokens");
    person.sees("to go on: vestal chat -c -q");
    assert_eq!(person.leaves().0, 0);
}

#[test]
fn what_the_model_says_cannot_command_the_terminal() {
    let chat = ChatFixture::replies([
        terminal("printf '\\033[2J\\033]0;title\\007'").with_text("Now\x1b[2J then."),
        ScriptedReply::text("Done."),
    ]);
    let mut person = sit_down(&chat, &["chat", "-q", "go"]);
    person.sees("Now\\x1b[2J then.\r\n");
    person.sees("Done.");
    let (code, rest) = person.leaves();
    assert_eq!(code, 0);
    assert!(!rest.contains("\x1b[2J") && !rest.contains("\x1b]0"), "{rest:?}");
}

#[test]
fn a_tool_at_work_is_shown_with_the_last_line_it_printed() {
    let chat = ChatFixture::replies([terminal("echo tick; cat go"), ScriptedReply::text("Done.")]);
    let go = Fifo::create(chat.fixture.work().join("go"));
    let mut person = sit_down(&chat, &["chat", "-q", "go"]);
    person.sees("terminal: echo tick; cat go (");
    person.sees(" │ tick");
    go.write("tock\n");
    person.sees("· terminal: echo tick; cat go (");
    person.sees("Done.\r\n");
    assert_eq!(person.leaves().0, 0);
}

#[test]
fn a_repeated_answer_is_reported_as_such() {
    let chat = ChatFixture::new(Script::replies([
        ScriptedReply::text("A broken beginning.").chunked(9).cut_after(1),
        ScriptedReply::text("Whole."),
    ]));
    let args = ["chat", "-q", "go", "--set", "agent.api_max_retries=1"];
    let variables = chat.variables();
    let variables: Vec<(&str, &str)> = variables
        .iter()
        .filter(|(name, _)| *name != "VESTAL_API_MAX_RETRIES")
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let mut person = ShellTerminal::start_with(&chat.fixture, &args, &variables);
    person.sees("A broken\r\n");
    person.sees("the answer restarts");
    person.sees("Whole.\r\n");
    assert_eq!(person.leaves().0, 0);
}

#[test]
fn ctrl_c_ends_the_request_and_messages_are_kept() {
    let reply = ScriptedReply::text("First part, and never the second.").chunked(12).hold_after(1);
    let chat = ChatFixture::new(Script::replies([reply, ScriptedReply::text("Again.")]));
    let mut person = sit_down(&chat, &["chat", "-q", "go"]);
    person.sees("First part,");
    person.types("\x03");
    person.sees("interrupted");
    assert_eq!(person.leaves().0, 130);
    chat.until(ScriptedModel::wait_for_hangup);
    chat.vestal(["chat", "-c", "-q", "again"]).exits(0);
    let requests = chat.model.requests();
    let history = serde_json::to_string(requests[1].messages()).unwrap();
    assert!(history.contains("First part,"), "{history}");
    assert!(!history.contains("never the second"), "{history}");
}

#[test]
fn something_dangerous_is_asked_about_and_done_only_with_a_yes() {
    let chat = ChatFixture::replies([]);
    let victim = chat.fixture.work().join("victim");
    std::fs::create_dir(&victim).unwrap();
    let command = format!("rm -rf {}", victim.display());
    let begin = || {
        chat.model.push(ScriptedReply::tool_call("terminal", json!({"command": command})));
        chat.model.push(ScriptedReply::text("Done."));
        sit_down(&chat, &["chat", "-q", "go"])
    };
    let mut person = begin();
    person.sees("needs your approval");
    person.sees(&command);
    person.sees("[d]eny");
    person.types("maybe\r");
    person.sees("please answer");
    person.types("d not that one\r");
    person.sees("Done.");
    assert_eq!(person.leaves().0, 0);
    assert!(victim.is_dir());
    let reported = chat.model.requests().last().unwrap().last_tool_results().concat();
    assert!(reported.contains("not that one"), "{reported}");

    let mut person = begin();
    person.sees("[d]eny");
    person.types("o\r");
    person.sees("Done.");
    assert_eq!(person.leaves().0, 0);
    assert!(!victim.exists());
}

#[test]
fn silence_is_a_no_and_what_was_typed_before_the_question_is_no_answer() {
    let chat = ChatFixture::replies([]);
    let victim = chat.fixture.work().join("victim");
    std::fs::create_dir(&victim).unwrap();
    let command = format!("rm -rf {}", victim.display());
    let call = ScriptedReply::tool_call("terminal", json!({"command": command}));
    chat.model.push(call.hold_after(0));
    chat.model.push(ScriptedReply::text("Done."));
    let args = ["chat", "-q", "go", "--set", "approvals.timeout=1"];
    let mut person = sit_down(&chat, &args);
    chat.until(|model| model.wait_for_holds(1));
    person.types("o\r");
    person.sees("o\r\n");
    chat.model.release();
    person.sees("[d]eny");
    person.sees("no answer");
    person.sees("Done.");
    assert_eq!(person.leaves().0, 0);
    assert!(victim.is_dir());
}

#[test]
fn ctrl_c_at_a_question_is_a_no_and_ends_the_turn() {
    let chat = ChatFixture::replies([]);
    let victim = chat.fixture.work().join("victim");
    std::fs::create_dir(&victim).unwrap();
    let command = format!("rm -rf {}", victim.display());
    chat.model.push(ScriptedReply::tool_call("terminal", json!({"command": command})));
    let mut person = sit_down(&chat, &["chat", "-q", "go"]);
    person.sees("[d]eny");
    person.types("\x03");
    person.sees("interrupted");
    assert_eq!(person.leaves().0, 130);
    assert!(victim.is_dir());
}

#[test]
fn what_is_approved_for_always_is_not_asked_about_again() {
    let chat = ChatFixture::replies([]);
    let victim = chat.fixture.work().join("victim");
    let command = format!("rm -rf {}", victim.display());
    for turn in 0..2 {
        std::fs::create_dir(&victim).unwrap();
        chat.model.push(ScriptedReply::tool_call("terminal", json!({"command": command})));
        chat.model.push(ScriptedReply::text("Done."));
        let mut person = sit_down(&chat, &["chat", "-q", "go"]);
        if turn == 0 {
            person.sees("[a]lways");
            person.types("a\r");
        }
        person.sees("Done.");
        assert_eq!(person.leaves().0, 0);
        assert!(!victim.exists());
    }
    let config = std::fs::read_to_string(chat.fixture.home().join("config.yaml")).unwrap();
    assert!(config.contains("command_allowlist"), "{config}");
}

#[test]
fn a_question_of_the_models_is_answered_by_number() {
    let arguments = json!({"question": "Which colour?", "choices": ["red", "blue"]});
    let chat = ChatFixture::replies([
        ScriptedReply::tool_call("clarify", arguments),
        ScriptedReply::text("Done."),
    ]);
    let mut person = sit_down(&chat, &["chat", "-q", "go"]);
    person.sees("the agent asks: Which colour?");
    person.sees("2) blue");
    person.types("2\r");
    person.sees("Done.");
    assert_eq!(person.leaves().0, 0);
    let reported = chat.model.requests().last().unwrap().last_tool_results().concat();
    assert!(reported.contains("blue") && !reported.contains("\"answer\":\"2\""), "{reported}");
}
