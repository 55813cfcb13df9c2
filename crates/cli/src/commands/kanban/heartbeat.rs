//! `vestal kanban heartbeat`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use vestal_board::verbs::Heartbeat;
use vestal_board::{Fence, Refusal, Time};

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

#[derive(Debug, Serialize)]
struct BeatView {
    task_id: String,
    run_id: i64,
    expires_at: Time,
}

pub(super) async fn run(desk: &Desk<'_>, args: HeartbeatArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let task = board.get(&id).await?;
    let verb = "renew the hold on";
    let Some(number) = task.current_run else {
        let error = Refusal::Status { verb, task: id, status: task.status };
        return Err(vestal_board::Error::from(error).into());
    };
    let run = board.read().await?.run(number).await?;
    if let Some(run) = run.filter(|run| run.host.is_some()) {
        // A worker that hangs must not be kept alive by somebody else's hand.
        let error = Refusal::Held { verb, task: id, run: number, owner: run.owner };
        return Err(vestal_board::Error::from(error).into());
    }
    let profile = match task.running_as {
        Some(profile) => profile,
        None => desk.context.home()?.profile().clone(),
    };
    let fence = Fence { task: id.clone(), run: number, profile };
    let beat = Heartbeat { lease: args.ttl, activity: true, note: args.note };
    let expires_at = board.heartbeat(&fence, beat).await?;
    if args.json {
        let view = BeatView { task_id: id.to_string(), run_id: number.get(), expires_at };
        desk.print(&view)?;
    } else {
        desk.console().print(&format!("{id} is yours until {}", look::moment(expires_at)))?;
    }
    Ok(Exit::Success)
}
