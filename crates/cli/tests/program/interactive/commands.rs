//! What is said to the program and not to the model.

use vestal_scripted_model::{Model, Script, ScriptedReply};
use vestal_testkit::files::Fifo;

use super::world::{ENTER, INTERRUPT, Seat, columns};
use crate::chat::world::{Chatting, terminal};

#[test]
fn an_unknown_command_is_said_once_with_the_nearest_and_the_chat_goes_on() {
    let chat = Chatting::replies([ScriptedReply::text("Still here.")]);
    let mut seat = Seat::take(&chat);
    seat.says("/modle");
    seat.sees("did you mean /model?");
    assert_eq!(seat.count("did you mean"), 1);
    seat.types("\x15");
    seat.says("are you there?");
    seat.sees("Still here.");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(chat.model.requests().len(), 1);
}

#[test]
fn the_models_of_the_chat_are_those_of_the_command_line() {
    let models = ["alpha", "beta", "scripted"].map(|id| Model::new(id).context_length(8000));
    let chat = Chatting::new(Script::new().models(models));
    let shown = chat.vestal(["model"]).exits(0).text();
    let mut seat = Seat::take(&chat);
    seat.says("/model");
    for line in shown.lines() {
        seat.sees(line.trim_end());
    }
    seat.sees_prompt();
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn another_model_is_asked_in_this_conversation_alone() {
    let models = ["other", "scripted"].map(|id| Model::new(id).context_length(8000));
    let script =
        Script::replies(["One.", "Two.", "Three."].map(ScriptedReply::text)).models(models);
    let chat = Chatting::new(script);
    chat.vestal(["model"]).exits(0);
    let mut seat = Seat::take(&chat);
    seat.says("first");
    seat.sees("One.");
    seat.says("/model other");
    seat.sees("other");
    seat.says("second");
    seat.sees("Two.");
    seat.says("/new");
    seat.sees_prompt();
    seat.says("third");
    seat.sees("Three.");
    assert_eq!(seat.leaves(), 0);
    let requests = chat.model.requests();
    let asked: Vec<&str> =
        requests.iter().map(vestal_scripted_model::ReceivedRequest::model).collect();
    assert_eq!(asked, ["scripted", "other", "scripted"]);
}

#[test]
fn a_model_that_is_set_in_the_chat_is_asked_in_its_next_conversation() {
    let chat = Chatting::replies(["One.", "Two."].map(ScriptedReply::text));
    let config = format!("model:\n  default: first\n  base_url: {}\n", chat.model.base_url());
    std::fs::create_dir_all(chat.world.home()).unwrap();
    std::fs::write(chat.world.home().join("config.yaml"), config).unwrap();
    let mut seat = Seat::start(&chat, &["chat"], columns(80), &[]);
    seat.says("hello");
    seat.sees("One.");
    seat.says("/config set model.default second");
    seat.sees("model.default");
    seat.says("/new");
    seat.says("hello again");
    seat.sees("Two.");
    assert_eq!(seat.leaves(), 0);
    let requests = chat.model.requests();
    let asked: Vec<&str> =
        requests.iter().map(vestal_scripted_model::ReceivedRequest::model).collect();
    assert_eq!(asked, ["first", "second"]);
}

#[test]
fn a_new_conversation_works_in_the_same_sandbox() {
    let chat = Chatting::replies([
        terminal("echo kept > note"),
        ScriptedReply::text("Written."),
        terminal("cat note"),
        ScriptedReply::text("Found."),
    ]);
    let mut seat = Seat::take(&chat);
    seat.says("write");
    seat.sees("Written.");
    seat.says("/new");
    seat.sees_prompt();
    seat.says("find");
    seat.sees("Found.");
    let requests = chat.model.requests();
    assert!(requests[3].last_tool_results()[0].contains("kept"), "{requests:?}");
    let heard = serde_json::to_string(requests[2].messages()).unwrap();
    assert!(!heard.contains("Written."), "{heard}");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn what_was_undone_does_not_come_back() {
    let chat = Chatting::replies(["One.", "Two.", "Three."].map(ScriptedReply::text));
    let mut seat = Seat::take(&chat);
    seat.says("first");
    seat.sees("One.");
    seat.says("a mistake");
    seat.sees("Two.");
    seat.says("/undo");
    seat.sees("undid 1 turn");
    // What was said is there to be said differently.
    seat.sees("› a mistake");
    seat.types("\x15");
    assert_eq!(seat.leaves(), 0);
    chat.vestal(["chat", "-c", "-q", "again"]).exits(0);
    let heard = serde_json::to_string(chat.model.requests()[2].messages()).unwrap();
    assert!(heard.contains("first") && !heard.contains("a mistake"), "{heard}");
}

#[test]
fn yolo_acts_at_once_and_only_here() {
    let dangerous = || terminal("rm -rf ./gone && echo removed");
    let chat = Chatting::replies([
        dangerous(),
        ScriptedReply::text("Not allowed."),
        dangerous(),
        ScriptedReply::text("Allowed."),
        dangerous(),
        ScriptedReply::text("Not any more."),
    ]);
    let mut seat = Seat::take(&chat);
    seat.says("first");
    seat.sees("[d]eny");
    seat.types("d");
    seat.sees("Not allowed.");
    seat.says("/yolo");
    seat.sees("YOLO");
    seat.says("second");
    seat.sees("Allowed.");
    seat.says("/new");
    seat.sees_no_more("YOLO");
    seat.says("third");
    seat.sees("[d]eny");
    seat.types("d");
    seat.sees("Not any more.");
    assert_eq!(seat.leaves(), 0);
    let requests = chat.model.requests();
    assert!(requests[3].last_tool_results()[0].contains("removed"));
    assert!(!requests[5].last_tool_results()[0].contains("removed"));
}

#[test]
fn tab_completes_a_command() {
    let chat = Chatting::new(Script::new());
    let mut seat = Seat::take(&chat);
    seat.types("/comp\t");
    seat.sees("/compress");
    seat.types("\x15");
    seat.types("/help");
    seat.types(ENTER);
    seat.has_seen("/undo");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn the_help_fits_sixty_columns() {
    let chat = Chatting::new(Script::new());
    let mut seat = Seat::take_with(&chat, &["chat"], columns(60));
    seat.sees_prompt();
    seat.says("/help");
    seat.has_seen("/quit");
    seat.sees_prompt();
    for line in seat.all().lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn the_sandbox_and_its_jobs_are_shown_and_ended() {
    let chat = Chatting::new(Script::new());
    let job = chat.world.background("sleep 1000");
    let mut seat = Seat::take(&chat);
    seat.says("/sandbox");
    seat.sees("local");
    seat.says("/jobs");
    seat.sees("sleep 1000");
    seat.says(&format!("/jobs kill {}", &job[..10]));
    vestal_testkit::wait_until("the job has ended", || chat.world.job(&job)["state"] != "running");
    seat.sees_prompt();
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn the_end_of_a_background_job_is_told_while_nothing_goes_on() {
    let chat = Chatting::replies([
        ScriptedReply::tool_call(
            "terminal",
            serde_json::json!({"command": "cat go; exit 3", "background": true}),
        ),
        ScriptedReply::text("It runs."),
    ]);
    let go = Fifo::create(chat.world.work().join("go"));
    let mut seat = Seat::take(&chat);
    seat.says("start it");
    seat.sees("It runs.");
    seat.sees("1 job");
    go.write("");
    seat.sees("exit 3");
    assert_eq!(chat.model.requests().len(), 2);
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn the_name_of_a_skill_is_a_command() {
    let chat = Chatting::replies([ScriptedReply::text("Deployed.")]);
    with_skill(&chat);
    let mut seat = Seat::take(&chat);
    seat.says("/deploy to staging");
    seat.sees("Deployed.");
    let said = chat.model.requests()[0].last_user_text().unwrap();
    assert!(said.contains("Push the green button.") && said.contains("to staging"), "{said}");
    assert!(chat.model.requests()[0].system().contains("How it is done here."));
    assert_eq!(seat.leaves(), 0);
}

fn with_skill(chat: &Chatting) -> std::path::PathBuf {
    let skill = chat.world.home().join("skills/deploy");
    std::fs::create_dir_all(&skill).unwrap();
    let text =
        "---\nname: deploy\ndescription: How it is done here.\n---\nPush the green button.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    skill
}

#[test]
fn ctrl_c_at_a_question_of_a_command_is_a_no_and_the_chat_goes_on() {
    let chat = Chatting::replies([ScriptedReply::text("Still here.")]);
    let skill = with_skill(&chat);
    let mut seat = Seat::take(&chat);
    seat.says("/skills remove deploy");
    seat.sees("Remove deploy? [y/N]");
    seat.types(INTERRUPT);
    seat.sees("nothing was removed");
    seat.says("are you there?");
    seat.sees("Still here.");
    // The next question is asked as if nothing had been.
    seat.says("/skills remove deploy");
    seat.sees_when(|screen| screen.iter().filter(|row| row.contains("[y/N]")).count() == 2);
    assert!(skill.exists());
    seat.types("y\r");
    seat.sees("removed deploy");
    assert_eq!(seat.leaves(), 0);
    assert!(!skill.exists());
}

#[test]
fn a_request_to_end_is_heard_at_a_question_of_a_command() {
    let chat = Chatting::new(Script::new());
    let skill = with_skill(&chat);
    let mut seat = Seat::take(&chat);
    seat.says("/skills remove deploy");
    seat.sees("Remove deploy? [y/N]");
    seat.signal(rustix::process::Signal::TERM);
    assert_eq!(seat.ends(), 143);
    assert!(skill.exists());
}
