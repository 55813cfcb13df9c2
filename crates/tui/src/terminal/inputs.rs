//! What comes from the terminal, one after the other.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{modes, size};
use crate::key::Input;
use crate::text::Size;

/// What a person types, and what the terminal tells.
#[derive(Debug)]
pub struct Inputs {
    read: UnboundedReceiver<Input>,
    /// The terminal, to ask for its size.
    terminal: OwnedFd,
    last_size: Option<Size>,
    resized: Signal,
    continued: Signal,
}

impl Inputs {
    pub(super) fn new(read: UnboundedReceiver<Input>, terminal: OwnedFd) -> io::Result<Self> {
        let last_size = size(&terminal);
        let resized = signal(SignalKind::window_change())?;
        let continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
        Ok(Self { read, terminal, last_size, resized, continued })
    }

    /// Waits for the next. Once the terminal is gone, that is [`Input::Closed`] for
    /// ever. What has come is not lost when this is dropped while it waits.
    pub async fn next(&mut self) -> Input {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        while self.continued.poll_recv(context).is_ready() {
            // Others have had the terminal: its modes and its lines may be theirs.
            modes::continued();
            if let Some(size) = size(&self.terminal) {
                self.last_size = Some(size);
                return Poll::Ready(Input::Resized(size));
            }
        }
        while self.resized.poll_recv(context).is_ready() {
            let now = size(&self.terminal);
            if let Some(now) = now.filter(|now| Some(*now) != self.last_size) {
                self.last_size = Some(now);
                return Poll::Ready(Input::Resized(now));
            }
        }
        self.read.poll_recv(context).map(|input| input.unwrap_or(Input::Closed))
    }
}
