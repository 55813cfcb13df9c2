//! `vestal restore` and `fork`.

use std::future::Future;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{ForkedView, RestoredView};
use vestal_operations::{Action, ActionError, Done, fork_target};
use vestal_runtime::{Termination, Terminations};
use vestal_sandbox::{CopyError, Engine, Error, Snapshot, SnapshotName, TaskName, WhileBusy};

use crate::cli::Busy;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};
use crate::follow::unless_terminated;
use crate::values::quoted;
use crate::{confirm, find};

const RESTORE_HELP: &str = "\
The current state is lost; the snapshot stays and can be restored again. Refused while jobs or calls
are running in it, unless --stop is given. Asks for confirmation on a terminal; without a terminal,
-y is required.

Examples:
  vestal restore web before-upgrade
  vestal restore -y --stop web 2026-11-15-1830";

/// Return a sandbox to a snapshot.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_HELP)]
pub(crate) struct RestoreArgs {
    /// Task whose sandbox to use.
    #[arg(value_name = "TASK")]
    task: TaskName,

    /// Name of the snapshot; `vestal snapshots` lists them.
    #[arg(value_name = "NAME")]
    name: SnapshotName,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    busy: Busy,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: RestoreArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let task = find::task(&engine, Some(&args.task))?;
    let snapshot = snapshot(&engine, &task, &args.name).await?;
    let action = Action::Restore { name: snapshot.name.clone(), busy: args.busy.into() };
    if !args.yes {
        refuse_before_asking(&engine, &task, &snapshot, args.busy.into()).await?;
        let parts = match vestal_operations::plan(&engine, &task, &action).await {
            Ok(parts) => parts,
            Err(error) => return Err(find::explain(&engine, error).await),
        };
        let plan = format!("{task}: {}", parts.join("; "));
        if !confirm::is_confirmed(context.console, "restore", "Restore?", &[plan])? {
            context.console.note("nothing was restored");
            return Ok(Exit::No);
        }
    }
    let what = format!("restoring {task} to {}", args.name);
    let restoring = engine.restore(&task, &args.name, args.busy.into());
    let work = RecordedWork { task: &task, action: &action, what: &what };
    let restored = match see_done(context, &engine, work, restoring, Done::restored).await? {
        Ok(restored) => restored,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    if args.json {
        context.console.print_json(&RestoredView::new(&task, &restored))?;
        return Ok(Exit::Success);
    }
    let Snapshot { name, files, bytes, .. } = &restored.snapshot;
    let ago = text::ago(restored.snapshot.created_at, Timestamp::now());
    let task = text::printable(task.as_str());
    let size = size(*files, *bytes);
    context.console.print(&format!("restored {task} to {name} of {ago} ({size})"))?;
    Ok(Exit::Success)
}

/// Refuses what would be refused once it was confirmed.
async fn refuse_before_asking(
    engine: &Engine,
    task: &TaskName,
    snapshot: &Snapshot,
    busy: WhileBusy,
) -> Result<(), CommandFailure> {
    let found = engine.inspect(task).await?;
    // Only its snapshots may be left.
    let Some(current) = found.into_iter().find(|summary| !summary.owned) else { return Ok(()) };
    let task = task.to_string();
    if current.backend != snapshot.backend {
        let (name, was) = (snapshot.name.to_string(), snapshot.backend.clone());
        let now = current.backend;
        return Err(explain(engine, CopyError::OtherBackend { task, name, was, now }.into()).await);
    }
    if current.jobs_running > 0 && busy == WhileBusy::Refuse {
        let verb = if current.jobs_running == 1 { "runs" } else { "run" };
        let reason = format!("{} {verb}", text::count(current.jobs_running, "job"));
        return Err(explain(engine, Error::Busy { task, reason }).await);
    }
    Ok(())
}

const FORK_HELP: &str = "\
The new sandbox has the same backend, workspace, home, installed software and mounts, and is
independent from then on. It has no jobs, shell sessions or snapshots. The original is stopped
during the copy and starts again at its next use. Refused while jobs or calls are running in it,
unless --stop is given. With --from the original is not touched.

Examples:
  vestal fork web web-experiment
  vestal fork web web-yesterday --from 2026-11-14-0900";

/// Create a sandbox as a copy of another.
#[derive(Debug, Args)]
#[command(after_help = FORK_HELP)]
pub(crate) struct ForkArgs {
    /// Task whose sandbox to copy.
    #[arg(value_name = "TASK")]
    task: TaskName,

    /// Task of the new sandbox; it must not exist.
    #[arg(value_name = "NEW")]
    new: TaskName,

    /// Copy this snapshot instead of the current state.
    #[arg(long, value_name = "NAME")]
    from: Option<SnapshotName>,

