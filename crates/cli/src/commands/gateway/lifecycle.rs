//! `vestal gateway start`, `stop` and `restart`: what is checked and reported before an order is given.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use vestal_api::{DASHBOARD_SLOT, gateway_command, shared_api_addresses};
use vestal_config::{ProfileName, Settings};
use vestal_dashboard::GatewayChange;
use vestal_gateway::StatusAnswer;
use vestal_supervisor::{
    ControlError, Holder, OrderOutcome, RUN_VARIABLE, SlotName, SlotState, SlotStatus,
    SupervisorRequest, ask, has_leftover,
};

use super::ChosenGateways;
use super::orders::{OTHER_WITHIN, begin, order, report, stop_slots};
use super::slots::HomeSlots;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// How long a process that ends waits for the supervisor that takes over from it.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(2);

/// What the guest puts into the environment of every command in a sandbox.
const JOB_VARIABLE: &str = "VESTAL_JOB";

const START_HELP: &str = "\
Returns when the gateway is ready. It is started again when it ends by itself, and by the next
supervisor after a reboot. The exit code is 1 if a gateway did not start.

Its settings are those in config.yaml and .env of the profile, and variables of the supervisor's own
environment. --set is refused, since it would be forgotten by the next start.

Examples:
  vestal gateway start
  vestal gateway start --all";

/// Start gateways, and a supervisor if none runs.
#[derive(Debug, Args)]
#[command(after_help = START_HELP)]
pub(super) struct StartArgs {
    #[command(flatten)]
    which: ChosenGateways,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn start(context: &Context, args: &StartArgs) -> Result<Exit, CommandFailure> {
    refuse_set(context)?;
    let (slots, which) = (HomeSlots::new(context)?, args.which.slots(context)?);
    warn_of_variables(context, begin(context, &slots).await?.as_ref());
    let to_start = ToStart::find(context, &slots, which).await?;
    let start = SupervisorRequest::Start { slots: Some(to_start.slots) };
    let answer = order(context, &slots, &start, "starting").await?;
    report(context, args.json, answer.outcomes, to_start.refused)
}

const STOP_HELP: &str = "\
Returns when every process of the gateway is gone; otherwise names those that are alive and exits
with 1. It stays stopped, also after a reboot, until it is started.

Examples:
  vestal gateway stop
  vestal -p work gateway stop --json";

/// Stop gateways; they stay stopped.
#[derive(Debug, Args)]
#[command(after_help = STOP_HELP)]
pub(super) struct StopArgs {
    #[command(flatten)]
    which: ChosenGateways,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn stop(context: &Context, args: &StopArgs) -> Result<Exit, CommandFailure> {
    refuse_inside(context)?;
    let (slots, which) = (HomeSlots::new(context)?, args.which.slots(context)?);
    let outcomes = stop_slots(context, &slots, which.as_deref()).await?;
    report(context, args.json, outcomes, Vec::new())
}

const RESTART_HELP: &str = "\
Running turns have agent.restart_drain_timeout seconds to end. A gateway that is stopped is started.

Example:
  vestal gateway restart --all";

/// Stop and start gateways.
#[derive(Debug, Args)]
#[command(after_help = RESTART_HELP)]
pub(super) struct RestartArgs {
    #[command(flatten)]
    which: ChosenGateways,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn restart(context: &Context, args: &RestartArgs) -> Result<Exit, CommandFailure> {
    refuse_inside(context)?;
    refuse_set(context)?;
    let (slots, which) = (HomeSlots::new(context)?, args.which.slots(context)?);
    warn_of_variables(context, begin(context, &slots).await?.as_ref());
    let to_start = ToStart::find(context, &slots, which).await?;
    let restart = SupervisorRequest::Restart { slots: Some(to_start.slots) };
    let answer = order(context, &slots, &restart, "restarting").await?;
    report(context, args.json, answer.outcomes, to_start.refused)
}

/// Refuses to stop gateways from within one, or from a command in a sandbox: the command would end
/// with the turn that runs it, and the turn would be waited for by the stop.
pub(crate) fn refuse_inside(context: &Context) -> Result<(), CommandFailure> {
    let environment = context.environment();
    let place = match (environment.non_empty(RUN_VARIABLE), environment.non_empty(JOB_VARIABLE)) {
        (Some(_), _) => "inside a gateway",
        (None, Some(_)) => "in a sandbox, where a turn of a gateway may have started it",
        (None, None) => return Ok(()),
    };
    Err(CommandFailure::new(format!("this command runs {place}"))
        .advise("end or restart gateways from a shell of your own")
        .with_exit(Exit::No))
}

/// Refuses settings for one command: a gateway is started by its supervisor, now and after a crash,
/// and must come up the same each time.
fn refuse_set(context: &Context) -> Result<(), CommandFailure> {
    if context.global().set.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::new(
        "--set holds for one command, and gateways are started by their supervisor",
    )
    .advise("to set it for good: vestal config set KEY VALUE")
    .advise("to try it in this terminal: vestal --set KEY=VALUE gateway run")
    .with_exit(Exit::Usage))
}

/// Says which variables of this command a supervisor that ran before does not have: its gateways
/// get its own environment.
fn warn_of_variables(context: &Context, holder: Option<&Holder>) {
    let Some(holder) = holder else { return };
    let pid = holder.process.pid;
    // That of another user or container cannot be read, and is not reported.
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return };
    let schema = vestal_api::schema();
    let is_other = |name: &str, value: &std::ffi::OsStr| {
        let wanted = [name.as_bytes(), b"=", value.as_encoded_bytes()].concat();
        !environment.split(|byte| *byte == 0).any(|entry| entry == wanted)
    };
    let names: Vec<&str> = context
        .environment()
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value)))
        .filter(|(name, _)| schema.find_by_variable(name).is_some())
        .filter(|(name, value)| is_other(name, value))
        .map(|(name, _)| name)
        .collect();
    if names.is_empty() {
        return;
    }
    context.console.note(&format!(
        "not passed on, since the supervisor (pid {pid}) has an environment of its own: {}. Put them into .env of the profile, or end the supervisor (vestal supervise --stop) and start again",
        names.join(", ")
    ));
}

