//! Ending a process with everything in its session and its group.

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::identity::{ProcessHandle, ProcessId, boot_id, wait_for_all};
use crate::stat::{Stat, numbers, started_with};

/// How long to wait for processes that were killed before looking again: what
/// one of them started in its last moment has to be killed as well.
const ROUND: Duration = Duration::from_millis(50);

/// A process that leads a session, or at least a group, and all that is in it.
///
/// The kernel gives the leader's number to nobody else while anything is left
/// in its session or group. So whoever is in a session of that number belongs
/// to it while the leader is there, be it as a zombie. Once the leader is gone
/// that is not certain any more: the number may have been given to another, who
/// led a session and went as well. Then only processes that carry the marks are
/// taken for its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The process that leads it.
    pub leader: ProcessId,
    /// Variables that the leader was started with and that no other session
    /// has, written as `NAME=value`. Without any, what outlives the leader is
    /// left alone.
    pub marks: Vec<OsString>,
}

/// How much time the end of a session may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// From SIGKILL until what is left counts as a survivor.
    pub kill: Duration,
}

/// What came of ending a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Nothing is left of it.
    Ended,
    /// These do not go, not even killed.
    Survived(Vec<ProcessId>),
}

impl Session {
    /// Returns all of it that lives.
    pub fn members(&self) -> io::Result<Vec<ProcessId>> {
        self.find(Leader::look(&self.leader)?)
    }

    /// Returns which of some sessions have anything left in them, with one look
    /// at every process for all of them together.
    pub fn living(sessions: &[Self]) -> io::Result<Vec<bool>> {
        let mut living = vec![false; sessions.len()];
        if sessions.is_empty() {
            return Ok(living);
        }
        let leaders = sessions.iter().map(|session| Leader::look(&session.leader));
        let leaders = leaders.collect::<io::Result<Vec<_>>>()?;
        for pid in numbers()? {
            let Some(stat) = Stat::of(pid) else { continue };
            for ((session, leader), lives) in sessions.iter().zip(&leaders).zip(&mut living) {
                *lives |= session.member(pid, &stat, *leader).is_some();
            }
        }
        Ok(living)
    }

    /// Ends all of it: SIGTERM, then SIGKILL, until nothing is left. Whoever is
    /// not proven to belong to it gets no signal.
    pub async fn end(&self, patience: Patience) -> io::Result<End> {
        let leader = Leader::look(&self.leader)?;
        // Whoever this call has seen lead stays known as the leader until the
        // number is somebody else's, for the moments that this call takes.
        let known = |now: Leader| if now == Leader::Gone { leader } else { now };
        let look = || self.find(known(Leader::look(&self.leader)?));

        let asked = look()?;
        if asked.is_empty() {
            return Ok(End::Ended);
        }
        let deadline = Instant::now() + patience.grace;
        // A stopped process does not see SIGTERM before it goes on.
        let mut handles = self.signal(&asked, &[Signal::TERM, Signal::CONT])?;
        while wait_for_all(handles, deadline).await? {
            let left = look()?;
            if left.is_empty() {
                return Ok(End::Ended);
            }
            // They came after SIGTERM was sent; they get what grace is left.
            handles = self.signal(&left, &[Signal::TERM, Signal::CONT])?;
        }

        let deadline = Instant::now() + patience.kill;
        loop {
            let left = look()?;
            if left.is_empty() {
                return Ok(End::Ended);
            }
            if Instant::now() >= deadline {
                return Ok(End::Survived(left));
            }
            let handles = self.signal(&left, &[Signal::KILL])?;
            wait_for_all(handles, deadline.min(Instant::now() + ROUND)).await?;
        }
    }

    /// Sends signals to processes of the session, and returns handles of those
    /// that were there to get them.
    fn signal(
        &self,
        processes: &[ProcessId],
        signals: &[Signal],
    ) -> io::Result<Vec<ProcessHandle>> {
        let mut handles = Vec::with_capacity(processes.len());
        for process in processes {
            let Some(handle) = process.handle()? else { continue };
            // It may have left for a session of its own since it was found.
            if !Stat::of(process.pid).is_some_and(|stat| self.has(&stat)) && *process != self.leader
            {
                continue;
            }
            for signal in signals {
                match handle.signal(*signal) {
                    // It runs as somebody else now, so it will be a survivor.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    sent => sent?,
                }
            }
            handles.push(handle);
        }
        Ok(handles)
    }

    fn has(&self, stat: &Stat) -> bool {
        stat.session == self.leader.pid || stat.group == self.leader.pid
    }

    fn find(&self, leader: Leader) -> io::Result<Vec<ProcessId>> {
        let member = |pid| self.member(pid, &Stat::of(pid)?, leader);
        Ok(numbers()?.into_iter().filter_map(member).collect())
    }

    /// Returns a process by its identity, if it lives and belongs to the session.
    fn member(&self, pid: u32, stat: &Stat, leader: Leader) -> Option<ProcessId> {
        let is_leader = pid == self.leader.pid && stat.start == self.leader.start;
        let belongs = is_leader
            || (self.has(stat)
                && stat.start >= self.leader.start
                && (leader == Leader::Present || started_with(pid, &self.marks)));
        (belongs && !stat.zombie && leader != Leader::Impostor).then(|| ProcessId {
            pid,
            start: stat.start,
            boot: self.leader.boot.clone(),
        })
    }
}

/// Who has the leader's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leader {
    /// The leader, alive or as a zombie.
    Present,
    /// Nobody.
    Gone,
    /// Another process: the number was free, so nothing is left of the session.
    Impostor,
}

impl Leader {
    fn look(leader: &ProcessId) -> io::Result<Self> {
        // What ran before the last boot is gone with all it started.
        if boot_id()? != leader.boot {
            return Ok(Self::Impostor);
        }
        Ok(match Stat::of(leader.pid) {
            Some(stat) if stat.start == leader.start => Self::Present,
            Some(_) => Self::Impostor,
            None => Self::Gone,
        })
    }
}

#[cfg(test)]
#[path = "end_tests.rs"]
mod tests;
