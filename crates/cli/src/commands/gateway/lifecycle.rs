//! `vestal gateway start`, `stop` and `restart`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use vestal_api::{
    DASHBOARD_SLOT, GatewayOutcomeView, gateway_command, profile_order, shared_api_addresses,
};
use vestal_config::{ProfileName, Settings};
use vestal_dashboard::{GatewayChange, StopOutcome, stop_instance};
use vestal_gateway::StatusAnswer;
use vestal_supervisor::{
    ControlError, DetachError, FoundSlot, Holder, OrderOutcome, OrderResult, RUN_VARIABLE, Slot,
    SlotName, SlotSource as _, SlotState, SlotStatus, SupervisorAnswer, SupervisorError,
    SupervisorRequest, ask, has_leftover, start_detached, stop_offline,
};

use super::ChosenGateways;
use super::install::SystemdUnit;
use super::slots::{DASHBOARD_STOP_WITHIN, HomeSlots};
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Longer than a gateway may take to stop, with the longest drain, and to become ready.
const ANSWER_WITHIN: Duration = Duration::from_mins(65);
/// How long a gateway without a supervisor may take to end, likewise.
const STOP_WITHIN: Duration = Duration::from_mins(62);
/// How long a supervisor may take to begin: it ends what an earlier one left first.
const BEGIN_WITHIN: Duration = Duration::from_mins(2);
/// How long another supervisor that began at the same time may take to answer.
const OTHER_WITHIN: Duration = Duration::from_secs(10);
/// How long a process that ends waits for the supervisor that takes over from it.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(50);

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
    // That of another user or container cannot be read, and nothing is said about it.
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
            // A directory that is no profile may have the name of one.
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

/// Stops by the supervisor, or without one.
async fn stop_slots(
    context: &Context,
    slots: &HomeSlots,
    which: Option<&[String]>,
) -> Result<Vec<OrderOutcome>, CommandFailure> {
    let request = SupervisorRequest::Stop { slots: which.map(<[String]>::to_vec) };
    let mut outcomes = match ask_patiently(context, slots, &request, "stopping").await {
        Ok(answer) => answer.outcomes,
        Err(ControlError::NotRunning(_)) => {
            let wanted = |slot: &Slot| match which {
                Some(which) => which.iter().any(|name| name == slot.name.as_str()),
                None => slot.name.service_of_home().is_none(),
            };
            let found = slots.slots().into_iter().filter_map(|found| match found {
                FoundSlot::Slot(slot) => Some(*slot),
                FoundSlot::Broken { .. } => None,
            });
            let slots_to_stop: Vec<Slot> = found.filter(wanted).collect();
            let stopped = stop_offline(&slots.run_dir(), &slots_to_stop).await;
            stopped.map_err(|error| CommandFailure::new(error.to_string()).advise("try again"))?
        }
        Err(error) => return Err(no_answer(&error)),
    };
    // Also where a supervised one was stopped: it may have tried in vain to serve beside another.
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.error.is_none()) {
        stop_unsupervised(slots, outcome).await;
    }
    Ok(outcomes)
}

/// Stops a gateway, or the dashboard, that somebody runs in a terminal, of which no supervisor knows.
async fn stop_unsupervised(slots: &HomeSlots, outcome: &mut OrderOutcome) {
    if outcome.slot == DASHBOARD_SLOT {
        match stop_instance(&slots.run_dir(), DASHBOARD_STOP_WITHIN).await {
            Ok(StopOutcome::NotRunning) => {}
            Ok(StopOutcome::Stopped) => outcome.done = Some(OrderResult::Stopped),
            Ok(StopOutcome::StillRunning) => {
                let error = "it was asked to end and is still alive".to_owned();
                (outcome.done, outcome.error) = (None, Some(error));
            }
            Err(error) => (outcome.done, outcome.error) = (None, Some(error.to_string())),
        }
        return;
    }
    let Ok(profile) = ProfileName::new(&outcome.slot) else { return };
    let home = slots.root().sibling(profile).dir();
    let failed = |outcome: &mut OrderOutcome, error: String| {
        (outcome.done, outcome.error) = (None, Some(error));
    };
    let state = match vestal_gateway::ask_stop(&home, false).await {
        Ok(Some(state)) => state,
        Ok(None) => return,
        Err(error) => return failed(outcome, error.to_string()),
    };
    let is_gone = match state.process().handle() {
        Ok(Some(process)) => process.ended_within(STOP_WITHIN).await.unwrap_or(false),
        Ok(None) => true,
        Err(error) => return failed(outcome, error.to_string()),
    };
    if is_gone {
        outcome.done = Some(OrderResult::Stopped);
    } else {
        failed(outcome, format!("process {} was asked to end and is still alive", state.pid));
    }
}

async fn ask_patiently(
    context: &Context,
    slots: &HomeSlots,
    request: &SupervisorRequest,
    doing: &str,
) -> Result<SupervisorAnswer, ControlError> {
    let run_dir = slots.run_dir();
    let asking = ask(&run_dir, request, ANSWER_WITHIN);
    context.console.while_waiting(doing, asking).await
}

async fn order(
    context: &Context,
    slots: &HomeSlots,
    request: &SupervisorRequest,
    doing: &str,
) -> Result<SupervisorAnswer, CommandFailure> {
    let answer = ask_patiently(context, slots, request, doing).await;
    answer.map_err(|error| no_answer(&error))
}

