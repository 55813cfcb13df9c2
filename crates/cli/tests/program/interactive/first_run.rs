//! Nobody has said which model there is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use vestal_scripted_model::{Model, Script, ScriptedReply};

use super::fixture::{ChatTerminal, ENTER, INTERRUPT, columns};
use crate::chat::fixture::ChatFixture;

const KEY: &str = "sk-secret-of-the-test";

fn unconfigured(script: Script) -> ChatFixture {
    ChatFixture::new(script)
}

fn sit_down(chat: &ChatFixture, args: &[&str]) -> ChatTerminal {
    ChatTerminal::start(chat, args, columns(100), &[])
}

#[test]
fn a_few_questions_and_the_chat_begins() {
    let models = ["large", "small"].map(|id| Model::new(id).context_length(8000));
    let script = Script::replies([ScriptedReply::text("hello"), ScriptedReply::text("Here I am.")])
        .models(models);
    let chat = unconfigured(script);
    let mut tty = sit_down(&chat, &[]);
    tty.sees("choose [1-4]:");
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees("its key, if it wants one");
    tty.types(KEY);
    tty.types(ENTER);
    // Who serves it is called by where it is, not by what the settings call it.
    tty.sees(&format!("the server at {} has 2 models:", chat.model.address()));
    tty.sees("2) small");
    tty.types("sma");
    tty.types(ENTER);
    tty.sees("small answered in");
    tty.sees_prompt();
    tty.submits("are you there?");
    tty.sees("Here I am.");
    assert!(!tty.all().contains(KEY), "{}", tty.all());
    assert_eq!(tty.leaves(), 0);
    let env = chat.fixture.home().join(".env");
    assert_eq!(fs::read_to_string(&env).unwrap(), format!("VESTAL_API_KEY={KEY}\n"));
    assert_eq!(fs::metadata(&env).unwrap().permissions().mode() & 0o777, 0o600);
    let requests = chat.model.requests();
    assert_eq!(requests[1].model(), "small");
    assert_eq!(requests[1].header("authorization"), Some(&*format!("Bearer {KEY}")));
    // From now on nothing is asked.
    let mut tty = sit_down(&chat, &["chat"]);
    tty.sees_prompt();
    tty.types("\x04");
    assert_eq!(tty.ends(), 0);
}

#[test]
fn a_refused_key_is_asked_for_again() {
    let refused = ScriptedReply::error(401, "no such key");
    let chat = unconfigured(Script::new().models_reply(refused));
    let mut tty = sit_down(&chat, &["model", "setup"]);
    tty.sees("choose [1-4]:");
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees("its key, if it wants one");
    tty.types(ENTER);
    tty.sees_when(|screen| {
        let asked = screen.iter().filter(|row| row.contains("its key, if it wants one"));
        asked.count() == 2
    });
    tty.types(INTERRUPT);
    tty.sees("nothing was changed");
    assert_eq!(tty.ends(), 1);
    assert!(!chat.fixture.home().join(".env").exists());
    assert!(!chat.fixture.home().join("config.yaml").exists());
}

#[test]
fn a_key_that_is_refused_only_by_the_model_is_asked_for_again() {
    let replies = [ScriptedReply::error(401, "no such key"), ScriptedReply::text("hello")];
    let chat = unconfigured(Script::replies(replies).models([Model::new("only")]));
    let mut tty = sit_down(&chat, &["model", "setup"]);
    tty.sees("choose [1-4]:");
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees("its key, if it wants one");
    tty.types("sk-wrong\r");
    tty.sees("model [only]:");
    tty.types(ENTER);
    tty.sees_when(|screen| screen.iter().filter(|row| row.contains("its key")).count() == 2);
    // What is not a key at all would only be in the way of everything from now on.
    tty.types("two words\r");
    tty.sees("was something else pasted?");
    tty.sees_when(|screen| screen.iter().filter(|row| row.contains("its key")).count() == 3);
    tty.types(KEY);
    tty.types(ENTER);
    tty.sees("set model.default to only");
    assert_eq!(tty.ends(), 0);
    let env = fs::read_to_string(chat.fixture.home().join(".env")).unwrap();
    assert_eq!(env, format!("VESTAL_API_KEY={KEY}\n"));
    assert_eq!(chat.model.requests().len(), 2);
}

