//! Callers that follow a job's output.
//!
//! A follower has a place in each stream. One that is at the end is live and
//! gets bytes as they are read; one that is behind is served from the log. The
//! job is read no faster than followers of every byte take it, so that those
//! are never behind what the log keeps.

use vestal_wire::limits::MAX_DATA;
use vestal_wire::{Delivery, Event, Reply};

use super::conns::Conns;
use super::ids::Address;
use super::job::Job;
use crate::log::{JobLog, LogStream, Piece};

/// A caller that follows a job.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) to: Address,
    pub(super) delivery: Delivery,
    cursors: [Cursor; 2],
    /// Whether it goes on until the job ends.
    span: Span,
    told_end: bool,
}

/// How far a follower goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    /// Until the job ends.
    ToEnd,
    /// To what is there now.
    ToNow,
}

/// A follower's place in one stream.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    next: u64,
    /// Where it stops, if that is known.
    end: Option<u64>,
    /// A range it passes over.
    skip: Option<(u64, u64)>,
    /// Bytes passed over that it has not been told of.
    gap: u64,
}

/// Whether a follower has had everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Partly,
    Wholly,
}

impl Follower {
    pub(super) fn new(to: Address, delivery: Delivery, from: [u64; 2], span: Span) -> Self {
        let cursors = from.map(|next| Cursor { next, ..Cursor::default() });
        Self { to, delivery, cursors, span, told_end: false }
    }

    /// Returns whether it goes only to what is there now.
    pub(super) fn is_to_now(&self) -> bool {
        self.span == Span::ToNow
    }

    /// Sets where the streams end for this follower.
    pub(super) fn set_ends(&mut self, ends: [u64; 2]) {
        for (cursor, end) in self.cursors.iter_mut().zip(ends) {
            if cursor.end.is_some() {
                continue;
            }
            cursor.end = Some(end);
            if let Delivery::Captured { head, tail } = self.delivery {
                let (from, to) = (u64::from(head), end.saturating_sub(tail.into()));
                cursor.skip = (from < to).then_some((from, to));
            }
        }
    }

    /// Returns whether its reading holds the job back.
    pub(super) const fn wants_every_byte(&self) -> bool {
        matches!(self.delivery, Delivery::EveryByte)
    }

    /// Returns whether it gets output before the job has ended.
    const fn streams(&self) -> bool {
        matches!(self.delivery, Delivery::EveryByte | Delivery::Lossy)
    }

    /// Returns how many bytes may be read from the job for this follower's sake.
    pub(super) fn allowance(&self, conns: &mut Conns, stream: LogStream, total: u64) -> u64 {
        let cursor = &self.cursors[stream.index()];
        match cursor.end {
            _ if !self.wants_every_byte() => u64::MAX,
            Some(end) if cursor.next >= end => u64::MAX,
            _ if cursor.next < total => 0,
            Some(end) => conns.room(self.to, stream).min(end - cursor.next),
            None => conns.room(self.to, stream),
        }
    }

    /// Sends bytes that were just read and logged, if the follower is live.
    pub(super) fn pass_on(
        &mut self,
        conns: &mut Conns,
        stream: LogStream,
        offset: u64,
        bytes: &[u8],
    ) {
        let cursor = &mut self.cursors[stream.index()];
        let end = offset + bytes.len() as u64;
        let live = cursor.next == offset && cursor.end.is_none_or(|stop| stop >= end);
        let streams = matches!(self.delivery, Delivery::EveryByte | Delivery::Lossy);
        if streams && live && conns.room(self.to, stream) >= bytes.len() as u64 {
            cursor.tell_gap(conns, self.to, stream);
            conns.output(self.to, stream, bytes);
            cursor.next = end;
        }
    }

    /// Sends what the log has and the caller takes.
    fn serve(&mut self, log: &mut JobLog, conns: &mut Conns, buf: &mut [u8]) -> Served {
        let mut served = Served::Wholly;
        for stream in LogStream::ALL {
            let ready = self.streams() || self.cursors[stream.index()].end.is_some();
            if !ready || self.serve_stream(stream, log, conns, buf) == Served::Partly {
                served = Served::Partly;
            }
        }
        served
    }

    fn serve_stream(
        &mut self,
        stream: LogStream,
        log: &mut JobLog,
        conns: &mut Conns,
        buf: &mut [u8],
    ) -> Served {
        let lossy = matches!(self.delivery, Delivery::Lossy);
        let cursor = &mut self.cursors[stream.index()];
        loop {
            let total = log.stream(stream).total();
            let limit = cursor.end.unwrap_or(total).min(total);
            if cursor.end.is_some_and(|end| cursor.next >= end) {
                cursor.tell_gap(conns, self.to, stream);
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
            let room = conns.room(self.to, stream);
            if room == 0 {
                return Served::Partly;
            }
            let len = (until - cursor.next).min(room).min(MAX_DATA as u64);
            let len = usize::try_from(len).unwrap_or(buf.len()).min(buf.len());
            match log.read(stream, cursor.next, &mut buf[..len]) {
                Piece::Data(n) => {
                    cursor.tell_gap(conns, self.to, stream);
                    conns.output(self.to, stream, &buf[..n]);
                    cursor.next += n as u64;
                }
                Piece::Gap(to) => {
                    let fresh = if lossy { log.stream(stream).fresh_start() } else { 0 };
                    cursor.pass_over(to.max(fresh).min(limit));
                }
                Piece::End => return Served::Partly,
            }
        }
    }
}

impl Cursor {
    const fn pass_over(&mut self, to: u64) {
        self.gap += to.saturating_sub(self.next);
        self.next = to;
    }

    fn tell_gap(&mut self, conns: &mut Conns, to: Address, stream: LogStream) {
        if self.gap > 0 {
            conns.event(to, &Event::gap(stream.on_wire(), std::mem::take(&mut self.gap)));
        }
    }
}

/// Sends a job's followers what they take, and to those that have had
/// everything the last word.
pub(super) fn serve(job: &mut Job, conns: &mut Conns, buf: &mut [u8]) {
    let mut followers = std::mem::take(&mut job.followers);
    followers.retain_mut(|follower| {
        if conns.channel(follower.to).is_none() {
            return false;
        }
        let served = follower.serve(&mut job.log, conns, buf);
        served == Served::Partly || !finish(follower, job, conns)
    });
    job.followers = followers;
}

/// Says what is to be said to a follower that has had all output. Returns
/// whether that was the last word.
fn finish(follower: &mut Follower, job: &Job, conns: &mut Conns) -> bool {
    if follower.span == Span::ToEnd {
        if job.exit().is_none() {
            return false;
        }
        if !std::mem::replace(&mut follower.told_end, true) {
            conns.event(follower.to, &Event::Ended(Box::new(job.info())));
        }
        if !job.is_settled() {
            return false;
        }
    }
    conns.reply(follower.to, &Reply::Job(Box::new(job.info())));
    true
}
