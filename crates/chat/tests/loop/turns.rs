//! Saying something, and seeing the answer.

use std::time::Duration;

use serde_json::json;
use vestal_chat::ChatExit;
use vestal_model::Message;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};
use vestal_tui::{KeyCode, KeyPress, Size, TerminalInput};

use crate::fixture::{ChatFixture, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_is_answered_and_stays_in_the_scroll_back() {
    let fixture =
        ChatFixture::new(Script::replies([
            ScriptedReply::text("It is **called** lantern.").chunked(3)
        ]));
    let left = fixture
        .play(async |person| {
            person.sees("vestal · scripted-model").await;
            person.submits("what is it called?");
            person.sees("It is called lantern.").await;
            person.sees("context").await;
            person.leaves();
        })
        .await;
    assert_eq!(left, ChatExit::Quit);
    let (_, stored) = fixture.stored().await;
    let reply: Vec<String> = stored.iter().map(|stored| stored.message.text()).collect();
    assert_eq!(reply, ["what is it called?", "It is **called** lantern."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_seen_while_it_comes_and_typing_goes_on() {
    let text = "first words of an answer, and more of them";
    let fixture =
        ChatFixture::new(Script::replies([ScriptedReply::text(text).chunked(11).hold_after(1)]));
    fixture
        .play(async |person| {
            person.submits("talk");
            person.sees("first words").await;
            person.types("a draft");
            person.sees("› a draft").await;
            fixture.model.release();
            person.sees(text).await;
            person.sees("› a draft").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resize_in_the_middle_of_an_answer_loses_and_doubles_nothing() {
    let text: Vec<String> = (0..40).map(|number| format!("word{number:02} ")).collect();
    let text = text.concat();
    let fixture =
        ChatFixture::new(Script::replies([ScriptedReply::text(text).chunked(8).hold_after(20)]));
    fixture
        .play(async |person| {
            person.submits("talk");
            person.sees("word19").await;
            for columns in [60, 100, 43, 80] {
                person.resizes(Size { columns, rows: 24 });
            }
            fixture.model.release();
            person.sees("word39").await;
            person.sees_the_turn_end().await;
            let all = person.all().join("\n");
            for number in 0..40 {
                let word = format!("word{number:02}");
                assert_eq!(all.matches(&word).count(), 1, "{word}\n{all}");
            }
            assert_eq!(all.matches("› talk").count(), 1, "{all}");
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_pasted_lines_are_one_thing_in_the_input_and_are_sent_whole() {
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::text("I read them all.")]));
    let pasted: Vec<String> = (0..10_000).map(|number| format!("line {number}\n")).collect();
    let pasted = pasted.concat();
    let whole = pasted.clone();
    fixture
        .play(async |person| {
            person.types("read: ");
            person.does(TerminalInput::Paste(pasted));
            person.sees("[pasted 10,000 lines]").await;
            person.presses(KeyPress::plain(KeyCode::Enter));
            person.sees("I read them all.").await;
            person.sees("› read: [pasted 10,000 lines]").await;
            person.leaves();
        })
        .await;
    let (_, stored) = fixture.stored().await;
    assert_eq!(stored[0].message.text().trim_end(), format!("read: {whole}").trim_end());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_seen_while_it_runs_and_what_it_printed_afterwards() {
    let command =
        "for n in 1 2 3 4 5 6 7 8; do echo row$n; done; while [ ! -e go ]; do sleep 0.02; done";
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": command})),
        ScriptedReply::text("done"),
    ]));
    fixture
        .play(async |person| {
            person.submits("count");
            person.sees("│ row8").await;
            std::fs::write(fixture.file("go"), "").unwrap();
            person.sees("✓ terminal for n in").await;
            person.sees("… 3 lines before").await;
            person.sees("  row4").await;
            person.sees("done").await;
            assert!(!person.all().iter().any(|row| row == "  row1"));
            person.presses(KeyPress::control('o'));
            person.sees("  row1").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_is_shown_as_a_diff() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("write_file", json!({"path": "a.txt", "content": "one\ntwo\n"})),
        ScriptedReply::text("written"),
    ]));
    fixture
        .play(async |person| {
            person.submits("write");
            person.sees("✓ write_file a.txt").await;
            person.sees("written").await;
            let all = person.all().join("\n");
            assert!(all.contains("+ one") || all.contains("+one"), "{all}");
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_sent_while_the_model_works_are_queued_and_reach_it() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "true"})).hold_after(1),
        ScriptedReply::text("as you wish"),
    ]));
    fixture
        .play(async |person| {
            person.submits("go");
            fixture.model.wait_for_holds(1).await;
            person.submits("use tabs");
            person.sees("› use tabs · queued").await;
            fixture.model.release();
            person.sees("as you wish").await;
            person.sees_no("queued").await;
            person.sees("› use tabs").await;
            person.leaves();
        })
        .await;
    assert_eq!(fixture.model.requests()[1].last_user_text().as_deref(), Some("use tabs"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_too_late_for_a_turn_begins_the_next_one() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::text("the first answer").hold_after(1),
        ScriptedReply::text("the second answer"),
    ]));
    fixture
        .play(async |person| {
            person.submits("go");
            fixture.model.wait_for_holds(1).await;
            person.submits("and then?");
            person.sees("queued").await;
            fixture.model.release();
            person.sees("the second answer").await;
            person.leaves();
        })
        .await;
    let (_, stored) = fixture.stored().await;
    let users: Vec<String> = stored
        .iter()
        .filter(|stored| matches!(stored.message, Message::User(_)))
        .map(|stored| stored.message.text())
        .collect();
    assert_eq!(users, ["go", "and then?"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_at_the_very_end_of_a_turn_is_not_lost() {
    let fixture =
        ChatFixture::new(Script::rules(
            [ReplyRule::always().reply(ScriptedReply::text("I hear."))],
        ));
    let words: Vec<String> = (0..300).map(|number| format!("word{number:03}")).collect();
    fixture
        .play(async |person| {
            // At whatever moment of a turn: nothing is waited for.
            for (number, word) in words.iter().enumerate() {
                person.submits(word);
                tokio::time::sleep(Duration::from_micros(number as u64 * 20)).await;
            }
            person.sees("I hear.").await;
            until("the last words", || reply(&fixture).contains(&words[299])).await;
            person.sees_the_turn_end().await;
            person.leaves();
        })
        .await;
    let reply = reply(&fixture);
    let lost: Vec<&String> = words.iter().filter(|word| !reply.contains(*word)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// Returns what the model has been told in the last request.
fn reply(fixture: &ChatFixture) -> String {
    let requests = fixture.model.requests();
    requests
        .last()
        .map(|request| serde_json::to_string(request.messages()).unwrap())
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn escape_interrupts_the_turn_and_leaves_what_is_written() {
    let reply = ScriptedReply::text("First part, and never the second.").chunked(12).hold_after(1);
    let fixture = ChatFixture::new(Script::replies([reply]));
    fixture
        .play(async |person| {
            person.submits("tell me");
            person.sees("First part,").await;
            person.sees("Esc interrupts").await;
            person.types("a draft");
            person.sees("› a draft").await;
            person.presses(KeyPress::plain(KeyCode::Escape));
            person.sees("interrupted; the conversation so far is kept").await;
            person.sees("› a draft").await;
            person.sees_no("Esc interrupts").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_the_model_keeps_is_seen_when_it_changes() {
    let todos = json!({"todos": [
        {"id": "1", "content": "lay the fire", "status": "completed"},
        {"id": "2", "content": "light it", "status": "in_progress"},
        {"id": "3", "content": "keep it lit", "status": "pending"},
    ]});
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("todo", todos),
        ScriptedReply::text("I go on."),
    ]));
    fixture
        .play(async |person| {
            person.submits("make a plan");
            person.sees("I go on.").await;
            for line in ["  [x] lay the fire", "  [>] light it", "  [ ] keep it lit"] {
                person.sees(line).await;
            }
            person.leaves();
        })
        .await;
}
