//! The end of jobs: exit codes, saved sessions, last words.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use minicbor::bytes::ByteVec;
use vestal_wire::{Cause, Exit, JobState, Reply, SessionState};

use super::clock::wall_ms;
use super::follower;
use super::guest::Guest;
use super::ids::JobKey;
use super::job::{Awaits, Job, Killer, Phase};
use super::sessions::Verdict;
use crate::diagnostics;
use crate::failpoint::failpoint;
use crate::log::LogStream;
use crate::process::Supervisor;
use crate::session::SavedSession;

impl Guest {
    /// Notes how a job's shell ended, if that was not known before.
    pub(super) fn set_exit(&mut self, key: JobKey, exit: Exit) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.exit().is_some() {
            return;
        }
        job.record.state = JobState::Ended(exit);
        job.record.ended_ms = Some(wall_ms());
        self.conns.clock.job_ended();
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

    /// Saves sessions whose commands have ended, after that has been told.
    pub(super) fn save_sessions(&mut self) {
        if self.saves.is_empty() {
            return;
        }
        for key in std::mem::take(&mut self.saves) {
            let live = self.jobs.get_mut(key).and_then(|job| job.live.as_deref_mut());
            let dump = live.and_then(|live| live.dump.take());
            self.settle(key, dump);
        }
        self.pump_queued();
        self.flush();
        failpoint!("guest.job.after-reply");
    }

    /// Settles a job's session when its shell is gone, with the state it left.
    pub(super) fn settle(&mut self, key: JobKey, dump: Option<OwnedFd>) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        if live.phase == Phase::Settled {
            return;
        }
        live.phase = Phase::Settled;
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

    /// Makes the state a command left its session's, if it is the one to say.
    /// Returns also the directory its shell ended in.
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
        let environs = job.live.as_mut().and_then(|live| live.environs.take());
        let (Some(dump), Some(environs), true) = (dump, environs, by_itself) else {
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
        let harvest = SavedSession::harvest(&bytes, &environs.base, &environs.job);
        let Some(mut saved) = harvest else {
            return NONE;
        };
        let cwd = saved.cwd.clone();
        if let Some(kept) = job.live.as_mut().and_then(|live| live.session_dir.take()) {
            saved.cwd = kept;
        }
        if self.sessions.verdict(name, turn) == Verdict::Superseded {
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

    /// Has every process of a job killed.
    pub(super) fn kill_job(&mut self, key: JobKey, killer: Killer) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        if live.phase == Phase::Waiting {
            if let Some(name) = &job.record.session {
                self.sessions.leave(name, key);
            }
            self.set_exit(key, Exit { code: Some(137), cause: Cause::Killed });
            return self.settle(key, None);
        }
        live.killer.get_or_insert(killer);
        let supervisor = live.supervisor.and_then(|id| self.pool.get_mut(id));
        if let Some(Err(error)) = supervisor.map(Supervisor::kill) {
            // Its death, if that is why, is reported on the same socket.
            diagnostics::note(&format!("kill of job {}: {error}", job.record.id));
        }
    }

    /// Ends a job whose time is up.
    pub(super) fn time_out(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if let Some(live) = job.live.as_deref_mut() {
            live.timeout = None;
        }
        if job.exit().is_none() {
            self.kill_job(key, Killer::Timeout);
        }
    }

    /// Serves everyone who follows or waits for a job, and lets go of what it
    /// does not need any more.
    pub(super) fn pump(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        follower::serve(job, &mut self.conns, &mut self.buf);
        self.tell_watchers(key);
        self.tune_outlets(key);
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

    fn tell_watchers(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.watchers.is_empty() {
            return;
        }
        let (settled, gone) = (job.is_settled(), job.is_gone());
        let reply = Reply::Job(Box::new(job.info()));
        let mut timers = Vec::new();
        job.watchers.retain(|watcher| {
            let done = match watcher.awaits {
                Awaits::End => settled,
                Awaits::Gone => gone,
            };
            if done {
                if let Some(channel) = self.conns.channel(watcher.to)
                    && let super::channel::Call::Wait(_, Some(timer)) = channel.call
                {
                    timers.push(timer);
                }
                self.conns.reply(watcher.to, &reply);
            }
            !done
        });
        for timer in timers {
            self.timers.cancel(timer);
        }
    }

    /// Adds a line of ours to what a job writes to standard error.
    pub(super) fn say_on_stderr(&mut self, key: JobKey, line: &str) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let separate = job.live.as_ref().is_some_and(|live| live.outlets[1].is_some());
        let stream = if separate { LogStream::Stderr } else { LogStream::Stdout };
        let offset = job.log.stream(stream).total();
        job.log.append(stream, line.as_bytes());
        let Job { followers, .. } = job;
        for follower in followers {
            follower.pass_on(&mut self.conns, stream, offset, line.as_bytes());
        }
    }
}

/// Reads the state a shell left. It comes from a process of the jobs' user, who
/// must not get the guest to wait or to read for ever.
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
    use crate::process::memfile;

    #[test]
    fn a_state_that_would_never_end_is_none() {
        let memory = memfile::with_content("state", b"state").unwrap();
        assert_eq!(read_dump(memory).unwrap(), b"state");
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        assert!(read_dump(pipe).is_err());
        assert!(read_dump(File::open("/dev/zero").unwrap().into()).is_err());
    }
}
