//! What supervisors tell.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use vestal_wire::{Cause, Delivery, Event, Exit, JobState, Reply};

use super::guest::Guest;
use super::ids::{JobKey, SupervisorId, Token};
use super::job::{Killer, Phase};
use super::poll::Ready;
use super::timers::Timer;
use super::workers::Letter;
use crate::failpoint::failpoint;
use crate::log::LogStream;
use crate::orphans;
use crate::process::{Report, WaitStatus, tree};

/// Time between two looks for orphans that are being killed.
const SWEEP_AGAIN: Duration = Duration::from_millis(5);

impl Guest {
    /// Reads everything a supervisor has to tell.
    pub(super) fn read_reports(&mut self, id: SupervisorId) {
        loop {
            let Some(supervisor) = self.pool.get_mut(id) else {
                return;
            };
            match supervisor.receive() {
                Ok(Some(report)) => self.take_report(id, report),
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.supervisor_died(id),
            }
        }
    }

    fn take_report(&mut self, id: SupervisorId, report: Report) {
        let Some(key) = self.pool.job(id) else {
            if let Report::Empty = report {
                self.pool.release(id, &self.poller);
            }
            return;
        };
        match report {
            Report::Started { pid, pid_start } => self.started(key, pid, pid_start),
            Report::Failed { step, errno } => self.start_failed(key, step, errno),
            Report::Ended { status, state } => self.shell_ended(key, status, state),
            Report::Left { processes } => {
                if let Some(job) = self.jobs.get_mut(key) {
                    job.record.processes = processes;
                }
            }
            Report::Empty => self.emptied(id, key),
        }
        self.queue_pump(key);
    }

    fn started(&mut self, key: JobKey, pid: u32, pid_start: u64) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        live.phase = Phase::Running;
        live.stdin.release();
        let vanished = live.plan.take().and_then(|plan| plan.vanished);
        job.record.state = JobState::Running;
        job.record.pid = Some(pid);
        job.record.pid_start = Some(pid_start);
        failpoint!("guest.job.after-started");
        for stream in LogStream::ALL {
            if let Some(outlet) = &mut live.outlets[stream.index()] {
                let token = Token::Output(key, stream);
                outlet.watched = self.poller.add(outlet.fd.as_fd(), token, Ready::IN).is_ok();
            }
        }
        let info = job.info();
        job.followers.retain(|follower| {
            self.conns.event(follower.to, &Event::Started { pid });
            let detached = matches!(follower.delivery, Delivery::Detached);
            if detached {
                self.conns.reply(follower.to, &Reply::Job(Box::new(info.clone())));
            }
            !detached
        });
        if let Some(vanished) = vanished {
            let line = format!(
                "vestal: the session's directory {} is gone; starting in {}\n",
                String::from_utf8_lossy(&vanished),
                String::from_utf8_lossy(&info.cwd),
            );
            self.say_on_stderr(key, &line);
        }
        self.write_input(key);
    }

    fn shell_ended(&mut self, key: JobKey, status: WaitStatus, state: Option<OwnedFd>) {
        let Some(job) = self.jobs.get(key) else {
            return;
        };
        let killer = job.live.as_ref().and_then(|live| live.killer);
        let exit = match (killer, status) {
            (Some(Killer::Timeout), _) => Exit { code: Some(124), cause: Cause::TimedOut },
            (Some(Killer::Caller), _) => Exit { code: Some(137), cause: Cause::Killed },
            (None, WaitStatus::Exited(code)) => Exit { code: Some(code), cause: Cause::Exited },
            (None, WaitStatus::Signaled(signal)) => {
                let code = u8::try_from(128 + signal).ok();
                Exit { code, cause: Cause::Signaled(signal) }
            }
        };
        self.set_exit(key, exit);
        failpoint!("guest.job.after-exit");
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        match (&job.record.session, live.turn, state) {
            (Some(name), Some(turn), Some(dump)) => {
                // Callers hear of the exit before the state is saved; commands
                // that come now start when it is.
                live.phase = Phase::Saving;
                live.dump = Some(dump);
                self.sessions.finished(name, turn);
                self.jobs.record_end(key);
                self.saves.push(key);
            }
            _ => self.settle(key, None),
        }
    }

    fn emptied(&mut self, id: SupervisorId, key: JobKey) {
        self.pool.release(id, &self.poller);
        if let Some(job) = self.jobs.get_mut(key) {
            job.record.processes = 0;
            if let Some(live) = job.live.as_deref_mut() {
                live.supervisor = None;
            }
        }
    }

    /// Acts on a supervisor's death: its job is lost, and what is left of it
    /// has become ours to kill.
    fn supervisor_died(&mut self, id: SupervisorId) {
        let job = self.pool.discard(id, &self.poller);
        if let Some(key) = job {
            if let Some(live) = self.jobs.get_mut(key).and_then(|job| job.live.as_deref_mut()) {
                live.supervisor = None;
                live.orphaned = true;
            }
            self.set_exit(key, Exit { code: None, cause: Cause::Lost });
            self.settle(key, None);
            self.queue_pump(key);
        }
        self.want_spare();
        self.sweep();
    }

    /// Reaps children that ended and has those killed that nobody knows. As
    /// long as there is one, jobs without a supervisor may still have processes.
    pub(super) fn sweep(&mut self) {
        orphans::reap();
        if self.burying {
            return;
        }
        let mut strangers = orphans::strangers(&self.pool.pids());
        self.spared.retain(|pid| strangers.contains(pid));
        strangers.retain(|pid| !self.spared.contains(pid));
        if strangers.is_empty() {
            return self.orphans_gone();
        }
        let mailbox = Arc::clone(&self.mailbox);
        let begun = self.workers.run(move || {
            let refused = tree::kill_tree(&strangers);
            mailbox.post(Letter::Buried(refused));
        });
        self.burying = begun.is_ok();
        if begun.is_err() {
            self.timers.set(SWEEP_AGAIN, Timer::Sweep);
        }
    }

    /// Looks again after orphans were killed. Those that may not be killed are
    /// none of the guest's: somebody brought them in from outside as another user.
    pub(super) fn buried(&mut self, refused: Vec<u32>) {
        self.burying = false;
        self.spared.extend(refused);
        self.timers.set(SWEEP_AGAIN, Timer::Sweep);
    }

    fn orphans_gone(&mut self) {
        for key in self.jobs.live_keys() {
            let Some(job) = self.jobs.get_mut(key) else {
                continue;
            };
            let Some(live) = job.live.as_deref_mut() else {
                continue;
            };
            if std::mem::take(&mut live.orphaned) {
                job.record.processes = 0;
                self.queue_pump(key);
            }
        }
    }
}
