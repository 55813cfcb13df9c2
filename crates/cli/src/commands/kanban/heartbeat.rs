//! `vestal kanban heartbeat`.

use std::time::Duration;

use clap::Args;
use vestal_api::HeartbeatView;
use vestal_board::verbs::Heartbeat;

use super::desk::Desk;
use super::look;
use crate::error::Failure;
use crate::exit::Exit;
use crate::values::parse_duration;

const AFTER_HELP: &str = "\
Workers renew their hold by themselves; this is for tasks that a person claimed.

Example:
  vestal kanban heartbeat t_4x7k --note 'half of it is done'";

/// Renews the hold on a task that was claimed by hand.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct HeartbeatArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// How far the work is.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// How long it is yours from now on unless you renew it.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "15m")]
    ttl: Duration,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: HeartbeatArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let beat = Heartbeat { lease: args.ttl, activity: true, note: args.note };
    let (run, expires_at) = board.renew(&desk.by(), &id, beat).await?;
    if args.json {
        desk.print(&HeartbeatView::new(&id, run, expires_at))?;
    } else {
        desk.console().print(&format!("{id} is yours until {}", look::moment(expires_at)))?;
    }
    Ok(Exit::Success)
}
