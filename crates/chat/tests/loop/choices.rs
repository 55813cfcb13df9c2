//! What commands ask, wait for, count and explain.

use serde_json::json;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};
use vestal_tui::KeyPress;

use crate::commands::{hears, rests, seen, shell};
use crate::stage::{NEVER, Stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_after_a_choice_belongs_to_what_was_chosen() {
    let stage = Stage::new(shell());
    stage
        .play(async |person| {
            hears(&person, "one").await;
            person.says("/new");
            person.sees("a new conversation in the same sandbox").await;
            hears(&person, "two").await;
            person.says("/resume");
            person.sees("[1] one (").await;
            // Nothing is waited for between the two.
            person.says("1");
            person.says("three");
            person.sees("heard three").await;
            rests(&person).await;
            assert_eq!(seen(&stage), ["one", "three"]);
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_leaves_a_choice_and_not_the_chat() {
    let stage = Stage::new(shell());
    stage
        .play(async |person| {
            hears(&person, "one").await;
            person.says("/new");
            person.sees("a new conversation in the same sandbox").await;
            person.says("/resume");
            person.sees("[1] one (").await;
            person.presses(KeyPress::control('c'));
            person.sees("unanswered").await;
            person.sees_no("[1] one").await;
            assert!(!person.all().iter().any(|row| row.contains("press Ctrl-C again")));
            hears(&person, "two").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_come_to_an_end_is_seen_and_given_up_and_no_key_is_lost() {
    let stage = Stage::new(shell());
    stage
        .play(async |person| {
            hears(&person, "one").await;
            person.says(&format!("/new {NEVER}"));
            person.sees("opening the conversation").await;
            person.types("tw");
            person.presses(KeyPress::control('c'));
            person.sees("opening the conversation was cancelled").await;
            person.says("o");
            person.sees("heard two").await;
            rests(&person).await;
            assert_eq!(seen(&stage), ["one", "two"]);
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_children_took_is_counted_on_a_line_of_its_own_and_in_the_sum() {
    let stage = Stage::new(Script::rules([
        ReplyRule::when_user_contains("hand it out").reply(ScriptedReply::tool_call(
            "delegate_task",
            json!({"tasks": [{"goal": "the north part"}, {"goal": "the south part"}]}),
        )),
        ReplyRule::after_tool_result_contains("summary").reply(ScriptedReply::text("all done")),
        ReplyRule::always().reply(ScriptedReply::text("my part is done")),
    ]));
    stage
        .play(async |person| {
            person.says("hand it out");
            person.sees("all done").await;
            rests(&person).await;
            person.says("/usage");
            person.sees("2 delegated parts, all models").await;
            // Two calls of ours, and one of each child.
            person.sees("total  4 calls, ").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn help_names_every_key_of_the_input() {
    let stage = Stage::new(Script::new());
    stage
        .play(async |person| {
            person.says("/help keys");
            person.sees("!command").await;
            let rows = person.all();
            for (keys, _) in vestal_tui::bindings() {
                let is_there = rows.iter().any(|row| row.trim_start().starts_with(keys));
                assert!(is_there, "{keys}\n{}", rows.join("\n"));
            }
            person.says("/help kyes");
            person.sees("did you mean /help keys?").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_was_put_right_counts_from_the_next_turn_on() {
    let stage = Stage::new(Script::echo());
    let home = stage.home.vestal();
    let config = |url: &str| {
        std::fs::create_dir_all(&home).unwrap();
        let text = format!("model:\n  base_url: {url}\n  default: usual\n");
        std::fs::write(home.join("config.yaml"), text).unwrap();
    };
    config("http://127.0.0.1:1/v1");
    stage
        .play(async |person| {
            person.says("/model other");
            person.sees("this conversation now uses custom:other").await;
            person.says("hello");
            person.sees("/retry tries again").await;
            rests(&person).await;
            config(&stage.model.base_url());
            person.says("/retry");
            stage.model.wait_for_answers(1).await;
            rests(&person).await;
            assert_eq!(stage.model.requests()[0].model(), "other");
            person.leaves();
        })
        .await;
}
