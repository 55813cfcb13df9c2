//! From a job's pipes to its log and its followers.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::conns::Conns;
use super::guest::Guest;
use super::ids::{JobKey, Token};
use super::job::{Job, Outlet, OutletKind};
use super::poll::Ready;
use crate::log::LogStream;

/// Reads of one stream in one turn of the loop, to keep it fair.
const READS: usize = 8;

/// Size that the pipe of a job with much output is enlarged to.
const LARGE_PIPE: usize = 1 << 20;

/// The most a terminal holds back when its shell ends; more is new.
const TERMINAL_REST: usize = 256 << 10;

/// What a read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadOutcome {
    Bytes(usize),
    /// Nothing is there now.
    Dry,
    /// Nothing will come any more.
    Eof,
    /// Followers of every byte have no room.
    HeldBack,
}

impl Outlet {
    pub(super) const fn new(fd: OwnedFd, kind: OutletKind) -> Self {
        Self { fd, watched: false, kind }
    }

    fn read(&mut self, buf: &mut [u8]) -> ReadOutcome {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut *buf)) {
            Ok(0) => ReadOutcome::Eof,
            Ok(n) => {
                if n == buf.len() && self.kind == OutletKind::Pipe {
                    // A job that fills its pipe is worth a larger one. It is not
                    // made so from the start because a user may have only so many.
                    rustix::pipe::fcntl_setpipe_size(&self.fd, LARGE_PIPE).ok();
                    self.kind = OutletKind::LargePipe;
                }
                ReadOutcome::Bytes(n)
            }
            Err(Errno::AGAIN) => ReadOutcome::Dry,
            // The terminal has no other side any more.
            Err(_) => ReadOutcome::Eof,
        }
    }
}

impl Guest {
    /// Reads what a job has written, for one turn.
    pub(super) fn read_output(&mut self, key: JobKey, stream: LogStream) {
        for _ in 0..READS {
            match self.read_once(key, stream) {
                ReadOutcome::Bytes(_) => {}
                ReadOutcome::Dry | ReadOutcome::HeldBack | ReadOutcome::Eof => break,
            }
        }
        self.queue_pump(key);
    }

    fn read_once(&mut self, key: JobKey, stream: LogStream) -> ReadOutcome {
        let Some(job) = self.jobs.get_mut(key) else {
            return ReadOutcome::Eof;
        };
        let allowed = allowance(job, &mut self.conns, stream).min(self.buf.len() as u64);
        let Some(live) = job.live.as_deref_mut() else {
            return ReadOutcome::Eof;
        };
        let Some(outlet) = &mut live.outlets[stream.index()] else {
            return ReadOutcome::Eof;
        };
        if allowed == 0 {
            return ReadOutcome::HeldBack;
        }
        let len = usize::try_from(allowed).unwrap_or(self.buf.len());
        let outcome = outlet.read(&mut self.buf[..len]);
        match outcome {
            ReadOutcome::Bytes(n) => {
                let bytes = &self.buf[..n];
                let offset = job.log.stream(stream).total();
                job.log.append(stream, bytes);
                for follower in &mut job.followers {
                    follower.pass_on(&mut self.conns, stream, offset, bytes);
                }
            }
            ReadOutcome::Eof => {
                if let Some(outlet) = live.outlets[stream.index()].take()
                    && outlet.watched
                {
                    self.poller.remove(outlet.fd.as_fd());
                }
            }
            ReadOutcome::Dry | ReadOutcome::HeldBack => {}
        }
        self.note_terminal_end(key, stream, outcome);
        outcome
    }

    /// Finds out where the streams are at the end of the shell, and reads up to
    /// there as far as followers allow. A process that the shell left behind may
    /// go on writing; what it writes later only goes to the log.
    pub(super) fn mark_ends(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        let mut rest = [0; 2];
        for stream in LogStream::ALL {
            let at = stream.index();
            let total = job.log.stream(stream).total();
            rest[at] = match &live.outlets[at] {
                Some(outlet) if outlet.kind == OutletKind::Terminal => {
                    live.terminal_rest = Some(TERMINAL_REST);
                    TERMINAL_REST as u64
                }
                Some(outlet) => {
                    let waiting = rustix::io::ioctl_fionread(&outlet.fd).unwrap_or(0);
                    live.ends[at] = Some(total + waiting);
                    waiting
                }
                None => {
                    live.ends[at] = Some(total);
                    0
                }
            };
        }
        self.tell_ends(key);
        for stream in LogStream::ALL {
            let mut rest = rest[stream.index()];
            while rest > 0 {
                match self.read_once(key, stream) {
                    ReadOutcome::Bytes(n) => rest = rest.saturating_sub(n as u64),
                    ReadOutcome::Dry | ReadOutcome::Eof | ReadOutcome::HeldBack => break,
                }
            }
        }
    }

    /// Takes the end of a terminal's output to be where it runs dry after its
    /// shell has ended: how much it holds cannot be asked.
    fn note_terminal_end(&mut self, key: JobKey, stream: LogStream, outcome: ReadOutcome) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        let Some(rest) = live.terminal_rest else {
            return;
        };
        let rest = match outcome {
            ReadOutcome::Bytes(n) => rest.saturating_sub(n),
            ReadOutcome::Dry | ReadOutcome::Eof => 0,
            ReadOutcome::HeldBack => rest,
        };
        live.terminal_rest = (rest > 0).then_some(rest);
        if rest == 0 {
            live.ends[stream.index()] = Some(job.log.stream(stream).total());
            self.tell_ends(key);
        }
    }

    fn tell_ends(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if let Some(ends) = job.ends() {
            job.followers.iter_mut().for_each(|follower| follower.set_ends(ends));
        }
    }

    /// Watches the outlets that may be read, and only those.
    pub(super) fn tune_outlets(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        for stream in LogStream::ALL {
            let may_read = allowance(job, &mut self.conns, stream) > 0;
            let Some(live) = job.live.as_deref_mut() else {
                return;
            };
            let Some(outlet) = &mut live.outlets[stream.index()] else {
                continue;
            };
            let launched = job.record.pid.is_some() || job.record.ended_ms.is_some();
            let wanted = may_read && launched;
            if wanted == outlet.watched {
                continue;
            }
            outlet.watched = wanted;
            if wanted {
                let token = Token::Output(key, stream);
                // It can only fail for want of memory, and is tried again with
                // the next thing that happens to the job.
                outlet.watched = self.poller.add(outlet.fd.as_fd(), token, Ready::IN).is_ok();
            } else {
                self.poller.remove(outlet.fd.as_fd());
            }
        }
    }
}

/// Returns how many bytes may be read of a stream: as many as every follower of
/// every byte takes.
fn allowance(job: &Job, conns: &mut Conns, stream: LogStream) -> u64 {
    let total = job.log.stream(stream).total();
    job.followers
        .iter()
        .map(|follower| follower.allowance(conns, stream, total))
        .min()
        .unwrap_or(u64::MAX)
}
