//! The modes of the terminal, and how they are put back on every way out.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr,
    tcsetattr,
};

use super::output::write_all;

/// Pastes in brackets; told when the window is looked at; and keys that would
/// otherwise look the same (Enter and Shift-Enter, Escape and the beginning of a
/// sequence) told apart, with the keys that they would be on other keyboards, in
/// kitty's way and in xterm's, for those that can.
const ON: &str = "\x1b[?2004h\x1b[?1004h\x1b[>5u\x1b[>4;1m";

/// All of that off; and the end of a frame that was never ended, an unstyled and
/// visible cursor, and nothing left of the live area below it.
const OFF: &str = "\x1b[?2026l\x1b[0m\x1b[>4;0m\x1b[<1u\x1b[?1004l\x1b[?2004l\x1b[?25h\r\x1b[J";

/// There is one terminal, and a panic must find it from anywhere.
static TERMINAL: Mutex<Option<Held>> = Mutex::new(None);

/// A terminal that was taken.
struct Held {
    input: OwnedFd,
    output: OwnedFd,
    /// How it was before.
    before: Termios,
    is_ours: bool,
}

/// Puts the terminal back as it was before. Does nothing when that has been done or
/// it was never taken; may be called from anywhere, a panic hook too.
pub fn restore() {
    if let Some(held) = lock().as_mut() {
        // Whoever calls this has worse troubles.
        held.leave().unwrap_or_default();
    }
}

pub(super) fn enter(input: OwnedFd, output: OwnedFd) -> io::Result<()> {
    let mut terminal = lock();
    if terminal.is_some() {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the terminal is already in use"));
    }
    let before = tcgetattr(&input)?;
    let mut held = Held { input, output, before, is_ours: false };
    if !rustix::termios::isatty(&held.output) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the standard output is no terminal",
        ));
    }
    held.enter()?;
    *terminal = Some(held);
    Ok(())
}

/// Takes the terminal back that was left.
pub(super) fn enter_again() -> io::Result<()> {
    lock().as_mut().map_or(Ok(()), Held::enter)
}

/// Sets the modes again when they should be set, because the process was stopped
/// and someone else had the terminal.
pub(super) fn continued() {
    if let Some(held) = lock().as_mut().filter(|held| held.is_ours) {
        held.is_ours = false;
        // The terminal may be gone; the reader will tell. What was asked of the
        // keyboard is kept on a stack, where it must not be twice.
        write_all(&held.output, b"\x1b[<1u").and_then(|()| held.enter()).unwrap_or_default();
    }
}

pub(super) fn leave() -> io::Result<()> {
    lock().as_mut().map_or(Ok(()), Held::leave)
}

/// Leaves the terminal for good.
pub(super) fn forget() {
    restore();
    *lock() = None;
}

fn lock() -> MutexGuard<'static, Option<Held>> {
    TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Held {
    fn enter(&mut self) -> io::Result<()> {
        if self.is_ours {
            return Ok(());
        }
        tcsetattr(&self.input, OptionalActions::Now, &raw(&self.before))?;
        self.is_ours = true;
        write_all(&self.output, ON.as_bytes())
    }

    fn leave(&mut self) -> io::Result<()> {
        if !self.is_ours {
            return Ok(());
        }
        self.is_ours = false;
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
