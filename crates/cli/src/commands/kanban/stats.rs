//! `vestal kanban stats`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use vestal_board::verbs::Stats;
use vestal_board::{Status, Time};

use super::desk::Desk;
use super::look;
use crate::console::{Cell, DIM, Table, text};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  vestal kanban stats
  vestal kanban stats --json | jq .by_status.ready";

/// Counts tasks by status and profile.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct StatsArgs {
    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

/// Returns how a board stands; of one that nobody has made, that nothing is on it.
pub(super) async fn of(desk: &Desk<'_>) -> Result<Stats, Failure> {
    match desk.board_if_any().await? {
        Some(board) => Ok(board.stats().await?),
        None => Ok(Stats {
            by_status: BTreeMap::new(),
            by_assignee: BTreeMap::new(),
            oldest_ready_age_seconds: None,
            needs_attention: 0,
            now: Time::now(),
        }),
    }
}

pub(super) async fn run(desk: &Desk<'_>, args: &StatsArgs) -> Result<Exit, Failure> {
    let stats = of(desk).await?;
    if args.json {
        desk.print(&stats)?;
        return Ok(Exit::Success);
    }
    if stats.by_status.is_empty() {
        desk.console().note(&format!("there is no task on board {} yet", desk.slug()));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["", "STATUS", "TASKS", "PROFILES"]);
    for (status, count) in &stats.by_status {
        table.row(vec![
            Cell::styled(look::icon(*status), look::style(*status)),
            status.as_str().into(),
            count.to_string().into(),
            Cell::styled(profiles(&stats, *status), DIM),
        ]);
    }
    desk.console().print_table(&table)?;
    if let Some(seconds) = stats.oldest_ready_age_seconds {
        let age = text::span(Duration::from_secs(seconds));
        desk.console().note(&format!("the task that has waited longest for a worker: {age}"));
    }
    if stats.needs_attention > 0 {
        let need = if stats.needs_attention == 1 { "needs" } else { "need" };
        let count = text::count(stats.needs_attention, "task");
        desk.console().warn(&format!("{count} {need} you: vestal kanban list --attention"));
    }
    Ok(Exit::Success)
}

fn profiles(stats: &Stats, status: Status) -> String {
    let counts = stats.by_assignee.iter().filter_map(|(profile, counts)| {
        counts.get(&status).map(|count| format!("{profile} {count}"))
    });
    counts.collect::<Vec<_>>().join(", ")
}
