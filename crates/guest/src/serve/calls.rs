//! Requests that are answered from what the guest knows.

use std::sync::Arc;
use std::time::Duration;

use vestal_wire::{FaultCode, JobId, JobInfo, JobState, Reply, Request, Status, WindowSize};

use super::channel::Call;
use super::clock::Use;
use super::guest::Guest;
use super::ids::{Address, JobKey};
use super::job::{Awaits, Job, Killer, Phase, Watcher};
use super::sessions::is_valid_name;
use super::timers::Timer;
use super::workers::Letter;
use crate::process::{self, tree};

/// Bytes of job descriptions in one answer, safely below the limit of a message.
const MAX_LISTING: usize = 768 << 10;

/// The most a description takes beside its texts.
const INFO_OVERHEAD: usize = 256;

impl Guest {
    /// Acts on a request.
    pub(super) fn call(&mut self, at: Address, kind: Use, request: Request) {
        if kind == Use::Counts {
            self.conns.clock.touch();
        }
        match request {
            Request::Status => self.conns.reply(at, &Reply::Status(self.status())),
            Request::Stats => self.stats(at, kind),
            Request::Touch => self.touch(at),
            Request::Start(start) => self.start(at, kind, *start),
            Request::Attach(attach) => self.attach(at, kind, &attach),
            Request::Wait { id, timeout_ms } => self.wait(at, kind, &id, timeout_ms),
            Request::Jobs { running, limit } => self.list(at, running, limit),
            Request::Lookup { id, incarnation, boot } => {
                let outcome = self.jobs.lookup(&id, &incarnation, &boot);
                self.conns.reply(at, &Reply::Outcome(outcome));
            }
            Request::Kill { id } => self.kill(at, kind, &id),
            Request::Signal { id, signal } => self.signal(at, &id, signal),
            Request::Input { id, close } => self.open_input(at, kind, &id, close),
            Request::Resize { id, size } => self.resize(at, &id, size),
            Request::ResetSession { name } => self.reset_session(at, &name),
            Request::File(call) => self.open_file(at, kind, call),
            Request::Retain { retention_ms } => {
                let retention = retention_ms.map(Duration::from_millis);
                self.conns.clock.set_retention(retention);
                self.conns.reply(at, &Reply::Done);
            }
            Request::Shutdown { grace_ms, if_idle } => self.shutdown(at, kind, grace_ms, if_idle),
        }
    }

    /// Returns the job of an id, or says that there is none.
    pub(super) fn job_or_fault(&mut self, at: Address, id: &JobId) -> Option<JobKey> {
        let key = self.jobs.find(id);
        if key.is_none() {
            self.conns.fault(at, FaultCode::NoSuchJob, format!("there is no job {id}"));
        }
        key
    }

    /// Returns what is known of a job, with its processes counted.
    pub(super) fn describe(&self, job: &Job) -> JobInfo {
        let mut info = job.info();
        let supervisor = job.live.as_ref().and_then(|live| live.supervisor);
        if let Some(pid) = supervisor.and_then(|id| self.pool.pid(id)) {
            info.processes = u32::try_from(tree::descendants(pid).len()).unwrap_or(u32::MAX);
        }
        info
    }

    fn status(&self) -> Status {
        let clock = &self.conns.clock;
        Status {
            idle_ms: millis(clock.idle()),
            expires_in_ms: clock.left().map(millis),
            jobs_running: u32::try_from(clock.jobs_running()).unwrap_or(u32::MAX),
            jobs_known: u32::try_from(self.jobs.len()).unwrap_or(u32::MAX),
            up_ms: millis(clock.up()),
            last_used_ms: clock.last_used_ms(),
        }
    }

    fn stats(&mut self, at: Address, kind: Use) {
        let (supervisors, log_bytes) = (self.pool.pids(), self.jobs.log_bytes());
        let mailbox = Arc::clone(&self.mailbox);
        let begun = self.workers.run(move || {
            let stats = crate::stats::collect(&supervisors, log_bytes);
            mailbox.post(Letter::Answer(at, Box::new(Reply::Stats(stats))));
        });
        match begun {
            Ok(()) => self.conns.open(at, Call::Work, kind),
            Err(error) => self.conns.fault(at, FaultCode::System, error.to_string()),
        }
    }

    fn touch(&mut self, at: Address) {
        self.conns.clock.touch();
        self.conns.reply(at, &Reply::Done);
    }

