//! The terminal that the program runs on: its modes, and what comes from it.

mod reader;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr,
    tcsetattr,
};

use crate::screen::Reflow;
use crate::terminal::reader::InputReader;
use crate::text::Size;

pub use reader::Inputs;

/// How long a signal to the own process may take to be heard.
const UNTIL_STOPPED: Duration = Duration::from_millis(100);

/// The terminal while the program uses it. Dropping this restores its modes.
#[derive(Debug)]
pub struct Terminal {
    reader: Arc<InputReader>,
}

impl Terminal {
    /// Takes the terminal of standard input and output; fails if they are not a terminal.
    /// Must be called within a tokio runtime, whose signals report changes of size.
    pub fn enter() -> io::Result<(Self, Inputs)> {
        Self::enter_on(
            rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?,
            rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?,
        )
    }

    fn enter_on(input: OwnedFd, output: OwnedFd) -> io::Result<(Self, Inputs)> {
        let (read_from, size_of) = (input.try_clone()?, output.try_clone()?);
        enter_raw_mode(input, output)?;
        let (reader, read) = InputReader::start(read_from).inspect_err(|_| forget_terminal())?;
        // From here on, dropping it puts everything back.
        let terminal = Self { reader };
        let inputs = Inputs::new(read, size_of)?;
        terminal.reader.go_on();
        Ok((terminal, inputs))
    }

    /// Suspends the use of the terminal for another program: restores its modes and reads no
    /// input.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.reader.pause()?;
        leave_raw_mode()
    }

    /// Takes the terminal back.
    pub fn resume(&mut self) -> io::Result<()> {
        reenter_raw_mode()?;
        self.reader.go_on();
        Ok(())
    }

    /// Stops the process as Ctrl-Z does, and takes the terminal back when it continues. The
    /// live area should be cleared before.
    pub fn stop(&mut self) -> io::Result<()> {
        self.suspend()?;
        let stopped = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        // Another thread may get the signal first. The time the process is stopped counts,
        // so this wait costs nothing afterwards.
        std::thread::sleep(UNTIL_STOPPED);
        self.resume()?;
        Ok(stopped?)
    }

    /// Returns how large the terminal is; nothing when the standard output is none.
    pub fn size() -> Option<Size> {
        size(rustix::stdio::stdout())
    }

    /// Returns whether the terminal wraps its lines again when its width changes, as far as
    /// its variables in the environment show.
    pub fn reflow<'e>(variable: impl Fn(&str) -> Option<&'e OsStr>) -> Reflow {
        let is_console = variable("TERM").is_some_and(|name| name == "linux");
        let in_xterm = variable("XTERM_VERSION").is_some() && variable("TMUX").is_none();
        if is_console || in_xterm { Reflow::No } else { Reflow::Yes }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A drop cannot report errors, and the rest must be done anyway.
        self.reader.end().unwrap_or_default();
        forget_terminal();
    }
}

fn size(terminal: impl AsFd) -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    // A terminal without a size reports zero.
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size { columns: size.ws_col, rows: size.ws_row })
}

/// The standard output, unbuffered: a frame is one write.
#[derive(Debug, Clone, Copy, Default)]
pub struct TerminalOutput;

