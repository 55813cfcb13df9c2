//! All connections, their open channels, and the messages sent on them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use minicbor::Encode;
use vestal_wire::limits::WINDOW;
use vestal_wire::{
    CallEvent, CallReply, EncodeError, Fault, FaultCode, FrameKind, HostRole, StartJob, Stream,
    encode,
};

use super::connection::{ConnectionState, HostConnection};
use super::lifetime::{CallKind, IdleClock};
use super::reactor::{ChannelId, ConnectionId, JobKey, TimerId};
use super::workers::Transfer;
use crate::log::LogStream;

/// Maximum number of connections; more are refused.
pub(super) const MAX_CONNECTIONS: usize = 512;

/// Received bytes after which the sender gets new credit.
const GRANT_FROM: u32 = WINDOW / 4;

#[derive(Debug)]
pub(super) struct HostConnections {
    map: HashMap<ConnectionId, HostConnection>,
    next: u64,
    /// Connections with something to write or to close.
    dirty: Vec<ConnectionId>,
    pub(super) clock: IdleClock,
}

impl HostConnections {
    pub(super) fn new(clock: IdleClock) -> Self {
        Self { map: HashMap::new(), next: 0, dirty: Vec::new(), clock }
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.map.keys().copied().collect()
    }

    /// Returns whether a host has not read everything yet.
    pub(super) fn is_unread(&self) -> bool {
        self.map.values().any(|conn| conn.waiting() > 0)
    }

    pub(super) fn insert(&mut self, fd: OwnedFd) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        self.map.insert(id, HostConnection::new(fd));
        id
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut HostConnection> {
        self.map.get_mut(&id)
    }