    fn list(&mut self, at: Address, running: bool, limit: u32) {
        let mut room = MAX_LISTING;
        let mut more = false;
        let mut listed = Vec::new();
        for (_, job) in self.jobs.iter().rev() {
            let record = &job.record;
            if running && matches!(record.state, JobState::Ended(_)) && job.is_gone() {
                continue;
            }
            let texts = record.cwd.len()
                + record.summary.len()
                + record.session.as_ref().map_or(0, String::len);
            let size = INFO_OVERHEAD + texts;
            if listed.len() >= limit as usize || size > room {
                more = true;
                break;
            }
            room -= size;
            listed.push(self.describe(job));
        }
        listed.reverse();
        self.conns.reply(at, &Reply::Jobs { jobs: listed, more });
    }

    fn wait(&mut self, at: Address, kind: Use, id: &JobId, timeout_ms: Option<u64>) {
        let Some(key) = self.job_or_fault(at, id) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.is_settled() || timeout_ms == Some(0) {
            return self.reply_job(at, key);
        }
        job.watchers.push(Watcher { to: at, awaits: Awaits::End });
        let timer = timeout_ms
            .and_then(|millis| self.timers.set(Duration::from_millis(millis), Timer::WaitOver(at)));
        self.conns.open(at, Call::Wait(key, timer), kind);
    }

    /// Answers a caller whose time to wait is up.
    pub(super) fn wait_is_over(&mut self, at: Address) {
        let Some(channel) = self.conns.channel(at) else {
            return;
        };
        if let Call::Wait(key, _) = channel.call {
            self.unwatch(key, at);
            self.reply_job(at, key);
        }
    }

    pub(super) fn unwatch(&mut self, key: JobKey, at: Address) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.watchers.retain(|watcher| watcher.to != at);
        }
    }

    fn reply_job(&mut self, at: Address, key: JobKey) {
        let Some(job) = self.jobs.get(key) else {
            return;
        };
        let info = self.describe(job);
        self.conns.reply(at, &Reply::Job(Box::new(info)));
    }

    fn kill(&mut self, at: Address, kind: Use, id: &JobId) {
        let Some(key) = self.job_or_fault(at, id) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.is_gone() {
            return self.reply_job(at, key);
        }
        job.watchers.push(Watcher { to: at, awaits: Awaits::Gone });
        self.conns.open(at, Call::Kill(key), kind);
        self.kill_job(key, Killer::Caller);
    }

    fn signal(&mut self, at: Address, id: &JobId, signal: i32) {
        let Some(key) = self.job_or_fault(at, id) else {
            return;
        };
        if !(1..=64).contains(&signal) {
            return self.conns.fault(
                at,
                FaultCode::Invalid,
                format!("there is no signal {signal}"),
            );
        }
        let supervisor = self
            .jobs
            .get(key)
            .and_then(|job| job.live.as_ref()?.supervisor)
            .and_then(|id| self.pool.get_mut(id));
        match supervisor.map(|supervisor| supervisor.signal(signal)) {
            Some(Ok(())) => self.conns.reply(at, &Reply::Done),
            Some(Err(error)) => self.conns.fault(at, FaultCode::System, error.to_string()),
            None => self.conns.fault(at, FaultCode::Invalid, "no process of the job is left"),
        }
    }

    fn resize(&mut self, at: Address, id: &JobId, size: WindowSize) {
        use std::os::fd::AsFd;
        let Some(key) = self.job_or_fault(at, id) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let live = job.live.as_deref_mut().filter(|_| job.record.pty);
        let Some(live) = live else {
            return self.conns.fault(at, FaultCode::Invalid, "the job has no terminal");
        };
        if live.phase == Phase::Waiting {
            // It has no terminal yet, but it will have one of this size.
            if let Some(plan) = &mut live.plan {
                plan.start.pty = Some(size);
            }
            return self.conns.reply(at, &Reply::Done);
        }
        match live.outlets[0].as_ref().map(|outlet| process::resize(outlet.fd.as_fd(), size)) {
            Some(Ok(())) => self.conns.reply(at, &Reply::Done),
            Some(Err(error)) => self.conns.fault(at, FaultCode::System, error.to_string()),
            None => self.conns.fault(at, FaultCode::Invalid, "the job's terminal is closed"),
        }
    }

    fn reset_session(&mut self, at: Address, name: &str) {
        if !is_valid_name(name) {
            return self.conns.fault(at, FaultCode::Invalid, "that is no name for a session");
        }
        match self.sessions.reset(name) {
            Ok(()) => self.conns.reply(at, &Reply::Done),
            Err(error) => self.conns.fault(
                at,
                FaultCode::System,
                format!("the session's state cannot be removed: {error}"),
            ),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
