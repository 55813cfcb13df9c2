//! Frames on their way to the guest.
//!
//! Whoever has something to send puts the whole frame here and, when nobody is
//! ahead, writes it to the transport at once, without a hop through another
//! task. What the transport does not take is left to the connection's driver.
//! Because a frame is put here in one step, a caller that is dropped half-way
//! never leaves half a frame behind.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;
use vestal_wire::{Header, Kind, Stream};

use super::error::{Closed, Violation};

/// Requests and data wait while this many bytes are pending.
const HIGH_WATER: usize = 256 << 10;

/// More than this can only pend when the guest sends without ever reading.
const MAX_PENDING: usize = 8 << 20;

/// A buffer that grew beyond this is given back once it is empty.
const KEEP_CAPACITY: usize = 512 << 10;

/// The write side of a transport.
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The queue of frames towards a guest.
pub(crate) struct Outbox {
    state: Mutex<State>,
}

struct State {
    writer: Writer,
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
    pub(crate) fn new(writer: Writer) -> Self {
        Self {
            state: Mutex::new(State {
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
        kind: Kind,
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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
