//! Taking a task.

use std::time::Duration;

use vestal_config::ProfileName;

use super::{authority, steps};
use crate::authority::Authority;
use crate::host::Host;
use crate::id::TaskId;
use crate::run::{Role, Run};
use crate::{Board, Result};

/// How a task is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// How long it is held without being renewed.
    pub lease: Duration,
    /// The profile that works on it; none: whoever asks does.
    pub profile: Option<ProfileName>,
    /// What for.
    pub role: Role,
    /// The host that starts a worker; none: no worker is started.
    pub host: Option<Host>,
}

impl Board {
    /// Takes a task. The number of the run that is returned is what its holder
    /// has to show from now on.
    pub async fn claim(&self, by: &Authority, id: &TaskId, claim: Claim) -> Result<Run> {
        authority::no_worker(by, "claim", id)?;
        let mut tx = self.write().await?;
        let run = steps::claim_in(&mut *tx, by, id, &claim).await?;
        tx.commit().await?;
        Ok(run)
    }
}
