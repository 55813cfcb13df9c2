//! `vestal kanban gc`.

use std::time::Duration;

use clap::Args;
use vestal_board::settings;
use vestal_dispatcher::GcPolicy;

use super::desk::Desk;
use super::dispatch;
use crate::console::text;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A dispatcher does this by itself from time to time. Tasks, their comments and the last events and
runs of each stay; a worktree with changes that are not committed stays, and is named.

Examples:
  vestal kanban gc
  vestal kanban gc --event-retention-days 7 --dry-run";

const DAY: Duration = Duration::from_hours(24);

/// Removes what nobody can want any more: old events, runs and logs, files and worktrees of no task.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct GcArgs {
    /// Days that events and runs are kept, in place of `kanban.event_retention_days`.
    #[arg(long, value_name = "DAYS")]
    event_retention_days: Option<u32>,

    /// Days that logs are kept, in place of `kanban.log_retention_days`.
    #[arg(long, value_name = "DAYS")]
    log_retention_days: Option<u32>,

    /// Only says what would go.
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

/// Days that the worktree of a finished task is kept.
const TREES: u32 = 7;

/// Returns what is kept, as the settings say.
pub(super) fn policy(desk: &Desk<'_>) -> Result<GcPolicy, Failure> {
    Ok(GcPolicy {
        retention: settings::retention(desk.settings())?,
        logs: settings::log_retention(desk.settings())?,
        trees: DAY * TREES,
        environment: desk.context.environment().clone(),
        dry_run: false,
    })
}

pub(super) async fn run(desk: &Desk<'_>, args: &GcArgs) -> Result<Exit, Failure> {
    let mut policy = GcPolicy { dry_run: args.dry_run, ..policy(desk)? };
    if let Some(days) = args.event_retention_days {
        policy.retention.events = DAY * days;
    }
    if let Some(days) = args.log_retention_days {
        policy.logs = Some(DAY * days);
    }
    let collected = match desk.board_if_any().await? {
        Some(board) => {
            let launcher = dispatch::launcher(desk)?;
            vestal_dispatcher::gc(&board, &policy, Some(&launcher)).await?
        }
        None => vestal_dispatcher::Collected::default(),
    };
    if args.json {
        desk.print(&collected)?;
        return Ok(Exit::Success);
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    desk.console().print(&format!("{verb} {collected}"))?;
    for tree in &collected.kept {
        let path = tree.path.display();
        let text = format!("kept {path} of {}: {}", tree.task_id, text::printable(&tree.reason));
        desk.console().note(&text);
    }
    Ok(Exit::Success)
}
