//! `vestal cron list`, `show`, `runs` and `status`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{
    ScheduleRunView, ScheduleStatusView, ScheduleView, SchedulesRunner, dollars, is_overdue,
};
use vestal_schedules::{
    Delivered, Schedule, ScheduleRun, ScheduleRunStatus, ScheduleState, ScheduleStore,
    ScheduleTiming, Trigger,
};

use super::{find, local, runner, timing};
use crate::console::{Cell, DIM, GREEN, RED, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Records that are looked at for what went wrong lately.
const LOOKED_AT: u32 = 500;

/// Entries of trouble that are shown.
const TROUBLE: usize = 10;

const LIST_HELP: &str = "\
Examples:
  vestal cron list
  vestal cron list --json | jq -r '.[] | select(.last_status == \"failed\") | .id'";

/// List schedules, what is due next first.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn list(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: &ListArgs,
) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let (schedules, unreadable) = all(store).await?;
    for error in &unreadable {
        context.console.warn(error);
    }
    let exit = if unreadable.is_empty() { Exit::Success } else { Exit::No };
    if args.json {
        let view = |schedule| ScheduleView::new(schedule, now);
        context.console.print_json(&schedules.iter().map(view).collect::<Vec<_>>())?;
        return Ok(exit);
    }
    if schedules.is_empty() {
        if unreadable.is_empty() {
            context.console.note("no schedules; `vestal cron create --help` says how to make one");
        }
        return Ok(exit);
    }
    // Only what is overdue asks whether somebody runs it.
    let is_late = schedules.iter().any(|schedule| is_overdue(schedule, now));
    let runner = if is_late { Some(runner(context).await?) } else { None };
    let mut table = Table::new(&["ID", "NAME", "SCHEDULE", "NEXT", "LAST", "RUNS"]);
    for schedule in &schedules {
        let next = match (schedule.state, schedule.next_at) {
            (ScheduleState::Active, Some(next)) if is_overdue(schedule, now) => {
                Cell::styled(overdue(next, now, runner.as_ref()), YELLOW)
            }
            (ScheduleState::Active, Some(next)) => Cell::from(text::ago(next, now)),
            (state, _) => Cell::styled(state.word(), DIM),
        };
        let last = match schedule.last_status {
            Some(status) => Cell::styled(status.word(), style(status)),
            None => Cell::styled("never", DIM),
        };
        table.row(vec![
            schedule.id.as_str().into(),
            schedule.name.as_str().into(),
            timing(schedule).into(),
            next,
            last,
            schedule.runs.to_string().into(),
        ]);
    }
    context.console.print_table(&table)?;
    if let Some(reason) = runner.and_then(|runner| runner.reason) {
        context.console.warn(&format!("nothing runs schedules now: {reason}"));
    }
    Ok(exit)
}

/// Describes a moment that has passed and that nobody has taken.
fn overdue(next: Timestamp, now: Timestamp, runner: Option<&SchedulesRunner>) -> String {
    match runner {
        Some(runner) if runner.is_running => "due now".to_owned(),
        _ => format!("overdue, {}", text::ago(next, now)),
    }
}

/// Returns all schedules, and why some cannot be read.
async fn all(
    store: Option<&ScheduleStore>,
) -> Result<(Vec<Schedule>, Vec<String>), CommandFailure> {
    let (mut schedules, mut unreadable) = (Vec::new(), Vec::new());
    if let Some(store) = store {
        for schedule in store.list().await? {
            match schedule {
                Ok(schedule) => schedules.push(schedule),
                Err(error) => unreadable.push(error.to_string()),
            }
        }
    }
    Ok((schedules, unreadable))
}

