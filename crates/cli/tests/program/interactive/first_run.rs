//! Nobody has said which model there is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use vestal_scripted_model::{Model, Reply, Script};

use super::world::{ENTER, INTERRUPT, Seat, columns};
use crate::chat::world::Chatting;

const KEY: &str = "sk-secret-of-the-test";

fn unconfigured(script: Script) -> Chatting {
    Chatting::new(script)
}

fn sit_down(chat: &Chatting, args: &[&str]) -> Seat {
    Seat::start(chat, args, columns(100), &[])
}

#[test]
fn a_few_questions_and_the_chat_begins() {
    let models = ["large", "small"].map(|id| Model::new(id).context_length(8000));
    let script = Script::replies([Reply::text("hello"), Reply::text("Here I am.")]).models(models);
    let chat = unconfigured(script);
    let mut seat = sit_down(&chat, &[]);
    seat.sees("choose [1-4]:");
    seat.types(&chat.model.base_url());
    seat.types(ENTER);
    seat.sees("its key, if it wants one");
    seat.types(KEY);
    seat.types(ENTER);
    seat.sees("2) small");
    seat.types("sma");
    seat.types(ENTER);
    seat.sees("small answered in");
    seat.sees_prompt();
    seat.says("are you there?");
    seat.sees("Here I am.");
    assert!(!seat.all().contains(KEY), "{}", seat.all());
    assert_eq!(seat.leaves(), 0);
    let env = chat.world.home().join(".env");
    assert_eq!(fs::read_to_string(&env).unwrap(), format!("VESTAL_API_KEY={KEY}\n"));
    assert_eq!(fs::metadata(&env).unwrap().permissions().mode() & 0o777, 0o600);
    let requests = chat.model.requests();
    assert_eq!(requests[1].model(), "small");
    assert_eq!(requests[1].header("authorization"), Some(&*format!("Bearer {KEY}")));
    // From now on nothing is asked.
    let mut seat = sit_down(&chat, &["chat"]);
    seat.sees_prompt();
    seat.types("\x04");
    assert_eq!(seat.ends(), 0);
}

#[test]
fn a_refused_key_is_asked_for_again() {
    let refused = Reply::error(401, "no such key");
    let chat = unconfigured(Script::new().models_reply(refused));
    let mut seat = sit_down(&chat, &["model", "setup"]);
    seat.sees("choose [1-4]:");
    seat.types(&chat.model.base_url());
    seat.types(ENTER);
    seat.sees("its key, if it wants one");
    seat.types(ENTER);
    seat.sees_when(|screen| {
        let asked = screen.iter().filter(|row| row.contains("its key, if it wants one"));
        asked.count() == 2
    });
    seat.types(INTERRUPT);
    seat.sees("nothing was changed");
    assert_eq!(seat.ends(), 1);
    assert!(!chat.world.home().join(".env").exists());
    assert!(!chat.world.home().join("config.yaml").exists());
}

#[test]
fn a_model_that_does_not_answer_can_be_kept_all_the_same() {
    let chat =
        unconfigured(Script::replies([Reply::error(500, "broken")]).models([Model::new("only")]));
    let mut seat = sit_down(&chat, &["model", "setup"]);
    seat.sees("choose [1-4]:");
    seat.types("4\r");
    seat.sees("its address");
    seat.types("nonsense://x\r");
    seat.sees_when(|screen| screen.iter().filter(|row| row.contains("its address")).count() == 2);
    seat.types(&chat.model.base_url());
    seat.types(ENTER);
    seat.sees("its key");
    seat.types(ENTER);
    seat.sees("model [only]:");
    seat.types(ENTER);
    seat.sees("[k]eep");
    seat.types("k\r");
    seat.sees("set model.default to only");
    assert_eq!(seat.ends(), 0);
    let config = fs::read_to_string(chat.world.home().join("config.yaml")).unwrap();
    assert!(config.contains("default: only") && config.contains("provider: custom"), "{config}");
}

#[test]
fn an_end_of_input_leaves_and_says_how_it_is_done_by_hand() {
    let chat = unconfigured(Script::new());
    let mut seat = sit_down(&chat, &[]);
    seat.sees("choose [1-4]:");
    seat.types("\x04");
    seat.sees("vestal model setup");
    assert_eq!(seat.ends(), 1);
}

#[test]
fn a_project_is_offered_once_and_the_answer_is_kept() {
    let chat = Chatting {
        world: crate::support::World::native(),
        model: vestal_scripted_model::ScriptedModel::start(Script::new()),
    };
    fs::write(chat.world.work().join("Makefile"), "").unwrap();
    fs::write(chat.world.work().join("here"), "the project\n").unwrap();
    let variables: Vec<(&str, String)> =
        chat.variables().into_iter().filter(|(name, _)| *name != "TERMINAL_ENV").collect();
    let sit = |args: &[&str]| Seat::start(&chat, args, columns(100), &variables);
    let mut seat = sit(&["chat"]);
    seat.sees("Shall the agent work on");
    seat.types("y\r");
    seat.sees_prompt();
    chat.model.push(crate::chat::world::terminal("cat /workspace/here"));
    chat.model.push(Reply::text("Seen."));
    seat.says("look");
    seat.sees("Seen.");
    assert!(chat.model.requests()[1].last_tool_results()[0].contains("the project"));
    assert_eq!(seat.leaves(), 0);
    let seat = sit(&["chat"]);
    seat.sees_prompt();
    assert!(!seat.all().contains("Shall the agent"), "{}", seat.all());
    assert_eq!(seat.leaves(), 0);
}
