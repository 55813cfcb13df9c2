//! What a worker can do to the board, and what it cannot.

use serde_json::{Value, json};
use vestal_board::{Authority, NewTask, Status, TaskId};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use super::fixture::{WorkerFixture, complete, some};
use crate::chat::fixture::{ChatFixture, terminal};

fn result(fixture: &WorkerFixture, request: usize) -> Value {
    let results = fixture.chat.model.requests()[request].last_tool_results();
    serde_json::from_str(&results[0]).unwrap()
}

#[test]
fn artifacts_are_kept_with_the_task_or_nothing_is_reported() {
    let fixture = WorkerFixture::replies([
        terminal("echo words > report.md; mkdir sub; echo more > sub/data.csv"),
        ScriptedReply::tool_call(
            "kanban_complete",
            json!({"summary": "Done.", "artifacts": ["report.md", "missing.md"]}),
        ),
        ScriptedReply::tool_call("kanban_attachments", json!({})),
        ScriptedReply::tool_call(
            "kanban_complete",
            json!({"summary": "Done.", "artifacts": ["report.md", "sub/data.csv"]}),
        ),
    ]);
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    let error = result(&fixture, 2)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("missing.md"), "{error}");
    // What had been copied before the failure is off the board again.
    assert_eq!(result(&fixture, 3)["attachments"], json!([]));
    let attachments = fixture.show(&task).attachments;
    let names: Vec<&str> = attachments.iter().map(|kept| kept.filename.as_str()).collect();
    assert_eq!(names, ["report.md", "data.csv"]);
    let kept = std::fs::read(fixture.board.attachment_path(&attachments[0])).unwrap();
    assert_eq!(kept, b"words\n");
}

#[test]
fn an_artifact_that_is_too_large_fails_the_report_and_the_task_goes_on() {
    let fixture = WorkerFixture::replies([
        terminal("truncate -s 26M huge"),
        ScriptedReply::tool_call(
            "kanban_complete",
            json!({"summary": "Done.", "artifacts": "huge"}),
        ),
        complete(),
    ]);
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    let error = result(&fixture, 2)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("25 MiB"), "{error}");
    assert!(fixture.show(&task).attachments.is_empty());
}

#[test]
fn a_worker_makes_tasks_and_names_only_those_it_made() {
    let fixture = WorkerFixture::new(
        Script::rules([
            ReplyRule::after_tool_results(2).reply_with(|request| {
                let made: Value = serde_json::from_str(&request.tool_results()[0]).unwrap();
                let cards = json!([made["task_id"]]);
                ScriptedReply::tool_call(
                    "kanban_complete",
                    json!({"summary": "Done.", "created_cards": cards}),
                )
            }),
        ])
        .then(ScriptedReply::tool_call(
            "kanban_create",
            json!({"title": "A follow-up", "assignee": "Default", "body": "More.", "priority": "3"}),
        ))
        .then(ScriptedReply::tool_call(
            "kanban_complete",
            json!({"summary": "Done.", "created_cards": ["t_000000000000"]}),
        ))
        .strict(),
    );
    let task = fixture.task(NewTask { tenant: Some("acme".to_owned()), ..some() });
    fixture.work(&task).exits(0);
    let error = result(&fixture, 2)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("t_000000000000"), "{error}");
    let kinds: Vec<String> =
        fixture.show(&task).events.into_iter().map(|event| event.kind).collect();
    assert!(kinds.iter().any(|kind| kind == "completion_blocked_hallucination"), "{kinds:?}");

    let made = result(&fixture, 1);
    let made: TaskId = made["task_id"].as_str().unwrap().parse().unwrap();
    let made = fixture.get(&made);
    assert_eq!((made.status, made.priority, made.depth), (Status::Ready, 3, 1));
    assert_eq!(made.tenant.as_deref(), Some("acme"));
    assert_eq!(made.created_by, "default");
    assert_eq!(made.created_by_run, Some(fixture.last_run(&task).id));
}

#[test]
fn a_worker_cannot_decide_about_tasks_that_are_not_its_own() {
    let fixture = WorkerFixture::new(Script::new());
    let other = fixture.some_task();
    let on_other =
        json!({"task_id": other.as_str(), "summary": "x", "reason": "x", "body": "A hint."});
    for name in
        ["kanban_complete", "kanban_block", "kanban_comment", "kanban_unblock", "kanban_list"]
    {
        fixture.chat.model.push(ScriptedReply::tool_call(name, on_other.clone()));
    }
    fixture.chat.model.push(complete());
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    for request in [1, 2] {
        let error = result(&fixture, request)["error"].as_str().unwrap().to_owned();
        assert!(error.contains("own task only"), "{error}");
    }
    // It may say something about it, under its own name.
    assert_eq!(result(&fixture, 3)["ok"], true);
    for request in [4, 5] {
        let error = result(&fixture, request)["error"].as_str().unwrap().to_owned();
        assert!(error.contains("there is no tool"), "{error}");
    }
    let sheet = fixture.show(&other);
    assert_eq!(sheet.task.status, Status::Ready);
    assert_eq!(
        (sheet.comments[0].author.as_str(), sheet.comments[0].body.as_str()),
        ("default", "A hint.")
    );
}

