//! Orders to the supervisor of the home, which is started if none runs, and what became of them.

use std::collections::BTreeSet;
use std::time::Duration;

use vestal_api::{DASHBOARD_SLOT, GatewayOutcomeView, gateway_command, profile_order};
use vestal_config::ProfileName;
use vestal_dashboard::{StopOutcome, stop_instance};
use vestal_supervisor::{
    ControlError, DetachError, FoundSlot, Holder, OrderOutcome, OrderResult, Slot, SlotSource as _,
    SupervisorAnswer, SupervisorError, SupervisorRequest, ask, start_detached, stop_offline,
};

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
pub(super) const OTHER_WITHIN: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(50);

/// Stops by the supervisor, or without one.
pub(super) async fn stop_slots(
    context: &Context,
    slots: &HomeSlots,
    which: Option<&[String]>,
) -> Result<Vec<OrderOutcome>, CommandFailure> {
    let request = SupervisorRequest::Stop { slots: which.map(<[String]>::to_vec) };
    let mut outcomes = match ask_with_status(context, slots, &request, "stopping").await {
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

async fn ask_with_status(
    context: &Context,
    slots: &HomeSlots,
    request: &SupervisorRequest,
    doing: &str,
) -> Result<SupervisorAnswer, ControlError> {
    let run_dir = slots.run_dir();
    let asking = ask(&run_dir, request, ANSWER_WITHIN);
    context.console.while_waiting(doing, asking).await
}

pub(super) async fn order(
    context: &Context,
    slots: &HomeSlots,
    request: &SupervisorRequest,
    doing: &str,
) -> Result<SupervisorAnswer, CommandFailure> {
    let answer = ask_with_status(context, slots, request, doing).await;
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
pub(super) async fn begin(
    context: &Context,
    slots: &HomeSlots,
) -> Result<Option<Holder>, CommandFailure> {
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
pub(super) fn report(
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
        SupervisorError::Lock(_)
        | SupervisorError::Io { .. }
        | SupervisorError::Main { .. }
        | SupervisorError::Alive(_) => failure,
    }
}
