//! Slots while no supervisor runs: what is known of them, and how they are stopped. What a killed
//! supervisor left is ended, and they stay down.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_recursion::async_recursion as boxed;

use crate::control::OrderOutcome;
use crate::lock::{HomeLock, Manager, SupervisorLockError};
use crate::record::{LeftoverChild, LeftoverError, Records};
use crate::slot::{FoundSlot, Slot, SlotName};
use crate::state::{self, Desired, OrderResult, Prior, SlotState, SlotStatus};

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// A supervisor began meanwhile; it is to be asked.
    #[error(transparent)]
    Lock(#[from] SupervisorLockError),
    /// It cannot be seen what a killed supervisor left.
    #[error("cannot read {}: {source}", path.join("slots").display())]
    Records {
        /// The directory of the home's running processes.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Stops slots, under the lock of the home, which a supervisor would hold.
#[boxed]
pub async fn stop_offline(
    run_dir: &Path,
    slots: &[Slot],
) -> Result<Vec<OrderOutcome>, OfflineError> {
    let _lock = HomeLock::take(run_dir, Manager::Command).await?;
    let records = Records::new(run_dir);
    let mut outcomes = Vec::new();
    for slot in slots {
        let stopped = match state::write_desired(&slot.service.desired, Desired::Stopped) {
            Ok(()) => records
                .end_leftover(&slot.name, slot.service.stop_within)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let (done, error) = match stopped {
            Ok(LeftoverChild::None) => (Some(OrderResult::WasStopped), None),
            Ok(LeftoverChild::Ended(_)) => (Some(OrderResult::Stopped), None),
            Err(error) => (None, Some(error)),
        };
        outcomes.push(OrderOutcome { slot: slot.name.to_string(), done, error });
    }
    Ok(outcomes)
}

/// Reports whether an earlier supervisor may have left a process of a slot.
pub fn has_leftover(run_dir: &Path, slot: &SlotName) -> bool {
    // A record that cannot be read is handled by the code that ends the process.
    !matches!(Records::new(run_dir).read(slot), Ok(None))
}

/// A slot whose process a killed supervisor had left, and that process or why it is not gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedLeftover {
    /// The slot.
    pub slot: String,
    /// The process that was ended.
    pub ended: Result<u32, String>,
}

/// Ends what a killed supervisor left, under the lock of the home, as a supervisor that is asked to
/// end does with its children: what is desired stays, so that the next one starts them.
#[boxed]
pub async fn end_leftovers(
    run_dir: &Path,
    found: &[FoundSlot],
) -> Result<Vec<EndedLeftover>, OfflineError> {
    let records = Records::new(run_dir);
    let failed = |source| OfflineError::Records { path: run_dir.into(), source };
    if records.slots().map_err(failed)?.is_empty() {
        return Ok(Vec::new());
    }
    let _lock = HomeLock::take(run_dir, Manager::Command).await?;
    let ended = records.end_leftovers(&grace_periods(found)).await.map_err(failed)?;
    let one = |(slot, ended): (SlotName, Result<LeftoverChild, LeftoverError>)| {
        let ended = match ended {
            Ok(LeftoverChild::None) => return None,
            Ok(LeftoverChild::Ended(process)) => Ok(process.pid),
            Err(error) => Err(error.to_string()),
        };
        Some(EndedLeftover { slot: slot.to_string(), ended })
    };
    Ok(ended.into_iter().filter_map(one).collect())
}

/// Returns how long each slot may take to end.
pub(crate) fn grace_periods(found: &[FoundSlot]) -> BTreeMap<SlotName, Duration> {
    let one = |found: &FoundSlot| match found {
        FoundSlot::Slot(slot) => Some((slot.name.clone(), slot.service.stop_within)),
        FoundSlot::Broken { .. } => None,
    };
    found.iter().filter_map(one).collect()
}

/// What is known of the slots of a home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotStatuses {
    /// Those of profiles.
    pub slots: Vec<SlotStatus>,
    /// Those that the home has once.
    pub services: Vec<SlotStatus>,
}

/// Returns what is known of slots from their files, without taking the lock. `logs` is the directory
/// that has the logs of broken slots.
pub fn list_offline(run_dir: &Path, logs: &Path, found: Vec<FoundSlot>) -> SlotStatuses {
    let records = Records::new(run_dir);
    let mut status = SlotStatuses { slots: Vec::new(), services: Vec::new() };
    for found in found {
        match found {
            FoundSlot::Broken { name, reason } => {
                status.slots.push(SlotStatus::broken(&name, reason, logs.into()));
            }
            FoundSlot::Slot(slot) => {
                let is_of_home = slot.name.service_of_home().is_some();
                let into = if is_of_home { &mut status.services } else { &mut status.slots };
                into.push(offline_status(&records, &slot));
            }
        }
    }
    status
}

fn offline_status(records: &Records, slot: &Slot) -> SlotStatus {
    let Slot { name, service } = slot;
    let mut status = SlotStatus::new(name.as_str(), service.log_dir.clone());
    let record = records.read(name).ok().flatten();
    if let Some(record) = record
        && let Some(process) = record.process
        && process.is_alive()
    {
        status.state = SlotState::Running;
        status.pid = Some(process.pid);
        status.started_at = Some(record.started_at);
        status.reason = Some("its supervisor is gone; the next one ends it first".to_owned());
        return status.with_files(service);
    }
    let mut status = status.with_files(service);
    if status.state == SlotState::Stopped
        && Prior::read(service).is_ok_and(|prior| prior.comes_back)
    {
        status.reason = Some(
            "it is wanted, and no supervisor runs to keep it; the next one starts it".to_owned(),
        );
    }
    status
}
