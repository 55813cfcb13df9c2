//! `vestal kanban assignees`.

use clap::Args;
use vestal_api::AssigneeView;
use vestal_board::Status;

use super::desk::Desk;
use super::stats;
use crate::console::{Cell, GREEN, Table, YELLOW};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Tasks of a profile that does not exist wait until somebody claims them by hand.

Example:
  vestal kanban assignees";

/// Lists who tasks can go to, and how many they have.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AssigneesArgs {
    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &AssigneesArgs) -> Result<Exit, Failure> {
    let mut by_assignee = stats::of(desk).await?.by_assignee;
    let mut views: Vec<AssigneeView> = Vec::new();
    for profile in desk.profiles()? {
        let counts = by_assignee.remove(profile.as_str()).unwrap_or_default();
        views.push(AssigneeView { name: profile.to_string(), exists: true, counts });
    }
    let strangers = by_assignee.into_iter();
    views.extend(strangers.map(|(name, counts)| AssigneeView { name, exists: false, counts }));
    if args.json {
        desk.print(&views)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["PROFILE", "EXISTS", "READY", "RUNNING", "BLOCKED", "ALL"]);
    for view in &views {
        let count = |status| view.counts.get(&status).copied().unwrap_or_default().to_string();
        let exists =
            if view.exists { Cell::styled("yes", GREEN) } else { Cell::styled("no", YELLOW) };
        table.row(vec![
            view.name.as_str().into(),
            exists,
            count(Status::Ready).into(),
            count(Status::Running).into(),
            count(Status::Blocked).into(),
            view.counts.values().sum::<u64>().to_string().into(),
        ]);
    }
    desk.console().print_table(&table)?;
    Ok(Exit::Success)
}
