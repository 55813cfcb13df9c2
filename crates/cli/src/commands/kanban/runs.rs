//! Runs of a task: `claim`, `heartbeat`, `reclaim`, `runs`, and `worker`, the process of a run.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use vestal_api::{HeartbeatView, TaskRunView};
use vestal_board::verbs::{Claim, Heartbeat};
use vestal_board::{Role, Run, RunId, Status, TaskId, keys, log_path, settings as board_settings};
use vestal_dispatcher::{collect_commits, prepare_own_git};
use vestal_runtime::Terminations;
use vestal_worker::{ProcessLimits, SweepParts, TaskLog, WorkerExit, WorkerParts};

use super::board_context::BoardContext;
use super::display::{self, ShownChange};
use super::values::parse_assignee;
use crate::agent;
use crate::console::{Cell, DIM, GREEN, Table, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::{self, Exit};
use crate::values::parse_duration;

/// How long a person holds a task unless they say otherwise.
const CLAIM_LEASE: &str = "15m";

const CLAIM_HELP: &str = "\
No worker is started for a task that you hold. The claim ends with `vestal kanban complete` or
`block`, or when the lease expires; `vestal kanban heartbeat` renews it.

Examples:
  vestal kanban claim t_4x7k
  vestal kanban claim t_4x7k --ttl 8h";

/// Claim a ready task, to work on it yourself.
#[derive(Debug, Args)]
#[command(after_help = CLAIM_HELP)]
pub(super) struct ClaimArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Lease: how long the claim lasts unless you renew it.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = CLAIM_LEASE)]
    ttl: Duration,

    /// Claim it for this profile.
    #[arg(long = "as", value_name = "PROFILE")]
    worker: Option<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn claim(
    ctx: &BoardContext<'_>,
    args: &ClaimArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let profile = match &args.worker {
        Some(name) => parse_assignee(name)?,
        None => None,
    };
    // Claiming submitted work means reviewing it.
    let role = match board.get(&id).await?.status {
        Status::Review => Role::Review,
        _ => Role::Work,
    };
    let claim = Claim { lease: args.ttl, profile, role, host: None };
    let run = board.claim(&ctx.by(), &id, claim).await?;
    if args.json {
        ctx.print(&TaskRunView::from(&run))?;
        return Ok(Exit::Success);
    }
    ctx.console().print(&format!("claimed {id}  (run {})", run.id))?;
    ctx.console().note(&format!("it is yours until {}", display::moment(run.expires_at)));
    ctx.console().note(&format!(
        "when it is done: vestal kanban complete {id} --summary …; to keep it longer: vestal kanban heartbeat {id}"
    ));
    Ok(Exit::Success)
}

const HEARTBEAT_HELP: &str = "\
Workers renew their leases themselves; this is for tasks that a person claimed.

Example:
  vestal kanban heartbeat t_4x7k --note 'half of it is done'";

/// Renew the lease of a task that you claimed.
#[derive(Debug, Args)]
#[command(after_help = HEARTBEAT_HELP)]
pub(super) struct HeartbeatArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Note on the progress of the work.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Length of the new lease.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "15m")]
    ttl: Duration,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn heartbeat(
    ctx: &BoardContext<'_>,
    args: HeartbeatArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let beat = Heartbeat { lease: args.ttl, activity: true, note: args.note };
    let (run, expires_at) = board.renew(&ctx.by(), &id, beat).await?;
    if args.json {
        ctx.print(&HeartbeatView::new(&id, run, expires_at))?;
    } else {
        ctx.console().print(&format!("{id} is yours until {}", display::moment(expires_at)))?;
    }
    Ok(Exit::Success)
}

const RECLAIM_HELP: &str = "\
The run ends, its worker is stopped, and the task can be started again; its failure count is reset.

Example:
  vestal kanban reclaim t_4x7k --reason 'wrong branch'";

/// Take a running task away from its worker.
#[derive(Debug, Args)]
#[command(after_help = RECLAIM_HELP)]
pub(super) struct ReclaimArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Reason, kept in the history of the task.
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    reason: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn reclaim(
    ctx: &BoardContext<'_>,
    args: &ReclaimArgs,
) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let moved = board.reclaim(&ctx.by(), &id, &args.reason).await?;
    display::finish(ctx, &board, ShownChange::new(moved, "took back"), args.json).await
}

const RUNS_HELP: &str = "\
Examples:
  vestal kanban runs t_4x7k
  vestal kanban runs t_4x7k --json | jq '.[-1].summary'";

