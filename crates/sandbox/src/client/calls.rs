//! The short calls that need no channel of their own.

use std::time::Duration;

use vestal_wire::{Reply, Request, Stats, Status};

use super::connection::Connection;
use super::error::{CallError, Closed, Violation};

impl Connection {
    /// Returns the guest's state. Not use of the sandbox.
    pub async fn status(&self, limit: Duration) -> Result<Status, CallError> {
        match self.call_within(Request::Status, limit).await? {
            Reply::Status(status) => Ok(status),
            _ => Err(self.wrong_reply()),
        }
    }

    /// Returns what the sandbox consumes. Not use of the sandbox.
    pub async fn stats(&self, limit: Duration) -> Result<Stats, CallError> {
        match self.call_within(Request::Stats, limit).await? {
            Reply::Stats(stats) => Ok(stats),
            _ => Err(self.wrong_reply()),
        }
    }

    /// Resets the idle clock.
    pub async fn touch(&self, limit: Duration) -> Result<(), CallError> {
        self.done_within(Request::Touch, limit).await
    }

    /// Changes after how much idleness the guest ends by itself; `None`: never.
    pub async fn retain(
        &self,
        retention: Option<Duration>,
        limit: Duration,
    ) -> Result<(), CallError> {
        let retention_ms = retention.map(millis);
        self.done_within(Request::Retain { retention_ms }, limit).await
    }

    /// Forgets a session's saved state.
    pub async fn reset_session(&self, name: &str, limit: Duration) -> Result<(), CallError> {
        self.done_within(Request::ResetSession { name: name.to_owned() }, limit).await
    }

    /// Ends the guest: jobs get SIGTERM and, after `grace`, SIGKILL. Returns
    /// when no process of a job is left.
    pub async fn shutdown(&self, grace: Duration, limit: Duration) -> Result<(), CallError> {
        let request = Request::Shutdown { grace_ms: millis(grace), if_idle: false };
        self.done_within(request, limit).await
    }

    /// Ends the guest unless a job runs or another call is open; then it is a
    /// fault with [`vestal_wire::FaultCode::Busy`].
    pub async fn shutdown_if_idle(
        &self,
        grace: Duration,
        limit: Duration,
    ) -> Result<(), CallError> {
        let request = Request::Shutdown { grace_ms: millis(grace), if_idle: true };
        self.done_within(request, limit).await
    }

    async fn done_within(&self, request: Request, limit: Duration) -> Result<(), CallError> {
        self.call_within(request, limit).await.map(drop)
    }

    /// Cuts off a guest whose reply fits the request's type but not its sense.
    pub(crate) fn wrong_reply(&self) -> CallError {
        self.violate(Violation::WrongReply)
    }

    /// Cuts off a guest after an answer that breaks the protocol.
    pub(crate) fn violate(&self, violation: Violation) -> CallError {
        self.shared().close(&Closed::Violation(violation.clone()));
        CallError::Protocol { sent: true, violation }
    }
}

/// Returns a duration in whole milliseconds, as far as they can be counted.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
