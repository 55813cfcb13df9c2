//! Supervisors, used again from job to job.

use std::collections::HashMap;
use std::io;

use super::ids::{JobKey, SupervisorId, Token};
use super::poll::{Poller, Ready};
use crate::process::{Standing, Supervisor};

/// Idle supervisors that are kept.
const MAX_IDLE: usize = 2;

/// All supervisors.
#[derive(Debug)]
pub(super) struct Pool {
    standing: Standing,
    all: HashMap<SupervisorId, Slot>,
    idle: Vec<SupervisorId>,
    next: u64,
}

#[derive(Debug)]
struct Slot {
    supervisor: Supervisor,
    job: Option<JobKey>,
}

impl Pool {
    /// A pool without supervisors yet, for jobs of a standing.
    pub(super) fn new(standing: Standing) -> Self {
        Self { standing, all: HashMap::new(), idle: Vec::new(), next: 0 }
    }

    /// Returns what the jobs of these supervisors are.
    pub(super) const fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Makes an idle supervisor.
    pub(super) fn add_spare(&mut self, poller: &Poller) -> io::Result<()> {
        let supervisor = Supervisor::spawn(&self.standing)?;
        let id = SupervisorId(self.next);
        self.next += 1;
        poller.add(supervisor.control(), Token::Supervisor(id), Ready::IN)?;
        self.all.insert(id, Slot { supervisor, job: None });
        self.idle.push(id);
        Ok(())
    }

    /// Returns whether a supervisor is idle.
    pub(super) fn has_spare(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Takes an idle supervisor for a job, or a new one.
    pub(super) fn take(&mut self, poller: &Poller, job: JobKey) -> io::Result<SupervisorId> {
        if self.idle.is_empty() {
            self.add_spare(poller)?;
        }
        loop {
            let id = self.idle.pop().ok_or(io::ErrorKind::NotFound)?;
            if let Some(slot) = self.all.get_mut(&id) {
                slot.job = Some(job);
                return Ok(id);
            }
        }
    }

    /// Parts a supervisor from its job, which it could not start. It is idle
    /// again when it says so.
    pub(super) fn detach(&mut self, id: SupervisorId) {
        if let Some(slot) = self.all.get_mut(&id) {
            slot.job = None;
        }
    }

    /// Takes a supervisor back whose job is gone.
    pub(super) fn release(&mut self, id: SupervisorId, poller: &Poller) {
        if self.idle.len() >= MAX_IDLE {
            self.discard(id, poller);
        } else if let Some(slot) = self.all.get_mut(&id) {
            slot.job = None;
            self.idle.push(id);
        }
    }

    /// Lets a supervisor go, which ends it and whatever it still has.
    pub(super) fn discard(&mut self, id: SupervisorId, poller: &Poller) -> Option<JobKey> {
        self.idle.retain(|idle| *idle != id);
        let slot = self.all.remove(&id)?;
        poller.remove(slot.supervisor.control());
        slot.job
    }

    pub(super) fn get_mut(&mut self, id: SupervisorId) -> Option<&mut Supervisor> {
        self.all.get_mut(&id).map(|slot| &mut slot.supervisor)
    }

    /// Returns the job that a supervisor has.
    pub(super) fn job(&self, id: SupervisorId) -> Option<JobKey> {
        self.all.get(&id)?.job
    }

    pub(super) fn pid(&self, id: SupervisorId) -> Option<u32> {
        self.all.get(&id).map(|slot| slot.supervisor.pid())
    }

    /// Returns the process ids of all supervisors.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.all.values().map(|slot| slot.supervisor.pid()).collect()
    }
}
