//! The signals that ask a program to end.
//!
//! Libraries install no handlers: a program that wants its sandboxes removed
//! before it ends listens here, and calls [`vestal_sandbox::Engine::close`].

use std::sync::atomic::{AtomicUsize, Ordering};

use async_recursion::async_recursion as boxed;
use tokio::signal::unix::{SignalKind, signal};

/// The signals that ask a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    /// SIGINT, as from Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

impl Termination {
    /// Returns the signal's number.
    pub const fn number(self) -> u8 {
        match self {
            Self::HangUp => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

/// Those of a program that listen for the signals that ask it to end. Signals go to the whole
/// process, so a program has one of these.
#[derive(Debug, Default)]
pub struct SignalListeners {
    count: AtomicUsize,
}

impl SignalListeners {
    /// Returns a program's listeners, of which there are none yet.
    pub const fn new() -> Self {
        Self { count: AtomicUsize::new(0) }
    }

    /// Begins to listen. The signals no longer end the process by themselves.
    pub fn listen(&'static self) -> std::io::Result<Terminations> {
        let (interrupt, terminate, hang_up) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(Terminations { listeners: self, interrupt, terminate, hang_up })
    }
}

/// Listens for the signals that ask this process to end. Made by [`SignalListeners::listen`].
#[derive(Debug)]
pub struct Terminations {
    listeners: &'static SignalListeners,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Terminations {
    /// Reports whether nobody else listens, so that a signal is this one's to obey.
    pub fn is_alone(&self) -> bool {
        self.listeners.count.load(Ordering::Relaxed) == 1
    }

    /// Waits for the next one.
    #[boxed]
    pub async fn next(&mut self) -> Termination {
        tokio::select! {
            _ = self.interrupt.recv() => Termination::Interrupt,
            _ = self.terminate.recv() => Termination::Terminate,
            _ = self.hang_up.recv() => Termination::HangUp,
        }
    }
}

impl Drop for Terminations {
    fn drop(&mut self) {
        self.listeners.count.fetch_sub(1, Ordering::Relaxed);
    }
}
