//! `vestal jobs`, `kill`, `wait` and `write`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{JobPhase, JobPrefix, JobView};
use vestal_sandbox::job::{self, AfterInput, FoundJob, JobFilter};
use vestal_sandbox::{
    Cause, CommandInput, Engine, Error, JobInfo, JobState, Overrides, SummaryState, TaskName,
};

use super::ps::warn_of_silent;
use crate::cli::JobPlace;
use crate::console::terminal::StdinKind;
use crate::console::{Cell, DIM, GREEN, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::find;
use crate::follow::exit_of;
use crate::values::{parse_duration, parse_signal, quoted};

/// Most jobs that are listed of one sandbox.
const LIMIT: u32 = 1000;

const JOBS_HELP: &str = "\
The sandbox keeps its jobs: jobs whose process on this machine is gone are listed too. With --all
and -t, a stopped sandbox is started to read its records. The exit code is 1 if a sandbox did not
answer.

Examples:
  vestal jobs
  vestal jobs -t web --all --json";

/// List the jobs of sandboxes.
#[derive(Debug, Args)]
#[command(after_help = JOBS_HELP)]
pub(crate) struct JobsArgs {
    /// Only list jobs of this task [default: all running sandboxes].
    #[arg(short, long, value_name = "TASK")]
    task: Option<TaskName>,

    /// Also list jobs that have ended.
    #[arg(short, long)]
    all: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: JobsArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let filter = if args.all { JobFilter::All } else { JobFilter::Running };
    let mut found: Vec<(TaskName, JobInfo)> = Vec::new();
    let mut more = false;
    let Asked { tasks, mut exit } = asked(context, &engine, args.task, args.all).await?;
    for task in tasks {
        let connection = match engine.observe(&task).await {
            Ok(connection) => connection,
            // It has ended since it was listed, or does not answer any more.
            Err(Error::Stopped { .. } | Error::Unresponsive { .. }) => {
                let summaries = engine.inspect(&task).await.unwrap_or_default();
                if warn_of_silent(context, &summaries, MISSING) == Exit::No {
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
        context.console.note("older jobs exist that are not listed");
    }
    Ok(exit)
}

/// What a list lacks when a sandbox does not answer.
const MISSING: &str = "what it has of jobs";

/// Whose jobs are listed.
struct Asked {
    tasks: Vec<TaskName>,
    exit: Exit,
}

/// Returns the tasks whose sandboxes run, of those asked for, and reports those
/// that have not answered. The jobs of a stopped sandbox are on its record, which
/// its guest reads: it is started if that very sandbox was asked for.
async fn asked(
    context: &Context,
    engine: &Engine,
    wanted: Option<TaskName>,
    all: bool,
) -> Result<Asked, CommandFailure> {
    let Some(name) = wanted else {
        let summaries = engine.list().await?;
        let exit = warn_of_silent(context, &summaries, MISSING);
        let of = |state: SummaryState| {
            let own = summaries.iter().filter(move |summary| summary.state == state);
            own.filter(|summary| !summary.owned).filter_map(|summary| summary.task.parse().ok())
        };
        let stopped: Vec<TaskName> = of(SummaryState::Stopped).collect();
        if let (true, [first, ..]) = (all, &*stopped) {
            let names: Vec<String> = stopped.iter().map(|task| quoted(task.as_str())).collect();
            context.console.note(&format!(
                "not listed because stopped: {}; `vestal jobs --all -t {}` starts one and lists its jobs",
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
    let exit = warn_of_silent(context, &summaries, MISSING);
    if exit == Exit::Success {
        let message = format!("the sandbox of {task} is not running, so none of its jobs is");
        context.console.note(&message);
    }
    Ok(Asked { tasks: Vec::new(), exit })
}

fn print(
    context: &Context,
    found: &[(TaskName, JobInfo)],
    all: bool,
    exit: Exit,
) -> Result<(), CommandFailure> {
    if found.is_empty() {
        context.console.note(if exit == Exit::No {
            "no jobs are running in the sandboxes that answered"
        } else if all {
            "no jobs"
        } else {
            "no jobs are running; --all lists those that have ended"
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

const KILL_HELP: &str = "\
Without --signal, everything the job started is killed, including background processes, and the
command returns when all of it is gone.

Examples:
  vestal kill j-06f3
  vestal kill --signal INT j-06f3";

/// Kill a job and everything it started, or send it a signal.
#[derive(Debug, Args)]
#[command(after_help = KILL_HELP)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    place: JobPlace,

    /// Send this signal to the foreground processes of the job instead.
    #[arg(short, long, value_name = "SIGNAL", value_parser = parse_signal)]
    signal: Option<i32>,

    /// Print the job as a JSON object.
    #[arg(long)]
    json: bool,

    /// Job id, or a unique prefix of it.
    #[arg(value_name = "JOB")]
    job: JobPrefix,
}

pub(crate) async fn kill(context: &Context, args: KillArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let found = find::job(context, &engine, args.place.task.as_ref(), &args.job).await?;
    let (info, message) = match args.signal {
        None => kill_job(context, &found).await?,
        Some(signal) => signal_job(&found, signal).await?,
    };
    if args.json {
        context.console.print_json(&JobView::new(found.task.as_str(), &info))?;
    } else {
        context.console.print(&message)?;
    }
    Ok(Exit::Success)
}

async fn kill_job(
    context: &Context,
    found: &FoundJob,
) -> Result<(JobInfo, String), CommandFailure> {
    let id = &found.info.id;
    let killing = job::kill(&found.connection, id);
    let info = context.console.while_waiting(&format!("killing {id}"), killing).await?;
    let message = match (found.info.state, found.info.processes) {
        (JobState::Ended(_), 0) => format!("job {id} had ended"),
        _ => format!("killed job {id}"),
    };
    Ok((info, message))
}

async fn signal_job(found: &FoundJob, signal: i32) -> Result<(JobInfo, String), CommandFailure> {
    let id = &found.info.id;
    job::signal(&found.connection, id, signal).await?;
    let info = job::wait(&found.connection, id, Some(std::time::Duration::ZERO)).await?;
    Ok((info, format!("sent signal {signal} to job {id}")))
}

const WAIT_HELP: &str = "\
The exit code is that of the job; 124 if the job still runs after --timeout, or timed out itself.

Example:
  job=$(vestal run --background 'make test') && vestal wait $job";

/// Wait for a job to end.
#[derive(Debug, Args)]
#[command(after_help = WAIT_HELP)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    place: JobPlace,

    /// Stop waiting after this time: seconds, or a number with s, m, h or d. The job keeps running.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Print the job as a JSON object.
    #[arg(long)]
    json: bool,

    /// Job id, or a unique prefix of it.
    #[arg(value_name = "JOB")]
    job: JobPrefix,
}

pub(crate) async fn wait(context: &Context, args: WaitArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let found = find::job(context, &engine, args.place.task.as_ref(), &args.job).await?;
    let waiting = job::wait(&found.connection, &found.info.id, args.timeout);
    let info =
        context.console.while_waiting(&format!("waiting for {}", found.info.id), waiting).await?;
    if args.json {
        context.console.print_json(&JobView::new(found.task.as_str(), &info))?;
    }
    match info.state {
        JobState::Ended(_) => exit_of(&info),
        JobState::Starting | JobState::Running => {
            context.console.note(&format!("job {} is still running", info.id));
            Ok(Exit::TimedOut)
        }
    }
}

const WRITE_HELP: &str = "\
Without TEXT, standard input is passed on until it ends.

Examples:
  vestal write --newline j-06f3 yes
  vestal write --close j-06f3 < data";

/// Write to the standard input of a job.
#[derive(Debug, Args)]
#[command(after_help = WRITE_HELP)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    place: JobPlace,

    /// Close the standard input of the job afterwards.
    #[arg(short, long)]
    close: bool,

    /// Add a newline to the text.
    #[arg(short, long)]
    newline: bool,

    /// Job id, or a unique prefix of it.
    #[arg(value_name = "JOB")]
    job: JobPrefix,

    /// Text to write; words are joined by spaces. After `--` it may begin with a hyphen.
    #[arg(value_name = "TEXT", trailing_var_arg = true)]
    text: Vec<OsString>,
}

pub(crate) async fn write(context: &Context, args: WriteArgs) -> Result<Exit, CommandFailure> {
    let input = job_input(&args)?;
    let engine = context.engine()?;
    let found = find::job(context, &engine, args.place.task.as_ref(), &args.job).await?;
    let after = if args.close { AfterInput::Close } else { AfterInput::KeepOpen };
    let writing = job::write(&found.connection, &found.info.id, input, after);
    context.console.while_waiting("waiting for the job to read", writing).await?;
    Ok(Exit::Success)
}

fn job_input(args: &WriteArgs) -> Result<CommandInput, CommandFailure> {
    if !args.text.is_empty() || args.newline {
        let words: Vec<&[u8]> = args.text.iter().map(|word| word.as_bytes()).collect();
        let mut bytes = words.join(&b' ');
        if args.newline {
            bytes.push(b'\n');
        }
        return Ok(CommandInput::Bytes(bytes));
    }
    match StdinKind::detect() {
        StdinKind::Data => Ok(CommandInput::Reader(Box::new(tokio::io::stdin()))),
        StdinKind::Nothing | StdinKind::Terminal if args.close => Ok(CommandInput::Null),
        StdinKind::Nothing | StdinKind::Terminal => Err(CommandFailure::usage(
            "there is nothing to write: give TEXT, pipe something in, or --close",
        )),
    }
}
