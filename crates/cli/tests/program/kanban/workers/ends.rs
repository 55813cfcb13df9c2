//! How a worker ends that was not meant to yet, and that nothing is left of it.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use vestal_board::{Authority, HostId, HostName, NewTask, Outcome, Role, Status, TaskId};
use vestal_scripted_model::ScriptedReply;
use vestal_testkit::files::Fifo;

use super::fixture::{WorkerFixture, complete, some};
use crate::chat::fixture::terminal;
use crate::support::{RunningProgram, finish, is_alive};

/// A worker in the middle of a command, with a job of its own running.
struct AtWork {
    fixture: WorkerFixture,
    task: TaskId,
    run: vestal_board::RunId,
    worker: RunningProgram,
    /// All processes that it started in its sandbox.
    pids: Vec<String>,
}

impl AtWork {
    fn new(new: NewTask, lease: u64) -> Self {
        let fixture = WorkerFixture::replies([]);
        let (job, command) = (fixture.pipe("job"), fixture.pipe("command"));
        let text =
            |pipe: &Fifo| format!("setsid sleep 1000 & echo $$ $! > {}; wait", pipe.display());
        let background = json!({"command": text(&job), "background": true});
        fixture.chat.model.push(ScriptedReply::tool_call("terminal", background));
        fixture.chat.model.push(terminal(&text(&command)));
        let task = fixture.task(new);
        let run = fixture.claim(&task, Role::Work);
        let mut worker = fixture.worker(&task, run);
        worker.env("VESTAL_KANBAN_LEASE_SECONDS", lease.to_string());
        let worker = RunningProgram::start(worker);
        let pids = [job, command].map(|pipe| pipe.read());
        let pids: Vec<String> =
            pids.iter().flat_map(|pids| pids.split_whitespace()).map(str::to_owned).collect();
        assert_eq!(pids.len(), 4);
        Self { fixture, task, run, worker, pids }
    }
}

#[test]
fn a_signal_stops_the_whole_worker_and_its_task_is_tried_again_after_a_pause() {
    for signal in [Signal::TERM, Signal::INT] {
        let at_work = AtWork::new(some(), 120);
        let AtWork { fixture, task, worker, pids, .. } = at_work;
        worker.signal(signal);
        let (code, stderr) = worker.end();
        assert_eq!(code, 143, "{stderr} {}", fixture.log(&task));
        assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
        assert_eq!(fixture.running_jobs(), json!([]));
        let run = fixture.last_run(&task);
        assert_eq!(run.outcome, Some(Outcome::Terminated));
        let again = fixture.get(&task);
        assert_eq!((again.status, again.guard.as_deref()), (Status::Ready, Some("backoff")));
        let failures = fixture.show(&task).failures;
        let counted: Vec<_> = failures.iter().map(|own| (own.cause, own.count)).collect();
        assert_eq!(counted, [(Outcome::Terminated, 1)]);
    }
}

#[test]
fn a_second_signal_leaves_at_once() {
    let AtWork { fixture, task, mut worker, .. } = AtWork::new(some(), 120);
    // A guest that does not move cannot end anything, so the turn does not end.
    let guest = fixture.chat.fixture.guest();
    guest.signal(Signal::STOP);
    worker.signal(Signal::TERM);
    // Nothing shows from outside that the first was heard; so the second is
    // sent until it is.
    while worker.child.try_wait().unwrap().is_none() {
        worker.signal(Signal::TERM);
        std::thread::yield_now();
    }
    assert_eq!(worker.end().0, 143);
    guest.signal(Signal::CONT);
    let log = fixture.log(&task);
    assert!(log.contains("a second signal"), "{log}");
}

#[test]
fn what_a_killed_worker_left_is_found_and_ended() {
    let at_work = AtWork::new(some(), 120);
    at_work.worker.signal(Signal::KILL);
    let AtWork { fixture, task, run, worker, pids } = at_work;
    worker.end();
    assert_eq!(pids.iter().filter(|pid| is_alive(pid)).count(), 4);
    // Somebody else's job in the same sandbox is none of its business.
    let other = fixture.chat.vestal(["run", "--background", "sleep 1000"]).exits(0);
    fixture.sweep(&task, run).exits(0);
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    let jobs = fixture.running_jobs();
    assert_eq!(jobs.as_array().unwrap().len(), 1, "{jobs}");
    assert_eq!(jobs[0]["id"], other.text().trim());
    // The task is not finished, so its place is kept; then it is, and goes.
    assert_eq!(fixture.scratch_places().len(), 1);
    let person = Authority::Person("user".to_owned());
    fixture.on(fixture.board.archive(&person, &task)).unwrap();
    fixture.sweep(&task, run).exits(0);
    assert!(fixture.scratch_places().is_empty());
    fixture.sweep(&task, run).exits(0);
}

