//! What came on one channel and nobody has taken yet, bounded.
//!
//! Data is bounded by the credit granted, events by number and size. Small
//! pieces of data are joined, so that a guest which sends single bytes cannot
//! make a window's worth of bookkeeping out of a window's worth of bytes.

use std::collections::VecDeque;

use bytes::BytesMut;
use vestal_wire::limits::WINDOW;
use vestal_wire::{CallEvent, CallReply, FrameKind, Stream, decode};

use super::error::{Expectation, Violation};

/// Events that may wait on a channel, and their size as sent.
const MAX_EVENTS: usize = 1024;
const MAX_EVENT_BYTES: usize = 2 << 20;

/// Pieces below this size are joined to the piece before them; pieces of at
/// least this size are handed on without a copy.
pub(crate) const JOIN_BELOW: usize = 32 << 10;

/// With more items than this waiting, data joins the last piece of its own
/// stream even if a piece of another stream came in between.
const STRICT_ORDER_ITEMS: usize = 1024;

/// One thing that came on a channel.
#[derive(Debug)]
pub(crate) enum InboxItem {
    /// Bytes of a stream.
    Data(Stream, BytesMut),
    /// End of a stream.
    End(Stream),
    /// An event, with its size as sent.
    Event(CallEvent, usize),
}

/// The bounded queue of a channel.
#[derive(Debug)]
pub(crate) struct Inbox {
    expectation: Expectation,
    windows: [ReceiveWindow; STREAMS],
    queue: VecDeque<InboxItem>,
    /// Number of the item at the front of the queue, counted from the first ever.
    front: u64,
    /// Number of the last piece of each stream since the last event.
    joinable: [Option<u64>; STREAMS],
    events: usize,
    event_bytes: usize,
    started: bool,
    ended: bool,
    discarding: bool,
    reply: Option<CallReply>,
}

impl Inbox {
    pub(crate) fn new(expectation: Expectation) -> Self {
        Self {
            expectation,
            windows: [const { ReceiveWindow::new() }; STREAMS],
            queue: VecDeque::new(),
            front: 0,
            joinable: [None; STREAMS],
            events: 0,
            event_bytes: 0,
            started: false,
            ended: false,
            discarding: false,
            reply: None,
        }
    }

    /// Takes in bytes of a stream.
    pub(crate) fn data(&mut self, stream: Stream, bytes: BytesMut) -> Result<(), Violation> {
        self.check_stream(stream)?;
        self.windows[stream as usize].receive(stream, bytes.len())?;
        if self.discarding || bytes.is_empty() {
            return Ok(());
        }
        if let Some(last) = self.piece_to_join(stream, bytes.len()) {
            last.extend_from_slice(&bytes);
            return Ok(());
        }
        self.joinable[stream as usize] = Some(self.front + self.queue.len() as u64);
        self.queue.push_back(InboxItem::Data(stream, bytes));
        Ok(())
    }

    /// Takes in the end of a stream.
    pub(crate) fn end(&mut self, stream: Stream) -> Result<(), Violation> {
        self.check_stream(stream)?;
        self.windows[stream as usize].end(stream)?;
        if !self.discarding {
            self.queue.push_back(InboxItem::End(stream));
        }
        Ok(())
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, payload: &[u8]) -> Result<(), Violation> {
        if !self.expectation.allows_events() {
            return Err(Violation::UnexpectedKind(FrameKind::Event));
        }
        let event = decode(payload).map_err(|error| Violation::Undecodable {
            kind: FrameKind::Event,
            error: error.to_string(),
        })?;
        self.check_event(&event)?;
        self.events += 1;
        self.event_bytes += payload.len();
        if self.events > MAX_EVENTS || self.event_bytes > MAX_EVENT_BYTES {
            return Err(Violation::EventFlood);
        }
        if !self.discarding {
            // Data that follows an event must not be joined to data before it.
            self.joinable = [None; STREAMS];
            self.queue.push_back(InboxItem::Event(event, payload.len()));
        }
        Ok(())
    }

    /// Takes in the reply.
    pub(crate) fn reply(&mut self, payload: &[u8]) -> Result<(), Violation> {
        let reply = decode(payload).map_err(|error| Violation::Undecodable {
            kind: FrameKind::Reply,
            error: error.to_string(),
        })?;
        if !self.expectation.accepts(&reply) {
            return Err(Violation::WrongReply);
        }
        if !self.discarding {
            self.reply = Some(reply);
        }
        Ok(())
    }

    /// Takes out the oldest item, with the credit to grant for it.
    pub(crate) fn pop(&mut self) -> Option<(InboxItem, Option<(Stream, u32)>)> {
        let item = self.queue.pop_front()?;
        self.front += 1;
        let credit = match &item {
            InboxItem::Data(stream, bytes) => {
                self.windows[*stream as usize].consume(bytes.len()).map(|credit| (*stream, credit))
            }
            InboxItem::Event(_, size) => {
                self.events -= 1;
                self.event_bytes -= size;
                None
            }
            InboxItem::End(_) => None,
        };
        Some((item, credit))
    }

