//! Sandboxes in namespaces of their own on the other machine.
//!
//! The machine tells what it is, the sandbox is planned here, and the stage, which is put there
//! beside the guest, builds it. A machine that cannot build it is an error: nobody is handed a
//! sandbox that is kept apart less than the settings say.

use serde::{Deserialize, Serialize};
use vestal_wire::machine::{EnclosedLaunch, MachineReply, MachineRequest};
use vestal_wire::survey::MachineSurvey;

use super::machine::{Machine, SurveyedMachine};
use crate::ProgressSink;
use crate::backend::{BackendError, InstanceRequest};
use crate::backends::docker::one_line;
use crate::backends::native::elsewhere::{
    RemoteDirs, RemotePlan, RemoteShape, explain_failure, tier_name,
};
use crate::key::random_hex;

/// What is recorded of an instance that is kept apart from its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IsolationRecord {
    /// Limits that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    /// What is missing for a better sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
}

/// An instance that is planned for a machine.
#[derive(Debug)]
pub(super) struct IsolatedLaunch {
    pub(super) plan: RemotePlan,
    survey: MachineSurvey,
    stage: String,
    dirs: RemoteDirs,
}

/// Plans an instance for a machine.
pub(super) async fn plan(
    machine: &Machine,
    shape: &RemoteShape,
    request: &InstanceRequest,
) -> Result<IsolatedLaunch, BackendError> {
    let SurveyedMachine { survey, root, stage } = machine.survey(&request.progress).await?;
    let dirs = RemoteDirs {
        instance: root.join("instances").join(&request.instance.id),
        sandbox: root.join("sandboxes").join(request.key.hash()),
        is_owned: request.owner.is_some(),
        root,
    };
    let plan = shape.plan(&survey, &dirs).map_err(|error| over_there(machine, error))?;
    Ok(IsolatedLaunch { plan, survey, stage, dirs })
}

/// Builds a sandbox on a machine and removes it again, and returns what is worth knowing.
pub(super) async fn rehearse(
    machine: &Machine,
    shape: &RemoteShape,
) -> Result<Vec<String>, BackendError> {
    let progress = ProgressSink::default();
    let SurveyedMachine { survey, root, stage } = machine.survey(&progress).await?;
    let name = random_hex::<8>().map_err(BackendError::io("get random bytes"))?;
    let dir = root.join("rehearsals").join(&name);
    let dirs = RemoteDirs { instance: dir.clone(), sandbox: dir, is_owned: true, root };
    let plan = shape.plan_trial(&survey, &dirs).map_err(|error| over_there(machine, error))?;
    let trial = IsolatedLaunch { plan, survey, stage, dirs };
    let request = MachineRequest::Rehearse { name, enclosed: trial.to_order() };
    match machine.ask(&request, &progress).await? {
        MachineReply::Done => {}
        MachineReply::NotStarted { reason } => return Err(trial.explain(machine, &reason)),
        other => return Err(machine.unexpected(other)),
    }
    let tier = format!(
        "isolated by namespaces, tier {}: the system directories of that machine, read-only; \
         nothing of its other files and processes is seen",
        tier_name()
    );
    let unenforced = (!trial.plan.unenforced.is_empty())
        .then(|| format!("not limited there: {}", trial.plan.unenforced.join(", ")));
    Ok([tier].into_iter().chain(unenforced).chain(trial.plan.missing).collect())
}

impl IsolatedLaunch {
    /// Returns what the machine is to build.
    pub(super) fn to_order(&self) -> EnclosedLaunch {
        EnclosedLaunch {
            stage: self.stage.clone(),
            plan: self.plan.enclosure.clone().into(),
            dirs: self.plan.dirs.clone(),
        }
    }

    /// Returns what is recorded of it, and what is said once.
    pub(super) fn into_record(self) -> (IsolationRecord, Vec<String>) {
        let RemotePlan { unenforced, missing, remarks, .. } = self.plan;
        (IsolationRecord { unenforced, missing }, remarks)
    }

    /// Returns the error for what the machine says was wrong.
    pub(super) fn explain(&self, machine: &Machine, reason: &str) -> BackendError {
        match explain_failure(reason, &self.survey, &self.dirs.instance) {
            Some(error) => over_there(machine, error),
            None => BackendError::GuestFailed { reason: one_line(reason) },
        }
    }
}

/// Says of an error on which machine it is one.
fn over_there(machine: &Machine, error: BackendError) -> BackendError {
    match error {
        BackendError::Advised { problem, advice } => BackendError::Advised {
            problem: format!(
                "{} cannot isolate sandboxes: {}",
                machine.login(),
                one_line(&problem)
            ),
            advice: format!("on that machine: {}", one_line(&advice)),
        },
        BackendError::GuestFailed { reason } => {
            BackendError::GuestFailed { reason: one_line(&reason) }
        }
        other => other,
    }
}
