//! Handles requests: those the guest answers from what it knows, and file operations,
//! which it hands to a worker thread.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vestal_wire::{
    CallReply, CallRequest, Fault, FaultCode, FileCall, FileReply, JobId, JobInfo, JobState,
    Status, Stream, WindowSize,
};

use super::connections::OpenCall;
use super::guest::Guest;
use super::jobs::{Job, KillReason, RecordedPhase, WaitFor, Waiter};
use super::lifetime::CallKind;
use super::reactor::{ChannelId, JobKey, Timer};
use super::reports::KILL_GRACE;
use super::tunnel;
use super::workers::{Transfer, TransferInput, TransferOutput, WorkerMessage};
use crate::diagnostics::path_of;
use crate::files::{self, PathRoots};
use crate::process::{self, tree};
use crate::session::{SavedSession, is_no_session, is_valid_name};
use crate::state_file;

/// Maximum bytes of job descriptions in one reply, safely below the limit of a
/// message.
const MAX_LISTING: usize = 768 << 10;

/// Maximum encoded size of a description without its texts.
const INFO_OVERHEAD: usize = 256;

impl Guest {
    /// Handles a request.
    pub(super) fn call(&mut self, at: ChannelId, kind: CallKind, request: CallRequest) {
        if kind == CallKind::Use {
            self.connections.clock.touch();
        }
        match request {
            CallRequest::Status => self.connections.reply(at, &CallReply::Status(self.status())),
            CallRequest::Stats => self.stats(at, kind),
            CallRequest::Touch => self.touch(at),
            CallRequest::Start(start) => self.start(at, kind, *start),
            CallRequest::Attach(attach) => self.attach(at, kind, &attach),
            CallRequest::Wait { id, timeout_ms } => self.wait(at, kind, &id, timeout_ms),
            CallRequest::Jobs { running, limit } => self.list(at, running, limit),
            CallRequest::Lookup { id, incarnation, boot } => {
                let outcome = self.jobs.lookup(&id, &incarnation, &boot);
                self.connections.reply(at, &CallReply::Outcome(outcome));
            }
            CallRequest::Kill { id } => self.kill(at, kind, &id),
            CallRequest::Signal { id, signal } => self.signal(at, &id, signal),
            CallRequest::Input { id, close } => self.open_input(at, kind, &id, close),
            CallRequest::Resize { id, size } => self.resize(at, &id, size),
            CallRequest::ResetSession { name } => self.reset_session(at, &name),
            CallRequest::File(call) => self.open_file(at, kind, call),
            CallRequest::Retain { retention_ms } => {
                let retention = retention_ms.map(Duration::from_millis);
                self.connections.clock.set_retention(retention);
                self.connections.reply(at, &CallReply::Done);
            }
            CallRequest::Shutdown { grace_ms, if_idle } => {
                self.shutdown(at, kind, grace_ms, if_idle);
            }
            CallRequest::Ports => self.ports(at, kind),
            CallRequest::Connect { port } => self.connect(at, kind, port),
        }
    }

    /// Returns the job with an id, or replies with a fault.
    pub(super) fn job_or_fault(&mut self, at: ChannelId, id: &JobId) -> Option<JobKey> {
        let key = self.jobs.find(id);
        if key.is_none() {
            self.connections.fault(at, FaultCode::NoSuchJob, format!("there is no job {id}"));
        }
        key
    }

    /// Describes a job, including the number of its processes.
    pub(super) fn describe(&self, job: &Job) -> JobInfo {
        let mut info = job.info();
        let supervisor = job.live.as_ref().and_then(|live| live.supervisor);
        if let Some(pid) = supervisor.and_then(|id| self.pool.pid(id)) {
            info.processes = u32::try_from(tree::descendants(pid).len()).unwrap_or(u32::MAX);
        }
        info
    }

    fn status(&self) -> Status {
        let clock = &self.connections.clock;
        Status {
            idle_ms: millis(clock.idle()),
            expires_in_ms: clock.left().map(millis),
            jobs_running: u32::try_from(clock.jobs_running()).unwrap_or(u32::MAX),
            jobs_known: u32::try_from(self.jobs.len()).unwrap_or(u32::MAX),
            up_ms: millis(clock.up()),
            last_used_ms: clock.last_used_ms(),
        }
    }

    fn stats(&mut self, at: ChannelId, kind: CallKind) {
        let (supervisors, log_bytes) = (self.pool.pids(), self.jobs.log_bytes());
        let mailbox = Arc::clone(&self.mailbox);
        let begun = self.workers.run(move || {
            let stats = crate::stats::collect(&supervisors, log_bytes);
            mailbox.post(WorkerMessage::Reply(at, Box::new(CallReply::Stats(stats))));
        });
        match begun {
            Ok(()) => self.connections.open(at, OpenCall::Work, kind),
            Err(error) => self.connections.fault(at, FaultCode::System, error.to_string()),
        }
    }

