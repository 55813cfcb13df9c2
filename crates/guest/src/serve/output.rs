//! Moves output from a job's pipes to its log and to the callers that follow it.
//!
//! A follower has a position in each stream. At the end of the stream it is live
//! and gets bytes as they are read; behind it, it is served from the log. A job is
//! read no faster than the followers that want every byte accept it, so those never
//! fall behind what the log keeps.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use vestal_wire::limits::MAX_DATA;
use vestal_wire::{CallEvent, CallReply, OutputDelivery};

use super::connections::HostConnections;
use super::guest::Guest;
use super::jobs::{Job, OutputKind, OutputPipe};
use super::reactor::{ChannelId, JobKey, PollToken, Ready};
use crate::log::{JobLog, LogPiece, LogStream};

/// Maximum reads of one stream in one turn of the loop, to keep it fair.
const READS: usize = 8;

/// Size of the pipe of a job with much output.
const LARGE_PIPE: usize = 1 << 20;

/// Maximum bytes that a terminal holds when its shell ends; more is new output.
const TERMINAL_REST: usize = 256 << 10;

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadOutcome {
    Bytes(usize),
    /// No output is available now.
    Dry,
    /// The stream has ended.
    Eof,
    /// Followers that want every byte have no room.
    HeldBack,
}

impl OutputPipe {
    pub(super) const fn new(fd: OwnedFd, kind: OutputKind) -> Self {
        Self { fd, watched: false, kind }
    }

    fn read(&mut self, buf: &mut [u8]) -> ReadOutcome {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut *buf)) {
            Ok(0) => ReadOutcome::Eof,
            Ok(n) => {
                if n == buf.len() && self.kind == OutputKind::Pipe {
                    // A job that fills its pipe gets a larger one. Pipes start
                    // small because each user has a limit for them.
                    rustix::pipe::fcntl_setpipe_size(&self.fd, LARGE_PIPE).ok();
                    self.kind = OutputKind::LargePipe;
                }
                ReadOutcome::Bytes(n)
            }
            Err(Errno::AGAIN) => ReadOutcome::Dry,
            // The other side of the terminal is closed.
            Err(_) => ReadOutcome::Eof,
        }
    }
}

impl Guest {
    /// Reads output of a job for one turn.
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
        let allowed = allowance(job, &mut self.connections, stream).min(self.buf.len() as u64);
        let Some(live) = job.live.as_deref_mut() else {
            return ReadOutcome::Eof;
        };
        let Some(output) = &mut live.outputs[stream.index()] else {
            return ReadOutcome::Eof;
        };
        if allowed == 0 {
            return ReadOutcome::HeldBack;
        }
        let len = usize::try_from(allowed).unwrap_or(self.buf.len());
        let outcome = output.read(&mut self.buf[..len]);
        match outcome {
            ReadOutcome::Bytes(n) => {
                let bytes = &self.buf[..n];
                let offset = job.log.stream(stream).total();
                job.log.append(stream, bytes);
                for follower in &mut job.followers {
                    follower.pass_on(&mut self.connections, stream, offset, bytes);
                }
            }
            ReadOutcome::Eof => {
                if let Some(output) = live.outputs[stream.index()].take()
                    && output.watched
                {
                    self.poller.remove(output.fd.as_fd());
                }
            }
            ReadOutcome::Dry | ReadOutcome::HeldBack => {}
        }
        self.note_terminal_end(key, stream, outcome);
        outcome
    }

    /// Determines the length of the streams at the end of the shell, and reads up
    /// to there as far as followers allow. Output that remaining processes write
    /// later only goes to the log.
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
            rest[at] = match &live.outputs[at] {
                Some(output) if output.kind == OutputKind::Terminal => {
                    live.terminal_rest = Some(TERMINAL_REST);
                    TERMINAL_REST as u64
                }
                Some(output) => {
                    let waiting = rustix::io::ioctl_fionread(&output.fd).unwrap_or(0);
                    live.ends[at] = Some(total + waiting);
                    waiting
                }
                None => {
                    live.ends[at] = Some(total);
                    0
                }
            };
        }
        self.set_follower_ends(key);
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

    /// Takes the end of a terminal's output to be where it runs dry after the
    /// shell has ended: the kernel does not report how much it holds.
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
            self.set_follower_ends(key);
        }
    }

    fn set_follower_ends(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if let Some(ends) = job.ends() {
            job.followers.iter_mut().for_each(|follower| follower.set_ends(ends));
        }
    }

    /// Polls exactly those outputs that may be read.
    pub(super) fn update_polling(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        for stream in LogStream::ALL {
            let may_read = allowance(job, &mut self.connections, stream) > 0;
            let Some(live) = job.live.as_deref_mut() else {
                return;
            };
            let Some(output) = &mut live.outputs[stream.index()] else {
                continue;
            };
            let launched = job.record.pid.is_some() || job.record.ended_ms.is_some();
            let wanted = may_read && launched;
            if wanted == output.watched {
                continue;
            }
            output.watched = wanted;
            if wanted {
                let token = PollToken::Output(key, stream);
                // It fails only without memory, and is tried again with the next
                // event of the job.
                output.watched = self.poller.add(output.fd.as_fd(), token, Ready::IN).is_ok();
            } else {
                self.poller.remove(output.fd.as_fd());
            }
        }
    }
}