#[test]
fn a_worker_that_loses_its_task_stops_and_writes_nothing() {
    let at_work = AtWork::new(some(), 1);
    let AtWork { fixture, task, worker, pids, .. } = at_work;
    let person = Authority::Person("user".to_owned());
    fixture.on(fixture.board.reclaim(&person, &task, "give it to another")).unwrap();
    let other = HostId { name: HostName::new("elsewhere"), boot: "another".to_owned() };
    let next = fixture.claim_on(other, &task, Role::Work);
    let (code, stderr) = worker.end();
    assert_eq!(code, 77, "{stderr}");
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    let held = fixture.get(&task);
    assert_eq!((held.status, held.current_run), (Status::Running, Some(next)));
}

#[test]
fn a_worker_whose_task_is_not_its_own_does_nothing() {
    let fixture = WorkerFixture::replies([]);
    let task = fixture.some_task();
    let run = fixture.claim(&task, Role::Work);
    let person = Authority::Person("user".to_owned());
    fixture.on(fixture.board.reclaim(&person, &task, "not now")).unwrap();
    finish(fixture.worker(&task, run).spawn().unwrap()).exits(77);
    let unknown = vestal_board::RunId::new(run.get() + 1000);
    finish(fixture.worker(&task, unknown).spawn().unwrap()).exits(77);
    assert!(fixture.chat.model.requests().is_empty());
    assert!(fixture.chat.fixture.tasks().is_empty());
}

#[test]
fn a_report_that_comes_too_late_changes_nothing() {
    let fixture =
        WorkerFixture::replies([ScriptedReply::text("On my way.").hold_after(1), complete()]);
    let task = fixture.some_task();
    let run = fixture.claim(&task, Role::Work);
    let worker = RunningProgram::start(fixture.worker(&task, run));
    fixture.chat.until(|model| model.wait_for_holds(1));
    let person = Authority::Person("user".to_owned());
    fixture.on(fixture.board.reclaim(&person, &task, "give it to another")).unwrap();
    fixture.chat.model.release();
    assert_eq!(worker.end().0, 77);
    assert_eq!(fixture.get(&task).status, Status::Ready);
    assert_eq!(fixture.last_run(&task).outcome, Some(Outcome::Reclaimed));
}

#[test]
fn a_worker_keeps_its_own_time() {
    let new = NewTask { max_runtime: Some(Duration::from_secs(2)), ..some() };
    let AtWork { fixture, task, worker, pids, .. } = AtWork::new(new, 120);
    let (code, stderr) = worker.end();
    assert_eq!(code, 124, "{stderr}");
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    let run = fixture.last_run(&task);
    assert_eq!(run.outcome, Some(Outcome::TimedOut));
    assert!(run.error.unwrap().contains("2 s"));
}

#[test]
fn a_job_that_was_left_running_ends_with_its_worker() {
    let fixture = WorkerFixture::replies([]);
    let pipe = fixture.pipe("job");
    let text = format!("echo $$ > {}; sleep 1000", pipe.display());
    let background = json!({"command": text, "background": true});
    fixture.chat.model.push(ScriptedReply::tool_call("terminal", background));
    fixture.chat.model.push(complete());
    let task = fixture.some_task();
    let run = fixture.claim(&task, Role::Work);
    let worker = RunningProgram::start(fixture.worker(&task, run));
    let pid = pipe.read();
    assert_eq!(worker.end().0, 0);
    assert!(!is_alive(pid.trim()), "{pid}");
    assert_eq!(fixture.running_jobs(), json!([]));
}

#[test]
fn a_worker_at_work_renews_its_lease() {
    let AtWork { fixture, task, worker, .. } = AtWork::new(some(), 1);
    let first = fixture.until(&task, |run| run.heartbeat_at.is_some());
    let later = fixture.until(&task, |run| run.heartbeat_at > first.heartbeat_at);
    assert!(later.expires_at > first.expires_at && later.is_open());
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0, 143);
}

#[test]
fn a_worker_stands_back_behind_others_and_the_profiles_sandbox_does_not() {
    let AtWork { fixture: _fixture, worker, pids, .. } = AtWork::new(some(), 120);
    let read = |pid: &str, name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let field = |pid: &str, number: usize| {
        let stat = read(pid, "stat");
        stat.rsplit(") ").next().unwrap().split(' ').nth(number - 3).unwrap().to_owned()
    };
    let (nice, session) = (19, 6);
    let own = worker.child.id().to_string();
    assert_eq!(field(&own, session), own, "it leads a session");
    let limits = read(&own, "limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    let score = |pid: &str| read(pid, "oom_score_adj").trim().parse::<i32>().unwrap();
    for pid in &pids {
        assert!(score(&own) > score(pid), "{} {}", score(&own), score(pid));
        assert_ne!(field(&own, nice), field(pid, nice));
    }
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0, 143);
}
