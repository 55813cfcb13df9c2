//! One call on a connection: its answers and what is sent on it.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::OwnedSemaphorePermit;
use vestal_wire::limits::MAX_DATA;
use vestal_wire::{CallEvent, CallReply, FrameKind, Stream};

use super::connection::{Connection, ConnectionShared};
use super::error::{CallError, Closed, Expectation, Violation};
use super::inbox::{Inbox, InboxItem, STREAMS, SendWindow};
use super::outbox::Outbox;

/// A message of the guest on a channel.
#[derive(Debug)]
pub enum ChannelMessage {
    /// Bytes of a stream.
    Data(Stream, Bytes),
    /// The stream has no more bytes.
    End(Stream),
    /// An event.
    Event(CallEvent),
    /// The reply, after which nothing follows. A fault comes as [`CallError::Fault`] instead.
    Reply(CallReply),
}

/// An open request: its answers are read here.
///
/// Dropping a channel before its reply cancels it. What the request started may continue; a
/// job does.
pub struct Channel {
    connection: Connection,
    core: Arc<ChannelCore>,
}

/// Sends the bytes of one stream of a channel to the guest.
pub struct StreamSender {
    connection: Connection,
    core: Arc<ChannelCore>,
    stream: Stream,
}

/// What the driver and the owner of a channel share.
pub(crate) struct ChannelCore {
    id: u32,
    state: Mutex<ChannelState>,
}

struct ChannelState {
    phase: ChannelPhase,
    inbox: Inbox,
    send: [SendWindow; STREAMS],
    /// Where the request's frame ends in all that was sent on the connection.
    request_end: u64,
    receiver: Option<Waker>,
    senders: Vec<Waker>,
    /// The channel's place among those that may be open.
    permit: Option<OwnedSemaphorePermit>,
}

enum ChannelPhase {
    /// The reply has not come.
    Open,
    /// It was cancelled; the reply has not come.
    Cancelled,
    /// The reply has come.
    Replied,
    /// The connection ended before the reply; `sent` as in [`CallError`].
    Failed { reason: Closed, sent: bool },
}

impl ChannelCore {
    pub(crate) fn new(id: u32, expectation: Expectation, permit: OwnedSemaphorePermit) -> Self {
        Self {
            id,
            state: Mutex::new(ChannelState {
                phase: ChannelPhase::Open,
                inbox: Inbox::new(expectation),
                send: [const { SendWindow::new() }; STREAMS],
                request_end: u64::MAX,
                receiver: None,
                senders: Vec::new(),
                permit: Some(permit),
            }),
        }
    }

    /// Sends the request that opens the channel.
    pub(crate) fn open(&self, outbox: &Outbox, payload: &[u8]) -> Result<(), Closed> {
        let mut state = self.lock();
        if let ChannelPhase::Failed { reason, .. } = &state.phase {
            // The owner has already got the error that the request was not sent.
            return Err(reason.clone());
        }
        state.request_end = outbox.send(self.id, FrameKind::Open, Stream::Input, payload)?;
        Ok(())
    }

    /// Takes in bytes from the guest.
    pub(crate) fn on_data(&self, stream: Stream, bytes: BytesMut) -> Result<(), Violation> {
        self.update(|state| state.inbox.data(stream, bytes))
    }

    /// Takes in the end of a stream from the guest.
    pub(crate) fn on_end(&self, stream: Stream) -> Result<(), Violation> {
        self.update(|state| state.inbox.end(stream))
    }

    /// Takes in an event from the guest.
    pub(crate) fn on_event(&self, payload: &[u8]) -> Result<(), Violation> {
        self.update(|state| state.inbox.event(payload))
    }

    /// Takes in the guest's reply; the channel is closed after it.
    pub(crate) fn on_reply(&self, payload: &[u8]) -> Result<(), Violation> {
        self.update(|state| {
            state.inbox.reply(payload)?;
            state.phase = ChannelPhase::Replied;
            state.permit = None;
            state.wake_senders();
            Ok(())
        })
    }

