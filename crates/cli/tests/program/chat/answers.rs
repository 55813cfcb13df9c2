//! What is printed, and where.

use insta::assert_json_snapshot;
use vestal_scripted_model::{BilledUsage, Script, ScriptedReply};

use super::fixture::{ChatFixture, terminal};
use crate::support::ProgramFixture;

#[test]
fn the_answer_is_all_there_is_on_standard_output() {
    let chat = ChatFixture::replies([ScriptedReply::text("\n\n  Hello\nworld.\n\n\n")]);
    let outcome = chat.ask("greet").exits(0);
    assert_eq!(outcome.text(), "  Hello\nworld.\n");
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_tool_runs_in_the_sandbox_and_is_reported_on_standard_error() {
    let chat = ChatFixture::replies([
        terminal("echo from-$((40 + 2))").with_text("Let me look."),
        ScriptedReply::text("It said so."),
    ]);
    let outcome = chat.ask("look").exits(0);
    assert_eq!(outcome.text(), "Let me look.\nIt said so.\n");
    assert!(outcome.stderr.contains("· terminal: echo from-$((40 + 2)) ("), "{outcome:?}");
    let requests = chat.model.requests();
    assert!(requests[1].last_tool_results()[0].contains("from-42"), "{requests:?}");
}

#[test]
fn quiet_prints_the_final_answer_alone() {
    let chat = ChatFixture::replies([
        terminal("true").with_text("Let me look."),
        ScriptedReply::text("Done."),
    ]);
    let outcome = chat.vestal(["chat", "-Q", "-q", "look"]).exits(0);
    assert_eq!(outcome.text(), "Done.\n");
    assert!(!outcome.stderr.contains("terminal: true"), "{outcome:?}");
}

#[test]
fn the_json_object_has_the_promised_shape() {
    let usage =
        |input, output| BilledUsage { input, output, cache_read: 5, ..BilledUsage::default() };
    let chat = ChatFixture::replies([
        terminal("true").usage(usage(100, 10)),
        ScriptedReply::text("Done.").with_reasoning("It is easy.").usage(usage(120, 20)),
    ]);
    let outcome = chat.vestal(["chat", "--json", "-q", "work"]).exits(0);
    assert_json_snapshot!(outcome.json(), {
        ".conversation" => "[id]",
        ".session_id" => "[id]",
        ".duration_ms" => "[milliseconds]",
    });
}

#[test]
fn a_stream_that_had_to_be_repeated_leaves_nothing_behind_in_a_pipe() {
    let script = Script::replies([
        ScriptedReply::text("A broken beginning that nobody should see.").cut_after(2),
        ScriptedReply::text("Whole."),
    ]);
    let chat = ChatFixture::new(script);
    let mut command = chat.command(["chat", "-q", "go"]);
    command.env("VESTAL_API_MAX_RETRIES", "1");
    let outcome = crate::support::finish(command.spawn().unwrap()).exits(0);
    assert_eq!(outcome.text(), "Whole.\n");
    assert!(outcome.stderr.contains("asking again in"), "{outcome:?}");
}

#[test]
fn a_turn_leaves_a_log_without_messages() {
    let chat = ChatFixture::replies([terminal("true"), ScriptedReply::text("A secret answer.")]);
    chat.ask("a secret question").exits(0);
    let log = std::fs::read_to_string(chat.fixture.home().join("logs/agent.log")).unwrap();
    for reported in ["turn started", "model answered", "tool ended", "turn ended"] {
        assert!(log.contains(reported), "{reported}: {log}");
    }
    assert!(!log.contains("secret"), "{log}");
    // Each line names the conversation, by which the log is searched; and nothing is amiss.
    let listed = chat.vestal(["conversations", "list", "--json"]).exits(0).json();
    let id = listed[0]["id"].as_str().unwrap();
    let (_, last) = id.rsplit_once('-').unwrap();
    let found = chat.vestal(["gateway", "logs", "--session", last]).exits(0).text();
    assert_eq!(
        found.lines().filter(|line| line.contains(&format!(" INFO [{id}] "))).count(),
        found.lines().count(),
        "{found}"
    );
    assert!(found.contains(": turn ended outcome="), "{found}");
    assert!(!chat.fixture.home().join("logs/errors.log").exists(), "{log}");
}

#[test]
fn the_help_explains_the_exit_codes() {
    let help = ProgramFixture::new().vestal(["chat", "--help"]).exits(0).text();
    for part in ["3 the provider failed", "4 stopped", "5 the provider refused", "130 interrupted"]
    {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn a_conversation_goes_on_with_the_model_it_was_held_with() {
    let chat = ChatFixture::replies(["one", "two", "three"].map(ScriptedReply::text));
    chat.vestal(["chat", "-m", "other", "-q", "begin"]).exits(0);
    chat.vestal(["chat", "-c", "-q", "go on"]).exits(0);
    chat.vestal(["chat", "-q", "begin anew"]).exits(0);
    let requests = chat.model.requests();
    let asked: Vec<&str> =
        requests.iter().map(vestal_scripted_model::ReceivedRequest::model).collect();
    assert_eq!(asked, ["other", "other", "scripted"]);
}
