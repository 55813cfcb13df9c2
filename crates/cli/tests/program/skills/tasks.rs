//! Skills that tasks of the board name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use vestal_board::boards::{Boards, Slug};
use vestal_board::store::Durability;
use vestal_board::{Authority, Claim, HostId, HostName, Role, RunId, TaskId};
use vestal_config::ProfileName;
use vestal_scripted_model::ScriptedReply;

use super::skill;
use crate::chat::fixture::{ChatFixture, terminal};
use crate::support::{ProgramOutcome, finish};

/// Puts a task on the board that names these skills.
fn task(chat: &ChatFixture, skills: &[&str]) -> String {
    let mut words = vec!["kanban", "create", "Go", "--assignee", "default", "--json"];
    for name in skills {
        words.extend(["--skill", name]);
    }
    chat.vestal(words).exits(0).json()["id"].as_str().unwrap().to_owned()
}

/// Takes the task for a worker of the profile `default`, as a dispatcher would.
fn claim(chat: &ChatFixture, id: &str) -> RunId {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let host = HostId::this(HostName::of_this_machine()).unwrap();
        let by = Authority::Dispatcher(host.name.clone());
        let boards =
            Boards::at(chat.fixture.home().join("kanban"), host.clone(), Durability::Normal);
        let board = boards.open_to_write(&Slug::default_board()).await.unwrap();
        let task: TaskId = id.parse().unwrap();
        // Those before it have ended.
        for run in board.show(&task).await.unwrap().runs.iter().filter(|run| !run.gone) {
            board.run_gone(run.id).await.unwrap();
        }
        let claim = Claim {
            lease: Duration::from_mins(2),
            profile: Some(ProfileName::default_profile()),
            role: Role::Work,
            host: Some(host),
        };
        board.claim(&by, &task, claim).await.unwrap().id
    })
}

/// Has a worker work on a task to its end.
fn work(chat: &ChatFixture, id: &str) -> ProgramOutcome {
    let run = claim(chat, id).to_string();
    finish(chat.command(["kanban", "worker", "--task", id, "--run", &run]).spawn().unwrap())
}

/// Returns what was said on the board of skills that cannot be used.
fn lacking(chat: &ChatFixture, id: &str) -> Vec<String> {
    let shown = chat.vestal(["kanban", "show", id, "--json"]).exits(0).json();
    let comments = shown["comments"].as_array().unwrap().iter();
    let printed = comments.map(|comment| comment["body"].as_str().unwrap().to_owned());
    printed.filter(|words| words.contains("cannot be used")).collect()
}

fn complete() -> ScriptedReply {
    ScriptedReply::tool_call("kanban_complete", json!({"summary": "Gone."}))
}

#[test]
fn a_worker_begins_with_the_skills_of_its_task_open() {
    let chat = ChatFixture::replies([terminal("echo ${#GO_TOKEN}"), complete()]);
    skill(&chat.fixture, "go", "required_environment_variables: [GO_TOKEN]\n");
    skill(&chat.fixture, "unasked", "");
    for name in ["go", "unasked"] {
        chat.vestal(["skills", "install", name, "-y"]).exits(0);
    }
    // What is in the environment a local sandbox has anyway.
    let secrets = chat.fixture.home().join(".env");
    fs::write(&secrets, "GO_TOKEN=a-token-that-nobody-is-shown\n").unwrap();
    fs::set_permissions(&secrets, fs::Permissions::from_mode(0o600)).unwrap();
    let id = task(&chat, &["go"]);
    work(&chat, &id).exits(0);
    let requests = chat.model.requests();
    let reported = requests[0].last_user_text().unwrap();
    assert!(reported.starts_with(&format!("work kanban task {id}\n")), "{reported}");
    assert!(reported.contains("\nUse the skill go, which says:\n\nDo it.\n"), "{reported}");
    assert!(
        !reported.contains("Use the skill unasked") && !reported.contains("lacks"),
        "{reported}"
    );
    let (_, files) = reported.split_once("(Its files are in ").unwrap();
    let files = Path::new(files.split_once(", read-only.)").unwrap().0);
    assert!(files.join("scripts/go.sh").exists(), "{}", files.display());
    let seen: Value = serde_json::from_str(&requests[1].last_tool_results()[0]).unwrap();
    assert_eq!(seen["output"], "28\n", "{seen}");
    assert_eq!(lacking(&chat, &id), Vec::<String>::new());
}

#[test]
fn a_skill_that_cannot_be_used_is_reported_once_on_the_board_and_the_work_goes_on() {
    let wait = || ScriptedReply::tool_call("kanban_block", json!({"reason": "Which?"}));
    let chat = ChatFixture::replies([wait(), complete()]);
    skill(&chat.fixture, "go", "");
    chat.vestal(["skills", "install", "go", "-y"]).exits(0);
    let bad = chat.fixture.home().join("skills/bad");
    fs::create_dir_all(&bad).unwrap();
    fs::write(bad.join("SKILL.md"), "rubbish").unwrap();
    let id = task(&chat, &["gone", "bad", "go"]);
    work(&chat, &id).exits(10);
    let reported = chat.model.requests()[0].last_user_text().unwrap();
    for part in ["there is no skill \"gone\"", "skill bad is broken", "Go on without it.", "Do it."]
    {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    let printed = lacking(&chat, &id);
    let begins = |name| format!("The task names the skill \"{name}\", which cannot be used: ");
    assert_eq!(printed.len(), 2, "{printed:?}");
    assert!(
        printed[0].starts_with(&begins("gone")) && printed[1].starts_with(&begins("bad")),
        "{printed:?}"
    );
    let log = chat.vestal(["kanban", "log", &id]).exits(0).text();
    assert!(log.contains("warning: The task names the skill \"gone\""), "{log}");
    // The next attempt finds it the same, and does not say it again.
    chat.vestal(["kanban", "unblock", &id]).exits(0);
    work(&chat, &id).exits(0);
    assert_eq!(lacking(&chat, &id), printed);
    let status = chat.vestal(["kanban", "show", &id, "--json"]).exits(0).json();
    assert_eq!(status["task"]["status"], "done");
}
