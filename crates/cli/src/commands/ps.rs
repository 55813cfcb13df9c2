//! `vestal ps` and `stats`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{SandboxState, SandboxView, TaskStatsView};
use vestal_config::Home;
use vestal_sandbox::{Engine, Error, SandboxStats, SandboxSummary, SummaryState, TaskName};

use super::operations;
use crate::cli::TaskSelection;
use crate::console::{Cell, DIM, GREEN, RED, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::find;

const PS_HELP: &str = "\
Listing a sandbox does not reset its idle timer. The exit code is 1 if the backend of a sandbox did
not answer. A machine that is far or slow is waited for a moment only: the state is `unknown` then,
with what it last was.

Examples:
  vestal ps
  vestal ps --all --json | jq -r '.[] | select(.state == \"running\") | .task'";

const HEADING: [&str; 10] =
    ["PROFILE", "TASK", "BACKEND", "STATE", "IMAGE", "CREATED", "IDLE", "EXPIRES", "JOBS", "DRIFT"];

/// List sandboxes, running or not.
#[derive(Debug, Args)]
#[command(after_help = PS_HELP)]
pub(crate) struct PsArgs {
    /// List the sandboxes of all profiles.
    #[arg(short, long)]
    all: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: PsArgs) -> Result<Exit, CommandFailure> {
    let summaries = list(context, args.all).await?;
    if args.json {
        let views: Vec<SandboxView> = summaries.iter().map(SandboxView::from).collect();
        context.console.print_json(&views)?;
        return Ok(exit(&summaries));
    }
    for home in homes(context, args.all)? {
        operations::note_running(context, &home, None);
    }
    if summaries.is_empty() {
        context.console.note("no sandboxes; `vestal run CMD` creates one");
        return Ok(Exit::Success);
    }
    let now = Timestamp::now();
    let is_weakened = |summary: &SandboxSummary| !summary.description.weakened.is_empty();
    let weakened = summaries.iter().any(is_weakened);
    let mut heading = HEADING.to_vec();
    heading.extend(weakened.then_some("WEAKENED BY"));
    let mut table = Table::new(&heading);
    for summary in &summaries {
        let mut row = row(summary, now);
        row.extend(weakened.then(|| Cell::styled(listed(&summary.description.weakened), YELLOW)));
        table.row(row);
    }
    context.console.print_table(&table)?;
    for summary in &summaries {
        if let Some(trouble) = &summary.trouble {
            context.console.warn(&format!("{}: {trouble}", summary.task));
        }
    }
    Ok(exit(&summaries))
}

/// Returns 1 if the state of some sandboxes is unknown.
fn exit(summaries: &[SandboxSummary]) -> Exit {
    let is_unknown = |summary: &SandboxSummary| summary.state == SummaryState::Unknown;
    if summaries.iter().any(is_unknown) { Exit::No } else { Exit::Success }
}

/// Warns of sandboxes that have not answered, so that what is said of the others
/// is not taken for the whole, and returns the exit code that says so.
pub(super) fn warn_of_silent(context: &Context, summaries: &[SandboxSummary], what: &str) -> Exit {
    let silent = |summary: &&SandboxSummary| {
        matches!(summary.state, SummaryState::Unknown | SummaryState::Unresponsive)
            && !summary.owned
    };
    let mut exit = Exit::Success;
    for summary in summaries.iter().filter(silent) {
        let why = summary.trouble.as_deref().unwrap_or("its guest does not, it may be paused");
        context
            .console
            .warn(&format!("{} did not answer, so {what} is missing: {why}", summary.task));
        exit = Exit::No;
    }
    exit
}

async fn list(context: &Context, all: bool) -> Result<Vec<SandboxSummary>, CommandFailure> {
    let mut summaries = Vec::new();
    for home in homes(context, all)? {
        // Looking makes no home.
        let found = std::fs::metadata(home.dir());
        if found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            continue;
        }
        summaries.extend(context.engine_of(home)?.list().await?);
    }
    Ok(summaries)
}

/// Returns the home of the profile, or those of all.
fn homes(context: &Context, all: bool) -> Result<Vec<Home>, CommandFailure> {
    let home = context.home()?;
    if !all {
        return Ok(vec![home]);
    }
    home.profiles().iter().map(|profile| context.home_of(profile)).collect()
}

fn row(summary: &SandboxSummary, now: Timestamp) -> Vec<Cell> {
    let drift: Vec<String> = summary.drift.iter().map(|drift| drift.key.clone()).collect();
    vec![
        summary.profile.as_str().into(),
        summary.task.as_str().into(),
        summary.backend.as_str().into(),
        state(summary),
        summary.image.as_deref().unwrap_or("-").into(),
        text::ago(summary.created_at, now).into(),
        summary.idle.map_or_else(|| "-".to_owned(), text::span).into(),
        summary.expires_at.map_or_else(|| "-".to_owned(), |time| text::ago(time, now)).into(),
        summary.jobs_running.to_string().into(),
        Cell::styled(listed(&drift), YELLOW),
    ]
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}

/// Returns a sandbox's state in colour.
pub(super) fn state(summary: &SandboxSummary) -> Cell {
    let style = match summary.state {
        SummaryState::Running => GREEN,
        SummaryState::Unresponsive | SummaryState::Unknown => RED,
        SummaryState::Stopped | SummaryState::Absent => DIM,
    };
    let owned = if summary.owned { " (owned)" } else { "" };
    let word = SandboxState::from(summary.state).as_str();
    let known = summary.last_known.as_ref().map(|known| {
        let was = SandboxState::from(known.state).as_str();
        format!(" ({was} {})", text::ago(known.at, Timestamp::now()))
    });
    Cell::styled(format!("{word}{owned}{}", known.unwrap_or_default()), style)
}

/// How long a guest may take to count.
const STATS_WITHIN: Duration = Duration::from_secs(10);

const STATS_HELP: &str = "\
Examples:
  vestal stats
  vestal stats web --json";

/// Show CPU, memory and other usage of sandboxes [default: all that run].
#[derive(Debug, Args)]
#[command(after_help = STATS_HELP)]
pub(crate) struct StatsArgs {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tasks: TaskSelection,
}

pub(crate) async fn stats(context: &Context, args: StatsArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let named = args.tasks.named(&engine)?;
    let (tasks, exit) = if named.is_empty() {
        running(context, &engine).await?
    } else {
        (named.clone(), Exit::Success)
    };
    let mut found: Vec<(TaskName, SandboxStats)> = Vec::new();
    for task in tasks {
        match engine.observe(&task).await {
            Ok(connection) => found.push((task, connection.stats(STATS_WITHIN).await?)),
            // It has ended since it was listed, or does not answer any more.
            Err(Error::Stopped { .. } | Error::Unresponsive { .. }) if named.is_empty() => {}
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
        context.console.note("no sandboxes are running");
    } else {
        context.console.print_table(&table)?;
    }
    Ok(exit)
}

/// Returns the tasks whose sandboxes run, and reports those that have not
/// answered.
async fn running(
    context: &Context,
    engine: &Engine,
) -> Result<(Vec<TaskName>, Exit), CommandFailure> {
    let summaries = engine.list().await?;
    let exit = warn_of_silent(context, &summaries, "what it consumes");
    let running = summaries
        .into_iter()
        .filter(|summary| summary.state == SummaryState::Running && !summary.owned);
    Ok((running.filter_map(|summary| summary.task.parse().ok()).collect(), exit))
}

/// Returns CPU time in seconds.
pub(super) fn cpu(millis: u64) -> String {
    format!("{}.{:02}s", millis / 1000, millis % 1000 / 10)
}
