//! Handles frames from host processes.

use vestal_wire::limits::MAX_CHANNELS;
use vestal_wire::{
    CallReply, CallRequest, DecodeError, Fault, FaultCode, FrameError, FrameKind, Header, Hello,
    HostRole, MAJOR, MINOR, Stream, Welcome, decode,
};

use super::connection::{ConnectionState, InboxFrame, ReadStatus, next_frame};
use super::connections::{Feeds, OpenCall, StreamViolation};
use super::guest::{Guest, after_millis};
use super::lifetime::CallKind;
use super::reactor::{ChannelId, ConnectionId};

/// A violation of the protocol, which closes the connection.
#[derive(Debug, thiserror::Error)]
enum ProtocolViolation {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Stream(#[from] StreamViolation),
    #[error("hello: {0}")]
    Hello(DecodeError),
    #[error("a frame before the hello")]
    NoHello,
    #[error("a frame of a kind that only guests send")]
    WrongSide,
    #[error("channel {0} cannot be opened: it is open already or may not be used")]
    Channel(u32),
    #[error("more channels were opened than allowed")]
    TooManyChannels,
    #[error("a credit frame without a number")]
    Credit,
}

impl Guest {
    /// Reads a connection and handles every complete frame.
    pub(super) fn read_connection(&mut self, id: ConnectionId) {
        let Some(conn) = self.connections.get_mut(id) else {
            return;
        };
        let Ok(input) = conn.fill() else {
            return self.drop_connection(id);
        };
        let inbox = conn.take_inbox();
        let mut consumed = 0;
        loop {
            match self.take_frame(id, &inbox[consumed..]) {
                Ok(0) => break,
                Ok(len) => consumed += len,
                Err(violation) => {
                    crate::diagnostics::note(&format!("connection closed: {violation}"));
                    self.connections.close(id);
                    consumed = inbox.len();
                    break;
                }
            }
        }
        if let Some(conn) = self.connections.get_mut(id) {
            conn.put_back(inbox, consumed);
        }
        if input == ReadStatus::HungUp {
            self.drop_connection(id);
        }
    }