/// Starts the gateway of the chosen profile by the supervisor that runs.
pub(super) async fn start_supervised(context: &Context) -> Result<Exit, CommandFailure> {
    refuse_set(context)?;
    let slots = HomeSlots::new(context)?;
    let which = Some(vec![context.home()?.profile().to_string()]);
    let to_start = ToStart::find(context, &slots, which).await?;
    let start = SupervisorRequest::Start { slots: Some(to_start.slots) };
    let answer = order(context, &slots, &start, "starting").await?;
    report(context, false, answer.outcomes, to_start.refused)
}

/// What a supervisor is to start, once it is known what stands in the way.
struct ToStart {
    slots: Vec<String>,
    refused: Vec<OrderOutcome>,
}

impl ToStart {
    /// Looks which of these slots can be started; without any, those of all profiles. A profile that
    /// somebody serves in a terminal is refused here: its gateway would only say so and end.
    async fn find(
        context: &Context,
        slots: &HomeSlots,
        which: Option<Vec<String>>,
    ) -> Result<Self, CommandFailure> {
        // It answers when it has found them all, those that were made a moment ago too.
        let known = order(context, slots, &SupervisorRequest::Reconcile, "looking").await?.slots;
        let own =
            |name: &str| known.iter().find(|slot| slot.name == name).and_then(|slot| slot.pid);
        // Those that cannot be a slot are not started, and `list` says why.
        let is_slot = |slot: &&SlotStatus| SlotName::new(&slot.name).is_ok();
        let all = || known.iter().filter(is_slot).map(|slot| slot.name.clone()).collect();
        let mut to_start = Self { slots: Vec::new(), refused: Vec::new() };
        for name in which.unwrap_or_else(all) {
            // A directory that is not a profile may have the name of one.
            if to_start.slots.contains(&name) {
                continue;
            }
            // A supervisor that has just begun may be trying in vain to start one beside it.
            match served_by(slots, &name).await.filter(|pid| own(&name) != Some(*pid)) {
                None => to_start.slots.push(name),
                Some(pid) => {
                    let stop = gateway_command(&name, "stop");
                    let serves = match name.as_str() {
                        DASHBOARD_SLOT => "is the dashboard",
                        _ => "serves this profile",
                    };
                    let error = format!(
                        "process {pid} {serves} already, in a terminal; to hand it over, end it with {stop} and start again"
                    );
                    to_start.refused.push(OrderOutcome {
                        slot: name,
                        done: None,
                        error: Some(error),
                    });
                }
            }
        }
        warn_of_shared_addresses(context, slots, &to_start.slots, &known);
        Ok(to_start)
    }
}

/// Tells a supervisor that waits for this process to let go of what it serves that it has: there is
/// no need to wait for the next try.
pub(crate) async fn hand_over(context: &Context, slot: &str) {
    let Ok(slots) = HomeSlots::new(context) else { return };
    let (run_dir, named) = (slots.run_dir(), Some(vec![slot.to_owned()]));
    let list = SupervisorRequest::List { slots: named.clone() };
    let Ok(answer) = ask(&run_dir, &list, HAND_OVER_WITHIN).await else { return };
    let is_waiting = |found: &SlotStatus| found.name == slot && found.state == SlotState::Backoff;
    if answer.slots.iter().chain(&answer.services).any(is_waiting) {
        context.console.note("it is wanted: its supervisor takes it over");
        // What becomes of it is the supervisor's to tell.
        let start = SupervisorRequest::Start { slots: named };
        if let Err(error) = ask(&run_dir, &start, HAND_OVER_WITHIN).await {
            tracing::debug!(%error, "the supervisor is not waited for");
        }
    }
}

