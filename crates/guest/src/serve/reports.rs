//! Acts on what supervisors report: jobs that start, end, are killed or lose their
//! supervisor. Saves sessions and sends the final replies.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use minicbor::bytes::ByteVec;
use vestal_wire::{CallEvent, CallReply, Cause, JobExit, JobState, OutputDelivery, SessionState};

use super::guest::Guest;
use super::jobs::{Job, KillReason, RecordedPhase, WaitFor};
use super::lifetime::wall_ms;
use super::output;
use super::reactor::{JobKey, PollToken, Ready, SupervisorId, Timer};
use super::workers::WorkerMessage;
use crate::failpoint::failpoint;
use crate::log::LogStream;
use crate::process::{SupervisorReport, WaitStatus, tree};
use crate::session::{SaveDecision, SavedSession};
use crate::{diagnostics, orphans};

/// How long the processes of a job that is killed have between SIGTERM and SIGKILL: enough to remove
/// a lock or write a last line, and little to wait for after Ctrl-C.
pub(super) const KILL_GRACE: Duration = Duration::from_secs(1);

/// Interval between two checks for orphans that are being killed.
const REAP_AGAIN: Duration = Duration::from_millis(5);

impl Guest {
    /// Reads all reports of a supervisor.
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

    fn take_report(&mut self, id: SupervisorId, report: SupervisorReport) {
        let Some(key) = self.pool.job(id) else {
            if let SupervisorReport::Empty = report {
                self.pool.release(id, &self.poller);
            }
            return;
        };
        match report {
            SupervisorReport::Started { pid, pid_start } => self.started(key, pid, pid_start),
            SupervisorReport::Failed { step, errno } => self.start_failed(key, step, errno),
            SupervisorReport::Ended { status, state } => self.shell_ended(key, status, state),
            SupervisorReport::Left { processes } => {
                if let Some(job) = self.jobs.get_mut(key) {
                    job.record.processes = processes;
                }
            }
            SupervisorReport::Empty => self.emptied(id, key),
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
        live.phase = RecordedPhase::Running;
        live.stdin.release();
        let (vanished, damaged) =
            live.plan.take().map_or((None, None), |plan| (plan.vanished, plan.damaged_session));
        job.record.state = JobState::Running;
        job.record.pid = Some(pid);
        job.record.pid_start = Some(pid_start);
        failpoint!("guest.job.after-started");
        for stream in LogStream::ALL {
            if let Some(output) = &mut live.outputs[stream.index()] {
                let token = PollToken::Output(key, stream);
                output.watched = self.poller.add(output.fd.as_fd(), token, Ready::IN).is_ok();
            }
        }
        let info = job.info();
        job.followers.retain(|follower| {
            self.connections.event(follower.to, &CallEvent::Started { pid });
            let detached = matches!(follower.delivery, OutputDelivery::Detached);
            if detached {
                self.connections.reply(follower.to, &CallReply::Job(Box::new(info.clone())));
            }
            !detached
        });
        if let Some(path) = damaged {
            let line = format!(
                "vestal: the session's state was damaged and starts empty; the old file is {}\n",
                path.display(),
            );
            self.write_stderr_line(key, &line);
        }
        if let Some(vanished) = vanished {
            let line = format!(
                "vestal: the session's directory {} is gone; starting in {}\n",
                String::from_utf8_lossy(&vanished),
                String::from_utf8_lossy(&info.cwd),
            );
            self.write_stderr_line(key, &line);
        }
        self.write_input(key);
    }

    fn shell_ended(&mut self, key: JobKey, status: WaitStatus, state: Option<OwnedFd>) {
        let Some(job) = self.jobs.get(key) else {
            return;
        };
        let reason = job.live.as_ref().and_then(|live| live.reason);
        let exit = match (reason, status) {
            (Some(KillReason::Timeout), _) => JobExit { code: Some(124), cause: Cause::TimedOut },
            (Some(KillReason::Caller), _) => JobExit { code: Some(137), cause: Cause::Killed },
            (None, WaitStatus::Exited(code)) => JobExit { code: Some(code), cause: Cause::Exited },
            (None, WaitStatus::Signaled(signal)) => {
                let code = u8::try_from(128 + signal).ok();
                JobExit { code, cause: Cause::Signaled(signal) }
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
                // Callers get the exit code before the state is saved; commands
                // that arrive now start afterwards.
                live.phase = RecordedPhase::Saving;
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

    /// Handles the death of a supervisor: its job is lost, and the guest kills
    /// the remaining processes.
    fn supervisor_died(&mut self, id: SupervisorId) {
        let job = self.pool.discard(id, &self.poller);
        if let Some(key) = job {
            if let Some(live) = self.jobs.live_mut(key) {
                live.supervisor = None;
                live.orphaned = true;
            }
            self.set_exit(key, JobExit { code: None, cause: Cause::Lost });
            self.settle(key, None);
            self.queue_pump(key);
        }
        self.want_spare();
        self.reap_orphans();
    }

    /// Reaps children that ended, and kills unknown ones. While there is one,
    /// jobs without a supervisor may still have processes.
    pub(super) fn reap_orphans(&mut self) {
        orphans::reap();
        if self.killing_orphans {
            return;
        }
        let mut unknown_children = orphans::unknown_children(&self.pool.pids());
        self.unkillable.retain(|pid| unknown_children.contains(pid));
        unknown_children.retain(|pid| !self.unkillable.contains(pid));
        if unknown_children.is_empty() {
            return self.orphans_gone();
        }
        let mailbox = Arc::clone(&self.mailbox);
        let begun = self.workers.run(move || {
            let refused = tree::kill_tree(&unknown_children);
            mailbox.post(WorkerMessage::OrphansKilled(refused));
        });
        self.killing_orphans = begun.is_ok();
        if begun.is_err() {
            self.timers.set(REAP_AGAIN, Timer::ReapOrphans);
        }
    }

    /// Checks again after orphans were killed. Those that may not be killed do
    /// not belong to the guest: they were started from outside as another user.
    pub(super) fn orphans_killed(&mut self, refused: Vec<u32>) {
        self.killing_orphans = false;
        self.unkillable.extend(refused);
        self.timers.set(REAP_AGAIN, Timer::ReapOrphans);
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

    /// Records how a job's shell ended, if not known before.
    pub(super) fn set_exit(&mut self, key: JobKey, exit: JobExit) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.exit().is_some() {
            return;
        }
        job.record.state = JobState::Ended(exit);
        job.record.ended_ms = Some(wall_ms());
        self.connections.clock.job_ended();
        if let Some(live) = job.live.as_deref_mut() {
            job.record.duration_us = u64::try_from(live.began.elapsed().as_micros()).ok();
            if let Some(timer) = live.timeout.take() {
                self.timers.cancel(timer);
            }
        }
        self.close_input(key);
        self.mark_ends(key);
        self.queue_pump(key);
    }

    /// Saves the sessions of commands that have ended, after their exit codes
    /// were sent.
    pub(super) fn save_sessions(&mut self) {
        if self.saves.is_empty() {
            return;
        }
        for key in std::mem::take(&mut self.saves) {
            let live = self.jobs.live_mut(key);
            let dump = live.and_then(|live| live.dump.take());
            self.settle(key, dump);
        }
        self.pump_queued();
        self.flush();
        failpoint!("guest.job.after-reply");
    }

    /// Finishes a job's session after its shell has ended, with the state it
    /// left.
    pub(super) fn settle(&mut self, key: JobKey, dump: Option<OwnedFd>) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        if live.phase == RecordedPhase::Settled {
            return;
        }
        live.phase = RecordedPhase::Settled;
        live.plan = None;
        let turn = live.turn.take();
        let session = job.record.session.clone().zip(turn);
        if let Some((name, turn)) = &session {
            let (state, cwd) = self.save(key, name, *turn, dump);
            if let Some(job) = self.jobs.get_mut(key) {
                job.record.session_state = state;
                job.record.cwd = cwd.map_or_else(|| job.record.cwd.clone(), ByteVec::from);
            }
        }
        self.jobs.record_end(key);
        failpoint!("guest.job.after-end-record");
        if let Some((name, turn)) = session {
            let saved = self.jobs.get(key).map(|job| job.record.session_state);
            let ready = self.sessions.end(&name, turn, saved == Some(SessionState::Saved));
            for waiting in ready {
                self.launch(waiting);
            }
        }
        self.queue_pump(key);
    }

    /// Saves the state of a command as its session's, unless a later command
    /// supersedes it. Also returns the directory in which its shell ended.
    fn save(
        &mut self,
        key: JobKey,
        name: &str,
        turn: u64,
        dump: Option<OwnedFd>,
    ) -> (SessionState, Option<Vec<u8>>) {
        const NONE: (SessionState, Option<Vec<u8>>) = (SessionState::None, None);
        let Some(job) = self.jobs.get_mut(key) else {
            return NONE;
        };
        let by_itself =
            job.exit().is_some_and(|exit| matches!(exit.cause, Cause::Exited | Cause::Signaled(_)));
        let launch_env = job.live.as_mut().and_then(|live| live.launch_env.take());
        let (Some(dump), Some(launch_env), true) = (dump, launch_env, by_itself) else {
            return NONE;
        };
        failpoint!("guest.job.before-save");
        let bytes = match read_dump(dump) {
            Ok(bytes) => bytes,
            Err(error) => {
                diagnostics::note(&format!("state of job {}: {error}", job.record.id));
                return NONE;
            }
        };
        let harvested = SavedSession::from_dump(&bytes, &launch_env.base, &launch_env.job);
        let Some(mut saved) = harvested else {
            return NONE;
        };
        let cwd = saved.cwd.clone();
        if let Some(kept) = job.live.as_mut().and_then(|live| live.session_dir.take()) {
            saved.cwd = kept;
        }
        if self.sessions.decision(name, turn) == SaveDecision::Superseded {
            return (SessionState::Superseded, Some(cwd));
        }
        let path = self.sessions.path(name);
        if let Err(error) = self.sessions.prepare().and_then(|()| saved.store(&path)) {
            diagnostics::note(&format!("session {name} cannot be saved: {error}"));
            if let Some(job) = self.jobs.get_mut(key) {
                job.record.session_error = Some(error.to_string());
            }
            return (SessionState::None, Some(cwd));
        }
        failpoint!("guest.job.after-save");
        (SessionState::Saved, Some(cwd))
    }

    /// Ends all processes of a job; they have `grace` to do it themselves.
    pub(super) fn kill_job(&mut self, key: JobKey, reason: KillReason, grace: Duration) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        if live.phase == RecordedPhase::Waiting {
            if let Some(name) = &job.record.session {
                self.sessions.leave(name, key);
            }
            self.set_exit(key, JobExit { code: Some(137), cause: Cause::Killed });
            return self.settle(key, None);
        }
        live.reason.get_or_insert(reason);
        let supervisor = live.supervisor.and_then(|id| self.pool.get_mut(id));
        if let Some(Err(error)) = supervisor.map(|supervisor| supervisor.kill(grace)) {
            // If the supervisor died, the same socket reports it.
            diagnostics::note(&format!("kill of job {}: {error}", job.record.id));
        }
    }

    /// Kills a job whose timeout has expired.
    pub(super) fn time_out(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if let Some(live) = job.live.as_deref_mut() {
            live.timeout = None;
        }
        if job.exit().is_none() {
            self.kill_job(key, KillReason::Timeout, KILL_GRACE);
        }
    }

    /// Serves all followers and waiters of a job, and releases what it does not
    /// need any more.
    pub(super) fn pump(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        output::serve_followers(job, &mut self.connections, &mut self.buf);
        self.reply_to_waiters(key);
        self.update_polling(key);
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.live.is_some() {
            if job.is_over() {
                self.jobs.retire(key);
            }
        } else if job.followers.is_empty() {
            job.log.close_files();
            self.jobs.retire(key);
        }
    }

    fn reply_to_waiters(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.waiters.is_empty() {
            return;
        }
        let (settled, gone) = (job.is_settled(), job.is_gone());
        let reply = CallReply::Job(Box::new(job.info()));
        let mut timers = Vec::new();
        job.waiters.retain(|waiter| {
            let done = match waiter.wait_for {
                WaitFor::End => settled,
                WaitFor::Gone => gone,
            };
            if done {
                if let Some(channel) = self.connections.channel(waiter.to)
                    && let super::connections::OpenCall::Wait(_, Some(timer)) = channel.call
                {
                    timers.push(timer);
                }
                self.connections.reply(waiter.to, &reply);
            }
            !done
        });
        for timer in timers {
            self.timers.cancel(timer);
        }
    }

    /// Adds a line of the guest to a job's standard error.
    pub(super) fn write_stderr_line(&mut self, key: JobKey, line: &str) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let separate = job.live.as_ref().is_some_and(|live| live.outputs[1].is_some());
        let stream = if separate { LogStream::Stderr } else { LogStream::Stdout };
        let offset = job.log.stream(stream).total();
        job.log.append(stream, line.as_bytes());
        let Job { followers, .. } = job;
        for follower in followers {
            follower.pass_on(&mut self.connections, stream, offset, line.as_bytes());
        }
    }
}

/// Reads the state that a shell left. It comes from a process of the jobs' user,
/// who must not make the guest wait or read endlessly.
fn read_dump(dump: OwnedFd) -> io::Result<Vec<u8>> {
    let file = File::from(dump);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(metadata.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::protocol;

    #[test]
    fn a_state_that_would_never_end_is_none() {
        let memory = protocol::memory_file("state", b"state").unwrap();
        assert_eq!(read_dump(memory).unwrap(), b"state");
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        assert!(read_dump(pipe).is_err());
        assert!(read_dump(File::open("/dev/zero").unwrap().into()).is_err());
    }
}