/// Says why a supervisor does not answer.
pub(crate) fn no_answer(error: &ControlError) -> CommandFailure {
    let failure = CommandFailure::new(error.to_string());
    match error {
        ControlError::NotRunning(_) => failure.advise("to start one: vestal gateway start"),
        ControlError::NoAnswer(Some(holder)) => {
            failure.advise(format!("look at it with `ps -p {}`", holder.process.pid))
        }
        ControlError::NoAnswer(None) | ControlError::Io(_) => failure.advise("try again"),
    }
}

/// Starts a supervisor unless one runs. Returns one that has an environment of its own. Where systemd
/// is to keep it, systemd starts it: the service could not start beside another one.
async fn begin(context: &Context, slots: &HomeSlots) -> Result<Option<Holder>, CommandFailure> {
    let run_dir = slots.run_dir();
    let list = SupervisorRequest::List { slots: Some(Vec::new()) };
    match ask(&run_dir, &list, OTHER_WITHIN).await {
        Ok(answer) => return Ok(Some(answer.holder)),
        Err(ControlError::NotRunning(_)) => {}
        Err(error) => return Err(no_answer(&error)),
    }
    if let Some(unit) = SystemdUnit::installed(context, slots) {
        let (name, look) = (unit.name().to_owned(), unit.command("status"));
        unit.start(context).await?;
        let answer = ask(&run_dir, &list, OTHER_WITHIN).await;
        return answer.map(|answer| Some(answer.holder)).map_err(|error| {
            CommandFailure::new(format!("{name} was started: {error}"))
                .advise(format!("to see why: {look}"))
                .with_exit(Exit::No)
        });
    }
    let root = slots.root().root();
    std::fs::create_dir_all(root)
        .map_err(|error| CommandFailure::io(&format!("make {}", root.display()), &error))?;
    let log = slots.root().logs_dir().join("supervisor.log");
    let (argv, env) = (slots.supervisor_command(), slots.environment());
    match start_detached(&argv, env, root, &log, BEGIN_WITHIN).await {
        Ok(()) => Ok(None),
        Err(error @ DetachError::Ended { .. }) => {
            // One that was started at the same time may have been first.
            let deadline = tokio::time::Instant::now() + OTHER_WITHIN;
            while tokio::time::Instant::now() < deadline {
                if let Ok(answer) = ask(&run_dir, &list, OTHER_WITHIN).await {
                    return Ok(Some(answer.holder));
                }
                tokio::time::sleep(AGAIN).await;
            }
            Err(CommandFailure::new(error.to_string()))
        }
        Err(error) => Err(CommandFailure::new(error.to_string())),
    }
}

/// Says what became of orders, and which were not given. One that was not done makes the exit code 1.
fn report(
    context: &Context,
    json: bool,
    outcomes: Vec<OrderOutcome>,
    not_given: Vec<OrderOutcome>,
) -> Result<Exit, CommandFailure> {
    let refused: BTreeSet<String> = not_given.iter().map(|outcome| outcome.slot.clone()).collect();
    let mut outcomes = [outcomes, not_given].concat();
    outcomes.sort_by(|a, b| profile_order(&a.slot, &b.slot));
    let failed = outcomes.iter().any(|outcome| outcome.error.is_some());
    let console = context.console;
    if json {
        let views: Vec<GatewayOutcomeView> = outcomes.into_iter().map(Into::into).collect();
        console.print_json(&views)?;
    } else {
        for OrderOutcome { slot, done, error } in outcomes {
            let subject = subject(&slot);
            match (done, error) {
                (Some(done), None) => console.print(&described(&subject, done))?,
                (_, error) => {
                    let reason = error.unwrap_or_default();
                    let mut failure = CommandFailure::new(format!("{subject}: {reason}"));
                    if !refused.contains(&slot) {
                        let logs = gateway_command(&slot, "logs");
                        failure = failure.advise(format!("what it printed: {logs}"));
                    }
                    console.explain(&failure);
                }
            }
        }
    }
    Ok(if failed { Exit::No } else { Exit::Success })
}

/// Returns what a slot is called in a sentence.
fn subject(slot: &str) -> String {
    if slot == DASHBOARD_SLOT {
        return "the dashboard".to_owned();
    }
    format!("gateway {}", text::printable(slot))
}

fn described(subject: &str, done: OrderResult) -> String {
    match done {
        OrderResult::Started => format!("{subject} is running"),
        OrderResult::WasRunning => format!("{subject} was running already"),
        OrderResult::Stopped => format!("{subject} is stopped"),
        OrderResult::WasStopped => format!("{subject} was not running"),
    }
}

/// Says why a supervisor did not begin or did not end well.
pub(crate) fn supervisor_failed(error: &SupervisorError) -> CommandFailure {
    let failure = CommandFailure::new(error.to_string());
    match error {
        SupervisorError::Lock(vestal_supervisor::SupervisorLockError::Held { .. }) => failure
            .advise("to see what it does: vestal gateway status --all")
            .advise("two containers cannot share a data directory; give each its own")
            .with_exit(Exit::No),
        SupervisorError::Lock(_) | SupervisorError::Io { .. } | SupervisorError::Alive(_) => {
            failure
        }
    }
}
