//! `vestal snapshots rm`.

use clap::Args;
use jiff::Timestamp;
use vestal_api::SnapshotView;
use vestal_sandbox::{Snapshot, SnapshotName, Task};

use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::copies;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;

const AFTER_HELP: &str = "\
The sandbox itself and forks of it are not touched. On a terminal it asks first, unless -y is given;
without a terminal it needs -y.

Example:
  vestal snapshots rm web before-upgrade 2026-11-15-1830";

/// Removes snapshots of a sandbox for good.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RmArgs {
    /// Task whose sandbox they are of.
    #[arg(value_name = "TASK")]
    task: Task,

    /// The snapshots.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<SnapshotName>,

    /// Asks no question.
    #[arg(short, long)]
    yes: bool,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: RmArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let task = find::task(&engine, Some(&args.task))?;
    // All are found before any goes: a mistyped name removes nothing.
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for name in &args.names {
        if snapshots.iter().all(|snapshot| snapshot.name != *name) {
            snapshots.push(copies::snapshot(&engine, &task, name).await?);
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
        let removing = engine.remove_snapshot(&task, name);
        let what = format!("removing snapshot {name}");
        if let Err(error) = context.console.while_waiting(&what, removing).await {
            return Err(find::explain(&engine, error).await);
        }
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
    format!("{task}: snapshot {name} of {ago} ({}) goes for good", copies::size(*files, *bytes))
}
