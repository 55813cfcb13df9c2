//! Channels: calls under way on a connection.

use std::sync::Arc;

use vestal_wire::limits::WINDOW;
use vestal_wire::{StartJob, Stream};

use super::clock::Use;
use super::ids::JobKey;
use super::link::Link;
use super::timers::TimerId;

/// Bytes taken of a stream after which the sender is told to go on.
const GRANT_FROM: u32 = WINDOW / 4;

/// What a channel is waiting for or doing.
#[derive(Debug)]
pub(super) enum Call {
    /// Shell text is still coming.
    Text(Box<StartJob>, Vec<u8>),
    /// Follows a job. Input goes to the job if the channel started it.
    Follow(JobKey, Feeds),
    /// Waits for a job to end.
    Wait(JobKey, Option<TimerId>),
    /// Waits for a killed job to be gone.
    Kill(JobKey),
    /// Writes to a job's standard input.
    Input {
        job: JobKey,
        /// Whether standard input is closed afterwards.
        close: bool,
        /// Whether bytes of it came too late.
        dropped: bool,
    },
    /// An operation on files.
    File(Arc<Link>),
    /// A worker prepares the answer.
    Work,
    /// Waits for the guest's end.
    Shutdown,
}

/// Whether a channel that follows a job is also its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feeds {
    Input,
    Nothing,
}

/// An open channel.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) call: Call,
    pub(super) kind: Use,
    /// Bytes of standard output and standard error the host takes.
    credit: [u64; 2],
    input: Window,
    text: Window,
}

/// What the host may still send of one stream.
#[derive(Debug)]
struct Window {
    left: u32,
    /// Bytes taken that the sender has not been told of.
    owed: u32,
    ended: bool,
}

/// The host sent what it must not.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamViolation {
    #[error("more bytes were sent than granted")]
    Window,
    #[error("bytes were sent after the end of a stream")]
    AfterEnd,
    #[error("bytes were sent on a stream that flows the other way")]
    Direction,
}

impl Channel {
    pub(super) const fn new(call: Call, kind: Use) -> Self {
        Self { call, kind, credit: [WINDOW as u64; 2], input: Window::new(), text: Window::new() }
    }

    /// Returns how many bytes of a job's stream the host takes.
    pub(super) const fn credit(&self, stream: crate::log::LogStream) -> u64 {
        self.credit[stream.index()]
    }

    pub(super) const fn spend(&mut self, stream: crate::log::LogStream, bytes: usize) {
        let credit = &mut self.credit[stream.index()];
        *credit = credit.saturating_sub(bytes as u64);
    }

    /// Notes that the host takes more.
    pub(super) fn add_credit(&mut self, stream: Stream, bytes: u32) {
        match stream {
            Stream::Stdout => self.credit[0] = self.credit[0].saturating_add(bytes.into()),
            Stream::Stderr => self.credit[1] = self.credit[1].saturating_add(bytes.into()),
            Stream::Content => {
                if let Call::File(link) = &self.call {
                    link.add_credit(bytes);
                }
            }
            Stream::Input | Stream::Text => {}
        }
    }

    /// Notes bytes that came.
    pub(super) fn received(&mut self, stream: Stream, bytes: usize) -> Result<(), StreamViolation> {
        let window = self.window(stream)?;
        if window.ended {
            return Err(StreamViolation::AfterEnd);
        }
        let bytes = u32::try_from(bytes).map_err(|_| StreamViolation::Window)?;
        window.left = window.left.checked_sub(bytes).ok_or(StreamViolation::Window)?;
        Ok(())
    }

    /// Notes that a stream ended.
    pub(super) fn ended(&mut self, stream: Stream) -> Result<(), StreamViolation> {
        let window = self.window(stream)?;
        if std::mem::replace(&mut window.ended, true) {
            return Err(StreamViolation::AfterEnd);
        }
        Ok(())
    }

    /// Notes that bytes were taken; returns how many to grant, if it is time to.
    pub(super) fn taken(&mut self, stream: Stream, bytes: usize) -> Option<u32> {
        let window = self.window(stream).ok()?;
        window.owed = window.owed.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if window.ended || window.owed < GRANT_FROM {
            return None;
        }
        let granted = std::mem::take(&mut window.owed);
        window.left = window.left.saturating_add(granted);
        Some(granted)
    }

    const fn window(&mut self, stream: Stream) -> Result<&mut Window, StreamViolation> {
        match stream {
            Stream::Input => Ok(&mut self.input),
            Stream::Text => Ok(&mut self.text),
            Stream::Stdout | Stream::Stderr | Stream::Content => Err(StreamViolation::Direction),
        }
    }
}

impl Window {
    const fn new() -> Self {
        Self { left: WINDOW, owed: 0, ended: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> Channel {
        Channel::new(Call::Shutdown, Use::Counts)
    }

    #[test]
    fn the_window_is_kept_to_and_grows_by_what_was_taken() {
        let mut channel = channel();
        let window = WINDOW as usize;
        channel.received(Stream::Input, window).unwrap();
        assert!(channel.received(Stream::Input, 1).is_err());
        assert_eq!(channel.taken(Stream::Input, 1000), None);
        assert_eq!(channel.taken(Stream::Input, window / 2), Some(WINDOW / 2 + 1000));
        channel.received(Stream::Input, window / 2).unwrap();
        channel.received(Stream::Text, window).unwrap();
    }

    #[test]
    fn nothing_comes_after_the_end_or_against_the_stream() {
        let mut channel = channel();
        channel.ended(Stream::Input).unwrap();
        assert!(channel.received(Stream::Input, 0).is_err());
        assert!(channel.ended(Stream::Input).is_err());
        assert!(channel.received(Stream::Stdout, 1).is_err());
    }
}
