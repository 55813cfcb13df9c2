//! `vestal snapshot`, and `vestal snapshots list` and `rm`.

use clap::{Args, Subcommand};
use jiff::{Timestamp, Zoned};
use vestal_api::SnapshotView;
use vestal_operations::{Action, ActionError, Done, free_snapshot_name};
use vestal_sandbox::{CopyError, Engine, Error, Snapshot, SnapshotName, TaskName};

use super::restore::{self, RecordedWork};
use crate::cli::{Busy, OneTask, TaskSelection};
use crate::console::{Cell, Table, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::quoted;
use crate::{confirm, find};

const SNAPSHOTS_HELP: &str = "\
SIZE is the size of the snapshot's directory. Blocks shared with the sandbox are counted too; images
kept by a container engine are not. Use -t to name a task called `rm` or `list`.

Examples:
  vestal snapshots
  vestal snapshots web --json | jq -r '.[].name'
  vestal snapshots rm web 2026-11-15-1830";

/// List and remove snapshots of sandboxes.
#[derive(Debug, Args)]
#[command(after_help = SNAPSHOTS_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct SnapshotsArgs {
    #[command(flatten)]
    list: ListArgs,

    #[command(subcommand)]
    verb: Option<SnapshotsVerb>,
}

#[derive(Debug, Subcommand)]
enum SnapshotsVerb {
    /// List snapshots [default: of all sandboxes].
    #[command(after_help = "Example:\n  vestal snapshots list web")]
    List(ListArgs),
    Rm(RmArgs),
}

pub(crate) async fn run(context: &Context, args: SnapshotsArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        None => list(context, args.list).await,
        Some(SnapshotsVerb::List(args)) => list(context, args).await,
        Some(SnapshotsVerb::Rm(args)) => rm(context, args).await,
    }
}

pub(crate) const HEADING: [&str; 5] = ["TASK", "NAME", "CREATED", "SIZE", "NOTE"];

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: TaskSelection,
}

pub(super) async fn list(context: &Context, args: ListArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let tasks = args.tasks.named(&engine)?;
    let mut snapshots = Vec::new();
    if tasks.is_empty() {
        snapshots = engine.snapshots(None).await?;
    }
    for task in &tasks {
        snapshots.extend(snapshots_of(&engine, task).await?);
    }
    if args.json {
        let views: Vec<SnapshotView> = snapshots.iter().map(SnapshotView::from).collect();
        context.console.print_json(&views)?;
        return Ok(Exit::Success);
    }
    if snapshots.is_empty() {
        context.console.note("no snapshots; `vestal snapshot TASK` creates one");
        return Ok(Exit::Success);
    }
    let now = Timestamp::now();
    let mut table = Table::new(&HEADING);
    for snapshot in &snapshots {
        table.row(row(snapshot, now));
    }
    context.console.print_table(&table)?;
    Ok(Exit::Success)
}

/// Returns the snapshots of one sandbox. A name that nothing goes by is a slip.
async fn snapshots_of(engine: &Engine, task: &TaskName) -> Result<Vec<Snapshot>, CommandFailure> {
    let found = match engine.snapshots(Some(task)).await {
        Ok(found) => found,
        Err(error) => return Err(find::explain(engine, error).await),
    };
    if found.is_empty() {
        find::existing(engine, task).await?;
    }
    Ok(found)
}

fn row(snapshot: &Snapshot, now: Timestamp) -> Vec<Cell> {
    vec![
        snapshot.task.as_str().into(),
        snapshot.name.as_str().into(),
        text::ago(snapshot.created_at, now).into(),
        text::bytes(snapshot.bytes).into(),
        snapshot.note.as_deref().unwrap_or("-").into(),
    ]
}

const RM_HELP: &str = "\
The sandbox and its forks are not touched. Asks for confirmation on a terminal; without a terminal,
-y is required.

Example:
  vestal snapshots rm web before-upgrade 2026-11-15-1830";

/// Delete snapshots of a sandbox.
#[derive(Debug, Args)]
#[command(after_help = RM_HELP)]
pub(super) struct RmArgs {
    /// Task whose snapshots to delete.
    #[arg(value_name = "TASK")]
    task: TaskName,