impl io::Write for TerminalOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_once(rustix::stdio::stdout(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(terminal: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = write_once(&terminal, bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Writes some of the bytes, and waits until some can be written.
fn write_once(terminal: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::io::write(&terminal, bytes) {
            // Another program on the terminal may have made it non-blocking.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&terminal, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Pastes in brackets; told when the window is looked at; and keys that would
/// otherwise look the same (Enter and Shift-Enter, Escape and the beginning of a
/// sequence) distinguished, with the keys that they would be on other keyboards, in
/// kitty's way and in xterm's, for those that can.
const ON: &str = "\x1b[?2004h\x1b[?1004h\x1b[>5u\x1b[>4;1m";

/// All of that off; and the end of a frame that was never ended, an unstyled and
/// visible cursor, and nothing left of the live area below it.
const OFF: &str = "\x1b[?2026l\x1b[0m\x1b[>4;0m\x1b[<1u\x1b[?1004l\x1b[?2004l\x1b[?25h\r\x1b[J";

/// There is one terminal, and a panic must find it from anywhere.
static TERMINAL: Mutex<Option<SavedTerminal>> = Mutex::new(None);

/// A terminal that was taken.
struct SavedTerminal {
    input: OwnedFd,
    output: OwnedFd,
    /// How it was before.
    before: Termios,
    is_raw: bool,
}

/// Puts the terminal back as it was before. Does nothing when that has been done or
/// it was never taken; may be called from anywhere, a panic hook too.
pub fn restore() {
    if let Some(held) = lock().as_mut() {
        // Callers have worse problems than this error.
        held.leave_raw_mode().unwrap_or_default();
    }
}

fn enter_raw_mode(input: OwnedFd, output: OwnedFd) -> io::Result<()> {
    let mut terminal = lock();
    if terminal.is_some() {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the terminal is already in use"));
    }
    let before = tcgetattr(&input)?;
    let mut held = SavedTerminal { input, output, before, is_raw: false };
    if !rustix::termios::isatty(&held.output) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the standard output is not a terminal",
        ));
    }
    held.enter_raw_mode()?;
    *terminal = Some(held);
    Ok(())
}

/// Takes the terminal back that was left.
fn reenter_raw_mode() -> io::Result<()> {
    lock().as_mut().map_or(Ok(()), SavedTerminal::enter_raw_mode)
}

/// Sets the modes again when they should be set, because the process was stopped
/// and someone else had the terminal.
fn reenter_after_stop() {
    if let Some(held) = lock().as_mut().filter(|held| held.is_raw) {
        held.is_raw = false;
        // If the terminal is gone, the reader notices. Keyboard modes are a stack, so ours
        // is popped before it is pushed again.
        write_all(&held.output, b"\x1b[<1u")
            .and_then(|()| held.enter_raw_mode())
            .unwrap_or_default();
    }
}

fn leave_raw_mode() -> io::Result<()> {
    lock().as_mut().map_or(Ok(()), SavedTerminal::leave_raw_mode)
}

/// Leaves the terminal for good.
fn forget_terminal() {
    restore();
    *lock() = None;
}

fn lock() -> MutexGuard<'static, Option<SavedTerminal>> {
    TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SavedTerminal {
    fn enter_raw_mode(&mut self) -> io::Result<()> {
        if self.is_raw {
            return Ok(());
        }
        tcsetattr(&self.input, OptionalActions::Now, &raw(&self.before))?;
        self.is_raw = true;
        write_all(&self.output, ON.as_bytes())
    }

    fn leave_raw_mode(&mut self) -> io::Result<()> {
        if !self.is_raw {
            return Ok(());
        }
        self.is_raw = false;
        // Both are tried, whatever becomes of the other.
        let written = write_all(&self.output, OFF.as_bytes());
        tcsetattr(&self.input, OptionalActions::Now, &self.before)?;
        written
    }
}

/// Returns modes in which every key comes at once and as it is. What is written is
/// treated as before, so that what others print has proper ends of lines.
fn raw(before: &Termios) -> Termios {
    let mut raw = before.clone();
    raw.input_modes &= !(InputModes::IGNBRK
        | InputModes::BRKINT
        | InputModes::PARMRK
        | InputModes::ISTRIP
        | InputModes::INLCR
        | InputModes::IGNCR
        | InputModes::ICRNL
        | InputModes::IXON);
    raw.local_modes &= !(LocalModes::ECHO
        | LocalModes::ECHONL
        | LocalModes::ICANON
        | LocalModes::ISIG
        | LocalModes::IEXTEN);
    raw.control_modes &= !(ControlModes::CSIZE | ControlModes::PARENB);
    raw.control_modes |= ControlModes::CS8;
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    raw
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