/// List the runs of a task, oldest first.
#[derive(Debug, Args)]
#[command(after_help = RUNS_HELP)]
pub(super) struct RunsArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Show at most this many, the most recent ones.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
    limit: u32,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(ctx: &BoardContext<'_>, args: &RunsArgs) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let runs = board.read().await?.runs(&id, args.limit).await?;
    if args.json {
        ctx.print(&runs.iter().map(TaskRunView::from).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    if runs.is_empty() {
        ctx.console().note(&format!("{id} has no runs yet"));
        return Ok(Exit::Success);
    }
    ctx.console().print_table(&runs_table(&runs))?;
    Ok(Exit::Success)
}

/// Returns runs for people.
pub(super) fn runs_table(runs: &[Run]) -> Table {
    let mut table = Table::new(&["RUN", "OUTCOME", "WHO", "STARTED", "TOOK", "WHAT"]);
    for run in runs {
        let outcome = match run.outcome {
            Some(outcome) if run.error.is_none() => Cell::styled(outcome.as_str(), GREEN),
            Some(outcome) => Cell::styled(outcome.as_str(), YELLOW),
            None => Cell::styled("running", GREEN),
        };
        let took = run
            .ended_at
            .map_or_else(|| "-".to_owned(), |ended| text::took(run.started_at.until(ended)));
        let who = run.profile.as_ref().map_or(run.owner.as_str(), |profile| profile.as_str());
        let what = run.error.as_deref().or(run.summary.as_deref()).or(run.note.as_deref());
        table.row(vec![
            run.id.to_string().into(),
            outcome,
            who.into(),
            display::ago(run.started_at).into(),
            took.into(),
            Cell::styled(first_line(what.unwrap_or_default()), DIM),
        ]);
    }
    table
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

const WORKER_HELP: &str = "\
Dispatchers start this command; run it by hand to see what a worker does.

Exit codes: 0 done or submitted, 10 blocked or postponed, 70 the worker failed, 75 rate limited by
the provider, 76 it ended without a report, 77 the task is held by another run, 124 timeout, 143
ended by a signal.

Example:
  vestal -p writer kanban worker --task t_4x7k2m9qwe3r --run 12";

/// The variable that has the lease its dispatcher gave a worker.
const LEASE_VARIABLE: &str = "VESTAL_KANBAN_LEASE_SECONDS";

/// Work on a task that was claimed for this profile.
#[derive(Debug, Args)]
#[command(after_help = WORKER_HELP)]
pub(super) struct WorkerArgs {
    /// Task to work on.
    #[arg(long, value_name = "TASK")]
    task: TaskId,

    /// Run that holds the task.
    #[arg(long, value_name = "RUN")]
    run: i64,

    /// Only clean up after a worker of that run that is gone.
    #[arg(long)]
    sweep: bool,
}

pub(super) async fn worker(
    ctx: &BoardContext<'_>,
    args: WorkerArgs,
) -> Result<Exit, CommandFailure> {
    // Before anything else: from here on a signal ends the worker in good order.
    let signals = exit::listen();
    // A dispatcher starts it in the home of Vestal.
    ctx.context.become_service();
    let done = match signals {
        Ok(signals) if args.sweep => sweep_run(ctx, &args, signals).await,
        Ok(signals) => work_on_task(ctx, &args, signals).await,
        Err(error) => Err(CommandFailure::io("listen for signals", &error)),
    };
    done.map_err(|failure| failure.with_exit(Exit::Worker(WorkerExit::Failed)))
}

async fn work_on_task(
    ctx: &BoardContext<'_>,
    args: &WorkerArgs,
    signals: Terminations,
) -> Result<Exit, CommandFailure> {
    let settings = Arc::new(ctx.context.settings()?);
    let redactor = agent::begin_log(&settings)?;
    let given = settings.environment().non_empty(LEASE_VARIABLE).and_then(|text| text.to_str());
    let given = given.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let lease = match given {
        Some(lease) => lease,
        None => settings.get(&keys::KANBAN_CLAIM_TTL_SECONDS)?.value.duration(),
    };
    let board = ctx.existing(args.task.as_str()).await?;
    let environment = settings.environment().clone();
    let tree = environment.non_empty("VESTAL_KANBAN_WORKSPACE").map(std::path::PathBuf::from);
    let prepared = prepare_own_git(&board, &args.task, tree.as_deref(), &environment).await;
    if let Err(error) = prepared {
        tracing::warn!(task = %args.task, %error, "the git directory of the task was not brought up to date");
    }
    let parts = WorkerParts {
        board: board.clone(),
        task: args.task.clone(),
        run: RunId::new(args.run),
        engine: ctx.context.engine()?,
        redactor,
        lease,
        failures: board_settings::failures(&settings)?,
        log: board_settings::worker_log(&settings)?,
        limits: ProcessLimits::default(),
        signals,
        settings,
    };
    let report = Box::pin(vestal_worker::run(parts)).await;
    let collected = collect_commits(&board, &args.task, tree.as_deref(), &environment).await;
    if let Err(error) = collected {
        // The next one to need them tries again: a merge, the next attempt, or the collection.
        tracing::warn!(task = %args.task, %error, "what the worker committed was not taken over yet");
    }
    Ok(Exit::Worker(report.exit))
}

async fn sweep_run(
    ctx: &BoardContext<'_>,
    args: &WorkerArgs,
    mut signals: Terminations,
) -> Result<Exit, CommandFailure> {
    let settings = Arc::new(ctx.context.settings()?);
    let redactor = agent::begin_log(&settings)?;
    let board = ctx.existing(args.task.as_str()).await?;
    let path = log_path(board.dir(), &args.task);
    let log = TaskLog::open(&path, board_settings::worker_log(&settings)?, redactor);
    let log =
        log.map_err(|error| CommandFailure::io(&format!("open {}", path.display()), &error))?;
    let engine = ctx.context.engine()?;
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
    ctx.context.close(&engine).await;
    match swept {
        Ok(()) => Ok(Exit::Success),
        Err(error) => Err(CommandFailure::new(format!("not all could be cleaned up: {error}"))),
    }
}
