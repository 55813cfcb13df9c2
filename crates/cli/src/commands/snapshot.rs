//! `vestal snapshot`.

use clap::Args;
use jiff::Zoned;
use vestal_api::SnapshotView;
use vestal_sandbox::{CopyError, Engine, Error, Snapshot, SnapshotName, Task};

use crate::cli::{Busy, OneTask};
use crate::console::text;
use crate::context::Context;
use crate::copies;
use crate::error::Failure;
use crate::exit::Exit;
use crate::values::quoted;

/// Snapshots without a chosen name that a sandbox can have of one minute.
const MOST_A_MINUTE: u32 = 1000;

const AFTER_HELP: &str = "\
Workspace, home and everything installed are copied; what of your machine is mounted in the sandbox
is not. The sandbox is stopped for it and started again by its next use; shell sessions go on. With
jobs or open calls in it nothing is done, unless --stop is given.

Examples:
  vestal snapshot
  vestal snapshot web --name before-upgrade --note 'all tests pass'
  vestal restore web before-upgrade";

/// Keeps a copy of a sandbox that can be gone back to.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SnapshotArgs {
    /// Its name among the sandbox's snapshots [default: the time, as in 2026-11-15-1830].
    #[arg(short, long, value_name = "NAME")]
    name: Option<SnapshotName>,

    /// A line to remember it by.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    #[command(flatten)]
    busy: Busy,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    task: OneTask,
}

pub(crate) async fn run(context: &Context, args: SnapshotArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let task = args.task.or_default(&engine)?;
    let what = format!("keeping a copy of {task}");
    let keeping = keep(&engine, &task, &args);
    let snapshot = match copies::see_done(context, &engine, &what, keeping).await? {
        Ok(snapshot) => snapshot,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    if args.json {
        context.console.print_json(&SnapshotView::from(&snapshot))?;
        return Ok(Exit::Success);
    }
    let (task, name) = (text::printable(task.as_str()), &snapshot.name);
    let size = copies::size(snapshot.files, snapshot.bytes);
    context.console.print(&format!("kept {task} as {name} ({size})"))?;
    context.console.note(&format!("to go back to it: vestal restore {} {name}", quoted(&task)));
    Ok(Exit::Success)
}

/// Keeps the copy. A name that was not chosen by anybody gives way to one that
/// somebody else has taken meanwhile.
async fn keep(engine: &Engine, task: &Task, args: &SnapshotArgs) -> Result<Snapshot, Error> {
    loop {
        let name = match &args.name {
            Some(name) => name.clone(),
            None => free_name(engine, task, &Zoned::now()).await?,
        };
        match engine.snapshot(task, &name, args.note.as_deref(), args.busy.into()).await {
            Err(Error::Copy(CopyError::SnapshotExists { .. })) if args.name.is_none() => {}
            done => return done,
        }
    }
}

/// Returns the time as a name that no snapshot of the sandbox has.
async fn free_name(engine: &Engine, task: &Task, now: &Zoned) -> Result<SnapshotName, Error> {
    let taken = engine.snapshots(Some(task)).await?;
    let is_taken = |name: &SnapshotName| taken.iter().any(|snapshot| snapshot.name == *name);
    name_at(now, is_taken).ok_or_else(|| {
        let (task, name) = (task.to_string(), minute(now));
        CopyError::SnapshotExists { task, name }.into()
    })
}

/// Returns the minute as a name, with a number where it is taken.
fn name_at(now: &Zoned, is_taken: impl Fn(&SnapshotName) -> bool) -> Option<SnapshotName> {
    let minute = minute(now);
    let numbered = (2..=MOST_A_MINUTE).map(|number| format!("{minute}-{number}"));
    let names = std::iter::once(minute.clone()).chain(numbered);
    names.filter_map(|name| name.parse().ok()).find(|name| !is_taken(name))
}

fn minute(now: &Zoned) -> String {
    now.strftime("%Y-%m-%d-%H%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_without_a_name_is_called_after_the_minute_and_never_twice_the_same() {
        let now = jiff::civil::date(2026, 11, 15).at(18, 30, 59, 0);
        let now = now.to_zoned(jiff::tz::TimeZone::UTC).unwrap();
        let mut taken: Vec<SnapshotName> = Vec::new();
        for expected in ["2026-11-15-1830", "2026-11-15-1830-2", "2026-11-15-1830-3"] {
            let name = name_at(&now, |name| taken.contains(name)).unwrap();
            assert_eq!(name.as_str(), expected);
            taken.push(name);
        }
        assert_eq!(name_at(&now, |_| true), None);
    }
}
