//! What is sent to a guest, and the task that reads what it sends.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;
use vestal_wire::{FrameKind, HEADER_LEN, Header, Stream};

use super::connection::ConnectionShared;
use super::error::{Closed, Violation};
use super::inbox::JOIN_BELOW;

/// Requests and data wait while this many bytes are pending.
const HIGH_WATER: usize = 256 << 10;

/// More than this can only pend when the guest sends without ever reading.
const MAX_PENDING: usize = 8 << 20;

/// A buffer that grew beyond this is given back once it is empty.
const KEEP_CAPACITY: usize = 512 << 10;

/// The write side of a transport.
pub(crate) type GuestWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// The queue of frames towards a guest.
pub(crate) struct Outbox {
    state: Mutex<OutboxState>,
}

struct OutboxState {
    writer: GuestWriter,
    pending: BytesMut,
    /// The transport took no more: the driver writes until nothing is pending.
    stalled: bool,
    flushed: bool,
    queued: u64,
    written: u64,
    failed: Option<Closed>,
    driver: Option<Waker>,
    waiting: Vec<Waker>,
}

impl Outbox {
    pub(crate) fn new(writer: GuestWriter) -> Self {
        Self {
            state: Mutex::new(OutboxState {
                writer,
                pending: BytesMut::new(),
                stalled: false,
                flushed: true,
                queued: 0,
                written: 0,
                failed: None,
                driver: None,
                waiting: Vec::new(),
            }),
        }
    }

