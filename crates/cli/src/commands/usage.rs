//! `vestal usage`: what was spent on models.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use vestal_api::{UsageGrouping, UsageKey, UsageReport, UsageReportView, UsageView};
use vestal_config::Home;
use vestal_conversations::{ConversationStore, LedgerFilter, LedgerGroup, Totals};

use crate::console::{BOLD, Cell, DIM, Table, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::{PointInTime, parse_point_in_time};

const AFTER_HELP: &str = "\
The figures come from a ledger that only grows: deleting or undoing a conversation takes nothing from
them. Costs are those that providers report, or follow from `model.prices`; a + after a cost means
that the cost of some calls is unknown. The exit code is 1 if the ledger of a profile cannot be read.

Examples:
  vestal usage
  vestal usage --by task --since 7d --all
  vestal usage --by model --since 2026-11-01 --json | jq .total.cost_usd";

/// Show what was spent on models: calls, tokens and cost.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UsageArgs {
    /// What to sum up by.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "day")]
    by: GroupBy,

    /// Only calls from then on: an age or a time, or `all`.
    #[arg(long, value_name = "AGE|TIME", default_value = "30d", value_parser = parse_since)]
    since: Since,

    /// Only calls before then: an age or a time.
    #[arg(long, value_name = "AGE|TIME", value_parser = parse_point_in_time)]
    until: Option<PointInTime>,

    /// Sum up all profiles.
    #[arg(short, long)]
    all: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GroupBy {
    Day,
    Model,
    /// For all profiles.
    Profile,
    Source,
    Task,
    Attempt,
    Conversation,
}

impl From<GroupBy> for UsageGrouping {
    fn from(by: GroupBy) -> Self {
        match by {
            GroupBy::Day => Self::Day,
            GroupBy::Model => Self::Model,
            GroupBy::Profile => Self::Profile,
            GroupBy::Source => Self::Source,
            GroupBy::Task => Self::Task,
            GroupBy::Attempt => Self::Attempt,
            GroupBy::Conversation => Self::Conversation,
        }
    }
}

/// From when on calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Always,
    Point(PointInTime),
}

fn parse_since(words: &str) -> Result<Since, String> {
    if words == "all" {
        return Ok(Since::Always);
    }
    parse_point_in_time(words).map(Since::Point)
}

pub(crate) async fn run(context: &Context, args: &UsageArgs) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let since = match args.since {
        Since::Always => None,
        Since::Point(point) => Some(point.time(now)),
    };
    let until = args.until.map(|point| point.time(now));
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        return Err(CommandFailure::usage("--until must be later than --since"));
    }
    let by = UsageGrouping::from(args.by);
    let mut report = UsageReport::new(by, TimeZone::system(), since, until);
    let filter = LedgerFilter { since, until, work: None };
    for (name, home) in homes(context, args)? {
        match sums(&home, &filter, by).await {
            Ok(sums) => report.add(&name, sums),
            // One broken profile does not hide what the others spent.
            Err(error) => report.unread(&name, error),
        }
    }
    let report = report.finish();
    let exit = if report.unread.is_empty() { Exit::Success } else { Exit::No };
    if args.json {
        context.console.print_json(&report)?;
        return Ok(exit);
    }
    show(context, &report)?;
    Ok(exit)
}

fn homes(context: &Context, args: &UsageArgs) -> Result<Vec<(String, Home)>, CommandFailure> {
    if !args.all && args.by != GroupBy::Profile {
        let home = context.home()?;
        return Ok(vec![(home.profile().to_string(), home.clone())]);
    }
    let root = context.profiles()?.root().clone();
    let homes = root.profiles().into_iter();
    Ok(homes.map(|name| (name.to_string(), root.sibling(name))).collect())
}

async fn sums(
    home: &Home,
    filter: &LedgerFilter,
    by: UsageGrouping,
) -> vestal_conversations::Result<Vec<(LedgerGroup, Totals)>> {
    // Nothing is made in the home of a profile that has had no conversation.
    match ConversationStore::open_existing(home.dir().join("state.db")).await? {
        Some(store) => store.ledger(filter, by.of_ledger()).await,
        None => Ok(Vec::new()),
    }
}

fn show(context: &Context, report: &UsageReportView) -> Result<(), CommandFailure> {
    let console = context.console;
    for unread in &report.unread {
        console.warn(&format!("profile {}: {}", unread.profile, unread.error));
    }
    if report.lines.is_empty() {
        console.note("nothing was spent in this time; --since all looks at everything");
        return Ok(());
    }
    let mut table = Table::new(&[heading(report.by), "CALLS", "INPUT", "OUTPUT", "CACHED", "COST"]);
    for line in &report.lines {
        table.row(row(Cell::from(label(&line.key)), &line.usage));
    }
    if report.lines.len() > 1 {
        table.row(row(Cell::styled("total", BOLD), &report.total));
    }
    console.print_table(&table)?;
    Ok(())
}

const fn heading(by: UsageGrouping) -> &'static str {
    match by {
        UsageGrouping::Day => "DAY",
        UsageGrouping::Model => "MODEL",
        UsageGrouping::Profile => "PROFILE",
        UsageGrouping::Source => "SOURCE",
        UsageGrouping::Task => "TASK",
        UsageGrouping::Attempt => "ATTEMPT",
        UsageGrouping::Conversation => "CONVERSATION",
    }
}

fn row(label: Cell, usage: &UsageView) -> Vec<Cell> {
    let cost = match (usage.calls, usage.unpriced_calls) {
        (calls, unpriced) if unpriced >= calls => Cell::styled("?", DIM),
        (_, 0) => format!("${:.4}", usage.cost_usd).into(),
        _ => format!("${:.4}+", usage.cost_usd).into(),
    };
    vec![
        label,
        text::grouped(usage.calls).into(),
        text::grouped(usage.input_tokens).into(),
        text::grouped(usage.output_tokens).into(),
        text::grouped(usage.cache_read_tokens).into(),
        cost,
    ]
}

/// Returns what a line is about.
fn label(key: &UsageKey) -> String {
    let UsageKey {
        day,
        profile,
        provider,
        model,
        source,
        work,
        board,
        task,
        attempt,
        conversation,
    } = key;
    match (day, provider.as_ref().zip(model.as_ref()), conversation, task, source, profile) {
        (Some(day), ..) => day.clone(),
        (_, Some((provider, model)), ..) => format!("{provider}:{model}"),
        (_, _, Some(conversation), ..) => conversation.clone(),
        (_, _, _, Some(task), ..) => {
            let of = board.as_ref().or(work.as_ref()).map_or("", String::as_str);
            let attempt = attempt.as_ref().map(|attempt| format!(" #{attempt}"));
            format!("{of}/{task}{}", attempt.unwrap_or_default())
        }
        (_, _, _, _, Some(source), _) => source.clone(),
        (_, _, _, _, _, Some(profile)) => profile.clone(),
        _ => "(no task)".to_owned(),
    }
}