    /// Removes a connection and closes its calls.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<HostConnection> {
        let conn = self.map.remove(&id)?;
        for channel in conn.channels.values() {
            self.clock.call_closed(channel.kind);
        }
        Some(conn)
    }

    /// Returns how many owners are connected.
    pub(super) fn owners(&self) -> usize {
        self.map.values().filter(|conn| conn.role == Some(HostRole::Owner)).count()
    }

    /// Returns whether another client has a call open that counts as use.
    pub(super) fn others_busy(&self, except: ConnectionId) -> bool {
        self.map.iter().any(|(id, conn)| {
            *id != except && conn.channels.values().any(|channel| channel.kind == CallKind::Use)
        })
    }

    pub(super) fn channel(&mut self, at: ChannelId) -> Option<&mut OpenChannel> {
        self.map.get_mut(&at.conn)?.channels.get_mut(&at.channel)
    }

    /// Opens a channel.
    pub(super) fn open(&mut self, at: ChannelId, call: OpenCall, kind: CallKind) {
        if let Some(conn) = self.map.get_mut(&at.conn) {
            conn.channels.insert(at.channel, OpenChannel::new(call, kind));
            self.clock.call_opened(kind);
        }
    }

    /// Sends an event.
    pub(super) fn event(&mut self, to: ChannelId, event: &CallEvent) {
        // Events are always shorter than the limit, because their parts are
        // bounded.
        self.message(to, FrameKind::Event, event).ok();
    }

    /// Sends the reply and closes the channel.
    pub(super) fn reply(&mut self, to: ChannelId, reply: &CallReply) {
        let Some(conn) = self.map.get_mut(&to.conn) else {
            return;
        };
        if let Some(channel) = conn.channels.remove(&to.channel) {
            self.clock.call_closed(channel.kind);
        }
        if let Err(error) = self.message(to, FrameKind::Reply, reply) {
            let fault = Fault::new(FaultCode::NoSpace, format!("the answer is too long: {error}"));
            self.message(to, FrameKind::Reply, &CallReply::Fault(fault)).ok();
        }
    }

    /// Replies with a fault.
    pub(super) fn fault(&mut self, to: ChannelId, code: FaultCode, message: impl Into<String>) {
        self.reply(to, &CallReply::Fault(Fault::new(code, message)));
    }

    /// Sends output of a job, for which the channel has credit.
    pub(super) fn output(&mut self, to: ChannelId, stream: LogStream, bytes: &[u8]) {
        let Some(conn) = self.map.get_mut(&to.conn) else {
            return;
        };
        if let Some(channel) = conn.channels.get_mut(&to.channel) {
            channel.spend(stream, bytes.len());
            conn.push_data(to.channel, stream.on_wire(), bytes);
            self.mark_dirty(to.conn);
        }
    }

    /// Sends bytes of a file.
    pub(super) fn content(&mut self, to: ChannelId, bytes: &[u8]) {
        if let Some(conn) = self.map.get_mut(&to.conn) {
            conn.push_data(to.channel, Stream::Content, bytes);
            self.mark_dirty(to.conn);
        }
    }

    /// Records that received bytes were processed, and grants new credit when it
    /// is time.
    pub(super) fn taken(&mut self, from: ChannelId, stream: Stream, bytes: usize) {
        let granted = self.channel(from).and_then(|channel| channel.taken(stream, bytes));
        if let Some(granted) = granted {
            self.grant(from, stream, granted);
        }
    }

    /// Grants credit to the host.
    fn grant(&mut self, to: ChannelId, stream: Stream, bytes: u32) {
        if let Some(conn) = self.map.get_mut(&to.conn) {
            conn.push(to.channel, FrameKind::Credit, stream, &bytes.to_le_bytes());
            self.mark_dirty(to.conn);
        }
    }

    /// Closes a connection at the end of the turn, after writing as much as the
    /// host accepts.
    pub(super) fn close(&mut self, id: ConnectionId) {
        if let Some(conn) = self.map.get_mut(&id) {
            conn.state = ConnectionState::Closing;
            self.mark_dirty(id);
        }
    }

    /// Returns how many bytes of a job's stream a follower accepts now.
    pub(super) fn room(&mut self, to: ChannelId, stream: LogStream) -> u64 {
        let Some(conn) = self.map.get_mut(&to.conn) else {
            return 0;
        };
        match conn.channels.get(&to.channel).map(|channel| channel.credit(stream)) {
            Some(credit) if credit > 0 && conn.has_room() => credit,
            _ => 0,
        }
    }

    /// Sends any message.
    pub(super) fn message(
        &mut self,
        to: ChannelId,
        kind: FrameKind,
        message: &impl Encode<()>,
    ) -> Result<(), EncodeError> {
        let bytes = encode(message)?;
        if let Some(conn) = self.map.get_mut(&to.conn) {
            conn.push(to.channel, kind, Stream::Input, &bytes);
            self.mark_dirty(to.conn);
        }
        Ok(())
    }

    /// Takes the connections that have something to write or to close.
    pub(super) fn take_dirty(&mut self) -> Vec<ConnectionId> {
        let dirty = std::mem::take(&mut self.dirty);
        for id in &dirty {
            if let Some(conn) = self.map.get_mut(id) {
                conn.dirty = false;
            }
        }
        dirty
    }

    pub(super) fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(conn) = self.map.get_mut(&id)
            && !conn.dirty
        {
            conn.dirty = true;
            self.dirty.push(id);
        }
    }
}

/// The call on a channel.
#[derive(Debug)]
pub(super) enum OpenCall {
    /// Receives shell text.
    Text(Box<StartJob>, Vec<u8>),
    /// Follows a job. Input goes to the job if the channel started it.
    Follow(JobKey, Feeds),
    /// Waits for a job to end.
    Wait(JobKey, Option<TimerId>),
    /// Waits until all processes of a killed job are gone.
    Kill(JobKey),
    /// Writes to a job's standard input.
    Input {
        job: JobKey,
        /// Whether standard input is closed afterwards.
        close: bool,
        /// Whether bytes arrived too late.
        dropped: bool,
    },
    /// A file operation, or a connection to a port.
    File(Arc<Transfer>),
    /// A worker prepares the reply.
    Work,
    /// Waits for the end of the guest.
    Shutdown,
}

/// Whether a channel that follows a job also feeds its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feeds {
    Input,
    Nothing,
}

#[derive(Debug)]
pub(super) struct OpenChannel {
    pub(super) call: OpenCall,
    pub(super) kind: CallKind,
    /// Bytes of standard output and standard error that the host accepts.
    credit: [u64; 2],
    input: StreamWindow,
    text: StreamWindow,
}

/// Flow control of a stream from the host.
#[derive(Debug)]
struct StreamWindow {
    left: u32,
    /// Bytes processed that were not granted again yet.
    owed: u32,
    ended: bool,
}