    fn ports(&mut self, at: ChannelId, kind: CallKind) {
        let (supervisors, mailbox) = (self.supervised_jobs(), Arc::clone(&self.mailbox));
        let begun = self.workers.run(move || {
            let found = crate::ports::listening(&supervisors);
            let ports = found.into_iter().map(|found| found.shown).collect();
            mailbox.post(WorkerMessage::Reply(at, Box::new(CallReply::Ports(ports))));
        });
        match begun {
            Ok(()) => self.connections.open(at, OpenCall::Work, kind),
            Err(error) => self.connections.fault(at, FaultCode::System, error.to_string()),
        }
    }

    /// Connects a channel to a port.
    fn connect(&mut self, at: ChannelId, kind: CallKind, port: u16) {
        let supervisors = self.supervised_jobs();
        let transfer = Arc::new(Transfer::unhurried(at, Arc::clone(&self.mailbox)));
        let worker_transfer = Arc::clone(&transfer);
        let begun = self.workers.run(move || {
            if let Err(fault) = tunnel::begin(&worker_transfer, &supervisors, port) {
                worker_transfer.finish(Err(fault));
            }
        });
        match begun {
            Ok(()) => self.connections.open(at, OpenCall::File(transfer), kind),
            Err(error) => self.connections.fault(at, FaultCode::System, error.to_string()),
        }
    }

    /// Returns the process of each supervisor, with its job where it has one.
    fn supervised_jobs(&self) -> Vec<(u32, Option<JobId>)> {
        let job_of = |job: &Job| {
            let supervisor = job.live.as_ref()?.supervisor?;
            Some((self.pool.pid(supervisor)?, job.record.id.clone()))
        };
        let jobs: std::collections::HashMap<u32, JobId> =
            self.jobs.iter().filter_map(|(_, job)| job_of(job)).collect();
        self.pool.pids().into_iter().map(|pid| (pid, jobs.get(&pid).cloned())).collect()
    }

    fn touch(&mut self, at: ChannelId) {
        self.connections.clock.touch();
        self.connections.reply(at, &CallReply::Done);
    }

    fn list(&mut self, at: ChannelId, running: bool, limit: u32) {
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
        self.connections.reply(at, &CallReply::Jobs { jobs: listed, more });
    }

    fn wait(&mut self, at: ChannelId, kind: CallKind, id: &JobId, timeout_ms: Option<u64>) {
        let Some(key) = self.job_or_fault(at, id) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.is_settled() || timeout_ms == Some(0) {
            return self.reply_job(at, key);
        }
        job.waiters.push(Waiter { to: at, wait_for: WaitFor::End });
        let timer = timeout_ms
            .and_then(|millis| self.timers.set(Duration::from_millis(millis), Timer::WaitOver(at)));
        self.connections.open(at, OpenCall::Wait(key, timer), kind);
    }

    /// Replies to a caller whose timeout has expired.
    pub(super) fn wait_is_over(&mut self, at: ChannelId) {
        let Some(channel) = self.connections.channel(at) else {
            return;
        };
        if let OpenCall::Wait(key, _) = channel.call {
            self.remove_waiter(key, at);
            self.reply_job(at, key);
        }
    }