#[test]
fn an_address_without_its_path_is_completed() {
    let chat =
        unconfigured(Script::replies([ScriptedReply::text("hello")]).models([Model::new("only")]));
    let mut tty = sit_down(&chat, &["model", "setup"]);
    tty.sees("choose [1-4]:");
    tty.types(&format!("http://{}\r", chat.model.address()));
    tty.sees("its key, if it wants one");
    tty.types(ENTER);
    tty.sees(&format!("its address is {}", chat.model.base_url()));
    tty.sees("model [only]:");
    tty.types(ENTER);
    tty.sees("set model.default to only");
    assert_eq!(tty.ends(), 0);
    let config = fs::read_to_string(chat.fixture.home().join("config.yaml")).unwrap();
    assert!(config.contains(&chat.model.base_url()), "{config}");
}

#[test]
fn a_server_that_cannot_be_reached_is_tried_again_with_the_same_key() {
    let chat = unconfigured(Script::new().models_reply(ScriptedReply::error(503, "not yet")));
    let mut tty = sit_down(&chat, &["model", "setup"]);
    tty.sees("choose [1-4]:");
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees("its key, if it wants one");
    tty.types(KEY);
    tty.types(ENTER);
    tty.sees("[a]gain");
    tty.types("a\r");
    tty.sees_when(|screen| screen.iter().filter(|row| row.contains("[a]gain")).count() == 2);
    assert_eq!(tty.count("its key"), 1, "{}", tty.all());
    let asked = chat.model.other_requests();
    let keys: Vec<Option<&str>> =
        asked.iter().map(|request| request.header("authorization")).collect();
    let with_key = format!("Bearer {KEY}");
    assert_eq!(keys, [Some(with_key.as_str()); 2]);
    tty.types("l\r");
    tty.sees("nothing was changed");
    assert_eq!(tty.ends(), 1);
}

#[test]
fn a_key_that_the_environment_hides_is_reported() {
    let chat = unconfigured(
        Script::replies([ScriptedReply::error(401, "no such key"), ScriptedReply::text("hello")])
            .models([Model::new("only")]),
    );
    let variables = [("VESTAL_API_KEY", "sk-old".to_owned())];
    let mut tty = ChatTerminal::start(&chat, &["model", "setup"], columns(100), &variables);
    tty.sees("choose [1-4]:");
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees("model [only]:");
    tty.types(ENTER);
    tty.sees("its key");
    tty.types(KEY);
    tty.types(ENTER);
    tty.sees("unset VESTAL_API_KEY");
    assert_eq!(tty.ends(), 0);
}

#[test]
fn the_key_of_one_server_is_not_shown_to_another() {
    let script = Script::replies([ScriptedReply::text("hello")]).models([Model::new("only")]);
    let (chat, old) = (unconfigured(script), unconfigured(Script::new()));
    let home = chat.fixture.home();
    fs::create_dir_all(&home).unwrap();
    let before = format!("model:\n  base_url: {}\n", old.model.base_url());
    fs::write(home.join("config.yaml"), before).unwrap();
    fs::write(home.join(".env"), "VESTAL_API_KEY=sk-of-the-old-one\n").unwrap();
    let mut tty = sit_down(&chat, &["model", "setup"]);
    tty.sees("choose [1-4]:");
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees("its key, if it wants one");
    tty.types(ENTER);
    tty.sees("model [only]:");
    tty.types(ENTER);
    tty.sees("set model.default to only");
    assert_eq!(tty.ends(), 0);
    // Neither while it is tried nor from now on.
    crate::support::finish(chat.fixture.command(["model", "list"]).spawn().unwrap()).exits(0);
    let asked = [chat.model.other_requests(), chat.model.requests()].concat();
    let keys: Vec<Option<&str>> =
        asked.iter().map(|request| request.header("authorization")).collect();
    assert_eq!(keys, [None; 3]);
    assert_eq!(old.model.connections(), 0);
}

