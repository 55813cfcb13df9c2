//! What a worker reports, and what becomes of its task.

use serde_json::json;
use vestal_board::{Authority, BlockKind, NewTask, Outcome, Role, Status};
use vestal_config::ProfileName;
use vestal_scripted_model::ScriptedReply;

use super::fixture::{WorkerFixture, complete, some};
use crate::chat::fixture::terminal;
use crate::support::finish;

#[test]
fn a_worker_gets_its_task_and_completes_it() {
    let fixture = WorkerFixture::replies([
        ScriptedReply::tool_call("kanban_show", json!({})),
        terminal("echo done").with_text("I write it now."),
        ScriptedReply::tool_call(
            "kanban_complete",
            json!({"summary": "It is written.", "result": "Two pages.", "metadata": {"pages": 2}}),
        ),
    ]);
    let task = fixture.some_task();
    fixture.work(&task).exits(0);

    let done = fixture.get(&task);
    assert_eq!((done.status, done.result.as_deref()), (Status::Done, Some("Two pages.")));
    let run = fixture.last_run(&task);
    assert_eq!(run.outcome, Some(Outcome::Completed));
    assert_eq!(run.summary.as_deref(), Some("It is written."));
    assert_eq!(run.metadata, Some(json!({"pages": 2})));

    let requests = fixture.chat.model.requests();
    // The report is the end: the model is not asked for a farewell.
    assert_eq!(requests.len(), 3);
    assert!(requests[0].system().contains("kanban_complete"), "{}", requests[0].system());
    let reported = requests[0].last_user_text().unwrap();
    assert!(reported.starts_with(&format!("work kanban task {task}\n")), "{reported}");
    assert!(reported.contains("Write the report") && reported.contains("Two pages."), "{reported}");
    let shown: serde_json::Value = serde_json::from_str(&requests[1].tool_results()[0]).unwrap();
    assert_eq!(shown["ok"], true);
    assert_eq!(shown["task"]["id"], task.as_str());

    // The conversation is kept, and the run says which it was.
    let id = run.session_id.unwrap();
    // The log of the profile says what it did, and for which task.
    let log = std::fs::read_to_string(fixture.chat.fixture.home().join("logs/agent.log")).unwrap();
    let ended = format!("INFO [{id}] vestal_agent::event: tool ended name=\"terminal\"");
    let ended = log.lines().find(|line| line.contains(&ended)).unwrap_or_else(|| panic!("{log}"));
    assert!(ended.ends_with(&format!(" task={task} run={}", run.id)), "{ended}");
    assert!(log.contains("vestal_worker::run: run ends exit=done"), "{log}");
    assert!(!fixture.chat.fixture.home().join("logs/errors.log").exists(), "{log}");
    let printed = fixture.chat.vestal(["conversations", "show", &id]).exits(0).text();
    assert!(printed.contains("I write it now."), "{printed}");
    let log = fixture.log(&task);
    for part in ["begins: work", "I write it now.", "terminal: echo done", "ends: done"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn a_worker_that_needs_an_answer_blocks_and_its_place_is_kept_for_the_next_attempt() {
    let fixture = WorkerFixture::replies([
        terminal("echo half > draft"),
        ScriptedReply::tool_call(
            "kanban_block",
            json!({"reason": "Which year?", "kind": "needs-input"}),
        ),
        terminal("cat draft"),
        complete(),
    ]);
    let task = fixture.some_task();
    fixture.work(&task).exits(10);
    let blocked = fixture.get(&task);
    assert_eq!(
        (blocked.status, blocked.block_kind),
        (Status::Blocked, Some(BlockKind::NeedsInput))
    );
    assert!(blocked.attention.is_some() && blocked.gate);
    assert_eq!(fixture.scratch_places().len(), 1);

    let person = Authority::Person("user".to_owned());
    fixture.on(fixture.board.unblock(&person, &task, Some("This year."))).unwrap();
    fixture.work(&task).exits(0);
    let requests = fixture.chat.model.requests();
    assert!(requests[2].last_user_text().unwrap().contains("This year."));
    assert!(requests[3].tool_results()[0].contains("half"), "{:?}", requests[3].tool_results());
    assert!(fixture.scratch_places().is_empty());
}

#[test]
fn a_worker_that_stops_without_a_report_is_reminded_twice_and_then_failed() {
    let fixture = WorkerFixture::replies([
        ScriptedReply::text("Done!"),
        ScriptedReply::text("Yes."),
        ScriptedReply::text("Really."),
    ]);
    let task = fixture.some_task();
    fixture.work(&task).exits(76);
    assert_eq!(fixture.chat.model.requests().len(), 3);
    assert_eq!(fixture.last_run(&task).outcome, Some(Outcome::NoReport));
    let again = fixture.get(&task);
    assert_eq!((again.status, again.guard.as_deref()), (Status::Ready, Some("backoff")));
}

#[test]
fn a_worker_that_is_reminded_may_still_report() {
    let fixture = WorkerFixture::replies([ScriptedReply::text("Done!"), complete()]);
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    let reminded = fixture.chat.model.requests()[1].last_user_text().unwrap();
    assert!(reminded.contains("without a report"), "{reminded}");
}

#[test]
fn a_provider_that_lets_it_do_no_more_costs_the_task_nothing_but_time() {
    let fixture =
        WorkerFixture::replies([terminal("true"), ScriptedReply::error(429, "slow down")]);
    let task = fixture.some_task();
    fixture.work(&task).exits(75);
    assert_eq!(fixture.last_run(&task).outcome, Some(Outcome::RateLimited));
    let again = fixture.get(&task);
    assert_eq!(
        (again.status, again.guard.as_deref()),
        (Status::Ready, Some("rate_limit_cooldown"))
    );
}

#[test]
fn a_wrong_key_and_a_missing_model_wait_for_a_person() {
    let fixture = WorkerFixture::replies([ScriptedReply::error(401, "wrong key")]);
    let task = fixture.some_task();
    fixture.work(&task).exits(10);
    let blocked = fixture.get(&task);
    assert_eq!(
        (blocked.status, blocked.block_kind),
        (Status::Blocked, Some(BlockKind::Capability))
    );
    let reason = blocked.block_reason.unwrap();
    assert!(reason.contains("key"), "{reason}");

    let task = fixture.task(NewTask { title: "Another".to_owned(), ..some() });
    let run = fixture.claim(&task, Role::Work);
    let mut worker = fixture.worker(&task, run);
    finish(worker.env_remove("VESTAL_MODEL").spawn().unwrap()).exits(10);
    let reason = fixture.get(&task).block_reason.unwrap();
    assert!(reason.contains("no model is configured"), "{reason}");
}

#[test]
fn what_fails_in_passing_is_tried_again_by_itself() {
    let fixture = WorkerFixture::replies([ScriptedReply::error(503, "down")]);
    let task = fixture.some_task();
    fixture.work(&task).exits(10);
    let blocked = fixture.get(&task);
    assert_eq!((blocked.status, blocked.block_kind), (Status::Blocked, Some(BlockKind::Transient)));
    assert!(blocked.wake_at.is_some() && !blocked.gate);
}

#[test]
fn a_model_that_uses_up_its_calls_without_a_report_is_reported_as_such() {
    let fixture = WorkerFixture::replies([
        terminal("true"),
        ScriptedReply::text("That is as far as I came."),
    ]);
    let task = fixture.some_task();
    let run = fixture.claim(&task, Role::Work);
    let mut worker = fixture.worker(&task, run);
    finish(worker.args(["--set", "agent.max_turns=1"]).spawn().unwrap()).exits(76);
    let error = fixture.last_run(&task).error.unwrap();
    assert!(error.contains("limit of model calls"), "{error}");
}

#[test]
fn a_review_is_done_by_its_reviewer_who_may_send_the_work_back() {
    let fixture = WorkerFixture::replies([
        ScriptedReply::tool_call("kanban_complete", json!({"summary": "First version."})),
        ScriptedReply::tool_call(
            "kanban_request_changes",
            json!({"reason": "The second page is empty."}),
        ),
        ScriptedReply::tool_call("kanban_complete", json!({"summary": "Both pages."})),
        ScriptedReply::tool_call("kanban_complete", json!({"summary": "Looks right."})),
    ]);
    let reviewer = Some(ProfileName::default_profile());
    let task = fixture.task(NewTask { needs_review: true, reviewer, ..some() });
    let review = || {
        let run = fixture.claim(&task, Role::Review);
        finish(fixture.worker(&task, run).spawn().unwrap()).exits(0)
    };
    fixture.work(&task).exits(0);
    assert_eq!(fixture.get(&task).status, Status::Review);
    review();
    assert_eq!(fixture.get(&task).status, Status::Ready);
    assert_eq!(fixture.last_run(&task).outcome, Some(Outcome::ChangesRequested));
    fixture.work(&task).exits(0);
    review();
    assert_eq!(fixture.get(&task).status, Status::Done);

    let requests = fixture.chat.model.requests();
    let looking = &requests[1];
    assert!(looking.last_user_text().unwrap().starts_with("review kanban task"));
    assert!(looking.tool_names().contains(&"kanban_request_changes"));
    assert!(!looking.tool_names().contains(&"kanban_submit"));
    assert!(!requests[0].tool_names().contains(&"kanban_request_changes"));
    let again = requests[2].last_user_text().unwrap();
    assert!(again.contains("The second page is empty."), "{again}");
}
