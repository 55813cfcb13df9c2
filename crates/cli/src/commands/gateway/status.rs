//! `vestal gateway status` and `list`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{GatewayStatusView, GatewayView, ManagerView};
use vestal_config::ProfileName;
use vestal_gateway::StatusAnswer;
use vestal_supervisor::{
    ControlError, PartState, Request, SlotSource as _, SlotState, SlotStatus, ask, list_offline,
};

use super::Which;
use super::lifecycle::no_answer;
use super::slots::ProfileSlots;
use crate::console::{Cell, DIM, GREEN, RED, Table, YELLOW, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// A supervisor answers at once; one that takes longer is stuck or boots.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const STATUS_HELP: &str = "\
The exit code is 0 if the gateway runs and is ready, otherwise 1; with --all, if all of them are.
Nothing is started or changed.

Examples:
  vestal gateway status
  vestal gateway status --all --json | jq -r '.gateways[].state'";

/// Show who keeps gateways, and how they are.
#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    which: Which,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn status(context: &Context, args: &StatusArgs) -> Result<Exit, Failure> {
    let view = find(context, args.which.slots(context)?).await?;
    let all_run = view.gateways.iter().all(|gateway| gateway.state == SlotState::Running);
    let exit = if all_run { Exit::Success } else { Exit::No };
    if args.json {
        context.console.print_json(&view)?;
        return Ok(exit);
    }
    context.console.print(&format!("Manager: {}", view.manager.line()))?;
    for gateway in &view.gateways {
        show(context, gateway)?;
    }
    Ok(exit)
}

fn show(context: &Context, gateway: &GatewayView) -> Result<(), Failure> {
    let console = context.console;
    console.print("")?;
    let line = |label: &str, value: &str| {
        let label = console.paint(DIM, &format!("{label:<10}"));
        console.print(&format!("{label} {}", text::printable(value)))
    };
    line("gateway", &gateway.profile)?;
    line("state", gateway.state_word())?;
    if let Some(pid) = gateway.pid {
        line("pid", &pid.to_string())?;
    }
    if let Some(seconds) = gateway.up_seconds {
        line("uptime", &text::span(Duration::from_secs(seconds)))?;
    }
    line("restarts", &gateway.restarts.to_string())?;
    if let Some(exit) = &gateway.last_exit {
        line("last exit", &format!("{} at {}", exit.how, exit.at))?;
    }
    for part in &gateway.listeners {
        let more = part.error.as_ref().or(part.address.as_ref());
        let more = more.map(|more| format!(" ({more})")).unwrap_or_default();
        line("listener", &format!("{} {}{more}", part.name, part.state))?;
    }
    if let Some(at) = &gateway.next_start_at {
        line("next start", at)?;
    }
    if let Some(reason) = &gateway.reason {
        line("reason", reason)?;
    }
    line("log", &gateway.log)?;
    if let Some(advice) = gateway.advice() {
        console.note(&advice);
    }
    Ok(())
}

const LIST_HELP: &str = "\
Examples:
  vestal gateway list
  vestal gateway list --json";

/// List the gateways of all profiles.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn list(context: &Context, args: &ListArgs) -> Result<Exit, Failure> {
    let gateways = find(context, None).await?.gateways;
    if args.json {
        context.console.print_json(&gateways)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["PROFILE", "STATE", "PID", "UPTIME", "RESTARTS", "LAST EXIT"]);
    for gateway in &gateways {
        let style = match gateway.state {
            SlotState::Running => GREEN,
            SlotState::Failed => RED,
            SlotState::Stopped => DIM,
            SlotState::Starting | SlotState::Backoff | SlotState::Stopping => YELLOW,
        };
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let up = gateway.up_seconds.map(|seconds| text::span(Duration::from_secs(seconds)));
        table.row(vec![
            gateway.profile.as_str().into(),
            Cell::styled(gateway.state_word(), style),
            or_none(gateway.pid.map(|pid| pid.to_string())).into(),
            or_none(up).into(),
            gateway.restarts.to_string().into(),
            or_none(gateway.last_exit.as_ref().map(|exit| exit.how.clone())).into(),
        ]);
        if let Some(reason) = &gateway.reason {
            table.note(reason, DIM, 2);
        }
    }
    context.console.print_table(&table)?;
    Ok(Exit::Success)
}

/// Shows a gateway that somebody runs in a terminal, of which no supervisor knows.
async fn show_unsupervised(slots: &ProfileSlots, status: &mut SlotStatus) {
    let Ok(profile) = ProfileName::new(&status.name) else { return };
    let home = slots.root().sibling(profile).dir();
    let Ok(StatusAnswer::Answers(state)) = vestal_gateway::ask_status(&home).await else { return };
    status.state = SlotState::Running;
    status.pid = Some(state.pid);
    status.started_at = Some(state.started_at.to_string());
    status.ready_at.clone_from(&status.started_at);
    status.next_start_at = None;
    status.reason = Some("it runs in a terminal, and no supervisor keeps it".to_owned());
    status.actual = Some(state.gateway_state.word().to_owned());
    status.parts = state
        .platforms
        .into_iter()
        .map(|(name, part)| {
            let state = part.state.word().to_owned();
            let (address, error_message) = (part.address, part.error_message);
            (name, PartState { state, address, error_message })
        })
        .collect();
}

/// Asks the supervisor; without one the files tell.
pub(in crate::commands) async fn find(
    context: &Context,
    which: Option<Vec<String>>,
) -> Result<GatewayStatusView, Failure> {
    let slots = ProfileSlots::new(context)?;
    let request = Request::List { slots: which.clone() };
    let (holder, mut statuses) = match ask(&slots.run_dir(), &request, ANSWER_WITHIN).await {
        Ok(answer) => (Some(answer.holder), answer.slots),
        Err(ControlError::NotRunning(_)) => {
            let logs = slots.root().logs_dir();
            (None, list_offline(&slots.run_dir(), &logs, slots.slots()))
        }
        Err(error) => return Err(no_answer(&error)),
    };
    if let Some(which) = which {
        statuses.retain(|status| which.contains(&status.name));
        // A profile that was made a moment ago may not be known to its supervisor yet.
        let known = |name: &String| statuses.iter().any(|status| status.name == *name);
        if !which.iter().all(known) {
            let logs = slots.root().logs_dir();
            statuses = list_offline(&slots.run_dir(), &logs, slots.slots());
            statuses.retain(|status| which.contains(&status.name));
        }
    }
    for status in &mut statuses {
        if matches!(status.state, SlotState::Stopped | SlotState::Failed | SlotState::Backoff) {
            show_unsupervised(&slots, status).await;
        }
    }
    let now = Timestamp::now();
    let gateways = statuses.into_iter().map(|status| GatewayView::new(status, now)).collect();
    Ok(GatewayStatusView { manager: ManagerView::new(holder.as_ref()), gateways })
}
