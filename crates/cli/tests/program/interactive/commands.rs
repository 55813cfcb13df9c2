//! What is said to the program and not to the model.

use vestal_scripted_model::{Model, Script, ScriptedReply};
use vestal_testkit::files::Fifo;

use super::fixture::{ChatTerminal, ENTER, INTERRUPT, columns};
use crate::chat::fixture::{ChatFixture, terminal};

#[test]
fn an_unknown_command_is_reported_once_with_the_nearest_and_the_chat_goes_on() {
    let chat = ChatFixture::replies([ScriptedReply::text("Still here.")]);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("/modle");
    tty.sees("did you mean /model?");
    assert_eq!(tty.count("did you mean"), 1);
    tty.submits("are you there?");
    tty.sees("Still here.");
    assert_eq!(tty.leaves(), 0);
    assert_eq!(chat.model.requests().len(), 1);
}

#[test]
fn the_models_of_the_chat_are_those_of_the_command_line() {
    let models = ["alpha", "beta", "scripted"].map(|id| Model::new(id).context_length(8000));
    let chat = ChatFixture::new(Script::new().models(models));
    let shown = chat.vestal(["model"]).exits(0).text();
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("/model list");
    for line in shown.lines() {
        tty.sees(line.trim_end());
    }
    tty.sees_prompt();
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn another_model_is_asked_in_this_conversation_alone() {
    let models = ["other", "scripted"].map(|id| Model::new(id).context_length(8000));
    let script =
        Script::replies(["One.", "Two.", "Three."].map(ScriptedReply::text)).models(models);
    let chat = ChatFixture::new(script);
    chat.vestal(["model"]).exits(0);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("first");
    tty.sees("One.");
    tty.submits("/model other");
    tty.sees("other");
    tty.submits("second");
    tty.sees("Two.");
    tty.submits("/new");
    tty.sees_prompt();
    tty.submits("third");
    tty.sees("Three.");
    assert_eq!(tty.leaves(), 0);
    let requests = chat.model.requests();
    let asked: Vec<&str> =
        requests.iter().map(vestal_scripted_model::ReceivedRequest::model).collect();
    assert_eq!(asked, ["scripted", "other", "scripted"]);
}

#[test]
fn a_model_that_is_set_in_the_chat_is_asked_in_its_next_conversation() {
    let chat = ChatFixture::replies(["One.", "Two."].map(ScriptedReply::text));
    let config = format!("model:\n  default: first\n  base_url: {}\n", chat.model.base_url());
    std::fs::create_dir_all(chat.fixture.home()).unwrap();
    std::fs::write(chat.fixture.home().join("config.yaml"), config).unwrap();
    let mut tty = ChatTerminal::start(&chat, &["chat"], columns(80), &[]);
    tty.submits("hello");
    tty.sees("One.");
    tty.submits("/config set model.default second");
    tty.sees("model.default");
    tty.submits("/new");
    tty.submits("hello again");
    tty.sees("Two.");
    assert_eq!(tty.leaves(), 0);
    let requests = chat.model.requests();
    let asked: Vec<&str> =
        requests.iter().map(vestal_scripted_model::ReceivedRequest::model).collect();
    assert_eq!(asked, ["first", "second"]);
}

#[test]
fn a_new_conversation_works_in_the_same_sandbox() {
    let chat = ChatFixture::replies([
        terminal("echo kept > note"),
        ScriptedReply::text("Written."),
        terminal("cat note"),
        ScriptedReply::text("Found."),
    ]);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("write");
    tty.sees("Written.");
    tty.submits("/new");
    tty.sees_prompt();
    tty.submits("find");
    tty.sees("Found.");
    let requests = chat.model.requests();
    assert!(requests[3].last_tool_results()[0].contains("kept"), "{requests:?}");
    let heard = serde_json::to_string(requests[2].messages()).unwrap();
    assert!(!heard.contains("Written."), "{heard}");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn what_was_undone_does_not_come_back() {
    let chat = ChatFixture::replies(["One.", "Two.", "Three."].map(ScriptedReply::text));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("first");
    tty.sees("One.");
    tty.submits("a mistake");
    tty.sees("Two.");
    tty.submits("/undo");
    tty.sees("undid 1 turn");
    // What was said is there to be said differently.
    tty.sees("› a mistake");
    tty.types("\x15");
    assert_eq!(tty.leaves(), 0);
    chat.vestal(["chat", "-c", "-q", "again"]).exits(0);
    let heard = serde_json::to_string(chat.model.requests()[2].messages()).unwrap();
    assert!(heard.contains("first") && !heard.contains("a mistake"), "{heard}");
}

#[test]
fn yolo_acts_at_once_and_only_here() {
    let dangerous = || terminal("rm -rf ./gone && echo removed");
    let chat = ChatFixture::replies([
        dangerous(),
        ScriptedReply::text("Not allowed."),
        dangerous(),
        ScriptedReply::text("Allowed."),
        dangerous(),
        ScriptedReply::text("Not any more."),
    ]);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("first");
    tty.sees("[d]eny");
    tty.types("d");
    tty.sees("Not allowed.");
    tty.submits("/yolo");
    tty.sees("YOLO");
    tty.submits("second");
    tty.sees("Allowed.");
    tty.submits("/new");
    tty.sees_no_more("YOLO");
    tty.submits("third");
    tty.sees("[d]eny");
    tty.types("d");
    tty.sees("Not any more.");
    assert_eq!(tty.leaves(), 0);
    let requests = chat.model.requests();
    assert!(requests[3].last_tool_results()[0].contains("removed"));
    assert!(!requests[5].last_tool_results()[0].contains("removed"));
}

#[test]
fn tab_completes_a_command() {
    let chat = ChatFixture::new(Script::new());
    let mut tty = ChatTerminal::take(&chat);
    tty.types("/comp\t");
    tty.sees("/compress");
    tty.types("\x15");
    tty.types("/help");
    tty.types(ENTER);
    tty.has_seen("/undo");
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn the_help_fits_sixty_columns() {
    let chat = ChatFixture::new(Script::new());
    let mut tty = ChatTerminal::take_with(&chat, &["chat"], columns(60));
    tty.sees_prompt();
    tty.submits("/help");
    tty.has_seen("/quit");
    tty.sees_prompt();
    for line in tty.all().lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn the_sandbox_and_its_jobs_are_shown_and_ended() {
    let chat = ChatFixture::new(Script::new());
    let job = chat.fixture.background("sleep 1000");
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("/sandbox");
    tty.sees("local");
    tty.submits("/jobs");
    tty.sees("sleep 1000");
    tty.submits(&format!("/jobs kill {}", &job[..10]));
    vestal_testkit::wait_until("the job has ended", || {
        chat.fixture.job(&job)["state"] != "running"
    });
    tty.sees_prompt();
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn the_end_of_a_background_job_is_reported_while_nothing_goes_on() {
    let chat = ChatFixture::replies([
        ScriptedReply::tool_call(
            "terminal",
            serde_json::json!({"command": "cat go; exit 3", "background": true}),
        ),
        ScriptedReply::text("It runs."),
    ]);
    let go = Fifo::create(chat.fixture.work().join("go"));
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("start it");
    tty.sees("It runs.");
    tty.sees("1 job");
    go.write("");
    tty.sees("exit 3");
    assert_eq!(chat.model.requests().len(), 2);
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn the_name_of_a_skill_is_a_command() {
    let chat = ChatFixture::replies([ScriptedReply::text("Deployed.")]);
    with_skill(&chat);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("/deploy to staging");
    tty.sees("Deployed.");
    let printed = chat.model.requests()[0].last_user_text().unwrap();
    assert!(
        printed.contains("Push the green button.") && printed.contains("to staging"),
        "{printed}"
    );
    assert!(chat.model.requests()[0].system().contains("How it is done here."));
    assert_eq!(tty.leaves(), 0);
}

fn with_skill(chat: &ChatFixture) -> std::path::PathBuf {
    let skill = chat.fixture.home().join("skills/deploy");
    std::fs::create_dir_all(&skill).unwrap();
    let text =
        "---\nname: deploy\ndescription: How it is done here.\n---\nPush the green button.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    skill
}

#[test]
fn ctrl_c_at_a_question_of_a_command_is_a_no_and_the_chat_goes_on() {
    let chat = ChatFixture::replies([ScriptedReply::text("Still here.")]);
    let skill = with_skill(&chat);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("/skills remove deploy");
    tty.sees("Remove deploy? [y/N]");
    tty.types(INTERRUPT);
    tty.sees("nothing was removed");
    tty.submits("are you there?");
    tty.sees("Still here.");
    // The next question is asked as if nothing had been.
    tty.submits("/skills remove deploy");
    tty.sees_when(|screen| screen.iter().filter(|row| row.contains("[y/N]")).count() == 2);
    assert!(skill.exists());
    tty.types("y\r");
    tty.sees("removed deploy");
    assert_eq!(tty.leaves(), 0);
    assert!(!skill.exists());
}

#[test]
fn a_request_to_end_is_heard_at_a_question_of_a_command() {
    let chat = ChatFixture::new(Script::new());
    let skill = with_skill(&chat);
    let mut tty = ChatTerminal::take(&chat);
    tty.submits("/skills remove deploy");
    tty.sees("Remove deploy? [y/N]");
    tty.signal(rustix::process::Signal::TERM);
    assert_eq!(tty.ends(), 143);
    assert!(skill.exists());
}
