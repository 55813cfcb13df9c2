//! Standard output and standard error: as streams of bytes, and whether they show colour.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anstyle::Style;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vestal_config::Environment;

/// A pipe that has room at all has room for this much.
const ATOMIC: usize = 4096;

/// Where the bytes of one stream go, as they are.
///
/// A reader that is slow holds up the stream, never the program: signals are
/// still heard while a write waits.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    file: Arc<File>,
    waits: Waits,
}

/// Whether a write may have to wait for a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Never,
    Perhaps,
}

impl Sink {
    pub(crate) fn stdout() -> io::Result<Self> {
        Self::new(io::stdout().as_fd())
    }

    pub(crate) fn stderr() -> io::Result<Self> {
        Self::new(io::stderr().as_fd())
    }

    fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let file = File::from(fd.try_clone_to_owned()?);
        let waits = if file.metadata()?.is_file() { Waits::Never } else { Waits::Perhaps };
        Ok(Self { file: Arc::new(file), waits })
    }

    /// Writes all of the bytes.
    pub(crate) async fn write(&self, bytes: Bytes) -> io::Result<()> {
        let at_once = self.waits == Waits::Never
            || (bytes.len() <= ATOMIC && is_ready(&self.file, Timespec::default())?);
        if at_once {
            return write_all(&self.file, &bytes);
        }
        let file = Arc::clone(&self.file);
        let written = tokio::task::spawn_blocking(move || write_all(&file, &bytes)).await;
        written.map_err(io::Error::other)?
    }
}

/// Writes all bytes, even if the other end is non-blocking.
fn write_all(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                is_ready(file, Timespec { tv_sec: 1, tv_nsec: 0 })?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until there is room, or a reader that is gone, at most `limit`.
fn is_ready(file: &File, limit: Timespec) -> io::Result<bool> {
    let mut fds = [PollFd::new(file, PollFlags::OUT)];
    match poll(&mut fds, Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a stream shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamColour {
    On,
    Off,
}

impl StreamColour {
    /// Decides for one stream. `NO_COLOR` with any value turns colour off.
    pub(super) fn decide(environment: &Environment, is_terminal: bool) -> Self {
        let refused = environment.non_empty("NO_COLOR").is_some()
            || environment.get("TERM").is_some_and(|term| term == "dumb");
        if is_terminal && !refused { Self::On } else { Self::Off }
    }

    /// Returns text in a style.
    pub(super) fn paint(self, style: Style, text: &str) -> String {
        match self {
            Self::On => format!("{style}{text}{style:#}"),
            Self::Off => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_and_only_if_not_refused() {
        let none: [(&str, &str); 0] = [];
        let plain = Environment::from_pairs(none);
        assert_eq!(StreamColour::decide(&plain, true), StreamColour::On);
        assert_eq!(StreamColour::decide(&plain, false), StreamColour::Off);
        let refused = Environment::from_pairs([("NO_COLOR", "1")]);
        assert_eq!(StreamColour::decide(&refused, true), StreamColour::Off);
        let dumb = Environment::from_pairs([("TERM", "dumb")]);
        assert_eq!(StreamColour::decide(&dumb, true), StreamColour::Off);
    }
}