/// Returns how many bytes of a stream may be read: as many as all followers that
/// want every byte accept.
fn allowance(job: &Job, connections: &mut HostConnections, stream: LogStream) -> u64 {
    let total = job.log.stream(stream).total();
    job.followers
        .iter()
        .map(|follower| follower.allowance(connections, stream, total))
        .min()
        .unwrap_or(u64::MAX)
}

/// A caller that follows a job.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) to: ChannelId,
    pub(super) delivery: OutputDelivery,
    cursors: [StreamCursor; 2],
    until_when: FollowUntil,
    end_sent: bool,
}

/// How long a follower follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowUntil {
    /// Until the job ends.
    JobEnd,
    /// Until the current end of the streams.
    Now,
}

/// A follower's position in one stream.
#[derive(Debug, Clone, Copy, Default)]
struct StreamCursor {
    next: u64,
    /// Where it stops, if known.
    end: Option<u64>,
    /// A range it skips.
    skip: Option<(u64, u64)>,
    /// Skipped bytes that were not reported yet.
    gap: u64,
}

/// Whether a follower has received everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Partly,
    Wholly,
}

impl Follower {
    pub(super) fn new(
        to: ChannelId,
        delivery: OutputDelivery,
        from: [u64; 2],
        until_when: FollowUntil,
    ) -> Self {
        let cursors = from.map(|next| StreamCursor { next, ..StreamCursor::default() });
        Self { to, delivery, cursors, until_when, end_sent: false }
    }

    /// Returns whether it stops at the current end of the streams.
    pub(super) fn stops_now(&self) -> bool {
        self.until_when == FollowUntil::Now
    }

    /// Sets the ends of the streams for this follower.
    pub(super) fn set_ends(&mut self, ends: [u64; 2]) {
        for (cursor, end) in self.cursors.iter_mut().zip(ends) {
            if cursor.end.is_some() {
                continue;
            }
            cursor.end = Some(end);
            if let OutputDelivery::Captured { head, tail } = self.delivery {
                let (from, to) = (u64::from(head), end.saturating_sub(tail.into()));
                cursor.skip = (from < to).then_some((from, to));
            }
        }
    }

    /// Returns whether it slows the job down if it reads slowly.
    const fn wants_every_byte(&self) -> bool {
        matches!(self.delivery, OutputDelivery::EveryByte)
    }

    /// Returns whether it receives output before the job has ended.
    const fn streams(&self) -> bool {
        matches!(self.delivery, OutputDelivery::EveryByte | OutputDelivery::Lossy)
    }

    /// Returns how many bytes may be read from the job for this follower.
    fn allowance(&self, connections: &mut HostConnections, stream: LogStream, total: u64) -> u64 {
        let cursor = &self.cursors[stream.index()];
        match cursor.end {
            _ if !self.wants_every_byte() => u64::MAX,
            Some(end) if cursor.next >= end => u64::MAX,
            _ if cursor.next < total => 0,
            Some(end) => connections.room(self.to, stream).min(end - cursor.next),
            None => connections.room(self.to, stream),
        }
    }

