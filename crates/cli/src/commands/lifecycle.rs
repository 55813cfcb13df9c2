//! `vestal stop`, `rm` and `touch`.

use std::time::Duration;

use clap::Args;
use vestal_api::{RemovedView, StoppedView};
use vestal_operations::Action;
use vestal_sandbox::{Engine, FilesOnRemoval, Removal, SandboxSummary, SummaryState, TaskName};

use crate::cli::Tasks;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::{confirm, find};

const STOP_HELP: &str = "\
Running jobs are asked to end, and killed after terminal.stop_grace_seconds. Files and shell
sessions stay; the next use starts the sandbox again, with the settings in effect then. If workspace
and home are in memory (terminal.container_persistent: false), they are lost. Without TASK, the
sandbox of the task `default` is stopped. In both cases you are asked first on a terminal, unless -y
is given; without a terminal it is done, with a note on standard error. Scripts should name the TASK.

Examples:
  vestal stop web
  vestal stop -y scratch";

/// Stop sandboxes: their processes end, their files stay.
#[derive(Debug, Args)]
#[command(after_help = STOP_HELP)]
pub(crate) struct StopArgs {
    /// Accept mounted directories that were replaced since the sandbox was created. Directories
    /// replaced later are refused again.
    #[arg(long)]
    accept_mounts: bool,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: Tasks,
}

pub(crate) async fn stop(context: &Context, args: StopArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let tasks = args.tasks.or_default(&engine)?;
    let (mut plans, mut in_memory) = (Vec::new(), Vec::new());
    for task in &tasks {
        // An error is reported by the attempt to stop it.
        let summaries = engine.inspect(task).await.unwrap_or_default();
        let shared = || summaries.iter().filter(|summary| !summary.owned);
        if shared().any(SandboxSummary::has_files_in_memory) {
            plans.push(format!("{task}: workspace and home are in memory and will be lost"));
            in_memory.push(task.clone());
        } else if args.tasks.is_empty() && shared().any(is_running) {
            plans.push(format!("no task was named: the sandbox of {task} will be stopped"));
        }
    }
    if !args.yes && confirm::is_possible() {
        if !plans.is_empty() && !confirm::is_confirmed(context.console, "stop", "Stop?", &plans)? {
            context.console.note("nothing was stopped");
            return Ok(Exit::No);
        }
    } else {
        // Scripts are not asked; what they did not name is told.
        for plan in &plans {
            context.console.note(plan);
        }
    }
    // What cannot be stopped is no reason to let the rest run.
    let (mut stopped, mut failures) = (Vec::new(), Vec::new());
    for task in &tasks {
        let stopping = async {
            let was_running = engine.stop(task).await?;
            if args.accept_mounts {
                for reason in engine.accept_mounts(task).await? {
                    let advice = "if the settings still name it, the next start refuses it";
                    context.console.warn(&format!("not accepted: {reason}; {advice}"));
                }
            }
            Ok(was_running)
        };
        let was_running =
            match context.console.while_waiting(&format!("stopping {task}"), stopping).await {
                Ok(was_running) => was_running,
                Err(error) => {
                    failures.push((task.to_string(), find::explain(&engine, error).await));
                    continue;
                }
            };
        let files_lost = was_running && in_memory.contains(task);
        if !args.json {
            let outcome = if was_running { "stopped" } else { "was not running:" };
            let lost = if files_lost {
                "; its workspace and home were in memory and are gone"
            } else {
                ""
            };
            context
                .console
                .print(&format!("{outcome} {}{lost}", text::printable(task.as_str())))?;
        }
        stopped.push(StoppedView { task: task.to_string(), was_running, files_lost });
    }
    if args.json {
        return context.console.conclude_in_json(&stopped, &failures);
    }
    context.console.conclude(failures)
}

fn is_running(summary: &SandboxSummary) -> bool {
    summary.state == SummaryState::Running
}

const RM_HELP: &str = "\
Asks for confirmation on a terminal; without a terminal, -y is required.

Examples:
  vestal rm web
  vestal rm -y --files web api";

/// Remove sandboxes; workspace, home and snapshots stay unless --files is given.
#[derive(Debug, Args)]
#[command(after_help = RM_HELP)]
pub(crate) struct RmArgs {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Remove workspace, home and snapshots too.
    #[arg(long)]
    files: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: Tasks,
}

pub(crate) async fn rm(context: &Context, args: RmArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let tasks = args.tasks.named(&engine)?;
    if tasks.is_empty() {
        return Err(CommandFailure::usage("name the tasks whose sandboxes to remove"));
    }
    let files = if args.files { FilesOnRemoval::Remove } else { FilesOnRemoval::Keep };
    // What cannot be removed is no reason to keep the rest.
    let (mut plans, mut failures) = (Vec::new(), Vec::new());
    for task in &tasks {
        match removal_plan(&engine, task, files).await {
            Ok(words) => plans.push((task, words)),
            Err(failure) => failures.push((task.to_string(), failure)),
        }
    }
    let words: Vec<String> = plans.iter().map(|(_, words)| words.clone()).collect();
    if !args.yes
        && !words.is_empty()
        && !confirm::is_confirmed(context.console, "remove", "Remove?", &words)?
    {
        context.console.note("nothing was removed");
        return Ok(Exit::No);
    }
    let mut removed = Vec::new();
    for (task, _) in &plans {
        let removing = engine.remove(task, files);
        let removal =
            match context.console.while_waiting(&format!("removing {task}"), removing).await {
                Ok(removal) => removal,
                Err(error) => {
                    failures.push((task.to_string(), find::explain(&engine, error).await));
                    continue;
                }
            };
        if !args.json {
            context.console.print(&describe(task, &removal))?;
        }
        removed.push(RemovedView::new(task, &removal));
    }
    if args.json {
        return context.console.conclude_in_json(&removed, &failures);
    }
    context.console.conclude(failures)
}

/// Says what goes and what stays.
async fn removal_plan(
    engine: &Engine,
    task: &TaskName,
    files: FilesOnRemoval,
) -> Result<String, CommandFailure> {
    match vestal_operations::plan(engine, task, &Action::Remove { files }).await {
        Ok(parts) => Ok(format!("{task}: {}", parts.join("; "))),
        Err(error) => Err(find::explain(engine, error).await),
    }
}

fn describe(task: &TaskName, removal: &Removal) -> String {
    let dirs = removal.kept.iter().map(|path| path.display().to_string());
    let volumes = removal.kept_volumes.iter().map(|name| format!("volume {name}"));
    let kept: Vec<String> = dirs.chain(volumes).collect();
    let kept = if kept.is_empty() { String::new() } else { format!("; kept {}", kept.join(", ")) };
    format!(
        "removed {} ({}){kept}",
        text::printable(task.as_str()),
        text::count(removal.instances, "instance")
    )
}

/// How long a guest may take to notice.
const TOUCH_WITHIN: Duration = Duration::from_secs(10);

const TOUCH_HELP: &str = "\
Example:
  vestal touch web";

/// Reset the idle timer of running sandboxes.
#[derive(Debug, Args)]
#[command(after_help = TOUCH_HELP)]
pub(crate) struct TouchArgs {
    #[command(flatten)]
    tasks: Tasks,
}

pub(crate) async fn touch(context: &Context, args: TouchArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    for task in &args.tasks.or_default(&engine)? {
        match engine.observe(task).await {
            Ok(connection) => connection.touch(TOUCH_WITHIN).await?,
            Err(error) => return Err(find::explain(&engine, error).await),
        }
    }
    Ok(Exit::Success)
}