fn style(status: ScheduleRunStatus) -> anstyle::Style {
    match status {
        ScheduleRunStatus::Succeeded => GREEN,
        ScheduleRunStatus::Failed | ScheduleRunStatus::TimedOut | ScheduleRunStatus::Lost => RED,
        ScheduleRunStatus::Interrupted | ScheduleRunStatus::Missed | ScheduleRunStatus::Skipped => {
            YELLOW
        }
        ScheduleRunStatus::Requested | ScheduleRunStatus::Waiting | ScheduleRunStatus::Running => {
            DIM
        }
    }
}

const SHOW_HELP: &str = "\
Example:
  vestal cron show c_4x7k";

/// Show everything about a schedule.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    /// Schedule id, a unique beginning of it, or its name.
    #[arg(value_name = "ID")]
    id: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn show(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: &ShowArgs,
) -> Result<Exit, CommandFailure> {
    let (store, id) = find(store, &args.id).await?;
    let schedule = store.get(&id).await?;
    let now = Timestamp::now();
    let console = context.console;
    if args.json {
        console.print_json(&ScheduleView::new(&schedule, now))?;
        return Ok(Exit::Success);
    }
    let line = |label: &str, value: &str| {
        let label = console.paint(DIM, &format!("{label:<9}"));
        console.print(&format!("{label} {}", text::printable(value)))
    };
    line("id", schedule.id.as_str())?;
    line("name", &schedule.name)?;
    line("state", schedule.state.word())?;
    let words = match schedule.timing {
        ScheduleTiming::Cron(_) => format!(" ({})", schedule.timing.in_words()),
        ScheduleTiming::Every { .. } | ScheduleTiming::At(_) | ScheduleTiming::Instant(_) => {
            String::new()
        }
    };
    line("schedule", &format!("{}{words}", timing(&schedule)))?;
    line("timezone", schedule.zone.name())?;
    if let Some(next) = schedule.next_at.filter(|_| is_overdue(&schedule, now)) {
        let runner = runner(context).await?;
        let mut late = overdue(next, now, Some(&runner));
        if let Some(reason) = &runner.reason {
            late = format!("{late}: {reason}");
        }
        line("due", &late)?;
    }
    for (label, at) in ["next", "", ""].iter().zip(schedule.upcoming(now, 3)) {
        line(label, &local(at))?;
    }
    line("missed", schedule.missed.word())?;
    line("task", &schedule.task)?;
    let optional = [
        ("workdir", schedule.workdir.clone()),
        ("model", schedule.model.clone()),
        ("toolsets", schedule.toolsets.as_ref().map(|names| names.join(", "))),
        ("skills", Some(schedule.skills.join(", ")).filter(|names| !names.is_empty())),
        ("script", schedule.script.clone()),
    ];
    for (label, value) in optional {
        if let Some(value) = value {
            line(label, &value)?;
        }
    }
    line("deliver", &schedule.delivery.to_string())?;
    line("created", &local(schedule.created_at))?;
    line("runs", &format!("{}, {} of them without success", schedule.runs, schedule.failures))?;
    if let Some(status) = schedule.last_status {
        let at = schedule.last_run_at.map(|at| format!(" ({})", local(at))).unwrap_or_default();
        line("last", &format!("{}{at}", status.word()))?;
    }
    console.print(&console.paint(DIM, "prompt"))?;
    console.print(&text::harmless(&schedule.prompt))?;
    Ok(Exit::Success)
}

const RUNS_HELP: &str = "\
Without ID, runs of all schedules. The last 50 runs of each are kept, and 64 KiB of the output of each;
all of it is in the conversation of the run (`vestal conversations show`).

Statuses: succeeded, failed, timed_out, interrupted (the gateway stopped), lost (its process died; it
is not repeated), skipped (the run before was in progress), missed (no gateway was running),
requested, waiting, running.

Examples:
  vestal cron runs c_4x7k
  vestal cron runs weekly -n 1 --output
  vestal cron runs --json | jq 'map(.cost_usd // 0) | add'";

/// List runs, the latest first.
#[derive(Debug, Args)]
#[command(after_help = RUNS_HELP)]
pub(super) struct RunsArgs {
    /// Schedule id, a unique beginning of it, or its name [default: all schedules].
    #[arg(value_name = "ID")]
    id: Option<String>,

