//! The orderly end.

use std::time::{Duration, Instant};

use vestal_wire::{FaultCode, Reply};

use super::channel::Call;
use super::clock::Use;
use super::guest::Guest;
use super::ids::Address;
use super::job::{Killer, Phase};
use crate::failpoint::failpoint;

/// Time between SIGTERM and SIGKILL when nobody says otherwise.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(5);

/// How long processes may take to die of SIGKILL before the guest ends without
/// proof that they did.
const KILL_LIMIT: Duration = Duration::from_secs(20);

/// How long the last answers may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The guest's end under way.
#[derive(Debug)]
pub(super) struct Ending {
    stage: Stage,
    until: Instant,
    callers: Vec<Address>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Jobs have been asked to end.
    Asked,
    /// Jobs are being killed.
    Killed,
}

impl Ending {
    /// Returns when the next stage begins.
    pub(super) const fn next_step(&self) -> Instant {
        self.until
    }

    pub(super) fn forget(&mut self, caller: Address) {
        self.callers.retain(|at| *at != caller);
    }
}

impl Guest {
    /// Ends the guest on request.
    pub(super) fn shutdown(&mut self, at: Address, kind: Use, grace_ms: u64, if_idle: bool) {
        if if_idle && self.ending.is_none() {
            let running = self.conns.clock.jobs_running();
            if running > 0 {
                let what = if running == 1 { "job runs" } else { "jobs run" };
                return self.conns.fault(at, FaultCode::Busy, format!("{running} {what}"));
            }
            if self.conns.others_busy(at.conn) {
                return self.conns.fault(at, FaultCode::Busy, "another client's call is open");
            }
        }
        self.conns.open(at, Call::Shutdown, kind);
        self.begin_end(Duration::from_millis(grace_ms));
        if let Some(ending) = &mut self.ending {
            ending.callers.push(at);
        }
    }

    /// Begins the orderly end: no job starts any more, and those that run are
    /// asked to end. A second call can only hasten it.
    pub(super) fn begin_end(&mut self, grace: Duration) {
        let now = Instant::now();
        let until = now.checked_add(grace).unwrap_or(now);
        if let Some(ending) = &mut self.ending {
            if ending.stage == Stage::Asked {
                ending.until = ending.until.min(until);
            }
            return;
        }
        failpoint!("guest.shutdown.begin");
        self.ending = Some(Ending { stage: Stage::Asked, until, callers: Vec::new() });
        for key in self.jobs.live_keys() {
            let Some(live) = self.jobs.get(key).and_then(|job| job.live.as_deref()) else {
                continue;
            };
            if live.phase == Phase::Waiting {
                self.kill_job(key, Killer::Caller);
            } else if let Some(supervisor) = live.supervisor.and_then(|id| self.pool.get_mut(id)) {
                // One that cannot be asked is killed in time.
                supervisor.signal(libc::SIGTERM).ok();
            }
        }
    }

    /// Takes the end a step further; returns whether the loop is done.
    pub(super) fn end_step(&mut self) -> bool {
        let Some(ending) = &mut self.ending else {
            return false;
        };
        let now = Instant::now();
        let keys = self.jobs.live_keys();
        let left: Vec<_> = keys
            .into_iter()
            .filter(|key| self.jobs.get(*key).is_some_and(|job| !job.is_gone()))
            .collect();
        if left.is_empty() {
            failpoint!("guest.shutdown.after-kill");
            return true;
        }
        if now < ending.until {
            return false;
        }
        if ending.stage == Stage::Killed {
            crate::diagnostics::note("processes did not die of SIGKILL; ending without them");
            return true;
        }
        ending.stage = Stage::Killed;
        ending.until = now + KILL_LIMIT;
        for key in left {
            self.kill_job(key, Killer::Caller);
        }
        false
    }

    /// Answers those who asked for the end, and waits a moment for them to read.
    pub(super) fn say_last_words(&mut self) {
        let callers = self.ending.take().map_or_else(Vec::new, |ending| ending.callers);
        for key in self.jobs.live_keys() {
            self.pump(key);
        }
        for caller in callers {
            self.conns.reply(caller, &Reply::Done);
        }
        let deadline = Instant::now() + LAST_WORDS;
        for id in self.conns.ids() {
            self.conns.mark_dirty(id);
        }
        self.flush();
        while Instant::now() < deadline && self.conns.is_unread() {
            std::thread::sleep(Duration::from_millis(2));
            for id in self.conns.ids() {
                self.conns.mark_dirty(id);
            }
            self.flush();
        }
    }
}
