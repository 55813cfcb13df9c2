//! Random sequences of operations, checked against a model of what they promise.
//!
//! A sequence that breaks a promise is made shorter until it cannot be.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rustix::process::{Pid, Signal, kill_process};
use vestal_sandbox::job::AfterInput;
use vestal_sandbox::{
    Command, CommandInput, Engine, Error, FAILPOINTS, FilesOnRemoval, Sandbox, SummaryState,
    TaskName,
};
use vestal_wire::{Cause, JobExit, JobId, JobState};

use crate::support::{BackendFixture, Kind};

/// Sequences tried in an ordinary run.
const CASES: u32 = 24;

/// Sequences of containers, each of whose steps takes an engine's time.
const CONTAINED_CASES: u32 = 4;

/// Runs `check` on random sequences, each in a fixture and runtime of its own.
async fn try_sequences<T, F>(
    fixture: &BackendFixture,
    element: fn(&Kind) -> BoxedStrategy<T>,
    check: F,
) where
    T: Clone + std::fmt::Debug + Send + 'static,
    F: AsyncFn(&BackendFixture, &[T]) + Send + 'static,
{
    let kind = fixture.kind().clone();
    let search = move || {
        let cases = if kind.is_contained() { CONTAINED_CASES } else { CASES };
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let sequences = prop::collection::vec(element(&kind), 1..9);
        TestRunner::new(config).run(&sequences, |sequence| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let fixture = BackendFixture::of(kind.clone());
                check(&fixture, &sequence).await;
                fixture.finish().await;
            });
            Ok::<(), TestCaseError>(())
        })
    };
    if let Err(error) = tokio::task::spawn_blocking(search).await.unwrap() {
        panic!("{error}");
    }
}

/// Something that happens to a sandbox.
#[derive(Debug, Clone)]
enum Happening {
    Use,
    Stop,
    GuestKilled,
    Remove,
    /// A process dies at this step of whatever takes it there.
    Crash(&'static str),
    Sweep,
}

fn happening(kind: &Kind) -> BoxedStrategy<Happening> {
    let of_another = |name: &str| {
        let mut backends = ["local", "docker", "native"].into_iter();
        backends.any(|backend| {
            backend != kind.backend()
                && name.strip_prefix(backend).is_some_and(|rest| rest.starts_with('.'))
        })
    };
    let points: Vec<&'static str> =
        FAILPOINTS.iter().copied().filter(|name| !of_another(name)).collect();
    prop_oneof![
        4 => Just(Happening::Use),
        2 => Just(Happening::Stop),
        2 => Just(Happening::GuestKilled),
        1 => Just(Happening::Remove),
        4 => prop::sample::select(points).prop_map(Happening::Crash),
        1 => Just(Happening::Sweep),
    ]
    .boxed()
}

/// What the model knows: how often the sandbox was used since it was made, if
/// it is there; unknown after a crash inside a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sandboxed {
    No,
    Yes { uses: u32 },
    Unknown { uses: u32 },
}

pub(crate) async fn any_sequence_of_happenings_leaves_one_whole_sandbox(fixture: &BackendFixture) {
    try_sequences(fixture, happening, async |fixture: &BackendFixture, sequence: &[Happening]| {
        let mut model = Sandboxed::No;
        for happening in sequence {
            model = happen(fixture, model, happening).await;
            assert!(fixture.guests().len() <= 1, "{happening:?} made a second guest");
        }
        // One later start puts everything right, whatever came before.
        happen(fixture, model, &Happening::Use).await;
        assert_eq!(fixture.guests().len(), 1);
        assert_eq!(fixture.engine().list().await.unwrap().len(), 1);
    })
    .await;
}

async fn happen(fixture: &BackendFixture, model: Sandboxed, happening: &Happening) -> Sandboxed {
    let engine = fixture.engine();
    let task = TaskName::default_task();
    match happening {
        Happening::Use => count(fixture, model).await,
        Happening::Stop => {
            let stopped = engine.stop(&task).await;
            match (model, stopped) {
                (Sandboxed::No | Sandboxed::Unknown { .. }, Err(Error::NoSandbox { .. })) => {
                    Sandboxed::No
                }
                (Sandboxed::Yes { .. } | Sandboxed::Unknown { .. }, Ok(_)) => {
                    assert_eq!(state(&engine).await, Some(SummaryState::Stopped));
                    model
                }
                (model, stopped) => panic!("{model:?} stopped: {stopped:?}"),
            }
        }
        Happening::GuestKilled => {
            super::survival::kill_guest(fixture);
            model
        }
        Happening::Remove => match (model, engine.remove(&task, FilesOnRemoval::Remove).await) {
            (Sandboxed::Yes { .. } | Sandboxed::Unknown { .. }, Ok(_)) => Sandboxed::No,
            (Sandboxed::No | Sandboxed::Unknown { .. }, Err(Error::NoSandbox { .. })) => {
                Sandboxed::No
            }
            (model, removed) => panic!("{model:?} removed: {removed:?}"),
        },
        Happening::Crash(point) => crash(fixture, model, point).await,
        Happening::Sweep => {
            engine.prune(false).await.unwrap();
            model
        }
    }
}

