//! Schedules of a gateway: run when they are due, asked for over the API, drained with the rest.

use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vestal_conversations::ConversationId;
use vestal_gateway::{ListenerPhase, ShutdownCause, read_state, schedules_runner};
use vestal_schedules::{
    Delivered, NewSchedule, Schedule, ScheduleDelivery, ScheduleRun, ScheduleRunStatus,
    ScheduleStore, ScheduleTiming, Trigger, Zone, store_path,
};
use vestal_scripted_model::{Script, ScriptedReply};

use crate::support::{TestGateway, answer};

/// Longer than anything takes on a slow and busy machine.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) async fn store(home: &Path) -> ScheduleStore {
    ScheduleStore::open(store_path(home)).await.unwrap()
}

/// Creates a schedule that is due in a moment.
pub(crate) async fn due_soon(
    store: &ScheduleStore,
    change: impl FnOnce(NewSchedule) -> NewSchedule,
) -> Schedule {
    let now = Timestamp::now();
    let soon = now + SignedDuration::from_secs(2);
    let timing = ScheduleTiming::Instant(Timestamp::from_second(soon.as_second()).unwrap());
    let new = change(NewSchedule::new(timing, Zone::utc(), "look at the logs"));
    store.create(new, now).await.unwrap()
}

/// Waits until the last run of a schedule is as wanted.
pub(crate) async fn last_run(
    store: &ScheduleStore,
    schedule: &Schedule,
    wanted: impl Fn(&ScheduleRun) -> bool,
) -> ScheduleRun {
    let looking = async {
        loop {
            let last = store.runs(Some(&schedule.id), 1).await.unwrap().pop();
            if let Some(run) = last.filter(|run| wanted(run)) {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, looking).await.unwrap()
}

pub(crate) fn is_ended(run: &ScheduleRun) -> bool {
    !run.status.is_open()
}

#[tokio::test]
async fn what_is_due_is_asked_of_the_agent_and_delivered_to_its_conversation() {
    let replies = [ScriptedReply::text("hello"), ScriptedReply::text("all is quiet")];
    let gateway = TestGateway::start(Script::replies(replies)).await;
    let asked = gateway.ask("hi", None).await;
    let target = asked.header("x-vestal-session-id").unwrap().to_owned();
    let store = store(gateway.home.path()).await;
    let schedule = due_soon(&store, |new| NewSchedule {
        name: Some("watch".to_owned()),
        delivery: ScheduleDelivery::Conversation(target.clone()),
        script: Some("echo from the script; cd /; pwd".to_owned()),
        ..new
    })
    .await;
    let run = last_run(&store, &schedule, is_ended).await;
    assert_eq!((run.status, run.error.as_deref()), (ScheduleRunStatus::Succeeded, None));
    assert_eq!((run.trigger, run.output.as_str()), (Trigger::Due, "all is quiet"));
    assert!(run.tokens.is_some());
    // A conversation of its own, with what the script printed.
    let requests = gateway.model.requests();
    let prompt = requests[1].body.to_string();
    assert!(prompt.contains("look at the logs") && prompt.contains("from the script"), "{prompt}");
    let conversations = gateway.get("/api/sessions?source=cron").await.body;
    assert_eq!(conversations["data"][0]["id"].as_str(), run.conversation.as_deref());
    // And in the one that wanted to know.
    last_run(&store, &schedule, |run| run.delivered == Delivered::Done).await;
    let messages = gateway.get(&format!("/api/sessions/{target}/messages")).await.body;
    let last = messages["data"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("the schedule \\\"watch\\\"") || last.contains("watch"), "{last}");
    assert!(last.contains("all is quiet"), "{last}");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_failure_of_the_model_or_the_script_is_a_failed_run() {
    let gateway = TestGateway::start(Script::replies([ScriptedReply::error(500, "broken")])).await;
    let store = store(gateway.home.path()).await;
    let model = due_soon(&store, |new| new).await;
    let script = due_soon(&store, |new| NewSchedule {
        script: Some("echo nothing there >&2; exit 3".to_owned()),
        ..new
    })
    .await;
    let failed = last_run(&store, &model, is_ended).await;
    assert_eq!(failed.status, ScheduleRunStatus::Failed);
    assert_eq!(failed.output, "");
    assert!(failed.error.is_some() && failed.conversation.is_some(), "{failed:?}");
    let failed = last_run(&store, &script, is_ended).await;
    assert_eq!(failed.error.as_deref(), Some("the script exited with 3: nothing there"));
    assert_eq!(gateway.model.requests().len(), 1);
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_dangerous_command_of_a_scheduled_run_is_refused_unless_cron_mode_allows_it() {
    for (mode, is_done) in [("deny", false), ("allow", true)] {
        let call = json!({ "command": "rm -rf ./build" });
        let replies = [ScriptedReply::tool_call("terminal", call), ScriptedReply::text("done")];
        // What holds for others who cannot be asked does not hold here.
        let set = format!("approvals.cron_mode={mode}");
        let more = [set.as_str(), "approvals.unattended=allow"];
        let gateway = TestGateway::start_with(Script::replies(replies), &more).await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("build")).unwrap();
        let store = store(gateway.home.path()).await;
        let workdir = Some(dir.path().display().to_string());
        let schedule = due_soon(&store, |new| NewSchedule { workdir, ..new }).await;
        let run = last_run(&store, &schedule, is_ended).await;
        assert_eq!(run.status, ScheduleRunStatus::Succeeded, "{run:?}");
        assert_eq!(!dir.path().join("build").exists(), is_done, "{mode}");
        gateway.end(ShutdownCause::Planned).await;
    }
}

#[tokio::test]
async fn a_scheduled_run_makes_no_schedules_unless_a_setting_says_so() {
    for (setting, schedules) in [("false", 1), ("true", 2)] {
        let call = json!({ "action": "create", "schedule": "every 1h", "prompt": "again" });
        let replies = [ScriptedReply::tool_call("schedule", call), ScriptedReply::text("done")];
        let set = format!("cron.runs_may_schedule={setting}");
        // The approval is not what holds it back.
        let more = [set.as_str(), "approvals.cron_mode=allow"];
        let gateway = TestGateway::start_with(Script::replies(replies), &more).await;
        let store = store(gateway.home.path()).await;
        let schedule = due_soon(&store, |new| new).await;
        let run = last_run(&store, &schedule, is_ended).await;
        assert_eq!(run.status, ScheduleRunStatus::Succeeded, "{run:?}");
        assert_eq!(store.list().await.unwrap().len(), schedules, "{setting}");
        let reported = gateway.model.requests()[1].last_tool_results().concat();
        assert_eq!(reported.contains("cron.runs_may_schedule"), setting == "false", "{reported}");
        gateway.end(ShutdownCause::Planned).await;
    }
}

#[tokio::test]
async fn a_drain_interrupts_what_runs_and_begins_nothing_new() {
    let held = Script::replies([ScriptedReply::text("too late").hold_after(0)]);
    let gateway = TestGateway::start(held).await;
    let home = gateway.home.path().to_owned();
    let store = store(&home).await;
    let schedule = due_soon(&store, |new| new).await;
    gateway.model.wait_for_requests(1).await;
    let running = last_run(&store, &schedule, |run| run.status == ScheduleRunStatus::Running).await;
    assert!(running.conversation.is_some());
    assert!(schedules_runner(&home, "default").await.is_running);
    let later = due_soon(&store, |new| new).await;
    let (home, end) = gateway.end(ShutdownCause::Planned).await;
    assert_eq!(end.stuck, 0);
    let run = store.run(running.id).await.unwrap();
    assert_eq!(run.status, ScheduleRunStatus::Interrupted);
    assert!(run.ended_at.is_some());
    let state = read_state(home.path()).unwrap().unwrap();
    assert_eq!(state.platforms["schedules"].state, ListenerPhase::Stopped);
    let id: ConversationId = run.conversation.unwrap().parse().unwrap();
    assert!(!id.as_str().is_empty());
    // Whether it came in time is a matter of moments; that it never runs twice is not.
    assert!(store.runs(Some(&later.id), 10).await.unwrap().len() <= 1);
    let nobody = schedules_runner(home.path(), "work").await;
    assert!(nobody.reason.unwrap().contains("vestal -p work gateway start"));
}

#[tokio::test]
async fn schedules_are_made_changed_run_and_removed_over_the_api() {
    let gateway = TestGateway::start(Script::replies([ScriptedReply::text("here I am")])).await;
    let new = json!({ "schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin", "prompt": "look" });
    let made = answer(gateway.post("/api/jobs", &new)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let id = made.body["id"].as_str().unwrap().to_owned();
    assert_eq!(made.body["state"], "active");
    assert_eq!(made.body["upcoming"].as_array().unwrap().len(), 3);
    let path = |rest: &str| format!("/api/jobs/{id}{rest}");
    let nothing = json!({});
    let paused = answer(gateway.post(&path("/pause"), &nothing)).await.body;
    assert_eq!((&paused["state"], &paused["next_run_at"]), (&json!("paused"), &Value::Null));
    let resumed = answer(gateway.post(&path("/resume"), &nothing)).await.body;
    assert_eq!(resumed["state"], "active");
    let change = json!({ "name": "logs", "missed": "skip" });
    let changed = answer(gateway.patch(&path(""), &change)).await.body;
    assert_eq!((&changed["name"], &changed["prompt"]), (&json!("logs"), &json!("look")));
    let asked = answer(gateway.post(&path("/run"), &nothing)).await;
    assert_eq!((asked.status, &asked.body["trigger"]), (202, &json!("manual")));
    let store = store(gateway.home.path()).await;
    let schedule = store.get(&id.parse().unwrap()).await.unwrap();
    last_run(&store, &schedule, is_ended).await;
    let runs = gateway.get(&path("/runs?limit=1")).await.body;
    assert_eq!(runs["data"][0]["output"], "here I am");
    assert_eq!(runs["data"][0]["id"], asked.body["id"]);
    assert_eq!(gateway.get("/api/jobs").await.body["data"][0]["last_status"], "succeeded");
    assert_eq!(gateway.delete(&path("")).await.body["deleted"], true);
    for (status, code, wrong) in [
        (404, "job_not_found", gateway.get(&path("")).await),
        (404, "job_not_found", gateway.get("/api/jobs/logs/runs").await),
        (400, "invalid_value", answer(gateway.post("/api/jobs", &json!({ "prompt": "x" }))).await),
        (
            400,
            "invalid_value",
            answer(gateway.post("/api/jobs", &json!({ "schedule": "soon", "prompt": "x" }))).await,
        ),
        (422, "invalid_body", answer(gateway.post("/api/jobs", &json!({ "promt": 1 }))).await),
    ] {
        assert_eq!((wrong.status, &wrong.body["error"]["code"]), (status, &json!(code)));
    }
    assert_eq!(gateway.get_without_key("/api/jobs").await.status, 401);
    gateway.end(ShutdownCause::Planned).await;
}