#[test]
fn secrets_reach_neither_the_board_nor_the_log() {
    const SECRET: &str = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
    let fixture = WorkerFixture::replies([
        ScriptedReply::tool_call("kanban_comment", json!({"body": format!("the key is {SECRET}")})),
        terminal(&format!("echo {SECRET}")).with_text(format!("I use {SECRET} now.")),
        ScriptedReply::tool_call(
            "kanban_complete",
            json!({"summary": format!("used {SECRET}"), "metadata": {"api_key": SECRET}}),
        ),
    ]);
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    let sheet = fixture.show(&task);
    let kept = format!("{sheet:?}");
    assert!(!kept.contains(SECRET), "{kept}");
    assert!(sheet.comments[0].body.starts_with("the key is "));
    let log = fixture.log(&task);
    assert!(!log.contains(SECRET) && log.contains("I use "), "{log}");
}

#[test]
fn a_heartbeat_says_how_far_the_work_is() {
    let fixture = WorkerFixture::replies([
        ScriptedReply::tool_call("kanban_heartbeat", json!({"note": "half of it"})),
        complete(),
    ]);
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    let run = fixture.last_run(&task);
    assert_eq!(run.note.as_deref(), Some("half of it"));
    assert!(run.heartbeat_at.is_some() && run.activity_at.is_some());
}

#[test]
fn a_helper_works_beside_its_worker_and_cannot_report_for_it() {
    let fixture = WorkerFixture::new(
        Script::rules([
            ReplyRule::when_user_contains("a part of it").reply(terminal("pwd")),
            // Only where the worker is at work does its helper come to an end.
            ReplyRule::after_tool_result_contains("/workspace/kanban/t_")
                .reply(ScriptedReply::text("The part is done.")),
        ])
        .then(ScriptedReply::tool_call("delegate_task", json!({"goal": "do a part of it"})))
        .then(complete()),
    );
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    let requests = fixture.chat.model.requests();
    let helper = requests
        .iter()
        .find(|request| request.last_user_text().is_some_and(|text| text.contains("a part of it")))
        .unwrap();
    let names = helper.tool_names();
    assert!(names.contains(&"kanban_show") && names.contains(&"terminal"), "{names:?}");
    assert!(!names.contains(&"kanban_complete") && !names.contains(&"kanban_block"), "{names:?}");
}

#[test]
fn a_chat_has_the_board_only_when_somebody_asks_for_it() {
    let chat = ChatFixture::replies([
        ScriptedReply::text("Hello."),
        ScriptedReply::tool_call("kanban_list", json!({})),
        ScriptedReply::tool_call(
            "kanban_create",
            json!({"title": "From a chat", "assignee": "default", "initial_status": "blocked"}),
        ),
        ScriptedReply::tool_call("kanban_list", json!({"status": "blocked"})),
        ScriptedReply::text("There it is."),
    ]);
    chat.ask("hello").exits(0);
    let requests = chat.model.requests();
    assert!(!requests[0].tool_names().iter().any(|name| name.starts_with("kanban")));
    assert!(!chat.fixture.home().join("kanban").exists());

    chat.vestal(["chat", "--toolsets", "all,kanban", "-q", "make a task"]).exits(0);
    let requests = chat.model.requests();
    let names = requests[1].tool_names();
    assert!(names.contains(&"kanban_unblock") && names.contains(&"terminal"), "{names:?}");
    assert!(!names.contains(&"kanban_heartbeat"), "{names:?}");
    // Looking at a board that is not there does not make it.
    let looked: Value = serde_json::from_str(&requests[2].last_tool_results()[0]).unwrap();
    assert!(looked["error"].as_str().unwrap().contains("empty"), "{looked}");
    let listed: Value = serde_json::from_str(&requests[4].last_tool_results()[0]).unwrap();
    assert_eq!(listed["count"], 1);
    assert_eq!(listed["tasks"][0]["title"], "From a chat");
}

#[test]
fn a_comment_on_the_board_reaches_the_next_worker_as_somebodys_words() {
    let fixture = WorkerFixture::replies([complete()]);
    let task = fixture.some_task();
    let person = Authority::Person("ada".to_owned());
    fixture.on(fixture.board.comment(&person, &task, "Mind the margins.")).unwrap();
    fixture.work(&task).exits(0);
    let reported = fixture.chat.model.requests()[0].last_user_text().unwrap();
    assert!(reported.contains("Mind the margins.") && reported.contains("ada"), "{reported}");
}
