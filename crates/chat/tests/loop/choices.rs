//! What commands ask, wait for, count and explain.

use serde_json::json;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};
use vestal_tui::KeyPress;

use crate::commands::{hears, rests, seen, shell};
use crate::fixture::{ChatFixture, NEVER};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_after_a_choice_belongs_to_what_was_chosen() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            hears(&person, "one").await;
            person.submits("/new");
            person.sees("a new conversation in the same sandbox").await;
            hears(&person, "two").await;
            person.submits("/resume");
            person.sees("› one  ").await;
            // Nothing is waited for between the two.
            person.submits("on");
            person.submits("three");
            person.sees("heard three").await;
            rests(&person).await;
            assert_eq!(seen(&fixture), ["one", "three"]);
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_leaves_a_choice_and_not_the_chat() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            hears(&person, "one").await;
            person.submits("/new");
            person.sees("a new conversation in the same sandbox").await;
            person.submits("/resume");
            person.sees("Enter chooses · Esc cancels").await;
            person.presses(KeyPress::control('c'));
            person.sees("nothing chosen").await;
            person.sees_no("Enter chooses").await;
            assert!(!person.all().iter().any(|row| row.contains("press Ctrl-C again")));
            hears(&person, "two").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_come_to_an_end_is_seen_and_given_up_and_no_key_is_lost() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            hears(&person, "one").await;
            person.submits(&format!("/new {NEVER}"));
            person.sees("opening the conversation").await;
            person.types("tw");
            person.presses(KeyPress::control('c'));
            person.sees("opening the conversation was cancelled").await;
            person.submits("o");
            person.sees("heard two").await;
            rests(&person).await;
            assert_eq!(seen(&fixture), ["one", "two"]);
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_children_took_is_counted_on_a_line_of_its_own_and_in_the_sum() {
    let fixture = ChatFixture::new(Script::rules([
        ReplyRule::when_user_contains("hand it out").reply(ScriptedReply::tool_call(
            "delegate_task",
            json!({"tasks": [{"goal": "the north part"}, {"goal": "the south part"}]}),
        )),
        ReplyRule::after_tool_result_contains("summary").reply(ScriptedReply::text("all done")),
        ReplyRule::always().reply(ScriptedReply::text("my part is done")),
    ]));
    fixture
        .play(async |person| {
            person.submits("hand it out");
            person.sees("all done").await;
            rests(&person).await;
            person.submits("/usage");
            person.sees("2 delegated parts, all models").await;
            // Two calls of ours, and one of each child.
            person.sees("total  4 calls, ").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn help_names_every_key_of_the_input() {
    let fixture = ChatFixture::new(Script::new());
    fixture
        .play(async |person| {
            person.submits("/help keys");
            person.sees("!command").await;
            let rows = person.all();
            for (keys, _) in vestal_tui::bindings() {
                let is_there = rows.iter().any(|row| row.trim_start().starts_with(keys));
                assert!(is_there, "{keys}\n{}", rows.join("\n"));
            }
            person.submits("/help kyes");
            person.sees("did you mean /help keys?").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_was_put_right_counts_from_the_next_turn_on() {
    let fixture = ChatFixture::new(Script::echo());
    let home = fixture.home.vestal();
    let config = |url: &str| {
        std::fs::create_dir_all(&home).unwrap();
        let text = format!("model:\n  base_url: {url}\n  default: usual\n");
        std::fs::write(home.join("config.yaml"), text).unwrap();
    };
    config("http://127.0.0.1:1/v1");
    fixture
        .play(async |person| {
            person.submits("/model other");
            person.sees("this conversation now uses custom:other").await;
            person.submits("hello");
            person.sees("/retry tries again").await;
            rests(&person).await;
            config(&fixture.model.base_url());
            person.submits("/retry");
            fixture.model.wait_for_answers(1).await;
            rests(&person).await;
            assert_eq!(fixture.model.requests()[0].model(), "other");
            person.leaves();
        })
        .await;
}
