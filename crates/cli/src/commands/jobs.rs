//! `vestal jobs`.

use clap::Args;
use jiff::Timestamp;
use vestal_api::{JobPhase, JobView};
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Engine, Error, Overrides, SummaryState, Task};
use vestal_wire::{Cause, JobInfo, JobState};

use super::ps::tell_silent;
use crate::console::{Cell, DIM, GREEN, Table, YELLOW, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;
use crate::values::quoted;

/// Most jobs that are listed of one sandbox.
const LIMIT: u32 = 1000;

const AFTER_HELP: &str = "\
The sandbox keeps its jobs: jobs whose process on this machine is gone are listed too. With --all
and -t, a stopped sandbox is started to read its records. The exit code is 1 if a sandbox did not
answer.

Examples:
  vestal jobs
  vestal jobs -t web --all --json";

/// List the jobs of sandboxes.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct JobsArgs {
    /// Only list jobs of this task [default: all running sandboxes].
    #[arg(short, long, value_name = "TASK")]
    task: Option<Task>,

    /// Also list jobs that have ended.
    #[arg(short, long)]
    all: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: JobsArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let filter = if args.all { JobFilter::All } else { JobFilter::Running };
    let mut found: Vec<(Task, JobInfo)> = Vec::new();
    let mut more = false;
    let Asked { tasks, mut exit } = asked(context, &engine, args.task, args.all).await?;
    for task in tasks {
        let connection = match engine.observe(&task).await {
            Ok(connection) => connection,
            // It has ended since it was listed, or does not answer any more.
            Err(Error::Stopped { .. }) => {
                let summaries = engine.inspect(&task).await.unwrap_or_default();
                if tell_silent(context, &summaries, MISSING) == Exit::No {
                    exit = Exit::No;
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let list = job::jobs(&connection, filter, LIMIT).await?;
        more |= list.more;
        found.extend(list.jobs.into_iter().map(|info| (task.clone(), info)));
    }
    if args.json {
        let views: Vec<JobView> =
            found.iter().map(|(task, info)| JobView::new(task.as_str(), info)).collect();
        context.console.print_json(&views)?;
    } else {
        print(context, &found, args.all, exit)?;
    }
    if more {
        context.console.note("older jobs are on record that are not listed");
    }
    Ok(exit)
}

/// What a list lacks when a sandbox does not answer.
const MISSING: &str = "what it has of jobs";

/// Whose jobs are listed.
struct Asked {
    tasks: Vec<Task>,
    exit: Exit,
}

/// Returns the tasks whose sandboxes run, of those asked for, and tells of those
/// that have not answered. The jobs of a stopped sandbox are on its record, which
/// its guest reads: it is started for whoever asks for that very one.
async fn asked(
    context: &Context,
    engine: &Engine,
    wanted: Option<Task>,
    all: bool,
) -> Result<Asked, Failure> {
    let Some(name) = wanted else {
        let summaries = engine.list().await?;
        let exit = tell_silent(context, &summaries, MISSING);
        let of = |state: SummaryState| {
            let own = summaries.iter().filter(move |summary| summary.state == state);
            own.filter(|summary| !summary.owned).filter_map(|summary| summary.task.parse().ok())
        };
        let stopped: Vec<Task> = of(SummaryState::Stopped).collect();
        if let (true, [first, ..]) = (all, &*stopped) {
            let names: Vec<String> = stopped.iter().map(|task| quoted(task.as_str())).collect();
            context.console.note(&format!(
                "stopped, and not listed: {}; `vestal jobs --all -t {}` starts one and lists its jobs",
                names.join(", "),
                quoted(first.as_str())
            ));
        }
        return Ok(Asked { tasks: of(SummaryState::Running).collect(), exit });
    };
    let task = find::task(engine, Some(&name))?;
    let summaries = match engine.inspect(&task).await {
        Ok(summaries) => summaries,
        Err(error) => return Err(find::explain(engine, error).await),
    };
    let is = |state| summaries.iter().any(|summary| summary.state == state && !summary.owned);
    if is(SummaryState::Running) {
        return Ok(Asked { tasks: vec![task], exit: Exit::Success });
    }
    if all && is(SummaryState::Stopped) {
        context.sandbox(engine, &task, &Overrides::default()).await?;
        return Ok(Asked { tasks: vec![task], exit: Exit::Success });
    }
    let exit = tell_silent(context, &summaries, MISSING);
    if exit == Exit::Success {
        let said = format!("the sandbox of {task} does not run, and so does no job of it");
        context.console.note(&said);
    }
    Ok(Asked { tasks: Vec::new(), exit })
}

fn print(
    context: &Context,
    found: &[(Task, JobInfo)],
    all: bool,
    exit: Exit,
) -> Result<(), Failure> {
    if found.is_empty() {
        context.console.note(if exit == Exit::No {
            "no job runs in the sandboxes that have answered"
        } else if all {
            "there are no jobs"
        } else {
            "no job runs; --all lists those that have ended"
        });
        return Ok(());
    }
    let now = Timestamp::now();
    let mut table = Table::new(&HEADING);
    for (task, info) in found {
        table.row(row(task.as_str(), info, now));
    }
    context.console.print_table(&table)
}

/// What a table of jobs shows.
pub(super) const HEADING: [&str; 6] = ["JOB", "TASK", "STATE", "STARTED", "PROCESSES", "COMMAND"];

/// Returns a job's row in such a table.
pub(super) fn row(task: &str, info: &JobInfo, now: Timestamp) -> Vec<Cell> {
    vec![
        info.id.as_str().into(),
        task.into(),
        state(info),
        vestal_api::timestamp(info.started_ms)
            .map_or_else(|| "?".to_owned(), |time| text::ago(time, now))
            .into(),
        info.processes.to_string().into(),
        info.summary.as_str().into(),
    ]
}

/// Returns a job's state in a word or two.
fn state(info: &JobInfo) -> Cell {
    let JobState::Ended(exit) = info.state else {
        return Cell::styled(JobPhase::from(&info.state).as_str(), GREEN);
    };
    match (exit.cause, exit.code) {
        (Cause::Exited, Some(0)) => Cell::styled("exit 0", DIM),
        (Cause::Exited, Some(code)) => Cell::styled(format!("exit {code}"), YELLOW),
        (Cause::Signaled(signal), _) => Cell::styled(format!("signal {signal}"), YELLOW),
        (Cause::TimedOut, _) => Cell::styled("timed out", YELLOW),
        (Cause::Killed, _) => Cell::styled("killed", YELLOW),
        (Cause::Lost, _) | (Cause::Exited, None) => Cell::styled("lost", YELLOW),
    }
}