#[test]
fn a_model_that_does_not_answer_can_be_kept_all_the_same() {
    let chat = unconfigured(
        Script::replies([ScriptedReply::error(500, "broken")]).models([Model::new("only")]),
    );
    let mut tty = sit_down(&chat, &["model", "setup"]);
    tty.sees("choose [1-4]:");
    tty.types("4\r");
    tty.sees("its address");
    tty.types("nonsense://x\r");
    tty.sees_when(|screen| screen.iter().filter(|row| row.contains("its address")).count() == 2);
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees("its key");
    tty.types(ENTER);
    tty.sees("model [only]:");
    tty.types(ENTER);
    tty.sees("[k]eep");
    tty.types("k\r");
    tty.sees("set model.default to only");
    assert_eq!(tty.ends(), 0);
    let config = fs::read_to_string(chat.fixture.home().join("config.yaml")).unwrap();
    assert!(config.contains("default: only") && config.contains("provider: custom"), "{config}");
}

#[test]
fn an_address_that_nobody_answers_at_can_be_corrected() {
    let chat =
        unconfigured(Script::replies([ScriptedReply::text("hello")]).models([Model::new("only")]));
    let mut tty = sit_down(&chat, &["model", "setup"]);
    tty.sees("choose [1-4]:");
    tty.types("4\r");
    tty.sees("its address");
    tty.types("http://127.0.0.1:9/v1\r");
    tty.sees("its key");
    tty.types(ENTER);
    tty.sees("[c]hange the address");
    tty.types("c\r");
    tty.sees("its address [http://127.0.0.1:9/v1]:");
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees_when(|screen| screen.iter().filter(|row| row.contains("its key")).count() == 2);
    tty.types(ENTER);
    tty.sees("model [only]:");
    tty.types(ENTER);
    tty.sees("set model.default to only");
    assert_eq!(tty.ends(), 0);
    let config = fs::read_to_string(chat.fixture.home().join("config.yaml")).unwrap();
    assert!(config.contains(&chat.model.base_url()) && !config.contains(":9/v1"), "{config}");
}

#[test]
fn an_end_of_input_leaves_and_says_how_it_is_done_by_hand() {
    let chat = unconfigured(Script::new());
    let mut tty = sit_down(&chat, &[]);
    tty.sees("choose [1-4]:");
    tty.types("\x04");
    tty.sees("vestal model setup");
    assert_eq!(tty.ends(), 1);
}

#[test]
fn a_project_is_offered_once_and_the_answer_is_kept() {
    let chat = ChatFixture {
        fixture: crate::support::ProgramFixture::native(),
        model: vestal_scripted_model::ScriptedModel::start(Script::new()),
    };
    fs::write(chat.fixture.work().join("Makefile"), "").unwrap();
    fs::write(chat.fixture.work().join("here"), "the project\n").unwrap();
    let variables: Vec<(&str, String)> =
        chat.variables().into_iter().filter(|(name, _)| *name != "TERMINAL_ENV").collect();
    let sit = |args: &[&str]| ChatTerminal::start(&chat, args, columns(100), &variables);
    let mut tty = sit(&["chat"]);
    tty.sees("Shall the agent work on");
    tty.types("y\r");
    tty.sees_prompt();
    chat.model.push(crate::chat::fixture::terminal("cat /workspace/here"));
    chat.model.push(ScriptedReply::text("Seen."));
    tty.submits("look");
    tty.sees("Seen.");
    // The sandbox that is looked at is the one that has the project.
    tty.sees("native/default (up)");
    assert!(chat.model.requests()[1].last_tool_results()[0].contains("the project"));
    assert_eq!(tty.leaves(), 0);
    let tty = sit(&["chat"]);
    tty.sees_prompt();
    assert!(!tty.all().contains("Shall the agent"), "{}", tty.all());
    assert_eq!(tty.leaves(), 0);
    // A single question works on it as well, and the model is told where it is.
    chat.model.push(crate::chat::fixture::terminal("cat /workspace/here"));
    chat.model.push(ScriptedReply::text("Seen again."));
    let mut command = chat.fixture.command(["chat", "-q", "look"]);
    command.envs(variables.iter().map(|(name, value)| (*name, value.as_str())));
    let outcome = crate::support::finish(command.spawn().unwrap()).exits(0);
    assert_eq!(outcome.text(), "Seen again.\n");
    let requests = chat.model.requests();
    assert!(requests.last().unwrap().last_tool_results()[0].contains("the project"));
    let reported = serde_json::to_string(requests.last().unwrap().messages()).unwrap();
    let mounted = format!("{}; it is mounted at /workspace", chat.fixture.work().display());
    assert!(reported.contains(&mounted), "{reported}");
}