    /// Sends bytes that were just logged, if the follower is live.
    pub(super) fn pass_on(
        &mut self,
        connections: &mut HostConnections,
        stream: LogStream,
        offset: u64,
        bytes: &[u8],
    ) {
        let cursor = &mut self.cursors[stream.index()];
        let end = offset + bytes.len() as u64;
        let live = cursor.next == offset && cursor.end.is_none_or(|stop| stop >= end);
        let streams = matches!(self.delivery, OutputDelivery::EveryByte | OutputDelivery::Lossy);
        if streams && live && connections.room(self.to, stream) >= bytes.len() as u64 {
            cursor.send_gap(connections, self.to, stream);
            connections.output(self.to, stream, bytes);
            cursor.next = end;
        }
    }

    /// Sends bytes from the log, as many as the caller accepts.
    fn serve(
        &mut self,
        log: &mut JobLog,
        connections: &mut HostConnections,
        buf: &mut [u8],
    ) -> Served {
        let mut served = Served::Wholly;
        for stream in LogStream::ALL {
            let ready = self.streams() || self.cursors[stream.index()].end.is_some();
            if !ready || self.serve_stream(stream, log, connections, buf) == Served::Partly {
                served = Served::Partly;
            }
        }
        served
    }

    fn serve_stream(
        &mut self,
        stream: LogStream,
        log: &mut JobLog,
        connections: &mut HostConnections,
        buf: &mut [u8],
    ) -> Served {
        let lossy = matches!(self.delivery, OutputDelivery::Lossy);
        let cursor = &mut self.cursors[stream.index()];
        loop {
            let total = log.stream(stream).total();
            let limit = cursor.end.unwrap_or(total).min(total);
            if cursor.end.is_some_and(|end| cursor.next >= end) {
                cursor.send_gap(connections, self.to, stream);
                return Served::Wholly;
            }
            if cursor.next >= limit {
                return Served::Partly;
            }
            let until = match cursor.skip {
                Some((from, to)) if (from..to).contains(&cursor.next) => {
                    cursor.pass_over(to);
                    continue;
                }
                Some((from, _)) if cursor.next < from => limit.min(from),
                _ => limit,
            };
            let room = connections.room(self.to, stream);
            if room == 0 {
                return Served::Partly;
            }
            let len = (until - cursor.next).min(room).min(MAX_DATA as u64);
            let len = usize::try_from(len).unwrap_or(buf.len()).min(buf.len());
            match log.read(stream, cursor.next, &mut buf[..len]) {
                LogPiece::Data(n) => {
                    cursor.send_gap(connections, self.to, stream);
                    connections.output(self.to, stream, &buf[..n]);
                    cursor.next += n as u64;
                }
                LogPiece::Gap(to) => {
                    let fresh = if lossy { log.stream(stream).fresh_start() } else { 0 };
                    cursor.pass_over(to.max(fresh).min(limit));
                }
                LogPiece::End => return Served::Partly,
            }
        }
    }
}

impl StreamCursor {
    const fn pass_over(&mut self, to: u64) {
        self.gap += to.saturating_sub(self.next);
        self.next = to;
    }

    fn send_gap(&mut self, connections: &mut HostConnections, to: ChannelId, stream: LogStream) {
        if self.gap > 0 {
            connections.event(to, &CallEvent::gap(stream.on_wire(), std::mem::take(&mut self.gap)));
        }
    }
}

/// Sends output to a job's followers, and the reply to those that have received
/// everything.
pub(super) fn serve_followers(job: &mut Job, connections: &mut HostConnections, buf: &mut [u8]) {
    let mut followers = std::mem::take(&mut job.followers);
    followers.retain_mut(|follower| {
        if connections.channel(follower.to).is_none() {
            return false;
        }
        let served = follower.serve(&mut job.log, connections, buf);
        served == Served::Partly || !finish(follower, job, connections)
    });
    job.followers = followers;
}

/// Sends the final messages to a follower that has received all output. Returns
/// whether the reply was sent.
fn finish(follower: &mut Follower, job: &Job, connections: &mut HostConnections) -> bool {
    if follower.until_when == FollowUntil::JobEnd {
        if job.exit().is_none() {
            return false;
        }
        if !std::mem::replace(&mut follower.end_sent, true) {
            connections.event(follower.to, &CallEvent::Ended(Box::new(job.info())));
        }
        if !job.is_settled() {
            return false;
        }
    }
    connections.reply(follower.to, &CallReply::Job(Box::new(job.info())));
    true
}