    /// Show at most this many.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
    limit: u32,

    /// Print the output of each run below it.
    #[arg(long)]
    output: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn runs(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: &RunsArgs,
) -> Result<Exit, CommandFailure> {
    let id = match &args.id {
        Some(wanted) => Some(find(store, wanted).await?.1),
        None => None,
    };
    let runs = match store {
        Some(store) => store.runs(id.as_ref(), args.limit).await?,
        None => Vec::new(),
    };
    if args.json {
        let views: Vec<ScheduleRunView> = runs.iter().map(Into::into).collect();
        context.console.print_json(&views)?;
        return Ok(Exit::Success);
    }
    if runs.is_empty() {
        context.console.note("no runs yet");
        return Ok(Exit::Success);
    }
    if args.output {
        return print_outputs(context, &runs);
    }
    let mut table = Table::new(&[
        "RUN",
        "SCHEDULE",
        "WHEN",
        "WHY",
        "STATUS",
        "TOOK",
        "TOKENS",
        "COST",
        "CONVERSATION",
    ]);
    for run in &runs {
        table.row(row(run));
        if let Some(why) = failure_text(run) {
            table.note(&why, DIM, 2);
        }
    }
    context.console.print_table(&table)?;
    Ok(Exit::Success)
}

fn row(run: &ScheduleRun) -> Vec<Cell> {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let conversation = run.conversation.as_deref().and_then(|id| id.rsplit('-').next());
    vec![
        run.id.to_string().into(),
        run.schedule.as_str().into(),
        local(run.due_at.unwrap_or(run.claimed_at)).into(),
        run.trigger.word().replace('_', "-").into(),
        Cell::styled(run.status.word(), style(run.status)),
        or_none(took(run)).into(),
        or_none(run.tokens.map(|tokens| tokens.to_string())).into(),
        or_none(run.micro_usd.map(|cost| format!("${:.4}", dollars(cost)))).into(),
        or_none(conversation.map(str::to_owned)).into(),
    ]
}

fn took(run: &ScheduleRun) -> Option<String> {
    let (from, to) = run.started_at.zip(run.ended_at)?;
    Some(text::took(Duration::try_from(to.duration_since(from)).ok()?))
}

/// Returns what a person should know of a run besides its status.
fn failure_text(run: &ScheduleRun) -> Option<String> {
    let missed = (run.missed > 1).then(|| format!("{} moments were missed", run.missed));
    let delivery = (run.delivered == Delivered::Failed)
        .then(|| format!("not delivered: {}", run.delivery_error.as_deref().unwrap_or("unknown")));
    let words: Vec<String> = [run.error.clone(), missed, delivery].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn print_outputs(context: &Context, runs: &[ScheduleRun]) -> Result<Exit, CommandFailure> {
    let console = context.console;
    for (number, run) in runs.iter().enumerate() {
        if number > 0 {
            console.print("")?;
        }
        let at = local(run.due_at.unwrap_or(run.claimed_at));
        let by_hand = if run.trigger == Trigger::Manual { ", by hand" } else { "" };
        let head =
            format!("run {} of {}: {}, {at}{by_hand}", run.id, run.schedule, run.status.word());
        console.print(&console.paint(style(run.status), &head))?;
        if let Some(why) = failure_text(run) {
            console.print(&text::harmless(&why))?;
        }
        if !run.output.is_empty() {
            console.print(&text::harmless(&run.output))?;
        }
        if run.output_omitted > 0 {
            let rest = text::bytes(run.output_omitted);
            console.note(&format!(
                "{rest} more are in conversation {}",
                run.conversation.as_deref().unwrap_or("-")
            ));
        }
    }
    Ok(Exit::Success)
}

const STATUS_HELP: &str = "\
Shows what runs schedules, what is due next, what is in progress, and which schedules have trouble. The
exit code is 1 if there are active schedules and nothing runs them, or the last run of a schedule
failed, was lost or was missed.

Examples:
  vestal cron status
  vestal cron status --json | jq .runner";

/// Show what runs schedules, what is due next and what went wrong.
#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub(super) struct StatusArgs {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn status(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: &StatusArgs,
) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let (schedules, unreadable) = all(store).await?;
    let runs = match store {
        Some(store) => store.runs(None, LOOKED_AT).await?,
        None => Vec::new(),
    };
    let count = |state| schedules.iter().filter(|schedule| schedule.state == state).count();
    let next = schedules.iter().find(|schedule| schedule.next_at.is_some());
    let view = ScheduleStatusView {
        runner: runner(context).await?,
        active: count(ScheduleState::Active),
        paused: count(ScheduleState::Paused),
        next: next.map(|schedule| ScheduleView::new(schedule, now)),
        running: runs.iter().filter(|run| run.status.is_open()).map(Into::into).collect(),
        trouble: trouble(&runs).into_iter().map(Into::into).collect(),
        unreadable,
    };
    let is_well = view.trouble.is_empty()
        && view.unreadable.is_empty()
        && (view.active == 0 || view.runner.is_running);
    let exit = if is_well { Exit::Success } else { Exit::No };
    if args.json {
        context.console.print_json(&view)?;
        return Ok(exit);
    }
    print_status(context, &view, &schedules)?;
    Ok(exit)
}

