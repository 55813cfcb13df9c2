//! `vestal gateway status` and `list`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{DASHBOARD_SLOT, GatewayStatusView, GatewayView};
use vestal_config::ProfileName;
use vestal_gateway::StatusAnswer;
use vestal_supervisor::{
    ControlError, PartState, SlotSource as _, SlotState, SlotStatus, SlotStatuses,
    SupervisorAnswer, SupervisorRequest, ask, list_offline,
};

use super::ChosenGateways;
use super::lifecycle::no_answer;
use super::slots::HomeSlots;
use crate::console::{Cell, DIM, GREEN, RED, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// A supervisor answers at once; one that takes longer is stuck or boots.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const STATUS_HELP: &str = "\
The exit code is 0 if the gateway runs, is ready and serves all that it is set to, otherwise 1; with
--all, if all of them do. Nothing is started or changed.

Examples:
  vestal gateway status
  vestal gateway status --all --json | jq -r '.gateways[].state'";

/// Show who keeps gateways, and how they are.
#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    which: ChosenGateways,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn status(context: &Context, args: &StatusArgs) -> Result<Exit, CommandFailure> {
    let view = find(context, args.which.slots(context)?).await?;
    let dashboard = view.dashboard.iter().filter(|_| args.which.dashboard);
    let all_run = view.gateways.iter().chain(dashboard).all(GatewayView::is_healthy);
    let exit = if all_run { Exit::Success } else { Exit::No };
    if args.json {
        context.console.print_json(&view)?;
        return Ok(exit);
    }
    context.console.print(&format!("Manager: {}", view.manager.line()))?;
    let shown = |dashboard: &&GatewayView| match args.which {
        ChosenGateways { dashboard: true, .. } => true,
        ChosenGateways { all, .. } => all && is_in_use(dashboard),
    };
    for gateway in view.gateways.iter().chain(view.dashboard.iter().filter(shown)) {
        show(context, gateway)?;
    }
    Ok(exit)
}

/// Reports whether a dashboard is anything but down as it is wanted to be.
fn is_in_use(dashboard: &GatewayView) -> bool {
    dashboard.state != SlotState::Stopped || dashboard.reason.is_some()
}

fn show(context: &Context, gateway: &GatewayView) -> Result<(), CommandFailure> {
    let console = context.console;
    console.print("")?;
    let line = |label: &str, value: &str| {
        let label = console.paint(DIM, &format!("{label:<10}"));
        console.print(&format!("{label} {}", text::printable(value)))
    };
    match gateway.profile.as_str() {
        DASHBOARD_SLOT => line("service", "dashboard")?,
        profile => line("gateway", profile)?,
    }
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

pub(super) async fn list(context: &Context, args: &ListArgs) -> Result<Exit, CommandFailure> {
    let view = find(context, None).await?;
    if args.json {
        context.console.print_json(&view.gateways)?;
        return Ok(Exit::Success);
    }
    let dashboard = view.dashboard.iter().filter(|dashboard| is_in_use(dashboard));
    let mut table = Table::new(&["PROFILE", "STATE", "PID", "UPTIME", "RESTARTS", "LAST EXIT"]);
    for gateway in view.gateways.iter().chain(dashboard) {
        let style = match gateway.state {
            SlotState::Running if gateway.is_degraded() => YELLOW,
            SlotState::Running => GREEN,
            SlotState::Failed => RED,
            SlotState::Stopped => DIM,
            SlotState::Starting | SlotState::Backoff | SlotState::Stopping => YELLOW,
        };
        let name = match gateway.profile.as_str() {
            DASHBOARD_SLOT => "(dashboard)",
            profile => profile,
        };
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let up = gateway.up_seconds.map(|seconds| text::span(Duration::from_secs(seconds)));
        table.row(vec![
            name.into(),
            Cell::styled(gateway.state_word(), style),
            or_none(gateway.pid.map(|pid| pid.to_string())).into(),
            or_none(up).into(),
            gateway.restarts.to_string().into(),
            or_none(gateway.last_exit.as_ref().map(|exit| exit.how.clone())).into(),
        ]);
        // The last column has it already where a process has nothing to say about its end.
        let is_said =
            |reason: &String| gateway.last_exit.as_ref().is_some_and(|exit| exit.how == *reason);
        if let Some(reason) = gateway.reason.as_ref().filter(|reason| !is_said(reason)) {
            table.note(reason, DIM, 2);
        }
        for part in gateway.listeners.iter().filter(|_| gateway.is_degraded()) {
            if let Some(error) = &part.error {
                table.note(&format!("{}: {error}", part.name), DIM, 2);
            }
        }
    }
    context.console.print_table(&table)?;
    Ok(Exit::Success)
}

/// Shows a gateway that somebody runs in a terminal, of which no supervisor knows.
async fn show_unsupervised(slots: &HomeSlots, status: &mut SlotStatus) {
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
) -> Result<GatewayStatusView, CommandFailure> {
    let slots = HomeSlots::new(context)?;
    let offline = || list_offline(&slots.run_dir(), &slots.gateway_logs(), slots.slots());
    let request = SupervisorRequest::List { slots: which.clone() };
    let (holder, mut found) = match ask(&slots.run_dir(), &request, ANSWER_WITHIN).await {
        Ok(SupervisorAnswer { holder, slots, services, .. }) => {
            (Some(holder), SlotStatuses { slots, services })
        }
        Err(ControlError::NotRunning(_)) => (None, offline()),
        Err(error) => return Err(no_answer(&error)),
    };
    if let Some(which) = &which {
        let is_wanted = |status: &SlotStatus| which.contains(&status.name);
        // A profile that was made a moment ago may not be known to its supervisor yet.
        let known = |name: &String| found.slots.iter().any(|status| status.name == *name);
        let is_known = which.iter().all(|name| name == DASHBOARD_SLOT || known(name));
        if holder.is_some() && !is_known {
            found.slots = offline().slots;
            for status in found.slots.iter_mut().filter(|slot| slot.state == SlotState::Stopped) {
                status.reason = Some("its supervisor has not looked at it yet".to_owned());
            }
        }
        found.slots.retain(|status| is_wanted(status) && status.name != DASHBOARD_SLOT);
    }
    for status in &mut found.slots {
        if matches!(status.state, SlotState::Stopped | SlotState::Failed | SlotState::Backoff) {
            show_unsupervised(&slots, status).await;
        }
    }
    let now = Timestamp::now();
    Ok(GatewayStatusView::new(holder.as_ref(), found.slots, found.services, now))
}