    /// Waits until there is room for a request or for data.
    pub(crate) fn poll_space(&self, context: &Context<'_>) -> Poll<Result<(), Closed>> {
        let mut state = self.lock();
        if let Some(reason) = &state.failed {
            return Poll::Ready(Err(reason.clone()));
        }
        if state.pending.len() < HIGH_WATER {
            return Poll::Ready(Ok(()));
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Sends a frame, or queues it if the transport is busy. Returns the
    /// position of the frame's end for [`Outbox::is_written`].
    pub(crate) fn send(
        &self,
        channel: u32,
        kind: FrameKind,
        stream: Stream,
        payload: &[u8],
    ) -> Result<u64, Closed> {
        let mut state = self.lock();
        if let Some(reason) = &state.failed {
            return Err(reason.clone());
        }
        if state.pending.len() + payload.len() > MAX_PENDING {
            let reason = Closed::Violation(Violation::Unread);
            state.fail(reason.clone());
            return Err(reason);
        }
        // Every caller keeps to the limits of its kind, which are far below 4 GiB.
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let header = Header { len, channel, kind, stream }.to_bytes();
        state.pending.extend_from_slice(&header);
        state.pending.extend_from_slice(payload);
        state.queued += (header.len() + payload.len()) as u64;
        state.flushed = false;
        let end = state.queued;
        if !state.stalled {
            // The waker does nothing: if the transport is busy the driver takes
            // over and registers its own.
            let mut context = Context::from_waker(Waker::noop());
            match state.poll_write(&mut context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => state.fail(Closed::from(&error)),
                Poll::Pending => {
                    state.stalled = true;
                    state.wake_driver();
                }
            }
        }
        Ok(end)
    }

    /// Returns whether the transport has taken everything up to `position`.
    pub(crate) fn is_written(&self, position: u64) -> bool {
        self.lock().written >= position
    }

    /// Writes what is pending; for the driver, which is the only one to wait
    /// for the transport. Ready only when the outbox has failed.
    pub(crate) fn poll_drive(&self, context: &mut Context<'_>) -> Poll<Closed> {
        let mut state = self.lock();
        if let Some(reason) = &state.failed {
            return Poll::Ready(reason.clone());
        }
        match &mut state.driver {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        if state.stalled {
            match state.poll_write(context) {
                Poll::Ready(Ok(())) => state.stalled = false,
                Poll::Ready(Err(error)) => {
                    let reason = Closed::from(&error);
                    state.fail(reason.clone());
                    return Poll::Ready(reason);
                }
                Poll::Pending => {}
            }
            if state.pending.len() < HIGH_WATER / 2 {
                state.wake_waiting();
            }
        }
        Poll::Pending
    }

    /// Returns ready when nothing is pending any more, or never will be sent.
    pub(crate) fn poll_drained(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.poll_drive(context).is_ready() || !self.lock().stalled {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Refuses everything from now on and lets go of what is pending.
    pub(crate) fn close(&self, reason: Closed) {
        self.lock().fail(reason);
    }

    /// Returns how many bytes are pending.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> usize {
        self.lock().pending.len()
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboxState {
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            match Pin::new(&mut self.writer).poll_write(context, &self.pending) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.pending.advance(count);
                    self.written += count as u64;
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        if !self.flushed {
            std::task::ready!(Pin::new(&mut self.writer).poll_flush(context))?;
            self.flushed = true;
        }
        if self.pending.capacity() > KEEP_CAPACITY {
            self.pending = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    fn fail(&mut self, reason: Closed) {
        self.failed.get_or_insert(reason);
        self.pending = BytesMut::new();
        // The transport closes when both of its halves are gone.
        self.writer = Box::new(tokio::io::sink());
        self.wake_driver();
        self.wake_waiting();
    }

    fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    fn wake_waiting(&mut self) {
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }
}

/// Room for a read, to begin with and once the guest has much to say.
const SMALL_READ: usize = 8 << 10;
const LARGE_READ: usize = 128 << 10;

/// How long answers are still read after the transport refused to take more,
/// and how long it is given to take the rest when the connection is released.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads and writes until the connection is over, for whatever reason.
pub(crate) async fn drive(reader: impl AsyncRead + Unpin, guard: CloseOnDrop) {
    let shared = &guard.0;
    let mut reading = pin!(read_frames(reader, shared));
    let reason = tokio::select! {
        reason = &mut reading => reason,
        reason = poll_fn(|context| shared.outbox.poll_drive(context)) => match reason {
            Closed::Io { .. } | Closed::Vanished => {
                // A guest that ends may have answered before it stopped reading.
                timeout(DRAIN_TIMEOUT, reading).await.unwrap_or(reason)
            }
            reason => reason,
        },
        reason = shared.closed() => {
            let drained = poll_fn(|context| shared.outbox.poll_drained(context));
            if timeout(DRAIN_TIMEOUT, drained).await.is_err() {
                tracing::debug!("the guest did not take all that was sent before the end");
            }
            reason
        }
    };
    shared.close(&reason);
}

/// Ends the connection together with its driver, also when the runtime drops
/// the driver before it has run at all.
pub(crate) struct CloseOnDrop(pub(crate) Arc<ConnectionShared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(&Closed::Vanished);
    }
}

async fn read_frames(mut reader: impl AsyncRead + Unpin, shared: &ConnectionShared) -> Closed {
    let mut buffer = BytesMut::new();
    let mut room = SMALL_READ;
    loop {
        let missing = match take_frames(&mut buffer, shared) {
            Ok(missing) => missing,
            Err(violation) => return violation.into(),
        };
        if buffer.capacity() > 2 * LARGE_READ && buffer.len() + missing <= LARGE_READ {
            // Bytes handed on keep the whole block alive: don't let one large
            // message make every later piece of data that expensive.
            buffer = BytesMut::from(&buffer[..]);
        }
        buffer.reserve(missing.max(room));
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return Closed::Vanished,
            Ok(count) if count >= SMALL_READ => room = LARGE_READ,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Closed::from(&error),
        }
    }
}

/// Takes every whole frame off the buffer. Returns how many bytes the next one
/// still lacks.
fn take_frames(buffer: &mut BytesMut, shared: &ConnectionShared) -> Result<usize, Violation> {
    loop {
        let Some(header) = buffer.first_chunk::<HEADER_LEN>() else {
            return Ok(HEADER_LEN - buffer.len());
        };
        let header =
            Header::from_bytes(*header).map_err(|error| Violation::Frame(error.to_string()))?;
        let len = header.len as usize;
        let missing = (HEADER_LEN + len).saturating_sub(buffer.len());
        if missing > 0 {
            return Ok(missing);
        }
        buffer.advance(HEADER_LEN);
        if header.kind == FrameKind::Data && len >= JOIN_BELOW {
            find(header, shared)?.on_data(header.stream, buffer.split_to(len))?;
        } else {
            dispatch(header, &buffer[..len], shared)?;
            buffer.advance(len);
        }
    }
}

fn dispatch(header: Header, payload: &[u8], shared: &ConnectionShared) -> Result<(), Violation> {
    match header.kind {
        FrameKind::Data => find(header, shared)?.on_data(header.stream, BytesMut::from(payload)),
        FrameKind::End => find(header, shared)?.on_end(header.stream),
        FrameKind::Event => find(header, shared)?.on_event(payload),
        FrameKind::Reply => {
            // The number is free only once the channel knows that it is over.
            find(header, shared)?.on_reply(payload)?;
            shared.forget(header.channel);
            Ok(())
        }
        FrameKind::Credit => {
            let bytes: [u8; 4] = payload
                .try_into()
                .map_err(|_| Violation::Frame("credit without a number".to_owned()))?;
            // Credit that crossed with the end of its channel harms nobody.
            match shared.find(header.channel) {
                Some(core) => core.on_credit(header.stream, u32::from_le_bytes(bytes)),
                None => Ok(()),
            }
        }
        FrameKind::Hello | FrameKind::Welcome | FrameKind::Open | FrameKind::Cancel => {
            Err(Violation::UnexpectedKind(header.kind))
        }
    }
}

fn find(
    header: Header,
    shared: &ConnectionShared,
) -> Result<Arc<super::channel::ChannelCore>, Violation> {
    shared
        .find(header.channel)
        .ok_or(Violation::UnknownChannel { channel: header.channel, kind: header.kind })
}