/// Returns the last ended entry of each schedule where that is trouble.
fn trouble(runs: &[ScheduleRun]) -> Vec<&ScheduleRun> {
    let mut seen = BTreeSet::new();
    let ended = runs.iter().filter(|run| !run.status.is_open());
    let last = ended.filter(|run| seen.insert(run.schedule.clone()));
    let is_failure =
        |run: &&ScheduleRun| run.status.is_failure() || run.delivered == Delivered::Failed;
    last.filter(is_failure).take(TROUBLE).collect()
}

fn print_status(
    context: &Context,
    view: &ScheduleStatusView,
    schedules: &[Schedule],
) -> Result<(), CommandFailure> {
    let console = context.console;
    let line = |label: &str, value: &str| {
        let label = console.paint(DIM, &format!("{label:<9}"));
        console.print(&format!("{label} {}", text::printable(value)))
    };
    let names: BTreeMap<&str, &str> =
        schedules.iter().map(|schedule| (schedule.id.as_str(), schedule.name.as_str())).collect();
    let named = |id: &str| match names.get(id) {
        Some(name) => format!("{id} ({name})"),
        None => id.to_owned(),
    };
    let by = match view.runner.pid {
        Some(pid) if view.runner.is_running => format!("the gateway (pid {pid})"),
        _ => "nobody".to_owned(),
    };
    line("run by", &by)?;
    let paused = if view.paused > 0 { format!(", {} paused", view.paused) } else { String::new() };
    line("schedules", &format!("{} active{paused}", view.active))?;
    if let Some(next) = &view.next {
        let at: Option<Timestamp> = next.next_run_at.as_deref().and_then(|at| at.parse().ok());
        let at = at.unwrap_or_default();
        let when = if next.overdue {
            overdue(at, Timestamp::now(), Some(&view.runner))
        } else {
            format!("at {}", local(at))
        };
        line("next", &format!("{} {when}", named(&next.id)))?;
    }
    for run in &view.running {
        line(run.status.word(), &format!("{}, run {}", named(&run.schedule_id), run.id))?;
    }
    for run in &view.trouble {
        let why = run.error.as_ref().or(run.delivery_error.as_ref());
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        line(run.status.word(), &format!("{}, run {}{why}", named(&run.schedule_id), run.id))?;
    }
    for error in &view.unreadable {
        console.warn(error);
    }
    if let Some(reason) = &view.runner.reason {
        console.note(reason);
    }
    Ok(())
}
