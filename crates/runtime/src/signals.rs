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

/// How many listen for the signals that ask this process to end.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// Listens for the signals that ask this process to end, from now on.
#[derive(Debug)]
pub struct Terminations {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Terminations {
    /// Begins to listen. The signals no longer end the process by themselves.
    pub fn listen() -> std::io::Result<Self> {
        let (interrupt, terminate, hang_up) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        LISTENERS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { interrupt, terminate, hang_up })
    }

    /// Reports whether nobody else listens, so that a signal is this one's to obey.
    pub fn is_alone(&self) -> bool {
        LISTENERS.load(Ordering::Relaxed) == 1
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
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}