    pub(super) fn remove_waiter(&mut self, key: JobKey, at: ChannelId) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.waiters.retain(|waiter| waiter.to != at);
        }
    }

    fn reply_job(&mut self, at: ChannelId, key: JobKey) {
        let Some(job) = self.jobs.get(key) else {
            return;
        };
        let info = self.describe(job);
        self.connections.reply(at, &CallReply::Job(Box::new(info)));
    }

    fn kill(&mut self, at: ChannelId, kind: CallKind, id: &JobId) {
        let Some(key) = self.job_or_fault(at, id) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.is_gone() {
            return self.reply_job(at, key);
        }
        job.waiters.push(Waiter { to: at, wait_for: WaitFor::Gone });
        self.connections.open(at, OpenCall::Kill(key), kind);
        self.kill_job(key, KillReason::Caller, KILL_GRACE);
    }

    fn signal(&mut self, at: ChannelId, id: &JobId, signal: i32) {
        let Some(key) = self.job_or_fault(at, id) else {
            return;
        };
        if !(1..=64).contains(&signal) {
            return self.connections.fault(
                at,
                FaultCode::Invalid,
                format!("{signal} is not a signal number"),
            );
        }
        let supervisor = self
            .jobs
            .get(key)
            .and_then(|job| job.live.as_ref()?.supervisor)
            .and_then(|id| self.pool.get_mut(id));
        match supervisor.map(|supervisor| supervisor.signal(signal)) {
            Some(Ok(())) => self.connections.reply(at, &CallReply::Done),
            Some(Err(error)) => self.connections.fault(at, FaultCode::System, error.to_string()),
            None => self.connections.fault(at, FaultCode::Invalid, "no process of the job is left"),
        }
    }

    fn resize(&mut self, at: ChannelId, id: &JobId, size: WindowSize) {
        use std::os::fd::AsFd;
        let Some(key) = self.job_or_fault(at, id) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let live = job.live.as_deref_mut().filter(|_| job.record.pty);
        let Some(live) = live else {
            return self.connections.fault(at, FaultCode::Invalid, "the job has no terminal");
        };
        if live.phase == RecordedPhase::Waiting {
            // It has no terminal yet, but will get one of this size.
            if let Some(plan) = &mut live.plan {
                plan.start.pty = Some(size);
            }
            return self.connections.reply(at, &CallReply::Done);
        }
        match live.outputs[0].as_ref().map(|output| process::resize(output.fd.as_fd(), size)) {
            Some(Ok(())) => self.connections.reply(at, &CallReply::Done),
            Some(Err(error)) => self.connections.fault(at, FaultCode::System, error.to_string()),
            None => self.connections.fault(at, FaultCode::Invalid, "the job's terminal is closed"),
        }
    }

    fn reset_session(&mut self, at: ChannelId, name: &str) {
        if !is_valid_name(name) {
            return self.connections.fault(at, FaultCode::Invalid, "the session name is not valid");
        }
        match self.sessions.reset(name) {
            Ok(()) => self.connections.reply(at, &CallReply::Done),
            Err(error) => self.connections.fault(
                at,
                FaultCode::System,
                format!("the session's state cannot be removed: {error}"),
            ),
        }
    }

    /// Starts a file operation on a worker.
    fn open_file(&mut self, at: ChannelId, kind: CallKind, call: FileCall) {
        if call.session.as_deref().is_some_and(|name| !is_valid_name(name)) {
            return self.connections.fault(at, FaultCode::Invalid, "the session name is not valid");
        }
        // Opened here: the worker has the rights of the jobs' user, who may not
        // read the guest's own files.
        let session = call.session.as_deref().map(|name| {
            let path = self.sessions.path(name);
            (state_file::open_to_read(&path), state_file::is_foreign(&path))
        });
        let home = path_of(&self.settings.home);
        let start_dir = call.start_dir.as_ref().unwrap_or(&self.settings.start_dir);
        let start_dir = path_of(start_dir);
        let transfer = Arc::new(Transfer::new(at, Arc::clone(&self.mailbox)));
        let worker_transfer = Arc::clone(&transfer);
        let begun = self.workers.run(move || {
            let result = base(session, &home, start_dir).and_then(|base| {
                let roots = PathRoots { home, base };
                let mut input = TransferInput::new(Arc::clone(&worker_transfer));
                let mut output = TransferOutput(Arc::clone(&worker_transfer));
                let cancelled = worker_transfer.cancelled();
                files::perform(call.op, &roots, &mut input, &mut output, cancelled)
            });
            worker_transfer.finish(result);
        });
        match begun {
            Ok(()) => self.connections.open(at, OpenCall::File(transfer), kind),
            Err(error) => self.connections.fault(at, FaultCode::System, error.to_string()),
        }
    }

    /// Handles the messages of workers.
    pub(super) fn take_worker_messages(&mut self) {
        for message in self.mailbox.take() {
            match message {
                WorkerMessage::Transfer(at) => self.advance_file(at),
                WorkerMessage::Reply(at, reply) => self.answer_work(at, &reply),
                WorkerMessage::OrphansKilled(refused) => self.orphans_killed(refused),
            }
        }
    }

    /// Sends what an operation has produced, as far as there is room.
    pub(super) fn advance_file(&mut self, at: ChannelId) {
        loop {
            let Some(conn) = self.connections.get_mut(at.conn) else {
                return;
            };
            if !conn.has_room() {
                return;
            }
            let Some(channel) = conn.channels.get(&at.channel) else {
                return;
            };
            let OpenCall::File(transfer) = &channel.call else {
                return;
            };
            let progress = transfer.progress();
            if progress.taken > 0 {
                self.connections.taken(at, Stream::Input, progress.taken);
            }
            if let Some(output) = &progress.output {
                self.connections.content(at, output);
            }
            if let Some(result) = progress.result {
                return self.answer_file(at, result);
            }
            if progress.output.is_none() {
                return;
            }
        }
    }

    fn answer_file(&mut self, at: ChannelId, result: Result<FileReply, Fault>) {
        let reply = match result {
            Ok(reply) => CallReply::File(reply),
            Err(fault) => CallReply::Fault(fault),
        };
        self.connections.reply(at, &reply);
    }

    fn answer_work(&mut self, at: ChannelId, reply: &CallReply) {
        let Some(channel) = self.connections.channel(at) else {
            return;
        };
        if let OpenCall::Work = channel.call {
            self.connections.reply(at, reply);
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the directory for relative paths.
fn base(
    session: Option<(io::Result<File>, bool)>,
    home: &Path,
    start_dir: PathBuf,
) -> Result<PathBuf, Fault> {
    if let Some((file, is_foreign)) = session {
        let saved = match file {
            // The next command of the session moves it aside and says so.
            Err(_) if is_foreign => None,
            file => SavedSession::read(file).or_else(|error| {
                let message = format!("the session's state cannot be read: {error}");
                let unreadable = Fault::new(FaultCode::System, message);
                if is_no_session(&error) { Ok(None) } else { Err(unreadable) }
            })?,
        };
        if let Some(saved) = saved
            && !saved.cwd.is_empty()
        {
            return Ok(path_of(&saved.cwd));
        }
    }
    Ok(match start_dir.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => home.join(start_dir),
    })
}
