//! What a command printed and how it ended.

use std::time::Duration;

use vestal_wire::{CallEvent, JobExit, JobId, SessionState, Stream};

use crate::client::Violation;

/// The result of a captured run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The job it was.
    pub job: JobId,
    /// How it ended.
    pub exit: JobExit,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// The directory its shell ended in.
    pub cwd: Vec<u8>,
    /// What became of the session's state.
    pub session_state: SessionState,
    /// Why the state could not be saved; the session is as it was.
    pub session_error: Option<String>,
    /// How long it ran, where that is known.
    pub duration: Option<Duration>,
}

/// Beginning and end of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The beginning; all of it when nothing is omitted.
    pub head: Vec<u8>,
    /// How many bytes between the two are left out.
    pub omitted: u64,
    /// The end.
    pub tail: Vec<u8>,
}

impl Captured {
    /// Returns the bytes kept. They are all there were if
    /// [`Captured::is_complete`].
    pub fn bytes(&self) -> Vec<u8> {
        [self.head.as_slice(), self.tail.as_slice()].concat()
    }

    /// Returns whether nothing is left out.
    pub const fn is_complete(&self) -> bool {
        self.omitted == 0
    }

    /// Returns the stream as text for people: bytes that are not UTF-8 are
    /// replaced, and a line says what is left out.
    pub fn text(&self) -> String {
        if self.is_complete() {
            return String::from_utf8_lossy(&self.bytes()).into_owned();
        }
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&self.tail);
        let newline = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        let plural = if self.omitted == 1 { "" } else { "s" };
        format!("{head}{newline}[… {} byte{plural} omitted …]\n{tail}", self.omitted)
    }
}

/// Collects both streams of a captured run, and holds the guest to the sizes
/// that were asked for.
#[derive(Debug)]
pub(crate) struct Capture {
    limit: usize,
    received: [usize; 2],
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

impl Capture {
    pub(crate) fn new(head: u32, tail: u32) -> Self {
        let limit = (head as usize).saturating_add(tail as usize);
        Self { limit, received: [0; 2], stdout: Captured::default(), stderr: Captured::default() }
    }

    pub(crate) fn data(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Violation> {
        let limit = self.limit;
        let (captured, received) = self.stream(stream)?;
        *received = received.saturating_add(bytes.len());
        if *received > limit {
            return Err(Violation::Claim("more output than was asked for"));
        }
        let part = if captured.is_complete() { &mut captured.head } else { &mut captured.tail };
        part.extend_from_slice(bytes);
        Ok(())
    }

    /// Notes a gap. What lies between two gaps, as when the log itself has lost
    /// something, belongs neither to the beginning nor to the end and is
    /// counted as left out.
    pub(crate) fn gap(&mut self, stream: Stream, bytes: u64) -> Result<(), Violation> {
        let (captured, _) = self.stream(stream)?;
        let between = std::mem::take(&mut captured.tail).len() as u64;
        captured.omitted = captured
            .omitted
            .checked_add(bytes)
            .and_then(|omitted| omitted.checked_add(between))
            .ok_or(Violation::Event("a gap beyond counting"))?;
        Ok(())
    }

    fn stream(&mut self, stream: Stream) -> Result<(&mut Captured, &mut usize), Violation> {
        let [stdout, stderr] = &mut self.received;
        match stream {
            Stream::Stdout => Ok((&mut self.stdout, stdout)),
            Stream::Stderr => Ok((&mut self.stderr, stderr)),
            other => Err(Violation::UnexpectedStream(other)),
        }
    }
}

/// Returns the stream and size of a gap event.
pub(crate) fn gap_of(event: &CallEvent) -> Option<(Stream, u64)> {
    match event {
        CallEvent::Gap { stream: 1, bytes } => Some((Stream::Stdout, *bytes)),
        CallEvent::Gap { stream: 2, bytes } => Some((Stream::Stderr, *bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_output_is_byte_exact() {
        let captured = Captured { head: vec![0xff, b'a'], omitted: 0, tail: Vec::new() };
        assert_eq!(captured.bytes(), [0xff, b'a']);
        assert_eq!(captured.text(), "\u{fffd}a");
    }

    #[test]
    fn text_says_what_is_left_out() {
        let captured = Captured { head: b"one".to_vec(), omitted: 7, tail: b"two\n".to_vec() };
        assert_eq!(captured.text(), "one\n[… 7 bytes omitted …]\ntwo\n");
    }

    #[test]
    fn a_guest_is_held_to_the_size_asked_for() {
        let mut capture = Capture::new(2, 3);
        capture.data(Stream::Stdout, b"ab").unwrap();
        capture.gap(Stream::Stdout, 9).unwrap();
        capture.data(Stream::Stdout, b"xyz").unwrap();
        assert_eq!(
            capture.stdout,
            Captured { head: b"ab".to_vec(), omitted: 9, tail: b"xyz".to_vec() }
        );
        assert!(capture.data(Stream::Stdout, b"!").is_err());
        assert!(capture.gap(Stream::Stdout, u64::MAX).is_err());
        assert!(capture.data(Stream::Content, b"!").is_err());
    }

    #[test]
    fn what_lies_between_two_gaps_is_counted_as_left_out() {
        let mut capture = Capture::new(10, 10);
        capture.data(Stream::Stderr, b"head").unwrap();
        capture.gap(Stream::Stderr, 5).unwrap();
        capture.data(Stream::Stderr, b"middle").unwrap();
        capture.gap(Stream::Stderr, 7).unwrap();
        capture.data(Stream::Stderr, b"tail").unwrap();
        let tail = b"tail".to_vec();
        assert_eq!(capture.stderr, Captured { head: b"head".to_vec(), omitted: 18, tail });
    }
}
