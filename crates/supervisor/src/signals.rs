//! The signals that a supervisor answers.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

/// What a signal asks for.
pub(crate) enum SignalRequest {
    End(Signal),
    Reconcile,
    PassOn(Signal),
    ChildEnded,
}

pub(crate) struct AllSignals {
    terminate: Signals,
    interrupt: Signals,
    quit: Signals,
    hangup: Signals,
    user1: Signals,
    user2: Signals,
    child: Signals,
}

impl AllSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            child: signal(SignalKind::child())?,
        })
    }

    pub(crate) async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::End(Signal::TERM),
            _ = self.interrupt.recv() => SignalRequest::End(Signal::INT),
            _ = self.quit.recv() => SignalRequest::End(Signal::QUIT),
            _ = self.hangup.recv() => SignalRequest::Reconcile,
            _ = self.user1.recv() => SignalRequest::PassOn(Signal::USR1),
            _ = self.user2.recv() => SignalRequest::PassOn(Signal::USR2),
            _ = self.child.recv() => SignalRequest::ChildEnded,
        }
    }
}
