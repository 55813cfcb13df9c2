//! From host processes to a job's standard input.

use vestal_wire::{FaultCode, JobId, Reply, Stream};

use super::channel::Call;
use super::clock::Use;
use super::guest::Guest;
use super::ids::{Address, JobKey, Token};
use super::poll::Ready;
use super::stdin::Progress;

const CLOSED: &str = "standard input is closed";

impl Guest {
    /// Opens a channel that writes to a job's standard input.
    pub(super) fn open_input(&mut self, at: Address, kind: Use, id: &JobId, close: bool) {
        let Some(job) = self.job_or_fault(at, id) else {
            return;
        };
        let live = self.jobs.get(job).and_then(|job| job.live.as_ref());
        if live.is_some_and(|live| live.stdin.is_open()) {
            self.conns.open(at, Call::Input { job, close, dropped: false }, kind);
        } else {
            self.conns.fault(at, FaultCode::Invalid, CLOSED);
        }
    }

    /// Takes bytes for a job.
    pub(super) fn feed(&mut self, key: JobKey, from: Address, bytes: &[u8]) {
        match self.jobs.get_mut(key).and_then(|job| job.live.as_deref_mut()) {
            Some(live) => {
                live.stdin.push(from, bytes);
                self.write_input(key);
            }
            None => self.drop_input(from, bytes.len()),
        }
    }

    /// Notes that a caller has sent all it had for a job.
    pub(super) fn end_feeding(&mut self, key: JobKey, from: Address, close: bool) {
        match self.jobs.get_mut(key).and_then(|job| job.live.as_deref_mut()) {
            Some(live) => {
                live.stdin.push_done(from, close);
                self.write_input(key);
            }
            None => self.answer_input(from),
        }
    }

    /// Closes a job's standard input; what comes now is too late.
    pub(super) fn close_input(&mut self, key: JobKey) {
        self.unwatch_input(key);
        if let Some(live) = self.jobs.get_mut(key).and_then(|job| job.live.as_deref_mut()) {
            live.stdin.close();
            self.write_input(key);
        }
    }

    /// Takes a job's input out of the poller. To be done before it is closed: a
    /// terminal stays open for its output, and would stay in the poller.
    fn unwatch_input(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        if std::mem::take(&mut live.stdin.watched)
            && let Some(fd) = live.stdin.fd()
        {
            self.poller.remove(fd);
        }
    }

    /// Writes what a job takes, and waits for it to take the rest.
    pub(super) fn write_input(&mut self, key: JobKey) {
        self.unwatch_input(key);
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        let stdin = &mut live.stdin;
        let progress = stdin.write();
        if stdin.is_waiting()
            && let Some(fd) = stdin.fd()
        {
            stdin.watched = self.poller.add(fd, Token::Input(key), Ready::OUT).is_ok();
        }
        for step in progress {
            match step {
                Progress::Taken(from, bytes) => self.conns.taken(from, Stream::Input, bytes),
                Progress::Dropped(from, bytes) => self.drop_input(from, bytes),
                Progress::Done(from) => self.answer_input(from),
            }
        }
    }

    /// Takes bytes that came too late. The caller is told when it has sent all:
    /// a job that ends between the last byte and the end has read everything.
    fn drop_input(&mut self, from: Address, bytes: usize) {
        self.conns.taken(from, Stream::Input, bytes);
        if let Some(channel) = self.conns.channel(from)
            && let Call::Input { dropped, .. } = &mut channel.call
        {
            *dropped = true;
        }
    }

    /// Answers a caller that only wrote input. The one that started the job
    /// has its answer when the job ends.
    fn answer_input(&mut self, at: Address) {
        let Some(channel) = self.conns.channel(at) else { return };
        match channel.call {
            Call::Input { dropped: false, .. } => self.conns.reply(at, &Reply::Done),
            Call::Input { dropped: true, .. } => {
                self.conns.fault(at, FaultCode::Invalid, CLOSED);
            }
            _ => {}
        }
    }
}
