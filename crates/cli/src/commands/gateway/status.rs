//! `vestal gateway status` and `list`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::{DASHBOARD_SLOT, GatewayStatusView, GatewayView, ManagerKind};
use vestal_config::ProfileName;
use vestal_gateway::StatusAnswer;
use vestal_supervisor::{
    ControlError, Desired, PartState, SlotSource as _, SlotState, SlotStatus, SlotStatuses,
    SupervisorAnswer, SupervisorRequest, ask, list_offline,
};

use super::ChosenGateways;
use super::install::SystemdUnit;
use super::listeners::add_foreign;
use super::orders::no_answer;
use super::slots::HomeSlots;
use crate::console::{Cell, DIM, GREEN, RED, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Less free space than this is none: a message, its index and the log of the database take as much.
const NO_SPACE: u64 = 256 << 10;

/// A supervisor answers at once; one that takes longer is stuck or boots.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const STATUS_HELP: &str = "\
The exit code is 0 if the gateway runs, is ready, serves all that it is set to and no other process
listens in its place, otherwise 1; with --all, if that is so of all of them; with --wanted, of those that
are to run, and a supervisor keeps them. Nothing is started or changed.

Examples:
  vestal gateway status
  vestal gateway status --all --json | jq -r '.gateways[].state'";

/// Show who keeps gateways, and how they are.
#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    which: ChosenGateways,

    /// All gateways that are wanted to run, and the dashboard if it is; none is wanted is well, too.
    #[arg(long, conflicts_with_all = ["all", "dashboard"])]
    wanted: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn status(context: &Context, args: &StatusArgs) -> Result<Exit, CommandFailure> {
    let slots = if args.wanted { None } else { args.which.slots(context)? };
    let mut view = find(context, slots).await?;
    if args.wanted {
        view.gateways.retain(is_in_use);
        view.dashboard = view.dashboard.filter(is_in_use);
    }
    let dashboard = view.dashboard.iter().filter(|_| args.which.dashboard || args.wanted);
    let all_run = view.gateways.iter().chain(dashboard).all(GatewayView::is_healthy);
    // Nobody would start again what is wanted.
    let is_kept = !args.wanted || view.manager.kind != ManagerKind::None;
    let trouble = full_disk(context)?;
    let exit = if all_run && is_kept && trouble.is_none() { Exit::Success } else { Exit::No };
    if args.json {
        context.console.print_json(&view)?;
        return Ok(exit);
    }
    context.console.print(&format!("Manager: {}", view.manager.line()))?;
    let shown = |dashboard: &&GatewayView| match args.which {
        ChosenGateways { dashboard: true, .. } => true,
        ChosenGateways { all, .. } => args.wanted || all && is_in_use(dashboard),
    };
    for gateway in view.gateways.iter().chain(view.dashboard.iter().filter(shown)) {
        show(context, gateway)?;
    }
    if let Some(advice) = view.advice() {
        context.console.note(&advice);
    }
    if let Some(trouble) = trouble {
        context.console.warn(&trouble);
    }
    Ok(exit)
}

/// Says that no space is left for what gateways store, if that is so. They run on without it, and what
/// they say about themselves is as old as the last space.
fn full_disk(context: &Context) -> Result<Option<String>, CommandFailure> {
    let root = context.home()?.root().to_owned();
    let Ok(found) = rustix::fs::statvfs(&root) else { return Ok(None) };
    let is_full = found.f_blocks > 0 && found.f_bavail.saturating_mul(found.f_frsize) < NO_SPACE;
    Ok(is_full.then(|| {
        format!(
            "no space is left in {}: turns are refused, and what is shown here may be old",
            root.display()
        )
    }))
}

/// Reports whether a service is anything but down as it is wanted to be.
fn is_in_use(service: &GatewayView) -> bool {
    service.state != SlotState::Stopped || service.reason.is_some()
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
    line("state", gateway.state_name())?;
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
    for listener in &gateway.foreign_listeners {
        line("stranger", &listener.line())?;
    }
    if let Some(at) = &gateway.next_start_at {
        line("next start", at)?;
    }
    if let Some(reason) = &gateway.reason {
        line("reason", reason)?;
    }
    line("log", &gateway.log)?;
    for listener in &gateway.foreign_listeners {
        console.warn(&format!("{}: {}", text::printable(&listener.address), listener.advice()));
    }
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
            Cell::styled(gateway.state_name(), style),
            or_none(gateway.pid.map(|pid| pid.to_string())).into(),
            or_none(up).into(),
            gateway.restarts.to_string().into(),
            or_none(gateway.last_exit.as_ref().map(|exit| exit.how.clone())).into(),
        ]);
        // The last column has it already where a process has nothing to say about its end.
        let is_shown =
            |reason: &String| gateway.last_exit.as_ref().is_some_and(|exit| exit.how == *reason);
        if let Some(reason) = gateway.reason.as_ref().filter(|reason| !is_shown(reason)) {
            table.note(reason, DIM, 2);
        }
        for listener in &gateway.foreign_listeners {
            table.note(&listener.line(), RED, 2);
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
    if status.pid == Some(state.pid) {
        return;
    }
    status.state = SlotState::Running;
    status.pid = Some(state.pid);
    status.started_at = Some(state.started_at.to_string());
    status.ready_at.clone_from(&status.started_at);
    status.next_start_at = None;
    status.reason = Some(in_a_terminal(status));
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

/// Reports whether another process may have what a slot is there for: its own is down, or is only
/// finding out.
fn is_not_serving(status: &SlotStatus) -> bool {
    match status.state {
        SlotState::Stopped | SlotState::Starting | SlotState::Backoff | SlotState::Failed => true,
        SlotState::Running | SlotState::Stopping => false,
    }
}

/// Adds what a dashboard says about itself: where it is, and that it runs although no supervisor has
/// started it.
fn show_dashboard(slots: &HomeSlots, status: &mut SlotStatus) {
    let Some(instance) = vestal_dashboard::find_instance(&slots.run_dir()) else { return };
    let pid = instance.process.pid;
    if status.pid != Some(pid) {
        if !is_not_serving(status) {
            return;
        }
        status.state = SlotState::Running;
        status.pid = Some(pid);
        status.started_at = Some(instance.started_at);
        status.ready_at.clone_from(&status.started_at);
        status.next_start_at = None;
        status.reason = Some(in_a_terminal(status));
    }
    let served = PartState {
        state: "connected".to_owned(),
        address: Some(instance.url),
        error_message: None,
    };
    status.parts = [("web".to_owned(), served)].into();
}

/// Says why a supervisor does not keep what runs, and whether it will.
fn in_a_terminal(status: &SlotStatus) -> String {
    let follows = match status.desired {
        Some(Desired::Running) => "; it is wanted, so that a supervisor takes it over when it ends",
        Some(Desired::Stopped) | None => "",
    };
    format!("it runs in a terminal, and no supervisor keeps it{follows}")
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
        if is_not_serving(status) {
            show_unsupervised(&slots, status).await;
        }
    }
    found.services.iter_mut().for_each(|service| show_dashboard(&slots, service));
    let now = Timestamp::now();
    let mut view = GatewayStatusView::new(holder.as_ref(), found.slots, found.services, now);
    add_foreign(context, &slots, &mut view).await;
    if holder.is_none() {
        view.manager.unit = SystemdUnit::installed(context, &slots).map(|unit| unit.view());
    }
    Ok(view)
}