    /// Takes out the reply, which comes after everything else.
    pub(crate) fn take_reply(&mut self) -> Option<CallReply> {
        if self.queue.is_empty() { self.reply.take() } else { None }
    }

    /// Lets go of everything, now and from now on. The bounds stay: nothing is
    /// granted any more, so a guest can only use up what it has.
    pub(crate) fn discard(&mut self) {
        self.discarding = true;
        self.queue = VecDeque::new();
        self.joinable = [None; STREAMS];
        self.events = 0;
        self.event_bytes = 0;
        self.reply = None;
    }

    /// Returns how many items wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    fn check_stream(&self, stream: Stream) -> Result<(), Violation> {
        if !self.expectation.allows(stream) {
            return Err(Violation::UnexpectedStream(stream));
        }
        if self.ended {
            return Err(Violation::AfterEnd(stream));
        }
        Ok(())
    }

    fn check_event(&mut self, event: &CallEvent) -> Result<(), Violation> {
        if self.ended {
            return Err(Violation::Event("the job has ended already"));
        }
        match event {
            CallEvent::Started { .. } => {
                if std::mem::replace(&mut self.started, true) {
                    return Err(Violation::Event("the job has started already"));
                }
            }
            CallEvent::Gap { stream, .. } => {
                let stream = match stream {
                    1 => Stream::Stdout,
                    2 => Stream::Stderr,
                    _ => return Err(Violation::Event("a gap in a stream that has none")),
                };
                if self.windows[stream as usize].is_ended() {
                    return Err(Violation::AfterEnd(stream));
                }
            }
            CallEvent::Ended(info) => {
                if !self.expectation.is_about(&info.id) {
                    return Err(Violation::Event("it is about another job"));
                }
                self.ended = true;
            }
        }
        Ok(())
    }

    fn piece_to_join(&mut self, stream: Stream, more: usize) -> Option<&mut BytesMut> {
        let number = self.joinable[stream as usize]?;
        let index = usize::try_from(number.checked_sub(self.front)?).ok()?;
        if index + 1 != self.queue.len() && self.queue.len() <= STRICT_ORDER_ITEMS {
            return None;
        }
        match self.queue.get_mut(index) {
            Some(InboxItem::Data(_, bytes)) if bytes.len() + more <= JOIN_BELOW => Some(bytes),
            _ => None,
        }
    }
}

/// Streams a channel can have.
pub(crate) const STREAMS: usize = 5;

/// Consumed bytes are granted again in portions of this size: often enough that
/// the sender never waits for a reader who keeps up, seldom enough that credit
/// frames cost nothing.
const GRANT: u32 = WINDOW / 4;

/// What a guest may still send on one stream.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    left: u32,
    consumed: u32,
    ended: bool,
}

impl ReceiveWindow {
    pub(crate) const fn new() -> Self {
        Self { left: WINDOW, consumed: 0, ended: false }
    }

    /// Accounts for bytes that came.
    pub(crate) fn receive(&mut self, stream: Stream, len: usize) -> Result<(), Violation> {
        if self.ended {
            return Err(Violation::AfterEnd(stream));
        }
        let rest = u32::try_from(len).ok().and_then(|len| self.left.checked_sub(len));
        self.left = rest.ok_or(Violation::Window { stream, len, left: self.left })?;
        Ok(())
    }

    /// Accounts for the stream's end.
    pub(crate) fn end(&mut self, stream: Stream) -> Result<(), Violation> {
        if std::mem::replace(&mut self.ended, true) {
            return Err(Violation::AfterEnd(stream));
        }
        Ok(())
    }

    /// Accounts for bytes the consumer took, and returns the credit to grant
    /// now, if any.
    pub(crate) fn consume(&mut self, len: usize) -> Option<u32> {
        // What is consumed was received within the window, so it fits.
        self.consumed = self.consumed.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        if self.ended || self.consumed < GRANT {
            return None;
        }
        let grant = std::mem::take(&mut self.consumed);
        self.left = self.left.saturating_add(grant);
        Some(grant)
    }

    /// Returns whether the stream's end has come.
    pub(crate) const fn is_ended(&self) -> bool {
        self.ended
    }
}

/// What this side may still send on one stream.
#[derive(Debug)]
pub(crate) struct SendWindow {
    left: u32,
}

impl SendWindow {
    pub(crate) const fn new() -> Self {
        Self { left: WINDOW }
    }

    /// Accounts for credit the guest granted.
    pub(crate) fn grant(&mut self, stream: Stream, bytes: u32) -> Result<(), Violation> {
        self.left = self.left.checked_add(bytes).ok_or(Violation::Credit(stream))?;
        Ok(())
    }

    /// Takes credit for at most `wanted` bytes and returns for how many.
    pub(crate) fn take(&mut self, wanted: usize) -> usize {
        let taken = u32::try_from(wanted).unwrap_or(u32::MAX).min(self.left);
        self.left -= taken;
        taken as usize
    }
}
