//! `vestal stop`.

use clap::Args;
use serde::Serialize;

use crate::cli::Tasks;
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;

const AFTER_HELP: &str = "\
Running jobs are asked to end and killed after terminal.stop_grace_seconds. Files and shell
sessions stay; the next use starts the sandbox again, with the settings of then.

Example:
  vestal stop web";

/// Stops sandboxes: their processes end, their files stay.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StopArgs {
    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: Tasks,
}

#[derive(Debug, Serialize)]
struct Stopped {
    task: String,
    was_running: bool,
}

pub(crate) async fn run(context: &Context, args: StopArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let mut stopped = Vec::new();
    for task in &args.tasks.or_default(&engine)? {
        let stopping = engine.stop(task);
        let was_running =
            match context.console.while_waiting(&format!("stopping {task}"), stopping).await {
                Ok(was_running) => was_running,
                Err(error) => return Err(find::explain(&engine, error).await),
            };
        if !args.json {
            let said = if was_running { "stopped" } else { "was not running:" };
            context.console.print(&format!("{said} {}", text::printable(task.as_str())))?;
        }
        stopped.push(Stopped { task: task.to_string(), was_running });
    }
    if args.json {
        context.console.print_json(&stopped)?;
    }
    Ok(Exit::Success)
}
