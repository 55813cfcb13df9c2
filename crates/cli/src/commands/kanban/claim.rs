//! `vestal kanban claim`.

use std::time::Duration;

use clap::Args;
use vestal_api::TaskRunView;
use vestal_board::verbs::Claim;
use vestal_board::{Role, Status};

use super::desk::Desk;
use super::look;
use super::values::parse_assignee;
use crate::error::Failure;
use crate::exit::Exit;
use crate::values::parse_duration;

/// How long a person holds a task unless they say otherwise.
const LEASE: &str = "15m";

const AFTER_HELP: &str = "\
No worker is started for a task that you hold. The hold ends with `vestal kanban complete` or
`block`, or when its time is over: `vestal kanban heartbeat` renews it.

Examples:
  vestal kanban claim t_4x7k
  vestal kanban claim t_4x7k --ttl 8h";

/// Takes a ready task to work on it yourself.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ClaimArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// How long it is yours unless you renew it.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = LEASE)]
    ttl: Duration,

    /// In the name of a profile.
    #[arg(long = "as", value_name = "PROFILE")]
    worker: Option<String>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ClaimArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let profile = match &args.worker {
        Some(name) => parse_assignee(name)?,
        None => None,
    };
    // Whoever takes work that was submitted takes it to look at it.
    let role = match board.get(&id).await?.status {
        Status::Review => Role::Review,
        _ => Role::Work,
    };
    let claim = Claim { lease: args.ttl, profile, role, host: None };
    let run = board.claim(&desk.by(), &id, claim).await?;
    if args.json {
        desk.print(&TaskRunView::from(&run))?;
        return Ok(Exit::Success);
    }
    desk.console().print(&format!("claimed {id}  (run {})", run.id))?;
    desk.console().note(&format!("it is yours until {}", look::moment(run.expires_at)));
    desk.console().note(&format!(
        "when it is done: vestal kanban complete {id} --summary …; to keep it longer: vestal kanban heartbeat {id}"
    ));
    Ok(Exit::Success)
}
