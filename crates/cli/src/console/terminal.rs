//! The terminal of this process: its size, raw mode, and answers typed at it.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, Once, OnceLock, PoisonError, mpsc};
use std::thread;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::termios::{self, OptionalActions, Termios};
use vestal_sandbox::WindowSize;

use crate::exit::{self, Exit};

/// Size used without a terminal.
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

/// As [`size`], or a default without a terminal.
pub(crate) fn size_or_default() -> WindowSize {
    size().unwrap_or(DEFAULT_SIZE)
}

/// Returns how many columns standard output shows; nothing if it is not a terminal.
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

/// Told when no answer is waited for any more. Global, because there is one
/// keyboard, and a thread that waits for it can wait for nothing else.
static GIVEN_UP: OnceLock<OwnedFd> = OnceLock::new();

/// While it lives, [`CancelAnswers::now`] ends the wait for an answer, as an end of
/// input would: for those who run where signals do not end the process.
#[derive(Debug)]
pub(crate) struct CancelAnswers(());

impl CancelAnswers {
    pub(crate) fn enable() -> io::Result<Self> {
        if GIVEN_UP.get().is_none() {
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            // Another thread may have set it first.
            GIVEN_UP.set(made).ok();
        }
        forget();
        Ok(Self(()))
    }

    /// Gives up every answer that is waited for, now and until this is dropped.
    pub(crate) fn now() {
        if let Some(cancelled) = GIVEN_UP.get() {
            // It fails only after very many notifications.
            rustix::io::write(cancelled, &1_u64.to_ne_bytes()).ok();
        }
    }
}

impl Drop for CancelAnswers {
    fn drop(&mut self) {
        forget();
    }
}

fn forget() {
    if let Some(cancelled) = GIVEN_UP.get() {
        let mut count = [0; 8];
        // It fails where nothing was reported, and then there is nothing to forget.
        rustix::io::read(cancelled, &mut count).ok();
    }
}

/// The bytes that are typed, one by one, so that what is typed beyond an answer
/// is left to the next reader; to the end of input, or until given up.
pub(super) fn typed() -> impl Iterator<Item = u8> {
    std::iter::from_fn(|| next_byte().ok().flatten())
}

fn next_byte() -> rustix::io::Result<Option<u8>> {
    let stdin = io::stdin();
    loop {
        let mut awaited = vec![PollFd::new(&stdin, PollFlags::IN)];
        if let Some(cancelled) = GIVEN_UP.get() {
            awaited.push(PollFd::from_borrowed_fd(cancelled.as_fd(), PollFlags::IN));
        }
        match poll(&mut awaited, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        if awaited.get(1).is_some_and(|cancelled| cancelled.revents().contains(PollFlags::IN)) {
            return Ok(None);
        }
        let mut byte = [0];
        match rustix::io::read(&stdin, &mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads a line, as a terminal in its usual mode gives it; none where it has no end.
pub(super) fn read_line(typed: impl Iterator<Item = u8>) -> Option<String> {
    let mut line = Vec::new();
    for byte in typed {
        if byte == b'\n' {
            return Some(String::from_utf8_lossy(&line).trim().to_owned());
        }
        line.push(byte);
    }
    None
}

/// Reads a line that nobody sees, as a raw terminal gives it; none where it has
/// no end, or where Ctrl-C or Ctrl-D says that there will be none.
pub(super) fn read_hidden_line(mut keys: impl Iterator<Item = u8>) -> Option<String> {
    let mut line = Vec::new();
    while let Some(byte) = keys.next() {
        match byte {
            b'\r' | b'\n' => {
                return String::from_utf8(line).ok().map(|line| line.trim().to_owned());
            }
            // Ctrl-C; Ctrl-D.
            0x03 => return None,
            0x04 if line.is_empty() => return None,
            // Backspace takes a whole character back.
            0x08 | 0x7f => while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            // Ctrl-U takes everything back.
            0x15 => line.clear(),
            0x1b => pass_over_key(&mut keys, &mut line)?,
            byte if byte >= b' ' => line.push(byte),
            _ => {}
        }
    }
    None
}

/// Passes over a key that is more than a character: an arrow, or one of the two
/// marks that some terminals put around a paste.
fn pass_over_key(keys: &mut impl Iterator<Item = u8>, line: &mut Vec<u8>) -> Option<()> {
    match keys.next()? {
        b'[' => {
            keys.find(|byte| (b'@'..=b'~').contains(byte))?;
        }
        b'O' => {
            keys.next()?;
        }
        byte if byte > b' ' => line.push(byte),
        _ => {}
    }
    Some(())
}

static WATCHING: Once = Once::new();

/// Has a signal that asks the program to end put the terminal back first, from
/// now on. Once signals are listened for they no longer end the program by
/// themselves, so this goes on with it for good; where others listen, it is
/// theirs to obey.
pub(super) fn restore_on_signals() {
    WATCHING.call_once(|| {
        let (ready, is_ready) = mpsc::channel();
        let watching = thread::Builder::new().name("signals".to_owned());
        // Without a thread, signals end the program as they did before.
        if watching.spawn(move || watch_signals(&ready)).is_ok() {
            // The channel closes if the thread cannot listen.
            is_ready.recv().ok();
        }
    });
}

fn watch_signals(ready: &mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let Ok(mut signals) = exit::listen() else { return };
        if ready.send(()).is_err() {
            return;
        }
        loop {
            let signal = signals.next().await;
            if signals.is_alone() {
                restore();
                std::process::exit(Exit::Terminated(signal).code().into());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_can_be_mended_and_given_up() {
        let typed = |bytes: &[u8]| read_hidden_line(bytes.iter().copied());
        assert_eq!(typed(b"sk-1\r"), Some("sk-1".to_owned()));
        assert_eq!(typed("sk-1é\x7f2\n".as_bytes()), Some("sk-12".to_owned()));
        assert_eq!(typed(b"wrong\x15right\r"), Some("right".to_owned()));
        assert_eq!(typed(b" sk-1 \t\r"), Some("sk-1".to_owned()));
        assert_eq!(typed(b"sk\x03"), None);
        assert_eq!(typed(b"\x04"), None);
    }

    #[test]
    fn keys_that_are_no_characters_do_not_get_into_what_nobody_sees() {
        let typed = |bytes: &[u8]| read_hidden_line(bytes.iter().copied());
        assert_eq!(typed(b"sk\x1b[D-1\x1bOC\r"), Some("sk-1".to_owned()));
        assert_eq!(typed(b"\x1b[200~sk-1\x1b[201~\r"), Some("sk-1".to_owned()));
        assert_eq!(typed(b"sk\x1b[1;5D-1\r"), Some("sk-1".to_owned()));
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        let hidden = |bytes: &[u8]| read_hidden_line(bytes.iter().copied());
        let shown = |bytes: &[u8]| read_line(bytes.iter().copied());
        assert_eq!(hidden(b"sk-half"), None);
        assert_eq!(hidden(b"sk\x1b["), None);
        assert_eq!(shown(b"y"), None);
        assert_eq!(shown(b""), None);
        assert_eq!(shown(b" yes \n"), Some("yes".to_owned()));
    }
}
