//! What is shown besides the conversation: output, jobs, messages of the host.

use std::time::Duration;

use serde_json::json;
use vestal_chat::HostMessage;
use vestal_conversations::MessageKind;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply, ScriptedToolCall};
use vestal_tui::{KeyCode, KeyPress, TerminalInput};

use crate::fixture::{ChatFixture, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_megabytes_of_output_do_not_keep_a_key_from_being_seen() {
    let command = "while [ ! -e go ]; do head -c 1000000 /dev/zero | tr '\\0' 'x' | fold -w 99; \
        printf x >> turns; done";
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": command})),
        ScriptedReply::text("done"),
    ]));
    fixture
        .play(async |person| {
            person.submits("print");
            person.sees("│ xxx").await;
            // Each letter is seen while more is printed: in the order of events, not of a clock.
            let mut typed = String::new();
            for letter in "typing".chars() {
                typed.push(letter);
                person.presses(KeyPress::plain(KeyCode::Char(letter)));
                person.sees(&format!("› {typed}")).await;
                assert!(!fixture.file("go").exists());
            }
            let printed = || std::fs::metadata(fixture.file("turns")).map_or(0, |file| file.len());
            until("ten megabytes are printed", || printed() >= 10).await;
            let frames = person.frames();
            std::fs::write(fixture.file("go"), "").unwrap();
            person.sees("✓ terminal").await;
            person.sees("done").await;
            // A frame is not drawn for each piece of output.
            assert!(frames < 5_000, "{frames}");
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_ends_is_reported_once_at_the_prompt_and_rings_when_nobody_looks() {
    let command = "while [ ! -e go ]; do sleep 0.02; done; exit 3";
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": command, "background": true})),
        ScriptedReply::text("it runs"),
    ]));
    fixture
        .play(async |person| {
            person.submits("start it");
            person.sees("it runs").await;
            person.sees("1 job").await;
            person.does(TerminalInput::Focused(false));
            std::fs::write(fixture.file("go"), "").unwrap();
            person.sees("ended: exit 3 after").await;
            person.sees_no("1 job").await;
            assert_eq!(person.bells(), 1);
            let reported = person.all().iter().filter(|row| row.contains("● job")).count();
            assert_eq!(reported, 1);
            assert_eq!(fixture.model.requests().len(), 2, "no model is asked for it");
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_starts_no_sandbox() {
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::text("hello")]));
    fixture
        .play(async |person| {
            person.sees("not created yet").await;
            person.submits("hello?");
            person.sees("hello").await;
            person.leaves();
        })
        .await;
    assert!(!fixture.home.vestal().join("sandboxes/default/sandbox.json").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_after_an_exclamation_mark_is_run_in_the_conversations_shell() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "echo \"it is $COLOUR\""})),
        ScriptedReply::text("I see"),
    ]));
    fixture
        .play(async |person| {
            person.submits("!export COLOUR=green; echo set");
            person.sees("✓ shell export COLOUR=green; echo set").await;
            person.sees("  set").await;
            person.submits("which colour?");
            person.sees("it is green").await;
            person.sees("I see").await;
            person.leaves();
        })
        .await;
    let (_, stored) = fixture.stored().await;
    assert_eq!(stored[0].kind, MessageKind::Note, "it is on record before anything is asked");
    let reported = stored[0].message.text();
    assert!(reported.contains("export COLOUR=green") && reported.contains("set"), "{reported}");
    assert_eq!(stored[1].message.text(), "which colour?");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_run_together_and_children_are_seen_side_by_side() {
    let wait = |name: &str| {
        let command = format!("echo {name}; while [ ! -e go ]; do sleep 0.02; done");
        json!({ "command": command })
    };
    let fixture = ChatFixture::new(Script::rules([
        ReplyRule::when_user_contains("hand it out").reply(ScriptedReply::tool_calls([
            ScriptedToolCall::new(
                "delegate_task",
                json!({"tasks": [
                    {"goal": "the north part"},
                    {"goal": "the south part"}
                ]}),
            ),
        ])),
        ReplyRule::when_user_contains("north")
            .reply(ScriptedReply::tool_call("terminal", wait("north"))),
        ReplyRule::when_user_contains("south")
            .reply(ScriptedReply::tool_call("terminal", wait("south"))),
        ReplyRule::after_tool_result_contains("summary").reply(ScriptedReply::text("all done")),
        ReplyRule::always().reply(ScriptedReply::text("my part is done")),
    ]))
    .with("approvals.unattended=allow");
    fixture
        .play(async |person| {
            person.submits("hand it out");
            person
                .sees_that("both children at work", |rows| {
                    let has = |words: &str| rows.iter().any(|row| row.contains(words));
                    has("child 1: terminal echo north") && has("child 2: terminal echo south")
                })
                .await;
            std::fs::write(fixture.file("go"), "").unwrap();
            person.sees("✓ child 1").await;
            person.sees("✓ child 2").await;
            person.sees("all done").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_parts_of_the_program_say_stands_above_the_input() {
    let fixture = ChatFixture::new(Script::new());
    fixture
        .play(async |person| {
            person.types("a draft");
            person
                .outside
                .send(HostMessage::Status(Some("unpacking the image".to_owned())))
                .unwrap();
            person.sees("unpacking the image").await;
            person.outside.send(HostMessage::Status(None)).unwrap();
            person
                .outside
                .send(HostMessage::Line("\x1b[33mwarning:\x1b[0m careful".to_owned()))
                .unwrap();
            person.sees("warning: careful").await;
            person.sees_no("unpacking").await;
            person.sees("› a draft").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_in_which_nothing_happens_draws_nothing() {
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::text("hello")]));
    fixture
        .play(async |person| {
            person.submits("hello?");
            person.sees("hello").await;
            person.sees("not created yet").await;
            person.sees_the_turn_end().await;
            let frames = person.frames();
            // Nothing is awaited here: that nothing happens can only be seen in time.
            tokio::time::sleep(Duration::from_millis(700)).await;
            assert_eq!(person.frames(), frames);
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_by_its_path_goes_with_the_words() {
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::text("a lantern")]));
    let picture = fixture.file("shot.png");
    std::fs::write(&picture, b"\x89PNG\r\n\x1a\n rest").unwrap();
    fixture
        .play(async |person| {
            person.submits(&format!("what is @{} about?", picture.display()));
            person.sees("[attached shot.png, 13 B]").await;
            person.sees("a lantern").await;
            person.leaves();
        })
        .await;
    let request = &fixture.model.requests()[0];
    assert!(request.body.to_string().contains("image_url"), "{:?}", request.body);
}