    /// Handles the first frame in `bytes`. Returns its length, or 0 if it is
    /// incomplete or the connection is closing.
    fn take_frame(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, ProtocolViolation> {
        let Some(frame) = next_frame(bytes)? else {
            return Ok(0);
        };
        let InboxFrame { header, payload } = frame;
        let Some(conn) = self.connections.get_mut(id) else {
            return Ok(0);
        };
        if conn.state == ConnectionState::Closing {
            return Ok(0);
        }
        let at = ChannelId { conn: id, channel: header.channel };
        match (conn.role, header.kind) {
            (None, FrameKind::Hello) => self.greet(id, payload)?,
            (None, _) => return Err(ProtocolViolation::NoHello),
            (Some(role), FrameKind::Open) => self.open_channel(at, role, payload)?,
            (Some(_), FrameKind::Data) => self.take_data(at, header.stream, payload)?,
            (Some(_), FrameKind::End) => self.take_end(at, header.stream)?,
            (Some(_), FrameKind::Credit) => self.take_credit(at, header, payload)?,
            (Some(_), FrameKind::Cancel) => self.cancel(at),
            (
                Some(_),
                FrameKind::Hello | FrameKind::Welcome | FrameKind::Event | FrameKind::Reply,
            ) => {
                return Err(ProtocolViolation::WrongSide);
            }
        }
        Ok(frame.len())
    }

    fn greet(&mut self, id: ConnectionId, payload: &[u8]) -> Result<(), ProtocolViolation> {
        let hello: Hello = decode(payload).map_err(ProtocolViolation::Hello)?;
        let at = ChannelId { conn: id, channel: 0 };
        let own = &self.settings.instance;
        let refusal = match (hello.agree(), hello.instance) {
            (Err(error), _) => Some(Fault::new(FaultCode::Unsupported, error.to_string())),
            // The host can show the name to its user.
            (Ok(_), Some(meant)) if meant != *own => {
                Some(Fault::new(FaultCode::WrongInstance, own.clone()))
            }
            (Ok(_), _) => None,
        };
        if let Some(fault) = refusal {
            self.connections.message(at, FrameKind::Welcome, &fault).ok();
            self.connections.close(id);
            return Ok(());
        }
        let welcome = Welcome {
            major: MAJOR,
            minor: MINOR,
            program: env!("CARGO_PKG_VERSION").into(),
            instance: own.clone(),
            key: self.settings.key.clone(),
            generation: self.settings.generation,
            incarnation: self.identity.incarnation.clone(),
            boot: self.identity.boot.clone(),
        };
        // It is far below the limit.
        self.connections.message(at, FrameKind::Welcome, &welcome).ok();
        if let Some(conn) = self.connections.get_mut(id) {
            conn.role = Some(hello.role);
        }
        if hello.role == HostRole::Owner {
            self.owner_deadline = None;
        }
        Ok(())
    }

    fn open_channel(
        &mut self,
        at: ChannelId,
        role: HostRole,
        payload: &[u8],
    ) -> Result<(), ProtocolViolation> {
        let Some(conn) = self.connections.get_mut(at.conn) else {
            return Ok(());
        };
        if at.channel == 0 || conn.channels.contains_key(&at.channel) {
            return Err(ProtocolViolation::Channel(at.channel));
        }
        if conn.channels.len() >= MAX_CHANNELS {
            return Err(ProtocolViolation::TooManyChannels);
        }
        let request: CallRequest = match decode(payload) {
            Ok(request) => request,
            Err(error) => {
                // A newer host may send a request this guest does not know.
                self.connections.reply(at, &CallReply::Fault(not_understood(&error)));
                return Ok(());
            }
        };
        let kind = match (role, &request) {
            (HostRole::Observer, _) | (_, CallRequest::Status | CallRequest::Stats) => {
                CallKind::Observe
            }
            (HostRole::User | HostRole::Owner, _) => CallKind::Use,
        };
        self.call(at, kind, request);
        Ok(())
    }

    fn take_data(
        &mut self,
        at: ChannelId,
        stream: Stream,
        bytes: &[u8],
    ) -> Result<(), ProtocolViolation> {
        // A reply that crossed this frame may have closed the channel.
        let Some(channel) = self.connections.channel(at) else {
            return Ok(());
        };
        channel.received(stream, bytes.len())?;
        match (&channel.call, stream) {
            (OpenCall::Text(..), Stream::Text) => self.take_text(at, bytes),
            (OpenCall::Follow(job, Feeds::Input) | OpenCall::Input { job, .. }, Stream::Input) => {
                let job = *job;
                self.feed(job, at, bytes);
            }
            (OpenCall::File(transfer), Stream::Input) => transfer.feed(bytes),
            // Nobody reads input of a start whose job already existed.
            _ => self.connections.taken(at, stream, bytes.len()),
        }
        Ok(())
    }

    fn take_end(&mut self, at: ChannelId, stream: Stream) -> Result<(), ProtocolViolation> {
        let Some(channel) = self.connections.channel(at) else {
            return Ok(());
        };
        channel.ended(stream)?;
        match (&channel.call, stream) {
            (OpenCall::Text(..), Stream::Text) => self.start_with_text(at),
            (OpenCall::Follow(job, Feeds::Input), Stream::Input) => {
                let job = *job;
                self.end_feeding(job, at, true);
            }
            (OpenCall::Input { job, close, .. }, Stream::Input) => {
                let (job, close) = (*job, *close);
                self.end_feeding(job, at, close);
            }
            (OpenCall::File(transfer), Stream::Input) => transfer.end_input(),
            _ => {}
        }
        Ok(())
    }

    fn take_credit(
        &mut self,
        at: ChannelId,
        header: Header,
        payload: &[u8],
    ) -> Result<(), ProtocolViolation> {
        let bytes: [u8; 4] = payload.try_into().map_err(|_| ProtocolViolation::Credit)?;
        let Some(channel) = self.connections.channel(at) else {
            return Ok(());
        };
        channel.add_credit(header.stream, u32::from_le_bytes(bytes));
        if let OpenCall::Follow(job, _) = channel.call {
            self.queue_pump(job);
        }
        Ok(())
    }

    /// Ends a call that nobody listens to. What it started continues.
    fn cancel(&mut self, at: ChannelId) {
        let Some(conn) = self.connections.get_mut(at.conn) else {
            return;
        };
        let Some(channel) = conn.channels.get(&at.channel) else {
            return;
        };
        if let OpenCall::File(transfer) = &channel.call {
            // The reply follows when the operation has stopped.
            transfer.cancel();
            return;
        }
        self.abandon(at);
        self.connections.fault(at, FaultCode::Cancelled, "the call was cancelled");
    }

    /// Removes a channel from jobs and timers.
    fn abandon(&mut self, at: ChannelId) {
        let Some(channel) = self.connections.channel(at) else {
            return;
        };
        match &channel.call {
            OpenCall::Follow(job, feeds) => {
                let (job, feeds) = (*job, *feeds);
                self.unfollow(job, at, feeds);
            }
            OpenCall::Wait(job, timer) => {
                let (job, timer) = (*job, *timer);
                if let Some(timer) = timer {
                    self.timers.cancel(timer);
                }
                self.remove_waiter(job, at);
            }
            OpenCall::Kill(job) => {
                let job = *job;
                self.remove_waiter(job, at);
            }
            OpenCall::File(transfer) => transfer.cancel(),
            OpenCall::Shutdown => {
                if let Some(ending) = &mut self.shutdown {
                    ending.forget(at);
                }
            }
            OpenCall::Text(..) | OpenCall::Input { .. } | OpenCall::Work => {}
        }
    }

    /// Removes a connection and all its calls.
    pub(super) fn drop_connection(&mut self, id: ConnectionId) {
        let Some(conn) = self.connections.get_mut(id) else {
            return;
        };
        let channels: Vec<u32> = conn.channels.keys().copied().collect();
        for channel in channels {
            self.abandon(ChannelId { conn: id, channel });
        }
        let Some(conn) = self.connections.remove(id) else {
            return;
        };
        self.poller.remove(conn.fd());
        if conn.role == Some(HostRole::Owner)
            && self.connections.owners() == 0
            && let Some(grace) = self.settings.owner_grace_ms
        {
            self.owner_deadline = after_millis(grace);
        }
    }
}

fn not_understood(error: &DecodeError) -> Fault {
    let code = match error {
        DecodeError::Malformed(error) if error.is_unknown_variant() => FaultCode::Unsupported,
        _ => FaultCode::Invalid,
    };
    Fault::new(code, format!("the request is not understood: {error}"))
}
