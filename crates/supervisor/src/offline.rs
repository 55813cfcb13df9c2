//! Slots while no supervisor runs: what is known of them, and how they are stopped. What a killed
//! supervisor left is ended, and they stay down.

use std::path::Path;

use crate::control::Outcome;
use crate::lock::{HomeLock, LockError, Manager};
use crate::record::{Leftover, Records};
use crate::slot::{Found, Slot, SlotName};
use crate::state::{self, Desired};
use crate::status::{Done, SlotState, SlotStatus};

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// A supervisor began meanwhile; it is to be asked.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Stops slots, under the lock of the home, which a supervisor would hold.
pub async fn stop_offline(run_dir: &Path, slots: &[Slot]) -> Result<Vec<Outcome>, OfflineError> {
    let _lock = HomeLock::take(run_dir, Manager::Command).await?;
    let records = Records::new(run_dir);
    let mut outcomes = Vec::new();
    for slot in slots {
        let stopped = match state::write_desired(&slot.desired, Desired::Stopped) {
            Ok(()) => records
                .end_leftover(&slot.name, slot.stop_within)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let (done, error) = match stopped {
            Ok(Leftover::None) => (Some(Done::WasStopped), None),
            Ok(Leftover::Ended(_)) => (Some(Done::Stopped), None),
            Err(error) => (None, Some(error)),
        };
        outcomes.push(Outcome { slot: slot.name.to_string(), done, error });
    }
    Ok(outcomes)
}

/// Reports whether an earlier supervisor may have left a process of a slot.
pub fn has_leftover(run_dir: &Path, slot: &SlotName) -> bool {
    // A record that cannot be read is looked at by whoever ends it.
    !matches!(Records::new(run_dir).read(slot), Ok(None))
}

/// Returns what is known of slots from their files, without taking the lock.
pub fn list_offline(run_dir: &Path, logs_dir: &Path, found: Vec<Found>) -> Vec<SlotStatus> {
    let records = Records::new(run_dir);
    let logs = logs_dir.join("gateways");
    let status = |name: &str| SlotStatus::new(name, logs.join(name));
    let one = |found: Found| match found {
        Found::Broken { name, reason } => SlotStatus::broken(&name, reason, logs.clone()),
        Found::Slot(slot) => {
            let mut status = status(slot.name.as_str());
            let record = records.read(&slot.name).ok().flatten();
            if let Some(process) = record.and_then(|record| record.process)
                && process.is_alive()
            {
                status.state = SlotState::Running;
                status.pid = Some(process.pid);
                status.reason =
                    Some("its supervisor is gone; the next one ends it first".to_owned());
            }
            status.with_files(&slot)
        }
    };
    found.into_iter().map(one).collect()
}
