//! `vestal operations`.

use std::time::Duration;

use anstyle::Style;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use vestal_api::{OperationPhase, OperationView};
use vestal_config::Home;
use vestal_operations::{Operation, OperationStore};

use crate::console::{Cell, DIM, GREEN, RED, Table, YELLOW, json, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};
use crate::follow::unless_terminated;

/// How often a record is looked at while it is followed: it is written as often.
const LOOK_EVERY: Duration = Duration::from_millis(250);

const OPERATIONS_HELP: &str = "\
Snapshots, forks, restores, rebuilds and removals are on record while a process is at them, whichever
it is, and for a week after. ID is an id, or its beginning or end.

Examples:
  vestal operations
  vestal operations --running --json
  vestal operations watch";

/// List long actions on sandboxes, and follow one.
#[derive(Debug, Args)]
#[command(after_help = OPERATIONS_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct OperationsArgs {
    #[command(flatten)]
    list: ListArgs,

    #[command(subcommand)]
    verb: Option<OperationsVerb>,
}

#[derive(Debug, Subcommand)]
enum OperationsVerb {
    /// List long actions, the newest first.
    #[command(after_help = "Example:\n  vestal operations list --running")]
    List(ListArgs),
    /// Show one: how far it is, or what came of it.
    #[command(after_help = "Example:\n  vestal operations show 7f3a9c21")]
    Show(ShowArgs),
    Watch(WatchArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// List those of all profiles.
    #[arg(short, long)]
    all: bool,

    /// Only those that a process is at.
    #[arg(long)]
    running: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// Which one.
    #[arg(value_name = "ID")]
    id: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

const WATCH_HELP: &str = "\
Ctrl-C ends the watching, not the action. The exit code is 0 if it was done, and 1 if it failed, was
given up or was interrupted.

Example:
  vestal operations watch 7f3a9c21";

/// Follow an action until it ends.
#[derive(Debug, Args)]
#[command(after_help = WATCH_HELP)]
struct WatchArgs {
    /// Which one [default: the one that is under way].
    #[arg(value_name = "ID")]
    id: Option<String>,

    /// Print a JSON object for each step, one per line, and at the end.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: OperationsArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        None => list(context, &args.list),
        Some(OperationsVerb::List(args)) => list(context, &args),
        Some(OperationsVerb::Show(args)) => show(context, &args),
        Some(OperationsVerb::Watch(args)) => watch(context, args).await,
    }
}

fn list(context: &Context, args: &ListArgs) -> Result<Exit, CommandFailure> {
    let home = context.home()?;
    let homes: Vec<Home> = if args.all {
        home.profiles().into_iter().map(|profile| home.sibling(profile)).collect()
    } else {
        vec![home]
    };
    let mut views = Vec::new();
    for home in homes {
        let store = OperationStore::of(&home);
        let found = if args.running { store.running()? } else { store.list()? };
        views.extend(found.iter().map(|one| OperationView::new(home.profile().as_str(), one)));
    }
    views.sort_by(|a, b| b.id.cmp(&a.id));
    if args.json {
        context.console.print_json(&views)?;
        return Ok(Exit::Success);
    }
    if views.is_empty() {
        context.console.note(if args.running {
            "nothing is under way"
        } else {
            "no long actions within the last week"
        });
        return Ok(Exit::Success);
    }
    let mut heading = vec!["ID", "TASK", "ACTION", "STATE", "STARTED", "BY"];
    if args.all {
        heading.insert(1, "PROFILE");
    }
    let mut table = Table::new(&heading);
    for view in &views {
        let mut row = row(view, Timestamp::now());
        if args.all {
            row.insert(1, view.profile.as_str().into());
        }
        table.row(row);
    }
    context.console.print_table(&table)?;
    Ok(Exit::Success)
}

fn row(view: &OperationView, now: Timestamp) -> Vec<Cell> {
    let started = view.started_at.parse().map_or_else(|_| "-".to_owned(), |at| text::ago(at, now));
    vec![
        view.id.as_str().into(),
        view.task.as_str().into(),
        view.what.as_str().into(),
        Cell::styled(state(view), style(view.state)),
        started.into(),
        view.by.as_str().into(),
    ]
}

/// Returns where it is, with how far that is.
fn state(view: &OperationView) -> String {
    match view.percent() {
        Some(percent) if view.state == OperationPhase::Running => format!("running, {percent} %"),
        // Nothing was begun, because jobs ran.
        _ if view.state == OperationPhase::Busy => "refused".to_owned(),
        _ => view.state.as_str().replace('_', " "),
    }
}

fn style(state: OperationPhase) -> Style {
    match state {
        OperationPhase::Running => GREEN,
        OperationPhase::Done => DIM,
        OperationPhase::Busy | OperationPhase::GivenUp => YELLOW,
        OperationPhase::Failed | OperationPhase::Interrupted => RED,
    }
}

fn show(context: &Context, args: &ShowArgs) -> Result<Exit, CommandFailure> {
    let home = context.home()?;
    let view = viewed(&home, &OperationStore::of(&home).find_part(&args.id)?);
    if args.json {
        context.console.print_json(&view)?;
        return Ok(Exit::Success);
    }
    let now = Timestamp::now();
    let ago = |at: &str| at.parse().map_or_else(|_| at.to_owned(), |at| text::ago(at, now));
    let mut table = Table::new(&["WHAT", "VALUE"]);
    let mut row = |name: &str, value: Cell| table.row(vec![name.into(), value]);
    row("id", view.id.as_str().into());
    row("task", view.task.as_str().into());
    row("action", view.what.as_str().into());
    row("by", view.by.as_str().into());
    row("state", Cell::styled(state(&view), style(view.state)));
    row("started", ago(&view.started_at).into());
    if let Some(ended) = &view.ended_at {
        row("ended", ago(ended).into());
    }
    row("step", view.step.as_str().into());
    if let Some(result) = &view.result {
        row("result", result.as_str().into());
    }
    for remark in &view.remarks {
        row("to know", remark.as_str().into());
    }
    context.console.print_table(&table)?;
    Ok(Exit::Success)
}

fn viewed(home: &Home, operation: &Operation) -> OperationView {
    OperationView::new(home.profile().as_str(), operation)
}

async fn watch(context: &Context, args: WatchArgs) -> Result<Exit, CommandFailure> {
    let home = context.home()?;
    let store = OperationStore::of(&home);
    let first = match &args.id {
        Some(part) => store.find_part(part)?,
        None => only_running(&store)?,
    };
    let mut signals = exit::listen_or_fail()?;
    let mut shown: Option<OperationView> = None;
    let mut view = viewed(&home, &first);
    let following = async {
        loop {
            if shown.as_ref() != Some(&view) {
                report(context, &view, shown.as_ref(), args.json)?;
                shown = Some(view.clone());
            }
            if view.state != OperationPhase::Running {
                return Ok::<_, CommandFailure>(view.state);
            }
            tokio::time::sleep(LOOK_EVERY).await;
            view = viewed(&home, &store.find(&first.id)?);
        }
    };
    let what = format!("{}: {}", first.task, first.what);
    match unless_terminated(&mut signals, context.console.while_waiting(&what, following)).await {
        Ok(state) => Ok(if state? == OperationPhase::Done { Exit::Success } else { Exit::No }),
        Err(signal) => Ok(Exit::Terminated(signal)),
    }
}

/// Returns the one action that is under way.
fn only_running(store: &OperationStore) -> Result<Operation, CommandFailure> {
    let mut running = store.running()?;
    match (running.pop(), running.len()) {
        (Some(only), 0) => Ok(only),
        (Some(_), more) => {
            Err(CommandFailure::usage(format!("{} actions are under way; name one", more + 1))
                .advise("vestal operations --running lists them"))
        }
        (None, _) => Err(CommandFailure::new("no action is under way")
            .with_exit(Exit::No)
            .advise("vestal operations lists those that have ended")),
    }
}

/// Prints a step as it begins, and the end.
fn report(
    context: &Context,
    view: &OperationView,
    before: Option<&OperationView>,
    json: bool,
) -> Result<(), CommandFailure> {
    if json {
        return context.console.write(&json::line(view)?);
    }
    if let Some(result) = &view.result {
        context.console.print(&text::printable(result))?;
        for remark in &view.remarks {
            context.console.note(remark);
        }
        return Ok(());
    }
    if before.is_none_or(|before| before.step != view.step) {
        let percent = view.percent().map(|percent| format!(" ({percent} %)")).unwrap_or_default();
        context.console.print(&format!("{}{percent}", text::printable(&view.step)))?;
    }
    Ok(())
}

/// Says which actions are under way, beside a list of sandboxes. One that cannot be read is left out:
/// the list is what was asked for.
pub(super) fn note_running(context: &Context, home: &Home, of: Option<&str>) {
    let running = match OperationStore::of(home).running() {
        Ok(running) => running,
        Err(error) => return tracing::warn!(%error, "actions under way are not known"),
    };
    for one in running.iter().filter(|one| of.is_none_or(|task| task == one.task)) {
        let view = viewed(home, one);
        let (task, step) = (text::printable(&view.task), text::printable(&view.step));
        context.console.note(&format!(
            "{task}: {} ({step}); to follow it: vestal operations watch {}",
            view.what, view.id
        ));
    }
}
