//! `vestal kanban worker`: the process that works on one task.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use vestal_board::{RunId, TaskId, log_path, settings as board_settings};
use vestal_config::keys;
use vestal_sandbox::Terminations;
use vestal_worker::{WorkerExit, Limits, Log, SweepParts, WorkerParts};

use super::desk::Desk;
use crate::agent;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Dispatchers start this; by hand it is of use to see what a worker does.

Exit codes: 0 done or handed over, 10 blocked or put off, 70 the worker failed, 75 the provider lets
it do no more for now, 76 it ended without a report, 77 the task is somebody else's, 124 it took too
long, 143 a signal asked it to end.

Example:
  vestal -p writer kanban worker --task t_4x7k2m9qwe3r --run 12";

/// The variable that has the lease its dispatcher gave a worker.
const LEASE: &str = "VESTAL_KANBAN_LEASE_SECONDS";

/// Works on a task that was claimed for this profile.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct WorkerArgs {
    /// Task to work on.
    #[arg(long, value_name = "TASK")]
    task: TaskId,

    /// Run that holds the task.
    #[arg(long, value_name = "RUN")]
    run: i64,

    /// Cleans up behind a worker of that run which is gone, and does nothing else.
    #[arg(long)]
    sweep: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: WorkerArgs) -> Result<Exit, Failure> {
    // Before anything else: from here on a signal ends the worker in good order.
    let signals = Terminations::listen();
    let done = match signals {
        Ok(signals) if args.sweep => sweep(desk, &args, signals).await,
        Ok(signals) => work(desk, &args, signals).await,
        Err(error) => Err(Failure::io("listen for signals", &error)),
    };
    done.map_err(|failure| failure.with_exit(Exit::Worker(WorkerExit::Failed)))
}

async fn work(desk: &Desk<'_>, args: &WorkerArgs, signals: Terminations) -> Result<Exit, Failure> {
    let settings = Arc::new(desk.context.settings()?);
    let redactor = agent::begin_log(&settings)?;
    let given = settings.environment().non_empty(LEASE).and_then(|text| text.to_str());
    let given = given.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let lease = match given {
        Some(lease) => lease,
        None => settings.get(&keys::KANBAN_CLAIM_TTL_SECONDS)?.value.duration(),
    };
    let parts = WorkerParts {
        board: desk.existing(args.task.as_str()).await?,
        task: args.task.clone(),
        run: RunId::new(args.run),
        engine: desk.context.engine()?,
        redactor,
        lease,
        failures: board_settings::failures(&settings)?,
        log: board_settings::worker_log(&settings)?,
        limits: Limits::default(),
        signals,
        settings,
    };
    let report = Box::pin(vestal_worker::run(parts)).await;
    Ok(Exit::Worker(report.exit))
}

async fn sweep(
    desk: &Desk<'_>,
    args: &WorkerArgs,
    mut signals: Terminations,
) -> Result<Exit, Failure> {
    let settings = Arc::new(desk.context.settings()?);
    let redactor = agent::begin_log(&settings)?;
    let board = desk.existing(args.task.as_str()).await?;
    let path = log_path(board.dir(), &args.task);
    let log = Log::open(&path, board_settings::worker_log(&settings)?, redactor);
    let log = log.map_err(|error| Failure::io(&format!("open {}", path.display()), &error))?;
    let engine = desk.context.engine()?;
    let parts = SweepParts {
        board,
        task: args.task.clone(),
        run: RunId::new(args.run),
        settings,
        engine: engine.clone(),
        log,
    };
    let swept = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Exit::Terminated(signal)),
        swept = Box::pin(vestal_worker::sweep(parts)) => swept,
    };
    desk.context.close(&engine).await;
    match swept {
        Ok(()) => Ok(Exit::Success),
        Err(error) => Err(Failure::new(format!("not all could be cleaned up: {error}"))),
    }
}