/// Returns the process that serves a profile, or is the dashboard, if there is one.
async fn served_by(slots: &HomeSlots, name: &str) -> Option<u32> {
    if name == DASHBOARD_SLOT {
        return vestal_dashboard::find_instance(&slots.run_dir()).map(|found| found.process.pid);
    }
    let home = slots.root().sibling(ProfileName::new(name).ok()?).dir();
    match vestal_gateway::ask_status(&home).await {
        Ok(StatusAnswer::Answers(state)) => Some(state.pid),
        // What cannot be asked does not answer the start either.
        Ok(StatusAnswer::NotRunning) | Err(_) => None,
    }
}

/// Says which profiles would serve their API at the same address, before the second of them tries
/// for it in vain.
fn warn_of_shared_addresses(
    context: &Context,
    slots: &HomeSlots,
    to_start: &[String],
    known: &[SlotStatus],
) {
    let is_down = |slot: &SlotStatus| matches!(slot.state, SlotState::Stopped | SlotState::Failed);
    let others = known.iter().filter(|slot| !is_down(slot)).map(|slot| &slot.name);
    let names: BTreeSet<&String> = to_start.iter().chain(others).collect();
    let profiles = names.into_iter().filter_map(|name| ProfileName::new(name).ok());
    let all: Vec<(ProfileName, Settings)> =
        profiles.map(|profile| (profile.clone(), slots.settings(&profile))).collect();
    for shared in shared_api_addresses(all.iter().map(|(name, own)| (name.as_str(), own))) {
        let Some((last, first)) = shared.profiles.split_last() else { continue };
        if !shared.profiles.iter().any(|profile| to_start.contains(profile)) {
            continue;
        }
        let (names, port) = (first.join(", "), shared.port);
        context.console.warn(&format!(
            "profiles {names} and {last} are set to serve their API at the same port, {port} (api_server.port), and only one of them can; give each its own: vestal -p {last} config set api_server.port PORT"
        ));
    }
}

/// Starts, stops or restarts the gateway of the profile for somebody who is not at this terminal.
pub(crate) async fn change(context: &Context, change: GatewayChange) -> Result<(), CommandFailure> {
    let slots = HomeSlots::new(context)?;
    let which = vec![context.home()?.profile().to_string()];
    let outcomes = if change == GatewayChange::Stop {
        stop_slots(context, &slots, Some(&which)).await?
    } else {
        begin(context, &slots).await?;
        let to_start = ToStart::find(context, &slots, Some(which)).await?;
        let own = Some(to_start.slots);
        let (request, doing) = match change {
            GatewayChange::Restart => (SupervisorRequest::Restart { slots: own }, "restarting"),
            GatewayChange::Start | GatewayChange::Stop => {
                (SupervisorRequest::Start { slots: own }, "starting")
            }
        };
        let answer = order(context, &slots, &request, doing).await?;
        [answer.outcomes, to_start.refused].concat()
    };
    match outcomes.into_iter().find_map(|outcome| outcome.error) {
        Some(error) => Err(CommandFailure::new(error)),
        None => Ok(()),
    }
}

/// Stops the gateway of a profile that is about to be deleted.
pub(crate) async fn stop_before_removal(
    context: &Context,
    profile: &ProfileName,
) -> Result<(), CommandFailure> {
    let slots = HomeSlots::new(context)?;
    let (slot, run_dir) = (slots.slot(profile)?, slots.run_dir());
    let list = SupervisorRequest::List { slots: Some(Vec::new()) };
    let running = ask(&run_dir, &list, OTHER_WITHIN).await;
    let home = slots.root().sibling(profile.clone()).dir();
    let is_unsupervised =
        matches!(vestal_gateway::ask_status(&home).await, Ok(StatusAnswer::Answers(_)));
    if matches!(running, Err(ControlError::NotRunning(_)))
        && !has_leftover(&run_dir, &slot.name)
        && !is_unsupervised
    {
        return Ok(());
    }
    refuse_inside(context)?;
    let which = [profile.to_string()];
    for outcome in stop_slots(context, &slots, Some(&which)).await? {
        if let Some(error) = outcome.error {
            return Err(CommandFailure::new(format!(
                "the gateway of profile {profile} is not stopped: {error}"
            ))
            .advise("nothing was deleted; end it and try again"));
        }
    }
    Ok(())
}