/// Uses the sandbox and checks that it remembers how often it was used before.
async fn count(fixture: &BackendFixture, model: Sandboxed) -> Sandboxed {
    let output = fixture.run("uses=$((uses + 1)); echo $uses").await;
    let uses: u32 = output.stdout.text().trim().parse().unwrap();
    match model {
        Sandboxed::No => assert_eq!(uses, 1),
        Sandboxed::Yes { uses: before } => assert_eq!(uses, before + 1),
        Sandboxed::Unknown { uses: before } => assert!(uses == 1 || uses == before + 1, "{uses}"),
    }
    Sandboxed::Yes { uses }
}

async fn crash(fixture: &BackendFixture, model: Sandboxed, point: &str) -> Sandboxed {
    let words: &[&str] = match point.trim_start_matches("docker.").split('.').next() {
        Some("stop") => &["stop", "default"],
        Some("remove") => &["remove", "default", "--files"],
        _ => &["attach", "default"],
    };
    let mut worker = fixture.worker_with(words, &[("VESTAL_FAILPOINT", point)]);
    drop(worker.child.stdin.take());
    // It may never get there: there may be nothing to stop, start or remove.
    worker.child.wait().await.unwrap();
    match (words[0], model) {
        ("remove", Sandboxed::Yes { uses } | Sandboxed::Unknown { uses }) => {
            Sandboxed::Unknown { uses }
        }
        ("attach", Sandboxed::No) => Sandboxed::Unknown { uses: 0 },
        (_, model) => model,
    }
}

async fn state(engine: &Engine) -> Option<SummaryState> {
    engine.list().await.unwrap().first().map(|summary| summary.state)
}

/// Something that happens to jobs; numbers choose among those there are.
#[derive(Debug, Clone)]
enum JobStep {
    /// Starts one that exits with this code once its input ends.
    Start(u8),
    /// Ends a job's input, so that it exits by itself.
    EndInput(usize),
    Kill(usize),
    /// Sends it a signal it dies of.
    Terminate(usize),
    GuestKilled,
}

fn job_step(_: &Kind) -> BoxedStrategy<JobStep> {
    prop_oneof![
        4 => (0..=255_u8).prop_map(JobStep::Start),
        2 => any::<usize>().prop_map(JobStep::EndInput),
        2 => any::<usize>().prop_map(JobStep::Kill),
        1 => any::<usize>().prop_map(JobStep::Terminate),
        1 => Just(JobStep::GuestKilled),
    ]
    .boxed()
}

/// What the model knows of a job.
#[derive(Debug, Clone)]
struct Expected {
    id: JobId,
    pid: u32,
    code: u8,
    exit: Option<JobExit>,
}

pub(crate) async fn any_sequence_of_job_operations_ends_each_job_once(fixture: &BackendFixture) {
    try_sequences(fixture, job_step, async |fixture: &BackendFixture, sequence: &[JobStep]| {
        let sandbox = fixture.sandbox().await;
        let mut jobs: Vec<Expected> = Vec::new();
        for step in sequence {
            take(fixture, &sandbox, &mut jobs, step).await;
            for job in &jobs {
                check(&sandbox, job).await;
            }
        }
        for job in jobs.iter().filter(|job| job.exit.is_none()) {
            sandbox.kill(&job.id).await.unwrap();
        }
    })
    .await;
}

async fn take(
    fixture: &BackendFixture,
    sandbox: &Sandbox,
    jobs: &mut Vec<Expected>,
    step: &JobStep,
) {
    let count = jobs.len();
    let chosen = |number: &usize| number % count.max(1);
    match step {
        JobStep::Start(code) => {
            let text = format!("cat >/dev/null; exit {code}");
            let job = sandbox.spawn(Command::shell(text).stdin(CommandInput::Piped)).await.unwrap();
            jobs.push(Expected { id: job.id, pid: job.pid.unwrap(), code: *code, exit: None });
        }
        JobStep::EndInput(number) => {
            let Some(job) = jobs.get_mut(chosen(number)) else {
                return;
            };
            let closed = sandbox.write(&job.id, CommandInput::Null, AfterInput::Close).await;
            if job.exit.is_none() {
                closed.unwrap();
                job.exit = Some(JobExit { code: Some(job.code), cause: Cause::Exited });
            }
        }
        JobStep::Kill(number) => {
            let Some(job) = jobs.get_mut(chosen(number)) else {
                return;
            };
            sandbox.kill(&job.id).await.unwrap();
            job.exit.get_or_insert(JobExit { code: Some(137), cause: Cause::Killed });
        }
        JobStep::Terminate(number) => {
            let Some(job) = jobs.get_mut(chosen(number)) else {
                return;
            };
            if job.exit.is_none() {
                let pid = fixture.process(job.pid);
                kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
                job.exit = Some(JobExit { code: Some(137), cause: Cause::Signaled(9) });
            }
        }
        JobStep::GuestKilled => {
            // What has ended is on record before the guest dies.
            for job in jobs.iter().filter(|job| job.exit.is_some()) {
                sandbox.wait(&job.id, None).await.unwrap();
            }
            let connection = sandbox.connection().await.unwrap();
            super::survival::kill_guest(fixture);
            connection.closed().await;
            for job in jobs.iter_mut() {
                job.exit.get_or_insert(JobExit { code: None, cause: Cause::Lost });
            }
        }
    }
}

async fn check(sandbox: &Sandbox, job: &Expected) {
    let limit = if job.exit.is_some() { None } else { Some(std::time::Duration::ZERO) };
    let info = sandbox.wait(&job.id, limit).await.unwrap();
    let expected = job.exit.map_or(JobState::Running, JobState::Ended);
    assert_eq!(info.state, expected, "{job:?}");
}
