//! Standard output as a byte stream, and redirection of messages while the chat draws on the terminal.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

/// A message for the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalMessage {
    /// A line, for good.
    Line(String),
    /// The new content of the status line; none clears it.
    Status(Option<String>),
}

type Receiver = Box<dyn Fn(TerminalMessage) + Send>;

/// The receiver of messages. Global, because there is one terminal, and the chat that draws on
/// it has to get every message, including the reports of libraries.
static RECEIVER: Mutex<Option<Receiver>> = Mutex::new(None);

/// Redirects all messages for standard error, until [`restore_messages`].
pub(crate) fn redirect_messages(take: impl Fn(TerminalMessage) + Send + 'static) {
    *RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(take));
}

/// Sends messages to the terminal again.
pub(crate) fn restore_messages() {
    *RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Hands a message to the receiver; returns it if there is none.
pub(super) fn offer(message: TerminalMessage) -> Result<(), TerminalMessage> {
    match &*RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(take) => {
            take(message);
            Ok(())
        }
        None => Err(message),
    }
}
