//! From the completion of a task to the start of the worker of the next.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use vestal_bench::Result;
use vestal_bench::program::BenchProgram;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;
use vestal_board::{Board, Initial, NewTask, TaskCompletion, TaskId};
use vestal_config::ProfileName;

use crate::Scale;
use crate::fixture::{BoardFixture, person};

const WHAT: &str = "from a parent's completion to its child's worker";
/// What the alternative takes at most, by its design.
const THEIRS: Duration = Duration::from_mins(1);
/// Longer than this nobody waits.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn measure(scale: Scale, program: &BenchProgram) -> Result<Vec<BenchRow>> {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Ok(vec![BenchRow::not_run(WHAT, why)]),
    };
    let fixture = BoardFixture::new()?;
    // Its workers have no model to ask, so they end as soon as they are started,
    // and each is the only one.
    std::fs::write(fixture.home().join("config.yaml"), "terminal:\n  backend: local\n")?;
    let board = fixture.open().await?;
    let child = fixture
        .command(program, &["dispatch", "--watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut dispatcher = Dispatcher(child);
    let samples = chains(&board, scale).await;
    dispatcher.stop()?;
    board.close().await?;
    Ok(vec![
        BenchRow::times(WHAT, &samples?)
            .beside(Figure::time(THEIRS))
            .bar(Bar::AtMost(Figure::Milliseconds(200.0)))
            .note("by `vestal kanban dispatch --watch`; the alternative looks once a minute"),
    ])
}

async fn chains(board: &Board, scale: Scale) -> Result<Samples> {
    let mut samples = Samples::default();
    for round in 0..=scale.chains {
        let parent = make(board, Vec::new(), Initial::Blocked).await?;
        let child = make(board, vec![parent.clone()], Initial::Queue).await?;
        let mut changes = board.changes()?;
        board.complete(&person(), &parent, TaskCompletion::default()).await?;
        let begun = Instant::now();
        while !is_started(board, &child).await? {
            let left = TEST_TIMEOUT.checked_sub(begun.elapsed()).ok_or("no worker was started")?;
            // A change that is missed is not a reason to wait for ever.
            tokio::time::timeout(left.min(Duration::from_secs(1)), changes.next()).await.ok();
        }
        // The first waits for the dispatcher to be there at all.
        if round > 0 {
            samples.push(begun.elapsed());
        }
        board.archive(&person(), &child).await?;
    }
    all_gone(board).await?;
    Ok(samples)
}

/// Waits until nothing is left of any worker.
async fn all_gone(board: &Board) -> Result<()> {
    let (mut changes, begun) = (board.changes()?, Instant::now());
    while !board.read().await?.live_runs().await?.is_empty() {
        let left = TEST_TIMEOUT.checked_sub(begun.elapsed()).ok_or("a worker does not end")?;
        tokio::time::timeout(left.min(Duration::from_secs(1)), changes.next()).await.ok();
    }
    Ok(())
}

async fn make(board: &Board, parents: Vec<TaskId>, initial: Initial) -> Result<TaskId> {
    let assignee = Some(ProfileName::new("default")?);
    let title = "Go on".to_owned();
    let new = NewTask { title, assignee, parents, initial, ..NewTask::default() };
    Ok(board.create(&person(), new).await?.task.id)
}

async fn is_started(board: &Board, task: &TaskId) -> Result<bool> {
    let events = board.read().await?.events(task, 20).await?;
    Ok(events.iter().any(|event| event.kind == "spawned"))
}

/// The dispatcher, which does not outlive the benchmark.
struct Dispatcher(Child);

impl Dispatcher {
    /// Asks it to end, as a person would, so that it leaves nothing behind.
    fn stop(&mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        // It has ended already unless the benchmark failed.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
