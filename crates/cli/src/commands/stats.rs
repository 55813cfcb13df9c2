//! `vestal stats`.

use std::time::Duration;

use clap::Args;
use vestal_api::TaskStatsView;
use vestal_sandbox::{Engine, Error, SummaryState, Task};
use vestal_wire::Stats;

use super::ps::tell_silent;
use crate::cli::Tasks;
use crate::console::{Table, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;

/// How long a guest may take to count.
const WITHIN: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Examples:
  vestal stats
  vestal stats web --json";

/// Shows what sandboxes consume: those of the tasks named, else all that run.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StatsArgs {
    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: Tasks,
}

pub(crate) async fn run(context: &Context, args: StatsArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let named = args.tasks.named(&engine)?;
    let (tasks, exit) = if named.is_empty() {
        running(context, &engine).await?
    } else {
        (named.clone(), Exit::Success)
    };
    let mut found: Vec<(Task, Stats)> = Vec::new();
    for task in tasks {
        match engine.observe(&task).await {
            Ok(connection) => found.push((task, connection.stats(WITHIN).await?)),
            // It has ended since it was listed.
            Err(Error::Stopped { .. }) if named.is_empty() => {}
            Err(error) => return Err(find::explain(&engine, error).await),
        }
    }
    if args.json {
        let views: Vec<TaskStatsView> =
            found.iter().map(|(task, stats)| TaskStatsView::new(task, stats)).collect();
        context.console.print_json(&views)?;
        return Ok(exit);
    }
    let mut table = Table::new(&["TASK", "PROCESSES", "MEMORY", "CPU", "LOGS", "GUEST"]);
    for (task, stats) in &found {
        table.row(vec![
            task.as_str().into(),
            stats.processes.to_string().into(),
            text::bytes(stats.memory_bytes).into(),
            cpu(stats.cpu_ms).into(),
            text::bytes(stats.log_bytes).into(),
            text::bytes(stats.guest_bytes).into(),
        ]);
    }
    if table.is_empty() {
        context.console.note("no sandbox runs");
    } else {
        context.console.print_table(&table)?;
    }
    Ok(exit)
}

/// Returns the tasks whose sandboxes run, and tells of those that have not
/// answered.
async fn running(context: &Context, engine: &Engine) -> Result<(Vec<Task>, Exit), Failure> {
    let summaries = engine.list().await?;
    let exit = tell_silent(context, &summaries, "what it consumes");
    let running = summaries
        .into_iter()
        .filter(|summary| summary.state == SummaryState::Running && !summary.owned);
    Ok((running.filter_map(|summary| summary.task.parse().ok()).collect(), exit))
}

/// Returns CPU time in seconds.
pub(super) fn cpu(millis: u64) -> String {
    format!("{}.{:02}s", millis / 1000, millis % 1000 / 10)
}
