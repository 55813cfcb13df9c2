//! `vestal stop`.

use clap::Args;
use vestal_api::StoppedView;
use vestal_sandbox::{Engine, Task};

use crate::cli::Tasks;
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;

const AFTER_HELP: &str = "\
Running jobs are asked to end and killed after terminal.stop_grace_seconds. Files and shell
sessions stay; the next use starts the sandbox again, with the settings of then. Where workspace
and home are in memory (terminal.container_persistent: false) they go: on a terminal it asks first,
unless -y is given.

Examples:
  vestal stop web
  vestal stop -y scratch";

/// Stops sandboxes: their processes end, their files stay.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StopArgs {
    /// Has the next start take mounted directories as they are now, also those that were replaced
    /// since the sandbox was made. What is replaced after this is refused as before.
    #[arg(long)]
    accept_mounts: bool,

    /// Asks no question.
    #[arg(short, long)]
    yes: bool,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: Tasks,
}

/// Returns whether files of a running sandbox end with its processes.
async fn has_files_in_memory(engine: &Engine, task: &Task) -> bool {
    // What cannot be looked at is told by the attempt to stop it.
    let summaries = engine.inspect(task).await.unwrap_or_default();
    summaries.iter().any(|summary| !summary.owned && summary.has_files_in_memory())
}

pub(crate) async fn run(context: &Context, args: StopArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let tasks = args.tasks.or_default(&engine)?;
    let mut in_memory = Vec::new();
    for task in &tasks {
        if has_files_in_memory(&engine, task).await {
            in_memory.push(task.clone());
        }
    }
    if !args.yes && !in_memory.is_empty() && confirm::is_possible() {
        let plan = |task: &Task| format!("{task}: workspace and home are in memory and go");
        let plans: Vec<String> = in_memory.iter().map(plan).collect();
        if !confirm::is_confirmed(context.console, "stop", "Stop?", &plans)? {
            context.console.note("nothing was stopped");
            return Ok(Exit::No);
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
            let said = if was_running { "stopped" } else { "was not running:" };
            let lost = if files_lost {
                "; its workspace and home were in memory and are gone"
            } else {
                ""
            };
            context.console.print(&format!("{said} {}{lost}", text::printable(task.as_str())))?;
        }
        stopped.push(StoppedView { task: task.to_string(), was_running, files_lost });
    }
    if args.json {
        return context.console.conclude_in_json(&stopped, &failures);
    }
    context.console.conclude(failures)
}
