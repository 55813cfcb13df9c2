//! `vestal rebuild`.

use clap::Args;
use vestal_api::RebuiltView;
use vestal_operations::{Action, Done};
use vestal_sandbox::{Engine, Rebuild, TaskName};

use super::restore::{self, RecordedWork};
use crate::cli::{Busy, OneTask};
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::{confirm, find};

const AFTER_HELP: &str = "\
Workspace, home and snapshots stay; anything installed elsewhere in the sandbox is lost. With
--backend the sandbox moves to another backend, with its workspace and home. If the new sandbox
cannot be created, the old one stays. Refused while jobs or calls are running in it, unless --stop
is given. Asks for confirmation on a terminal; without a terminal, -y is required.

Examples:
  vestal rebuild web
  vestal rebuild -y web --backend docker
  vestal rebuild web --image debian:13";

/// Recreate a sandbox with the current settings; workspace and home stay.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RebuildArgs {
    /// Move it to this backend.
    #[arg(short, long, value_name = "BACKEND")]
    backend: Option<String>,

    /// Make it from this image from now on.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    busy: Busy,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    task: OneTask,
}

pub(crate) async fn run(context: &Context, args: RebuildArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let task = args.task.or_default(&engine)?;
    let backend = match &args.backend {
        Some(name) => Some(backend(context, name)?),
        None => None,
    };
    refuse_owned(&engine, &task).await?;
    let action = Action::Rebuild { backend: backend.clone(), busy: args.busy.into() };
    if !args.yes {
        let parts = match vestal_operations::plan(&engine, &task, &action).await {
            Ok(parts) => parts,
            Err(error) => return Err(find::explain(&engine, error).await),
        };
        let plan = format!("{task}: {}", parts.join("; "));
        if !confirm::is_confirmed(context.console, "rebuild", "Rebuild?", &[plan])? {
            context.console.note("nothing was rebuilt");
            return Ok(Exit::No);
        }
    }
    let rebuild = Rebuild { backend, image: args.image };
    let rebuilding = engine.rebuild(&task, &rebuild, args.busy.into());
    let what = format!("rebuilding {task}");
    let work = RecordedWork { task: &task, action: &action, what: &what };
    let rebuilt = restore::see_done(context, &engine, work, rebuilding, Done::rebuilt).await?;
    let rebuilt = match rebuilt {
        Ok(rebuilt) => rebuilt,
        Err(signal) => return Ok(Exit::Terminated(signal)),
    };
    for remark in &rebuilt.remarks {
        context.console.note(remark);
    }
    if args.json {
        context.console.print_json(&RebuiltView::new(&task, &rebuilt))?;
        return Ok(Exit::Success);
    }
    let task = text::printable(task.as_str());
    let moved = if rebuilt.was == rebuilt.now {
        format!("on {}", rebuilt.now)
    } else {
        format!("on {} (was on {})", rebuilt.now, rebuilt.was)
    };
    let kept: Vec<String> = rebuilt.kept.iter().map(|path| path.display().to_string()).collect();
    let kept = if kept.is_empty() { String::new() } else { format!("; kept {}", kept.join(", ")) };
    context.console.print(&format!("rebuilt {task} {moved}{kept}"))?;
    Ok(Exit::Success)
}

/// Returns the name of a backend as the settings know it.
fn backend(context: &Context, name: &str) -> Result<String, CommandFailure> {
    let named = context.backend_named(name)?.named().map(str::to_owned);
    named.ok_or_else(|| {
        CommandFailure::usage("to move a sandbox, name the backend")
            .advise("`vestal doctor` says which ones work here")
    })
}

/// Refuses a sandbox that belongs to a process.
async fn refuse_owned(engine: &Engine, task: &TaskName) -> Result<(), CommandFailure> {
    let summaries = match engine.inspect(task).await {
        Ok(summaries) => summaries,
        Err(error) => return Err(find::explain(engine, error).await),
    };
    if summaries.iter().any(|summary| !summary.owned) {
        return Ok(());
    }
    Err(CommandFailure::new(format!(
        "the instance of {task} belongs to a process and ends with it"
    ))
    .advise("the next one is created with the current settings anyway"))
}
