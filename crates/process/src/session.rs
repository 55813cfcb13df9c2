//! Sessions of processes: leads one, and ends one with all its processes.

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, setpgid, setsid};

use crate::identity::{
    ProcessHandle, ProcessId, Stat, boot_id, numbers, started_with, wait_for_all,
};

/// How long to wait for killed processes before looking again: one of them may
/// have started another process in its last moment.
const ROUND: Duration = Duration::from_millis(50);

/// A process that leads a session, or at least a group, with all processes in it.
///
/// The kernel does not reuse the leader's pid while the session or group has
/// members. So while the leader exists, even as a zombie, all processes in a
/// session of that number belong to it. Once the leader is gone, that is not
/// certain: the pid may have been reused by another session leader that is gone
/// as well. Then only processes that carry the marks count as members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSession {
    /// The process that leads it.
    pub leader: ProcessId,
    /// Variables, written as `NAME=value`, that the leader was started with and
    /// that no other session has. Without any, processes that outlive the leader
    /// are left alone.
    pub marks: Vec<OsString>,
}

/// How long the end of a session may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTimeouts {
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// From SIGKILL until remaining processes count as survivors.
    pub kill: Duration,
}

/// Result of ending a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    /// No process is left.
    Ended,
    /// These processes survived even SIGKILL.
    Survived(Vec<ProcessId>),
}

impl ProcessSession {
    /// Returns all living members.
    pub fn members(&self) -> io::Result<Vec<ProcessId>> {
        self.find(Leader::look(&self.leader)?)
    }

    /// Returns the living members that have a mount namespace, written as in
    /// `/proc/PID/ns/mnt`. Where the leader is gone, that proves in place of marks that
    /// they are members: the namespace, too, has a number that nothing else has while
    /// they live.
    pub fn members_in_namespace(&self, mounts: &str) -> io::Result<Vec<ProcessId>> {
        if Leader::look(&self.leader)? == Leader::Impostor {
            return Ok(Vec::new());
        }
        let mut members = self.find(Leader::Present)?;
        members.retain(|member| {
            let found = std::fs::read_link(format!("/proc/{}/ns/mnt", member.pid));
            found.is_ok_and(|found| found.as_os_str() == mounts)
        });
        Ok(members)
    }

    /// Returns for each session whether it has members, with one scan of all
    /// processes.
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

    /// Ends all members: SIGTERM, then SIGKILL, until none is left. Only proven
    /// members get a signal.
    pub async fn end(&self, timeout: EndTimeouts) -> io::Result<SessionEnd> {
        let leader = Leader::look(&self.leader)?;
        // If the leader was present at the start of this call, its pid counts as
        // its own for the duration of the call, until another process has it.
        let known = |now: Leader| if now == Leader::Gone { leader } else { now };
        let look = || self.find(known(Leader::look(&self.leader)?));

        let asked = look()?;
        if asked.is_empty() {
            return Ok(SessionEnd::Ended);
        }
        let deadline = Instant::now() + timeout.grace;
        // A stopped process does not handle SIGTERM until it is continued.
        let mut handles = self.signal(&asked, &[Signal::TERM, Signal::CONT])?;
        while wait_for_all(handles, deadline).await? {
            let left = look()?;
            if left.is_empty() {
                return Ok(SessionEnd::Ended);
            }
            // They started after SIGTERM was sent, and get the rest of the grace
            // period.
            handles = self.signal(&left, &[Signal::TERM, Signal::CONT])?;
        }

        let deadline = Instant::now() + timeout.kill;
        loop {
            let left = look()?;
            if left.is_empty() {
                return Ok(SessionEnd::Ended);
            }
            if Instant::now() >= deadline {
                return Ok(SessionEnd::Survived(left));
            }
            let handles = self.signal(&left, &[Signal::KILL])?;
            wait_for_all(handles, deadline.min(Instant::now() + ROUND)).await?;
        }
    }

    /// Sends signals to members, and returns handles of those that still existed.
    fn signal(
        &self,
        processes: &[ProcessId],
        signals: &[Signal],
    ) -> io::Result<Vec<ProcessHandle>> {
        let mut handles = Vec::with_capacity(processes.len());
        for process in processes {
            let Some(handle) = process.handle()? else { continue };
            // It may have left for another session since it was found.
            if !Stat::of(process.pid).is_some_and(|stat| self.has(&stat)) && *process != self.leader
            {
                continue;
            }
            for signal in signals {
                match handle.signal(*signal) {
                    // It runs as another user now, so it will survive.
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

/// Which process has the leader's pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leader {
    /// The leader, alive or as a zombie.
    Present,
    /// No process.
    Gone,
    /// Another process: the pid was free, so the session has no members.
    Impostor,
}

impl Leader {
    fn look(leader: &ProcessId) -> io::Result<Self> {
        // No process survives a reboot.
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

/// Makes this process lead a new session, so that terminals and signals to its
/// parent's group do not reach it, and it can be ended with all its children.
///
/// Such a process is started in its own group. A group leader must leave its
/// group to lead a session: it briefly joins the group of its parent, or that of
/// its old session. If both are gone, it stays a group leader, and can be ended
/// by its group.
pub fn lead_session() -> io::Result<()> {
    let me = std::process::id();
    let own = Stat::of(me).ok_or_else(|| io::Error::other("cannot read /proc"))?;
    if own.session == me {
        return Ok(());
    }
    match setsid() {
        Ok(_) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let parent = getppid().and_then(|parent| Stat::of(parent.as_raw_pid().unsigned_abs()));
    for group in parent.map(|stat| stat.group).into_iter().chain([own.session]) {
        // A group in another pid namespace has no number here.
        let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) else { continue };
        if setpgid(None, Some(group)).is_err() {
            continue;
        }
        if setsid().is_ok() {
            return Ok(());
        }
        // Its own group is better than another one.
        setpgid(None, None)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
