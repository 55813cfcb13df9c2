//! `vestal kanban dispatch`.

mod presence;
mod told;
mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Args;
use vestal_board::dispatch::{DispatchResult, Policy, Shown};
use vestal_board::settings;
use vestal_dispatcher::{
    Dispatcher, GcPolicy, Mode, OpenBoards, Options, PATIENCE, ProgramLauncher, DispatchEvent,
};

pub(super) use presence::is_dispatched;
use told::Mood;

use super::desk::Desk;
use super::gc;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Without --watch it is done once, for one board: what is stuck is put right, what has come due goes
on, and a worker is started for each ready task that the caps leave room for. Workers go on when
this ends. --dry-run says what would be done, and changes nothing at all.

With --watch it goes on until Ctrl-C, for all boards or the one that --board names, and is woken by
every change. Any number may watch; they do not get into each other's way.

Examples:
  vestal kanban dispatch --dry-run
  vestal kanban dispatch --watch
  vestal kanban dispatch --max 4 --json | jq -r '.spawned[].task_id'";

/// Starts workers for ready tasks.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct DispatchArgs {
    /// Only says what would be done.
    #[arg(short = 'n', long, conflicts_with = "watch")]
    dry_run: bool,

    /// Tasks of a board that may be worked on at a time, in place of `kanban.max_spawn`.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,

    /// Failures at which a task is given up, in place of `kanban.failure_limit`.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    failure_limit: Option<u32>,

    /// Names all tasks, not the first 100 of each kind.
    #[arg(long, conflicts_with = "watch")]
    all: bool,

    /// Goes on until it is told to end.
    #[arg(short, long)]
    watch: bool,

    /// Prints a JSON object; with --watch one a line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &DispatchArgs) -> Result<Exit, Failure> {
    let policy = policy(desk, args)?;
    if args.watch {
        return watch::run(desk, policy, args.json).await;
    }
    let default_assignee = policy.default_assignee.as_ref().map(ToString::to_string);
    let mode = if args.dry_run { Mode::DryRun } else { Mode::Real };
    let result = once(desk, policy, mode).await?;
    if args.json {
        desk.print(&result)?;
    } else {
        let mood = if args.dry_run { Mood::Planned } else { Mood::Done };
        told::print(desk, &result, default_assignee.as_deref(), mood)?;
    }
    Ok(Exit::Success)
}

/// Dispatches one board once. A board that nobody has made has nothing on it.
async fn once(desk: &Desk<'_>, policy: Policy, mode: Mode) -> Result<DispatchResult, Failure> {
    let Some(board) = desk.board_if_any().await? else {
        return Ok(DispatchResult::default());
    };
    let console = desk.console();
    let tell = move |said: DispatchEvent| match said {
        // What was done is told as a whole at the end.
        DispatchEvent::Started { .. }
        | DispatchEvent::Finished { .. }
        | DispatchEvent::Ended { .. }
        | DispatchEvent::Stopped { .. }
        | DispatchEvent::UnknownProfile { .. }
        | DispatchEvent::Collected { .. } => {}
        said => console.warn(&said.to_string()),
    };
    let dispatcher = Dispatcher::new(options(desk, policy, None, tell)?);
    let all = OpenBoards::new(desk.boards().clone(), None).all().await?;
    let result = dispatcher.tick(&board, &all, mode).await;
    for other in all {
        if let Err(error) = other.close().await {
            tracing::debug!(%error, board = other.slug(), "a board was not closed tidily");
        }
    }
    Ok(result?)
}

/// Returns what a dispatcher goes by: the settings, and what the command line
/// says in their place. What is wrong with the settings is said once.
fn policy(desk: &Desk<'_>, args: &DispatchArgs) -> Result<Policy, Failure> {
    let (mut policy, said) = settings::policy(desk.settings(), desk.boards().host().clone())?;
    // What becomes of tasks that fail is not for each profile to say: whoever
    // notices a failure has to say the same.
    policy.failures = settings::failures(&desk.context.settings_of_default()?)?;
    for trouble in said {
        desk.console().warn(&trouble);
    }
    if let Some(profile) = &policy.default_assignee {
        desk.warn_of_unknown(profile)?;
    }
    if args.max.is_some() {
        policy.caps.board = args.max;
    }
    if let Some(limit) = args.failure_limit {
        let budgets = &mut policy.failures.budgets;
        budgets.crashed = limit;
        budgets.timed_out = limit;
        budgets.spawn_failed = limit;
        budgets.no_report = limit;
        budgets.stale = limit;
        budgets.terminated = limit;
        budgets.reclaimed = limit;
    }
    if args.all {
        policy.shown = Shown::All;
    }
    Ok(policy)
}

fn options(
    desk: &Desk<'_>,
    policy: Policy,
    retention: Option<GcPolicy>,
    tell: impl Fn(DispatchEvent) + Send + Sync + 'static,
) -> Result<Options, Failure> {
    let home = desk.context.home()?;
    let launcher = launcher(desk)?;
    let profiles =
        move || -> BTreeSet<String> { home.profiles().iter().map(ToString::to_string).collect() };
    Ok(Options {
        lock: lock(desk),
        policy,
        room: vestal_dispatcher::memory_room(desk.settings())?,
        launcher: Arc::new(launcher),
        profiles: Arc::new(profiles),
        environment: desk.context.environment().clone(),
        patience: PATIENCE,
        interval: settings::dispatch_interval(desk.settings())?,
        retention,
        on_event: Arc::new(tell),
    })
}

/// Returns what starts workers: this program.
pub(super) fn launcher(desk: &Desk<'_>) -> Result<ProgramLauncher, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::io("find the program that workers are", &error))?;
    Ok(ProgramLauncher {
        program,
        root: desk.context.home()?.root().to_owned(),
        environment: desk.context.environment().clone(),
        passthrough: settings::env_passthrough(desk.settings())?,
        log: settings::worker_log(desk.settings())?,
    })
}

/// Returns the file that dispatchers of this host lock while they decide. One
/// machine may be several hosts of a board, which decide for themselves.
fn lock(desk: &Desk<'_>) -> std::path::PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let host: String = desk.boards().host().name.as_str().chars().map(plain).collect();
    desk.boards().root().join(format!(".dispatch-{host}.lock"))
}

/// Returns what is kept when boards are tidied.
fn retention(desk: &Desk<'_>) -> Result<GcPolicy, Failure> {
    gc::policy(desk)
}
