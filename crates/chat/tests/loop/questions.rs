//! Questions to the person.

use serde_json::json;
use vestal_model::Message;
use vestal_scripted_model::{Script, ScriptedReply};
use vestal_tui::{KeyCode, KeyPress};

use crate::fixture::{ChatFixture, SLOW, VERB_GOES_ON};

fn dangerous(stage_name: &str) -> Script {
    Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": format!("rm -rf ./{stage_name}")})),
        ScriptedReply::text("so be it"),
    ])
}

async fn result(fixture: &ChatFixture) -> String {
    let (_, stored) = fixture.stored().await;
    let result = stored.iter().find_map(|stored| match &stored.message {
        Message::Tool(result) => Some(result.content.clone()),
        _ => None,
    });
    result.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dangerous_command_is_run_when_it_is_approved() {
    let fixture = ChatFixture::new(dangerous("build"));
    std::fs::create_dir(fixture.file("build")).unwrap();
    fixture
        .play(async |person| {
            person.submits("clean up");
            person.sees("rm -rf ./build").await;
            person.sees("[o]nce").await;
            assert!(fixture.file("build").exists());
            person.presses(KeyPress::plain(KeyCode::Char('o')));
            person.sees("approved once").await;
            person.sees("so be it").await;
            person.leaves();
        })
        .await;
    assert!(!fixture.file("build").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_no_with_its_reason_reaches_the_model_and_nothing_is_run() {
    let fixture = ChatFixture::new(dangerous("build"));
    std::fs::create_dir(fixture.file("build")).unwrap();
    fixture
        .play(async |person| {
            person.submits("clean up");
            person.sees("[d]eny").await;
            person.submits("no, use git clean");
            person.sees("denied: use git clean").await;
            person.sees("so be it").await;
            person.leaves();
        })
        .await;
    assert!(fixture.file("build").exists());
    assert!(result(&fixture).await.contains("use git clean"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_nobody_answers_in_time_is_a_no() {
    let fixture = ChatFixture::new(dangerous("build")).with("approvals.timeout=1");
    std::fs::create_dir(fixture.file("build")).unwrap();
    fixture
        .play(async |person| {
            person.submits("clean up");
            person.sees("[o]nce").await;
            person.sees("no answer").await;
            person.sees("so be it").await;
            person.sees_no("[o]nce").await;
            person.leaves();
        })
        .await;
    assert!(fixture.file("build").exists());
    assert!(result(&fixture).await.contains("nobody answered"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_written_when_a_question_appears_is_there_afterwards() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "rm -rf ./build"})).hold_after(1),
        ScriptedReply::text("so be it"),
    ]));
    std::fs::create_dir(fixture.file("build")).unwrap();
    fixture
        .play(async |person| {
            person.submits("clean up");
            fixture.model.wait_for_holds(1).await;
            person.types("do");
            fixture.model.release();
            person.sees("rm -rf ./build").await;
            person.sees("[o]nce").await;
            assert!(fixture.file("build").exists());
            // What was being written is still there afterwards.
            person.presses(KeyPress::plain(KeyCode::Escape));
            person.sees("denied").await;
            person.sees("› do").await;
            person.sees("so be it").await;
            person.leaves();
        })
        .await;
    assert!(fixture.file("build").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_the_model_is_answered_by_number_or_in_words() {
    let ask = |question: &str| {
        ScriptedReply::tool_call(
            "clarify",
            json!({"question": question, "choices": ["red", "blue"]}),
        )
    };
    let fixture = ChatFixture::new(Script::replies([
        ask("Which colour?"),
        ask("Really?"),
        ScriptedReply::text("painted"),
    ]));
    fixture
        .play(async |person| {
            person.submits("paint");
            person.sees("The agent asks: Which colour?").await;
            person.sees("[2] blue").await;
            person.sees("type a number").await;
            person.submits("2");
            person.sees("The agent asks: Really?").await;
            person.sees("type a number").await;
            person.submits("as I said");
            person.sees("painted").await;
            person.leaves();
        })
        .await;
    let (_, stored) = fixture.stored().await;
    let answers: Vec<String> = stored
        .iter()
        .filter_map(|stored| match &stored.message {
            Message::Tool(result) => Some(result.content.clone()),
            _ => None,
        })
        .collect();
    assert!(answers[0].contains("blue") && answers[1].contains("as I said"), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_an_answer_that_nobody_waits_for_any_more_are_in_the_input() {
    let fixture = ChatFixture::new(dangerous("build")).with("approvals.timeout=2");
    std::fs::create_dir(fixture.file("build")).unwrap();
    fixture
        .play(async |person| {
            person.submits("clean up");
            person.sees("[o]nce").await;
            person.types("no, rather");
            person.sees("? no, rather").await;
            person.sees("no answer").await;
            person.sees("› no, rather").await;
            person.sees("so be it").await;
            person.leaves();
        })
        .await;
    assert!(fixture.file("build").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_that_are_no_answer_stay_to_be_put_right() {
    let fixture = ChatFixture::new(dangerous("build"));
    std::fs::create_dir(fixture.file("build")).unwrap();
    fixture
        .play(async |person| {
            person.submits("clean up");
            person.sees("[o]nce").await;
            person.submits("perhaps later");
            person.sees("answer with one of the letters").await;
            person.sees("? perhaps later").await;
            person.presses(KeyPress::control('a'));
            person.submits("no, ");
            person.sees("denied: perhaps later").await;
            person.sees("so be it").await;
            person.leaves();
        })
        .await;
    assert!(result(&fixture).await.contains("perhaps later"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_command_can_be_read_whole_before_it_is_approved() {
    let lines: Vec<String> = (0..60).map(|number| format!("# line {number}")).collect();
    let command = format!("rm -rf ./build\n{}", lines.join("\n"));
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": command})).with_text("I tidy up."),
        ScriptedReply::text("so be it"),
    ]));
    std::fs::create_dir(fixture.file("build")).unwrap();
    fixture
        .play(async |person| {
            person.submits("clean up");
            person.sees("shown in full above").await;
            person.sees("[o]nce").await;
            let all = person.all();
            let place = |text: &str| all.iter().position(|row| row.trim() == text);
            // Below what the model said about it.
            assert!(place("I tidy up.").unwrap() < place("# line 59").unwrap(), "{all:?}");
            person.presses(KeyPress::plain(KeyCode::Char('o')));
            person.sees("approved once").await;
            person.sees("so be it").await;
            let times = person.all().iter().filter(|row| row.trim() == "# line 59").count();
            assert_eq!(times, 1);
            person.leaves();
        })
        .await;
    assert!(!fixture.file("build").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_comes_while_the_terminal_is_lent_is_made_known() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "rm -rf ./build"})).hold_after(1),
        ScriptedReply::text("so be it"),
    ]));
    std::fs::create_dir(fixture.file("build")).unwrap();
    fixture
        .play(async |person| {
            person.submits("clean up");
            fixture.model.wait_for_holds(1).await;
            person.submits(&format!("/jobs {SLOW}"));
            person.sees("ran: logs -f -t default slow").await;
            fixture.model.release();
            person.sees("the agent is waiting for an answer").await;
            assert_eq!(person.bells(), 1);
            std::fs::write(fixture.file(VERB_GOES_ON), "").unwrap();
            person.sees("[o]nce").await;
            person.presses(KeyPress::plain(KeyCode::Char('o')));
            person.sees("so be it").await;
            person.leaves();
        })
        .await;
    assert!(!fixture.file("build").exists());
}