    #[command(flatten)]
    busy: Busy,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn fork(context: &Context, args: ForkArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let from = find::task(&engine, Some(&args.task))?;
    match &args.from {
        Some(name) => drop(snapshot(&engine, &from, name).await?),
        None => find::known(&engine, &from).await?,
    }
    let to = fork_target(&engine, &from, &args.new).await?;
    let what = format!("forking {from} to {to}");
    let (snapshot, busy) = (args.from.clone(), args.busy.into());
    let action = Action::Fork { to: to.clone(), snapshot, busy };
    let forking = engine.fork(&from, args.from.as_ref(), &to, busy);
    let work = RecordedWork { task: &from, action: &action, what: &what };
    let forked = match see_done(context, &engine, work, forking, Done::forked).await? {
        Ok(forked) => forked,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    if args.json {
        context.console.print_json(&ForkedView::new(&from, args.from.as_ref(), &forked))?;
        return Ok(Exit::Success);
    }
    let size = size(forked.files, forked.bytes);
    let (from, to) = (text::printable(from.as_str()), text::printable(forked.task.as_str()));
    context.console.print(&format!("forked {from} to {to} on {} ({size})", forked.backend))?;
    context.console.note(&format!("to use it: vestal shell -t {}", quoted(&to)));
    Ok(Exit::Success)
}

/// How long a copy that was given up may take to be gone.
const UNDO_WITHIN: Duration = Duration::from_mins(1);

/// Some work on a sandbox that is put on record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedWork<'w> {
    pub(crate) task: &'w TaskName,
    pub(crate) action: &'w Action,
    /// What is done, for the person who waits.
    pub(crate) what: &'w str,
}

/// Does some work with copies; the error is the signal that ended it. Other processes find it on
/// record meanwhile, and what came of it after.
pub(crate) async fn see_done<T>(
    context: &Context,
    engine: &Engine,
    work: RecordedWork<'_>,
    future: impl Future<Output = Result<T, Error>>,
    done: impl Fn(&TaskName, &T) -> Done,
) -> Result<Result<T, Termination>, CommandFailure> {
    let mut signals = exit::listen_or_fail()?;
    let recording = context.record(engine, work.task, work.action);
    let future = context.activity().while_doing(context.console, work.what, Box::pin(future));
    match unless_terminated(&mut signals, future).await {
        Ok(Ok(outcome)) => {
            recording.done(done(work.task, &outcome));
            Ok(Ok(outcome))
        }
        Ok(Err(error)) => {
            let error = ActionError::from(error);
            recording.failed(&error);
            Err(explain(engine, error.into_error()).await)
        }
        Err(signal) => {
            let is_undone = undo(context, engine, &mut signals).await;
            recording.given_up(is_undone);
            Ok(Err(signal))
        }
    }
}

/// Waits until what was begun is undone, and reports whether it is; another signal ends that. Then,
/// and when it takes too long, the next one who uses the sandbox goes on with it.
async fn undo(context: &Context, engine: &Engine, signals: &mut Terminations) -> bool {
    let undone = unless_terminated(signals, engine.close(UNDO_WITHIN));
    let undone = context.console.while_waiting("undoing the unfinished change", undone).await;
    let is_undone = matches!(undone, Ok(true));
    if is_undone {
        context.console.note("interrupted; nothing incomplete is left");
    } else {
        context.console.warn(
            "the incomplete copy is removed by the next use of the sandbox, or by `vestal prune`",
        );
    }
    is_undone
}

/// Returns the failure of a call that needs the sandbox to stand still.
async fn explain(engine: &Engine, error: Error) -> CommandFailure {
    let busy = matches!(error, Error::Busy { .. });
    let failure = find::explain(engine, error).await;
    if busy { failure.advise("to stop it first: --stop") } else { failure }
}

/// Returns the snapshot of a name; if there is none, the failure has the name
/// that was probably meant.
pub(crate) async fn snapshot(
    engine: &Engine,
    task: &TaskName,
    name: &SnapshotName,
) -> Result<Snapshot, CommandFailure> {
    let mut all = match engine.snapshots(Some(task)).await {
        Ok(all) => all,
        Err(error) => return Err(find::explain(engine, error).await),
    };
    if let Some(at) = all.iter().position(|snapshot| snapshot.name == *name) {
        return Ok(all.swap_remove(at));
    }
    if all.is_empty() {
        find::existing(engine, task).await?;
    }
    let failure = CommandFailure::new(format!("sandbox {task} has no snapshot {name}"));
    let failure = failure.suggest(name.as_str(), all.iter().map(|snapshot| snapshot.name.as_str()));
    let task = quoted(task.as_str());
    Err(if all.is_empty() {
        failure.advise(format!("it has none; to create one: vestal snapshot {task}"))
    } else {
        failure.advise(format!("`vestal snapshots {task}` lists what it has"))
    })
}

/// Returns how much was copied.
pub(crate) fn size(files: u64, bytes: u64) -> String {
    format!("{}, {}", text::count(files, "file"), text::bytes(bytes))
}
