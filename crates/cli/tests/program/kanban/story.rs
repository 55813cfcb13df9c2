//! The story that the board is for: work is put on it, workers do it in the
//! sandboxes of their profiles, and whatever freezes or dies on the way, each
//! task is done once. Dispatchers and workers are real processes.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};
use vestal_testkit::processes::{is_alive, kill, signal};
use vestal_testkit::wait_until;

use super::{create, json, kanban, status, task};
use crate::support::{BASE, ProgramFixture, RunningProgram, TEST_TIMEOUT};

/// A fixture with a board, and the model that its workers ask.
struct Story {
    fixture: ProgramFixture,
    model: ScriptedModel,
}

impl Story {
    fn with_fixture(fixture: ProgramFixture, backend: &str, script: Script) -> Self {
        let model = ScriptedModel::start(script.strict());
        std::fs::create_dir_all(fixture.home()).unwrap();
        // Workers get their settings from their profile's files, never from
        // the environment of the dispatcher.
        let config = format!(
            "model:\n  default: scripted\n  base_url: {}\n\
             terminal:\n  backend: {backend}\n  docker_image: {BASE}\n\
             approvals:\n  unattended: allow\n\
             kanban:\n  claim_ttl_seconds: 3\n  retry_backoff_seconds: 1\n  failure_limit: 100\n",
            model.base_url()
        );
        std::fs::write(fixture.home().join("config.yaml"), config).unwrap();
        Self { fixture, model }
    }

    /// Starts a dispatcher that stays, on a host of this name.
    fn dispatcher(&self, host: &str) -> RunningProgram {
        let mut command = self.fixture.command(["kanban", "dispatch", "--watch"]);
        command.env("VESTAL_KANBAN_HOST", host);
        RunningProgram::start(command)
    }

    /// Waits for something to become true of a task.
    #[track_caller]
    fn until(&self, id: &str, what: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let sheet = json(&self.fixture, &["show", id, "--json"]);
            if what(&sheet) {
                return sheet;
            }
            assert!(Instant::now() < deadline, "{sheet:#}\n{}", self.log(id));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn until_done(&self, id: &str) -> Value {
        self.until(id, |sheet| sheet["task"]["status"] == "done")
    }

    fn log(&self, id: &str) -> String {
        kanban(&self.fixture, &["log", id]).text()
    }

    fn await_model<'a, F: Future>(&'a self, event: impl FnOnce(&'a ScriptedModel) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let event = event(&self.model);
        runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, event).await.unwrap() });
    }

    /// Returns the worker of the task's current run, once it was noted.
    #[track_caller]
    fn worker(&self, id: &str) -> u32 {
        let pid = |sheet: &Value| {
            let run = sheet["runs"].as_array()?.iter().find(|run| run["ended_at"].is_null())?;
            u32::try_from(run["worker_pid"].as_u64()?).ok()
        };
        pid(&self.until(id, |sheet| pid(sheet).is_some())).unwrap()
    }
}

fn complete(summary: &str) -> ScriptedReply {
    ScriptedReply::tool_call("kanban_complete", json!({"summary": summary}))
}

fn terminal(command: &str) -> ScriptedReply {
    ScriptedReply::tool_call("terminal", json!({"command": command}))
}

/// Ends a conversation whose report has been taken.
fn farewell() -> ReplyRule {
    ReplyRule::after_tool_result_contains("\"ok\":true").reply(ScriptedReply::text("That was it."))
}

fn end(dispatcher: RunningProgram) {
    dispatcher.signal(Signal::TERM);
    assert_eq!(dispatcher.end().0, 143);
}

