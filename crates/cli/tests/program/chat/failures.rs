//! A failed call is a failure, never an answer.

use serde_json::json;
use vestal_scripted_model::{ReplyRule, Script, ScriptedFinish, ScriptedReply};

use super::fixture::{ChatFixture, terminal};
use crate::support::{ProgramFixture, ProgramOutcome};

/// Asks a model that replies with this alone.
fn asked(reply: ScriptedReply) -> ProgramOutcome {
    ChatFixture::new(Script::replies([reply])).ask("go")
}

#[test]
fn a_provider_that_fails_is_exit_code_3_and_nothing_on_standard_output() {
    let replies = [
        ("a wrong key", ScriptedReply::error(401, "no such key")),
        ("a limit", ScriptedReply::error(429, "slow down")),
        ("a bad request", ScriptedReply::error(400, "no such field")),
        ("a broken server", ScriptedReply::error(500, "broken")),
        ("a cut stream", ScriptedReply::text("Half of an answer that").cut_after(1)),
        (
            "an error in the stream",
            ScriptedReply::text("Half of an answer").error_after(1, "broken"),
        ),
        ("garbage", ScriptedReply::garbage("<html>hello</html>")),
    ];
    for (what, reply) in replies {
        let outcome = asked(reply).exits(3);
        assert_eq!(outcome.text(), "", "{what}");
        assert!(outcome.stderr.contains("error: "), "{what}: {outcome:?}");
    }
}

#[test]
fn a_provider_that_cannot_be_reached_is_exit_code_3() {
    let chat = ChatFixture::new(Script::new());
    let mut command = chat.command(["chat", "-q", "go"]);
    // A port that was free a moment ago and that nobody serves.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    command.env("VESTAL_BASE_URL", format!("http://127.0.0.1:{port}/v1"));
    let outcome = crate::support::finish(command.spawn().unwrap()).exits(3);
    assert_eq!(outcome.text(), "");
    assert!(outcome.stderr.contains("cannot be reached"), "{outcome:?}");
}

#[test]
fn a_failed_turn_is_reported_in_json_and_by_the_exit_code() {
    let chat = ChatFixture::new(Script::replies([ScriptedReply::error(401, "no such key")]));
    let outcome = chat.vestal(["chat", "--json", "-q", "go"]).exits(3);
    let json = outcome.json();
    assert_eq!(json["failed"], true);
    assert_eq!(json["completed"], false);
    assert_eq!(json["final_response"], serde_json::Value::Null);
    assert_eq!(json["error_code"], "authentication");
    assert_eq!(json["exit_code"], 3);
    assert!(json["error"].as_str().unwrap().contains("no such key"), "{json}");
}

#[test]
fn a_spent_budget_is_exit_code_4_with_what_the_model_says_to_it() {
    let script = Script::rules([
        ReplyRule::when_user_contains("no more tools can be called")
            .after_any_tool_results()
            .reply(ScriptedReply::text("So far so good.")),
        ReplyRule::always().reply(terminal("date +%N")),
    ]);
    let chat = ChatFixture::new(script);
    let outcome = chat.vestal(["chat", "-q", "go", "--max-turns", "2"]).exits(4);
    assert_eq!(outcome.text(), "So far so good.\n");
    assert!(outcome.stderr.contains("stopped after 3 model calls"), "{outcome:?}");
}

#[test]
fn a_model_that_goes_round_in_circles_is_exit_code_4() {
    let chat = ChatFixture::new(Script::rules([ReplyRule::always().reply(terminal("false"))]));
    let args = ["chat", "-q", "go", "--set", "tool_loop_guardrails.stop_after=3"];
    let outcome = chat.vestal(args).exits(4);
    assert_eq!(outcome.text(), "");
    assert!(outcome.stderr.contains("repeats itself"), "{outcome:?}");
}

#[test]
fn a_refusal_is_exit_code_5() {
    let outcome = asked(ScriptedReply::text("I can't.").finish(ScriptedFinish::Refusal)).exits(5);
    assert!(outcome.stderr.contains("refused to answer"), "{outcome:?}");
}

#[test]
fn without_a_model_it_is_reported_in_two_lines_what_to_set_and_nothing_is_made() {
    let fixture = ProgramFixture::new();
    let outcome = fixture.vestal(["chat", "-q", "go"]).exits(1);
    assert_eq!(outcome.text(), "");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{outcome:?}");
    assert_eq!(lines[0], "error: no model is configured");
    assert!(lines[1].contains("vestal config set model.default"), "{outcome:?}");
    assert!(lines[2].contains("VESTAL_API_KEY"), "{outcome:?}");
    assert!(!fixture.home().join("state.db").exists());
    let json = fixture.vestal(["chat", "--json", "-q", "go"]).exits(1).json();
    assert_eq!(json["error"], "no model is configured");
}

#[test]
fn a_store_that_cannot_be_used_is_exit_code_125() {
    let chat = ChatFixture::replies([ScriptedReply::text("Never said.")]);
    std::fs::create_dir_all(chat.fixture.home()).unwrap();
    std::fs::write(
        chat.fixture.home().join("state.db"),
        "not a database, but long enough".repeat(99),
    )
    .unwrap();
    let outcome = chat.ask("go").exits(125);
    assert_eq!(outcome.text(), "");
    assert!(outcome.stderr.contains("is damaged"), "{outcome:?}");
    assert_eq!(chat.model.requests().len(), 0);
}

#[test]
fn a_conversation_that_is_not_there_is_exit_code_1() {
    let chat = ChatFixture::replies([]);
    chat.vestal(["chat", "-c", "-q", "go"]).exits(1);
    let outcome = chat.vestal(["chat", "-r", "nobody", "-q", "go"]).exits(1);
    assert!(outcome.stderr.contains("there is no conversation \"nobody\""), "{outcome:?}");
}

#[test]
fn a_tool_or_arguments_that_make_no_sense_are_the_models_to_mend() {
    let chat = ChatFixture::replies([
        ScriptedReply::tool_call("termnal", json!({"command": "true"})),
        ScriptedReply::tool_call("terminal", "{\"command\": "),
        ScriptedReply::text("Sorry."),
    ]);
    assert_eq!(chat.ask("go").exits(0).text(), "Sorry.\n");
}
