//! The terminal at our end.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{self, OptionalActions, Termios};
use vestal_wire::WindowSize;

/// Size of a terminal nobody looks at.
const DEFAULT_SIZE: WindowSize = WindowSize { rows: 24, cols: 80 };

/// How the terminal was before it was made raw. Global, because every way out
/// of the program has to put it back, also those that run no destructors.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// What standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdinKind {
    /// A person.
    Terminal,
    /// `/dev/null`, or nothing: there is never anything to read.
    Nothing,
    /// A pipe, a file, a socket.
    Data,
}

impl StdinKind {
    pub(crate) fn detect() -> Self {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Self::Terminal;
        }
        match rustix::fs::fstat(stdin.as_fd()) {
            Ok(stat) if !is_null(&stat) => Self::Data,
            _ => Self::Nothing,
        }
    }
}

fn is_null(stat: &rustix::fs::Stat) -> bool {
    rustix::fs::stat("/dev/null").is_ok_and(|null| {
        let is_device = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device();
        is_device && stat.st_rdev == null.st_rdev
    })
}

/// Returns the size of the terminal, whichever of our streams it is on.
pub(crate) fn size() -> Option<WindowSize> {
    [io::stdout().as_fd(), io::stderr().as_fd(), io::stdin().as_fd()].into_iter().find_map(size_of)
}

fn size_of(fd: BorrowedFd<'_>) -> Option<WindowSize> {
    let size = termios::tcgetwinsize(fd).ok()?;
    (size.ws_row > 0 && size.ws_col > 0)
        .then_some(WindowSize { rows: size.ws_row, cols: size.ws_col })
}

/// As [`size`], or that of a terminal nobody looks at.
pub(crate) fn size_or_default() -> WindowSize {
    size().unwrap_or(DEFAULT_SIZE)
}

/// Returns how many columns standard output shows; nothing if it is no terminal.
pub(super) fn output_width() -> Option<usize> {
    let stdout = io::stdout();
    stdout.is_terminal().then(|| size_of(stdout.as_fd()))?.map(|size| usize::from(size.cols))
}

/// As [`output_width`] for standard error.
pub(super) fn error_width() -> Option<usize> {
    let stderr = io::stderr();
    stderr.is_terminal().then(|| size_of(stderr.as_fd()))?.map(|size| usize::from(size.cols))
}

/// The terminal while it passes every key on. Dropping puts it back.
#[derive(Debug)]
pub(crate) struct Raw(());

impl Raw {
    /// Makes the terminal raw.
    pub(crate) fn enter() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = termios::tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        termios::tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back as it was, if it was changed.
pub(crate) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // If the terminal is gone there is nothing to put back.
        termios::tcsetattr(io::stdin(), OptionalActions::Drain, &before).ok();
    }
}