#[track_caller]
fn kinds(sheet: &Value, kind: &str) -> usize {
    sheet["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count()
}

fn a_chain_is_worked_off(fixture: ProgramFixture, backend: &str) {
    let script = Script::rules([
        farewell(),
        // The task that draws gets the result of the one that measures, too.
        ReplyRule::when_user_contains("draw the plan").reply_with(|request| {
            let reported = request.last_user_text().unwrap_or_default();
            assert!(
                reported.contains("four by five"),
                "a child knows what its parent left: {reported}"
            );
            terminal("cat ~/measured; hostname")
        }),
        ReplyRule::when_user_contains("draw the plan").after_tool_results(1).reply_with(
            |request| {
                let printed = request.tool_results().concat();
                complete(&printed)
            },
        ),
        ReplyRule::when_user_contains("measure the room").reply(terminal("hostname > ~/measured")),
        ReplyRule::when_user_contains("measure the room")
            .after_tool_results(1)
            .reply(complete("four by five")),
    ]);
    let story = Story::with_fixture(fixture, backend, script);
    let fixture = &story.fixture;
    let first = create(fixture, &["measure the room", "--assignee", "default"]);
    let second = create(fixture, &["draw the plan", "--assignee", "default", "--parent", &first]);
    assert_eq!(status(fixture, &second), "todo");
    let dispatcher = story.dispatcher("here");
    let sheet = story.until_done(&second);
    // Both worked in the same place, the profile's own sandbox.
    let printed: Value = serde_json::from_str(sheet["latest_summary"].as_str().unwrap()).unwrap();
    let lines: Vec<&str> = printed["output"].as_str().unwrap().lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    assert_eq!(lines[0], lines[1]);
    assert_eq!(status(fixture, &first), "done");
    end(dispatcher);
}

#[test]
fn local_works_off_a_chain_of_tasks() {
    a_chain_is_worked_off(ProgramFixture::new(), "local");
}

#[test]
fn native_works_off_a_chain_of_tasks() {
    a_chain_is_worked_off(ProgramFixture::native(), "native");
}

#[test]
fn docker_works_off_a_chain_of_tasks() {
    a_chain_is_worked_off(ProgramFixture::docker(), "docker");
}

#[test]
fn podman_works_off_a_chain_of_tasks() {
    a_chain_is_worked_off(ProgramFixture::podman(), "docker");
}

#[test]
fn a_host_that_froze_past_its_lease_wakes_up_and_can_change_nothing() {
    let script = Script::rules([
        ReplyRule::when_user_contains("paint the door")
            .reply(complete("stale").hold_after(0))
            .once(),
        ReplyRule::when_user_contains("paint the door").reply(complete("fresh")),
        farewell(),
    ]);
    let story = Story::with_fixture(ProgramFixture::new(), "local", script);
    let id = create(&story.fixture, &["paint the door", "--assignee", "default"]);
    let frozen = story.dispatcher("alpha");
    story.await_model(|model| model.wait_for_holds(1));
    let worker = story.worker(&id);
    // Everything of the first host stands still: its dispatcher and its worker.
    frozen.signal(Signal::STOP);
    signal(worker, Signal::STOP);

    // Another host takes the task once the lease has run out, and does it.
    let other = story.dispatcher("beta");
    let sheet = story.until_done(&id);
    let runs = sheet["runs"].as_array().unwrap();
    let outcomes: Vec<&Value> = runs.iter().map(|run| &run["outcome"]).collect();
    assert_eq!(outcomes, ["reclaimed", "completed"]);
    assert!(runs[1]["started_at"].as_i64() >= runs[0]["ended_at"].as_i64(), "{runs:#?}");
    let before = json(&story.fixture, &["show", &id, "--json"]);

    // The first one wakes up with its answer in hand.
    story.model.release();
    signal(worker, Signal::CONT);
    frozen.signal(Signal::CONT);
    wait_until("the stale worker has left", || !is_alive(worker));
    end(frozen);
    end(other);
    let mut after = json(&story.fixture, &["show", &id, "--json"]);
    // Only that nothing is left of the stale worker may have been noted.
    for run in after["runs"].as_array_mut().unwrap() {
        run["gone"] = json!(true);
    }
    let mut before = before;
    for run in before["runs"].as_array_mut().unwrap() {
        run["gone"] = json!(true);
    }
    assert_eq!(after, before);
    assert_eq!(after["latest_summary"], "fresh");
    assert_eq!(kinds(&after, "completed"), 1);
}

#[test]
fn a_worker_that_is_killed_at_any_step_strands_no_task() {
    let script = Script::rules([
        farewell(),
        // Killed while the model thinks, then while a command runs, then with
        // the report in hand; after that it is left in peace.
        ReplyRule::when_user_contains("dig the well").reply(terminal("true").hold_after(0)).once(),
        ReplyRule::when_user_contains("dig the well")
            .reply(terminal("touch ~/digging; sleep 1000"))
            .once(),
        ReplyRule::when_user_contains("dig the well").reply(terminal("true")).once(),
        ReplyRule::when_user_contains("dig the well")
            .after_tool_results(1)
            .reply(complete("never said").hold_after(0))
            .once(),
        ReplyRule::when_user_contains("dig the well").reply(complete("dug")),
    ]);
    let story = Story::with_fixture(ProgramFixture::new(), "local", script);
    let fixture = &story.fixture;
    let id = create(fixture, &["dig the well", "--assignee", "default"]);
    let dispatcher = story.dispatcher("here");

    story.await_model(|model| model.wait_for_holds(1));
    kill(story.worker(&id));
    story.await_model(|model| model.wait_for_requests(2));
    let text = "until test -e ~/digging; do sleep 0.05; done";
    fixture.vestal(["run", "--session", "none", text]).exits(0);
    kill(story.worker(&id));
    story.await_model(|model| model.wait_for_holds(2));
    kill(story.worker(&id));

    let sheet = story.until_done(&id);
    let outcomes: Vec<&Value> =
        sheet["runs"].as_array().unwrap().iter().map(|run| &run["outcome"]).collect();
    assert_eq!(outcomes, ["crashed", "crashed", "crashed", "completed"]);
    assert_eq!(sheet["latest_summary"], "dug");
    // What the killed worker had started in the sandbox is gone, too.
    story.until(&id, |_| {
        let jobs = fixture.vestal(["jobs", "--json"]).exits(0).json();
        jobs.as_array().unwrap().iter().all(|job| job["state"] != "running")
    });
    assert_eq!(task(fixture, &id)["status"], "done");
    end(dispatcher);
}

#[test]
fn a_finished_task_leaves_no_sandbox_to_anybody_who_worked_on_it() {
    let script = Script::rules([
        ReplyRule::when_user_contains("review kanban task").reply(complete("looks right")),
        ReplyRule::when_user_contains("tidy the desk").reply(complete("tidied")),
        farewell(),
    ]);
    let story = Story::with_fixture(ProgramFixture::new(), "local", script);
    let fixture = &story.fixture;
    fixture.vestal(["profile", "create", "rev", "--clone"]).exits(0);
    let desk = format!("dir:{}", fixture.work().join("desk").display());
    std::fs::create_dir(fixture.work().join("desk")).unwrap();
    let args =
        ["tidy the desk", "--assignee", "default", "--workspace", &desk, "--reviewer", "rev"];
    let id = create(fixture, &args);
    let own = format!("kanban-{id}");
    // The directory is on this machine, so no host of another name would do.
    let dispatcher = RunningProgram::start(fixture.command(["kanban", "dispatch", "--watch"]));
    let sheet = story.until_done(&id);
    let who: Vec<&Value> =
        sheet["runs"].as_array().unwrap().iter().map(|run| &run["profile"]).collect();
    assert_eq!(who, ["default", "rev"]);
    end(dispatcher);
    // The one who looked at it said that it is done; the one who did it had left.
    assert!(fixture.tasks().contains(&own));
    let at_work = |profile: &str| {
        let listed = fixture.vestal(["-p", profile, "ps", "--all", "--json"]).exits(0).json();
        listed.as_array().unwrap().iter().any(|sandbox| sandbox["task"] == own)
    };
    let deadline = Instant::now() + TEST_TIMEOUT;
    while at_work("default") || at_work("rev") {
        let collected = kanban(fixture, &["gc", "--json"]).exits(0);
        assert!(Instant::now() < deadline, "its sandbox stays: {collected:?}\n{}", story.log(&id));
    }
    assert!(fixture.work().join("desk").exists(), "the directory is not the sandbox's to remove");
}