/// The host violated the flow control.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamViolation {
    #[error("more bytes were sent than granted")]
    StreamWindow,
    #[error("bytes were sent after the end of a stream")]
    AfterEnd,
    #[error("bytes were sent on a stream that flows the other way")]
    Direction,
}

impl OpenChannel {
    pub(super) const fn new(call: OpenCall, kind: CallKind) -> Self {
        Self {
            call,
            kind,
            credit: [WINDOW as u64; 2],
            input: StreamWindow::new(),
            text: StreamWindow::new(),
        }
    }

    /// Returns how many bytes of a job's stream the host accepts.
    pub(super) const fn credit(&self, stream: crate::log::LogStream) -> u64 {
        self.credit[stream.index()]
    }

    const fn spend(&mut self, stream: crate::log::LogStream, bytes: usize) {
        let credit = &mut self.credit[stream.index()];
        *credit = credit.saturating_sub(bytes as u64);
    }

    /// Adds credit from the host.
    pub(super) fn add_credit(&mut self, stream: Stream, bytes: u32) {
        match stream {
            Stream::Stdout => self.credit[0] = self.credit[0].saturating_add(bytes.into()),
            Stream::Stderr => self.credit[1] = self.credit[1].saturating_add(bytes.into()),
            Stream::Content => {
                if let OpenCall::File(transfer) = &self.call {
                    transfer.add_credit(bytes);
                }
            }
            Stream::Input | Stream::Text => {}
        }
    }

    /// Records received bytes.
    pub(super) fn received(&mut self, stream: Stream, bytes: usize) -> Result<(), StreamViolation> {
        let window = self.window(stream)?;
        if window.ended {
            return Err(StreamViolation::AfterEnd);
        }
        let bytes = u32::try_from(bytes).map_err(|_| StreamViolation::StreamWindow)?;
        window.left = window.left.checked_sub(bytes).ok_or(StreamViolation::StreamWindow)?;
        Ok(())
    }

    /// Records the end of a stream.
    pub(super) fn ended(&mut self, stream: Stream) -> Result<(), StreamViolation> {
        let window = self.window(stream)?;
        if std::mem::replace(&mut window.ended, true) {
            return Err(StreamViolation::AfterEnd);
        }
        Ok(())
    }

    /// Records processed bytes. Returns the credit to grant, if it is time.
    pub(super) fn taken(&mut self, stream: Stream, bytes: usize) -> Option<u32> {
        let window = self.window(stream).ok()?;
        window.owed = window.owed.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if window.ended || window.owed < GRANT_FROM {
            return None;
        }
        let granted = std::mem::take(&mut window.owed);
        window.left = window.left.saturating_add(granted);
        Some(granted)
    }

    const fn window(&mut self, stream: Stream) -> Result<&mut StreamWindow, StreamViolation> {
        match stream {
            Stream::Input => Ok(&mut self.input),
            Stream::Text => Ok(&mut self.text),
            Stream::Stdout | Stream::Stderr | Stream::Content => Err(StreamViolation::Direction),
        }
    }
}

impl StreamWindow {
    const fn new() -> Self {
        Self { left: WINDOW, owed: 0, ended: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> OpenChannel {
        OpenChannel::new(OpenCall::Shutdown, CallKind::Use)
    }

    #[test]
    fn the_window_is_kept_to_and_grows_by_what_was_taken() {
        let mut channel = channel();
        let window = WINDOW as usize;
        channel.received(Stream::Input, window).unwrap();
        assert!(channel.received(Stream::Input, 1).is_err());
        assert_eq!(channel.taken(Stream::Input, 1000), None);
        assert_eq!(channel.taken(Stream::Input, window / 2), Some(WINDOW / 2 + 1000));
        channel.received(Stream::Input, window / 2).unwrap();
        channel.received(Stream::Text, window).unwrap();
    }

    #[test]
    fn nothing_comes_after_the_end_or_against_the_stream() {
        let mut channel = channel();
        channel.ended(Stream::Input).unwrap();
        assert!(channel.received(Stream::Input, 0).is_err());
        assert!(channel.ended(Stream::Input).is_err());
        assert!(channel.received(Stream::Stdout, 1).is_err());
    }
}
