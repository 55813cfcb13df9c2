//! Credits: how many bytes of a stream may be under way.
//!
//! Each stream starts with [`WINDOW`] bytes of credit. A receiver grants more
//! as its consumer takes bytes away, so that what lies in between never exceeds
//! one window, whoever is slow.

use vestal_wire::Stream;
use vestal_wire::limits::WINDOW;

use super::error::Violation;

/// Streams a channel can have.
pub(crate) const STREAMS: usize = 5;

/// Consumed bytes are granted anew in portions of this size: often enough that
/// the sender never waits for a reader who keeps up, seldom enough that credit
/// frames cost nothing.
const GRANT: u32 = WINDOW / 4;

/// What a guest may still send on one stream.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    left: u32,
    consumed: u32,
    ended: bool,
}

impl ReceiveWindow {
    pub(crate) const fn new() -> Self {
        Self { left: WINDOW, consumed: 0, ended: false }
    }

    /// Accounts for bytes that came.
    pub(crate) fn receive(&mut self, stream: Stream, len: usize) -> Result<(), Violation> {
        if self.ended {
            return Err(Violation::AfterEnd(stream));
        }
        let rest = u32::try_from(len).ok().and_then(|len| self.left.checked_sub(len));
        self.left = rest.ok_or(Violation::Window { stream, len, left: self.left })?;
        Ok(())
    }

    /// Accounts for the stream's end.
    pub(crate) fn end(&mut self, stream: Stream) -> Result<(), Violation> {
        if std::mem::replace(&mut self.ended, true) {
            return Err(Violation::AfterEnd(stream));
        }
        Ok(())
    }

    /// Accounts for bytes the consumer took, and returns the credit to grant
    /// now, if any.
    pub(crate) fn consume(&mut self, len: usize) -> Option<u32> {
        // What is consumed was received within the window, so it fits.
        self.consumed = self.consumed.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        if self.ended || self.consumed < GRANT {
            return None;
        }
        let grant = std::mem::take(&mut self.consumed);
        self.left = self.left.saturating_add(grant);
        Some(grant)
    }

    /// Returns whether the stream's end has come.
    pub(crate) const fn is_ended(&self) -> bool {
        self.ended
    }
}

/// What this side may still send on one stream.
#[derive(Debug)]
pub(crate) struct SendWindow {
    left: u32,
}

impl SendWindow {
    pub(crate) const fn new() -> Self {
        Self { left: WINDOW }
    }

    /// Accounts for credit the guest granted.
    pub(crate) fn grant(&mut self, stream: Stream, bytes: u32) -> Result<(), Violation> {
        self.left = self.left.checked_add(bytes).ok_or(Violation::Credit(stream))?;
        Ok(())
    }

    /// Takes credit for at most `wanted` bytes and returns for how many.
    pub(crate) fn take(&mut self, wanted: usize) -> usize {
        let taken = u32::try_from(wanted).unwrap_or(u32::MAX).min(self.left);
        self.left -= taken;
        taken as usize
    }
}