#[test]
fn a_project_that_the_settings_mount_anyway_is_not_asked_about() {
    let chat = ChatFixture {
        fixture: crate::support::ProgramFixture::native(),
        model: vestal_scripted_model::ScriptedModel::start(Script::new()),
    };
    fs::write(chat.fixture.work().join("Makefile"), "").unwrap();
    let mut variables: Vec<(&str, String)> =
        chat.variables().into_iter().filter(|(name, _)| *name != "TERMINAL_ENV").collect();
    variables.push(("TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE", "true".to_owned()));
    let tty = ChatTerminal::start(&chat, &["chat"], columns(100), &variables);
    tty.sees_input();
    assert!(!tty.all().contains("Shall the agent"), "{}", tty.all());
    assert_eq!(tty.leaves(), 0);
}

#[test]
fn a_directory_whose_name_commands_terminals_is_asked_about_harmlessly() {
    let chat = ChatFixture {
        fixture: crate::support::ProgramFixture::native(),
        model: vestal_scripted_model::ScriptedModel::start(Script::new()),
    };
    let odd = chat.fixture.work().join("odd\x1b[2Jname");
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("Makefile"), "").unwrap();
    let variables: Vec<(&str, String)> =
        chat.variables().into_iter().filter(|(name, _)| *name != "TERMINAL_ENV").collect();
    let mut tty = ChatTerminal::start_in(&chat, &odd, &["chat"], columns(200), &variables);
    tty.sees("odd\\x1b[2Jname? It becomes");
    let written = String::from_utf8_lossy(&tty.pty.written()).into_owned();
    assert!(!written.contains("\x1b[2J"), "{written:?}");
    tty.types(INTERRUPT);
    tty.ends();
}

#[test]
fn a_signal_while_the_key_is_typed_leaves_a_usable_terminal() {
    let chat = unconfigured(Script::new());
    let work = chat.fixture.work();
    // The shell stays behind and says how the terminal was left.
    let script =
        "sh -c 'echo $$ > pid; exec \"$VESTAL\" model setup'; echo $? > code; stty -a > modes";
    let command = vestal_tui::emulator::Command::new("sh")
        .args(["-c", script])
        .current_dir(&work)
        .env_clear()
        .envs(chat.fixture.environment())
        .env("VESTAL", env!("CARGO_BIN_EXE_vestal"));
    let mut tty =
        ChatTerminal { pty: vestal_tui::emulator::Pty::spawn(command, columns(100)).unwrap() };
    tty.sees("choose [1-4]:");
    tty.types(&chat.model.base_url());
    tty.types(ENTER);
    tty.sees("its key, if it wants one");
    let pid: i32 = fs::read_to_string(work.join("pid")).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(tty.ends(), 0);
    assert_eq!(fs::read_to_string(work.join("code")).unwrap(), "143\n");
    let modes = fs::read_to_string(work.join("modes")).unwrap();
    let modes: Vec<&str> = modes.split([' ', ';', '\n']).collect();
    assert!(modes.contains(&"echo") && modes.contains(&"icanon"), "{modes:?}");
}
