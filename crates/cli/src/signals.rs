//! The signals that ask this program to end, and who listens for them.

use std::io;

use vestal_runtime::{SignalListeners, Terminations};

use crate::error::CommandFailure;

/// Everybody in this program who listens, so that the console knows whether a signal is its own to
/// obey.
static LISTENERS: SignalListeners = SignalListeners::new();

/// Begins to listen. The signals no longer end the program by themselves.
pub(crate) fn listen() -> io::Result<Terminations> {
    LISTENERS.listen()
}

/// As [`listen`], for a command that cannot do without.
pub(crate) fn listen_or_fail() -> Result<Terminations, CommandFailure> {
    listen().map_err(|error| CommandFailure::io("listen for signals", &error))
}
