//! `vestal gateway run` inside the image, where a gateway is supervised.
//!
//! Inside the image is where `VESTAL_IMAGE` is set, which the image does, or where the supervisor of
//! this home says that it is the first process of a container. Nobody looks at command lines.

use std::time::Duration;

use vestal_config::Environment;
use vestal_supervisor::{ControlError, Manager, SupervisorRequest, ask, read_desired};

use super::lifecycle::start_supervised;
use super::orders::no_answer;
use super::slots::HomeSlots;
use crate::commands::supervise;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Set by the image.
const IMAGE: &str = "VESTAL_IMAGE";
/// Has `gateway run` serve in its own process inside the image.
pub(super) const NO_SUPERVISE: &str = "VESTAL_GATEWAY_NO_SUPERVISE";
/// Lets root run a gateway inside the image.
const ALLOW_ROOT: &str = "VESTAL_ALLOW_ROOT_GATEWAY";

/// A supervisor answers at once; one that takes longer is stuck or boots.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Who is to supervise a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supervision {
    /// The supervisor that runs.
    Running,
    /// This process: no supervisor runs yet.
    Here,
}

/// Reports whether a variable is switched on.
pub(super) fn is_on(environment: &Environment, name: &str) -> bool {
    let value = environment.non_empty(name).and_then(|value| value.to_str());
    value.is_some_and(|value| {
        ["1", "true", "yes", "on"].iter().any(|on| value.eq_ignore_ascii_case(on))
    })
}

/// Refuses to serve as root inside the image: files that root leaves in the data directory cannot be
/// read by the user whom the image runs as. Nothing is written, for the same reason.
pub(super) fn refuse_root(environment: &Environment) -> Result<(), CommandFailure> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !is_on(environment, IMAGE) || is_on(environment, ALLOW_ROOT) {
        return Ok(());
    }
    Err(CommandFailure::new("a gateway does not run as root inside the image")
        .advise("run the container as the user of its data directory: docker run --user …")
        .advise(format!("to run it as root all the same: {ALLOW_ROOT}=1"))
        .with_exit(Exit::Permanent))
}

/// Returns who is to supervise a gateway; nothing outside the image.
pub(super) async fn supervision(context: &Context) -> Result<Option<Supervision>, CommandFailure> {
    let is_image = is_on(context.environment(), IMAGE);
    let list = SupervisorRequest::List { slots: Some(Vec::new()) };
    match ask(&HomeSlots::new(context)?.run_dir(), &list, ANSWER_WITHIN).await {
        // Its socket is reached through the directory; its processes are not.
        Ok(answer) if is_image && answer.holder.host != this_host() => Err(CommandFailure::new(
            format!(
                "this home is supervised already by process {} on {}, since {}",
                answer.holder.process.pid, answer.holder.host, answer.holder.since
            ),
        )
        .advise("two containers cannot share a data directory: end one, or give this one its own")
        .with_exit(Exit::No)),
        Ok(answer) if is_image || answer.holder.manager == Manager::Container => {
            Ok(Some(Supervision::Running))
        }
        Err(ControlError::NotRunning(_)) => Ok(is_image.then_some(Supervision::Here)),
        Err(error) if is_image => Err(no_answer(&error)),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Returns the name of this machine or container.
fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Runs the gateway of the chosen profile supervised.
pub(super) async fn run_supervised(
    context: &Context,
    supervision: Supervision,
) -> Result<Exit, CommandFailure> {
    let profile = context.home()?.profile().clone();
    context.console.note(&format!(
        "inside the image the gateway of profile {profile} runs supervised: it is started again when it ends. To serve in this process: --no-supervise or {NO_SUPERVISE}=1"
    ));
    match supervision {
        Supervision::Running => start_supervised(context).await,
        Supervision::Here => {
            let slot = HomeSlots::new(context)?.slot(&profile)?;
            // What an operator wanted last holds: one that was stopped stays stopped.
            let is_new = matches!(read_desired(&slot.service.desired), Ok(None));
            supervise::run_first(context, is_new.then(|| profile.to_string())).await
        }
    }
}
