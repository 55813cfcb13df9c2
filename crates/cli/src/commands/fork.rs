//! `vestal fork`.

use clap::Args;
use vestal_api::ForkedView;
use vestal_sandbox::{Engine, SnapshotName, Task};

use crate::cli::Busy;
use crate::console::text;
use crate::context::Context;
use crate::copies;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;
use crate::values::quoted;

const AFTER_HELP: &str = "\
The new sandbox has the same backend, workspace, home and everything installed, and goes its own way
from then on; what of your machine is mounted in the one is mounted in the other. It has no jobs,
shell sessions or snapshots. The first one is stopped for it and started again by its next use; with
jobs or open calls in it nothing is done, unless --stop is given. With --from it is not touched.

Examples:
  vestal fork web web-experiment
  vestal fork web web-yesterday --from 2026-11-14-0900";

/// Makes a new sandbox that is a copy of another.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ForkArgs {
    /// Task whose sandbox is copied.
    #[arg(value_name = "TASK")]
    task: Task,

    /// Task of the new sandbox, which must not have one yet.
    #[arg(value_name = "NEW")]
    new: Task,

    /// Copies this snapshot of it instead of what is there now.
    #[arg(long, value_name = "NAME")]
    from: Option<SnapshotName>,

    #[command(flatten)]
    busy: Busy,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: ForkArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let from = find::task(&engine, Some(&args.task))?;
    if let Some(name) = &args.from {
        copies::snapshot(&engine, &from, name).await?;
    }
    let to = target(&engine, &from, &args.new).await?;
    let what = format!("forking {from} to {to}");
    let forking = engine.fork(&from, args.from.as_ref(), &to, args.busy.into());
    let forked = match copies::see_done(context, &engine, &what, forking).await? {
        Ok(forked) => forked,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    if args.json {
        context.console.print_json(&ForkedView::new(&from, args.from.as_ref(), &forked))?;
        return Ok(Exit::Success);
    }
    let size = copies::size(forked.files, forked.bytes);
    let (from, to) = (text::printable(from.as_str()), text::printable(forked.task.as_str()));
    context.console.print(&format!("forked {from} to {to} on {} ({size})", forked.backend))?;
    context.console.note(&format!("to use it: vestal shell -t {}", quoted(&to)));
    Ok(Exit::Success)
}

/// Returns the task of the new sandbox. A directory that is mounted in the
/// first one is in the new one too, and so is part of its task.
async fn target(engine: &Engine, from: &Task, new: &Task) -> Result<Task, Failure> {
    let summaries = engine.inspect(from).await.unwrap_or_default();
    let mounted = summaries.into_iter().find_map(|summary| summary.overrides.mount);
    match mounted {
        Some(dir) if !new.as_str().contains("@/") => Ok(engine.task_with_mount(new, &dir)?),
        Some(_) | None => Ok(new.clone()),
    }
}