    /// Names of the snapshots.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<SnapshotName>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn rm(context: &Context, args: RmArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let task = find::task(&engine, Some(&args.task))?;
    // All are found before any goes: a mistyped name removes nothing.
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for name in &args.names {
        if snapshots.iter().all(|snapshot| snapshot.name != *name) {
            snapshots.push(restore::snapshot(&engine, &task, name).await?);
        }
    }
    if !args.yes {
        let now = Timestamp::now();
        let plans: Vec<String> = snapshots.iter().map(|snapshot| plan(snapshot, now)).collect();
        if !confirm::is_confirmed(context.console, "remove", "Remove?", &plans)? {
            context.console.note("nothing was removed");
            return Ok(Exit::No);
        }
    }
    for snapshot in &snapshots {
        let name = &snapshot.name;
        let recording =
            context.record(&engine, &task, &Action::RemoveSnapshot { name: name.clone() });
        let removing = engine.remove_snapshot(&task, name);
        let what = format!("removing snapshot {name}");
        if let Err(error) = context.console.while_waiting(&what, removing).await {
            let error = ActionError::from(error);
            recording.failed(&error);
            return Err(find::explain(&engine, error.into_error()).await);
        }
        recording.done(Done::removed_snapshot(&task, name));
        if !args.json {
            let task = text::printable(task.as_str());
            context.console.print(&format!("removed snapshot {name} of {task}"))?;
        }
    }
    if args.json {
        let views: Vec<SnapshotView> = snapshots.iter().map(SnapshotView::from).collect();
        context.console.print_json(&views)?;
    }
    Ok(Exit::Success)
}

fn plan(snapshot: &Snapshot, now: Timestamp) -> String {
    let Snapshot { task, name, files, bytes, .. } = snapshot;
    let ago = text::ago(snapshot.created_at, now);
    format!("{task}: snapshot {name} of {ago} ({}) will be deleted", restore::size(*files, *bytes))
}

const SNAPSHOT_HELP: &str = "\
Workspace, home and installed software are copied; mounted directories of this machine are not. The
sandbox is stopped during the copy and starts again at its next use; shell sessions are kept.
Refused while jobs or calls are running in it, unless --stop is given.

Examples:
  vestal snapshot
  vestal snapshot web --name before-upgrade --note 'all tests pass'
  vestal restore web before-upgrade";

/// Save a copy of a sandbox, to restore or fork later.
#[derive(Debug, Args)]
#[command(after_help = SNAPSHOT_HELP)]
pub(crate) struct SnapshotArgs {
    /// Name of the snapshot [default: the time, as in 2026-11-15-1830].
    #[arg(short, long, value_name = "NAME")]
    name: Option<SnapshotName>,

    /// Comment to save with it.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    #[command(flatten)]
    busy: Busy,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    task: OneTask,
}

pub(crate) async fn snapshot(
    context: &Context,
    args: SnapshotArgs,
) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let task = args.task.or_default(&engine)?;
    find::known(&engine, &task).await?;
    let what = format!("copying {task}");
    let name = match &args.name {
        Some(name) => name.clone(),
        None => free_snapshot_name(&engine, &task, &Zoned::now()).await?,
    };
    let action = Action::Snapshot { name, note: args.note.clone(), busy: args.busy.into() };
    let keeping = keep(&engine, &task, &args);
    let work = RecordedWork { task: &task, action: &action, what: &what };
    let snapshot = match restore::see_done(context, &engine, work, keeping, Done::saved).await? {
        Ok(snapshot) => snapshot,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    if args.json {
        context.console.print_json(&SnapshotView::from(&snapshot))?;
        return Ok(Exit::Success);
    }
    let (task, name) = (text::printable(task.as_str()), &snapshot.name);
    let size = restore::size(snapshot.files, snapshot.bytes);
    context.console.print(&format!("saved {task} as {name} ({size})"))?;
    context.console.note(&format!("to go back to it: vestal restore {} {name}", quoted(&task)));
    Ok(Exit::Success)
}

/// Keeps the copy. A name that was not chosen by anybody gives way to one that
/// somebody else has taken meanwhile.
async fn keep(engine: &Engine, task: &TaskName, args: &SnapshotArgs) -> Result<Snapshot, Error> {
    loop {
        let name = match &args.name {
            Some(name) => name.clone(),
            None => free_snapshot_name(engine, task, &Zoned::now()).await?,
        };
        match engine.snapshot(task, &name, args.note.as_deref(), args.busy.into()).await {
            Err(Error::Copy(CopyError::SnapshotExists { .. })) if args.name.is_none() => {}
            done => return done,
        }
    }
}
