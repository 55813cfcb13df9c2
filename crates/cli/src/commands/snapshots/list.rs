//! `vestal snapshots`, without a further verb.

use clap::Args;
use jiff::Timestamp;
use vestal_api::SnapshotView;
use vestal_sandbox::{Engine, Error, Snapshot, Task};

use crate::cli::Tasks;
use crate::console::{Cell, Table, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;

pub(crate) const HEADING: [&str; 5] = ["TASK", "NAME", "CREATED", "SIZE", "NOTE"];

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: Tasks,
}

pub(super) async fn run(context: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let tasks = args.tasks.named(&engine)?;
    let mut snapshots = Vec::new();
    if tasks.is_empty() {
        snapshots = engine.snapshots(None).await?;
    }
    for task in &tasks {
        snapshots.extend(of(&engine, task).await?);
    }
    if args.json {
        let views: Vec<SnapshotView> = snapshots.iter().map(SnapshotView::from).collect();
        context.console.print_json(&views)?;
        return Ok(Exit::Success);
    }
    if snapshots.is_empty() {
        context.console.note("there are no snapshots; `vestal snapshot TASK` makes one");
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
async fn of(engine: &Engine, task: &Task) -> Result<Vec<Snapshot>, Failure> {
    let found = match engine.snapshots(Some(task)).await {
        Ok(found) => found,
        Err(error) => return Err(find::explain(engine, error).await),
    };
    if found.is_empty()
        && let Err(error @ Error::NoSandbox { .. }) = engine.inspect(task).await
    {
        return Err(find::explain(engine, error).await);
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