    /// Takes in credit from the guest.
    pub(crate) fn on_credit(&self, stream: Stream, bytes: u32) -> Result<(), Violation> {
        let mut state = self.lock();
        state.send[stream as usize].grant(stream, bytes)?;
        state.wake_senders();
        Ok(())
    }

    /// Tells the channel's owner that the connection is over.
    pub(crate) fn fail(&self, reason: &Closed, outbox: &Outbox) {
        let mut state = self.lock();
        if matches!(state.phase, ChannelPhase::Open) {
            let sent = outbox.is_written(state.request_end);
            state.phase = ChannelPhase::Failed { reason: reason.clone(), sent };
        }
        state.permit = None;
        state.wake_senders();
        if let Some(waker) = state.receiver.take() {
            waker.wake();
        }
    }

    fn update(
        &self,
        change: impl FnOnce(&mut ChannelState) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let mut state = self.lock();
        change(&mut state)?;
        if let Some(waker) = state.receiver.take() {
            waker.wake();
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &Context<'_>,
        shared: &ConnectionShared,
    ) -> Poll<Result<Option<ChannelMessage>, CallError>> {
        let mut state = self.lock();
        if let Some((item, credit)) = state.inbox.pop() {
            if let (Some((stream, bytes)), ChannelPhase::Open) = (credit, &state.phase) {
                // A failure here ends the connection, which the next call tells.
                shared.send_control(self.id, FrameKind::Credit, stream, &bytes.to_le_bytes());
            }
            return Poll::Ready(Ok(Some(ChannelMessage::from(item))));
        }
        match &state.phase {
            ChannelPhase::Failed { reason, sent } => {
                Poll::Ready(Err(CallError::closed(reason.clone(), *sent)))
            }
            ChannelPhase::Replied => Poll::Ready(match state.inbox.take_reply() {
                Some(CallReply::Fault(fault)) => Err(CallError::Fault(fault)),
                reply => Ok(reply.map(ChannelMessage::Reply)),
            }),
            ChannelPhase::Open | ChannelPhase::Cancelled => {
                state.receiver = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Sends as much of `bytes` as credit allows and returns how much that was;
    /// `None` when the guest wants no more.
    fn poll_send(
        &self,
        context: &Context<'_>,
        shared: &ConnectionShared,
        stream: Stream,
        bytes: &[u8],
    ) -> Poll<Option<usize>> {
        let mut state = self.lock();
        if !matches!(state.phase, ChannelPhase::Open) {
            return Poll::Ready(None);
        }
        if ready!(shared.outbox.poll_space(context)).is_err() {
            return Poll::Ready(None);
        }
        let count = state.send[stream as usize].take(bytes.len().min(MAX_DATA));
        if count == 0 {
            if !state.senders.iter().any(|waker| waker.will_wake(context.waker())) {
                state.senders.push(context.waker().clone());
            }
            return Poll::Pending;
        }
        // Under the channel's lock, so that no byte follows the cancellation and reaches
        // the next channel with this number.
        let sent = shared.outbox.send(self.id, FrameKind::Data, stream, &bytes[..count]);
        Poll::Ready(sent.ok().map(|_| count))
    }

    fn lock(&self) -> MutexGuard<'_, ChannelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChannelState {
    fn wake_senders(&mut self) {
        for waker in self.senders.drain(..) {
            waker.wake();
        }
    }
}

impl From<InboxItem> for ChannelMessage {
    fn from(item: InboxItem) -> Self {
        match item {
            InboxItem::Data(stream, bytes) => Self::Data(stream, bytes.freeze()),
            InboxItem::End(stream) => Self::End(stream),
            InboxItem::Event(event, _) => Self::Event(event),
        }
    }
}

impl Channel {
    pub(crate) fn new(connection: Connection, core: Arc<ChannelCore>) -> Self {
        Self { connection, core }
    }

    /// Returns the guest's next message, in its order; `None` after
    /// the reply. Safe to drop half-way: nothing is lost.
    pub async fn recv(&mut self) -> Result<Option<ChannelMessage>, CallError> {
        poll_fn(|context| self.core.poll_recv(context, self.connection.shared())).await
    }

    /// Waits for the reply, passing over all that comes before it.
    pub async fn reply(&mut self) -> Result<CallReply, CallError> {
        loop {
            match self.recv().await? {
                Some(ChannelMessage::Reply(reply)) => return Ok(reply),
                Some(_) => {}
                None => return Err(self.violate(Violation::WrongReply)),
            }
        }
    }

    /// Returns the sender for one stream of this channel.
    pub fn outgoing(&self, stream: Stream) -> StreamSender {
        StreamSender { connection: self.connection.clone(), core: Arc::clone(&self.core), stream }
    }

    /// Returns whether the whole request has been handed to the transport so far.
    pub fn sent(&self) -> bool {
        let state = self.core.lock();
        match &state.phase {
            ChannelPhase::Failed { sent, .. } => *sent,
            _ => self.connection.shared().outbox.is_written(state.request_end),
        }
    }

    /// Returns the connection the channel belongs to.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Closes the connection because the guest broke the protocol, and returns the error
    /// for the caller.
    pub(crate) fn violate(&self, violation: Violation) -> CallError {
        // Only after the end is it certain that nothing more is sent.
        self.connection.shared().close(&Closed::Violation(violation.clone()));
        CallError::Protocol { sent: self.sent(), violation }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let mut state = self.core.lock();
        if matches!(state.phase, ChannelPhase::Open) {
            state.phase = ChannelPhase::Cancelled;
            state.inbox.discard();
            state.wake_senders();
            self.connection.shared().send_control(
                self.core.id,
                FrameKind::Cancel,
                Stream::Input,
                &[],
            );
        }
    }
}

impl StreamSender {
    /// Sends `bytes`, waiting for credit. Returns whether the guest took them
    /// all; when it did not, the reply or the loss is to be read on the channel.
    pub async fn write(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let shared = self.connection.shared();
            let sent =
                poll_fn(|context| self.core.poll_send(context, shared, self.stream, bytes)).await;
            match sent {
                Some(count) => bytes = &bytes[count..],
                None => return false,
            }
        }
        true
    }

    /// Tells the guest that the stream has no more bytes.
    pub fn end(self) {
        let state = self.core.lock();
        if matches!(state.phase, ChannelPhase::Open) {
            self.connection.shared().send_control(self.core.id, FrameKind::End, self.stream, &[]);
        }
    }
}

/// Where bytes for a guest come from.
pub(crate) enum InputSource<'a> {
    Bytes(&'a [u8]),
    Reader(&'a mut (dyn AsyncRead + Send + Unpin)),
}

/// A request with a stream that did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The source failed; the guest got no end of the stream.
    #[error(transparent)]
    Source(io::Error),
}

/// Sends all that the source has and then the stream's end. Stops early, without
/// an error, when the guest wants no more. When the source fails the end is not
/// sent, so that a part is never taken for the whole.
pub(crate) async fn feed(mut outgoing: StreamSender, source: InputSource<'_>) -> io::Result<()> {
    let complete = match source {
        InputSource::Bytes(bytes) => outgoing.write(bytes).await,
        InputSource::Reader(reader) => copy(&mut outgoing, reader).await?,
    };
    if complete {
        outgoing.end();
    }
    Ok(())
}

/// Feeds the channel's input while waiting for its reply.
pub(crate) async fn feed_for_reply(
    channel: &mut Channel,
    source: InputSource<'_>,
) -> Result<CallReply, FeedError> {
    let feeding = feed(channel.outgoing(Stream::Input), source);
    tokio::select! {
        biased;
        fed = feeding => fed.map_err(FeedError::Source)?,
        reply = channel.reply() => return Ok(reply?),
    }
    Ok(channel.reply().await?)
}

async fn copy(
    outgoing: &mut StreamSender,
    reader: &mut (dyn AsyncRead + Send + Unpin),
) -> io::Result<bool> {
    let mut buffer = vec![0; MAX_DATA];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) => return Ok(true),
            Ok(count) => {
                if !outgoing.write(&buffer[..count]).await {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
