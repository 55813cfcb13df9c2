//! What is typed in answer to a question, and what ends the wait for it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::OnceLock;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

/// Told when no answer is waited for any more. Global, because there is one
/// keyboard, and whoever waits at it does so without hearing of anything else.
static GIVEN_UP: OnceLock<OwnedFd> = OnceLock::new();

/// While it lives, [`GivingUp::now`] ends the wait for an answer, as an end of
/// input would: for those who run where signals do not end the process.
#[derive(Debug)]
pub(crate) struct GivingUp(());

impl GivingUp {
    pub(crate) fn possible() -> io::Result<Self> {
        if GIVEN_UP.get().is_none() {
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            // Somebody else's is as good.
            GIVEN_UP.set(made).ok();
        }
        forget();
        Ok(Self(()))
    }

    /// Gives up every answer that is waited for, now and until this is dropped.
    pub(crate) fn now() {
        if let Some(told) = GIVEN_UP.get() {
            // It fails only where it has been told very often.
            rustix::io::write(told, &1_u64.to_ne_bytes()).ok();
        }
    }
}

impl Drop for GivingUp {
    fn drop(&mut self) {
        forget();
    }
}

fn forget() {
    if let Some(told) = GIVEN_UP.get() {
        let mut count = [0; 8];
        // It fails where nothing was told, and then there is nothing to forget.
        rustix::io::read(told, &mut count).ok();
    }
}

/// The bytes that are typed, one by one, so that what is typed beyond an answer
/// is left to whoever reads next; to the end of input, or until given up.
pub(super) fn typed() -> impl Iterator<Item = u8> {
    std::iter::from_fn(|| next().ok().flatten())
}

fn next() -> rustix::io::Result<Option<u8>> {
    let stdin = io::stdin();
    loop {
        let mut awaited = vec![PollFd::new(&stdin, PollFlags::IN)];
        if let Some(told) = GIVEN_UP.get() {
            awaited.push(PollFd::from_borrowed_fd(told.as_fd(), PollFlags::IN));
        }
        match poll(&mut awaited, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        if awaited.get(1).is_some_and(|told| told.revents().contains(PollFlags::IN)) {
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
pub(super) fn line(typed: impl Iterator<Item = u8>) -> Option<String> {
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
pub(super) fn hidden_line(mut keys: impl Iterator<Item = u8>) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_can_be_mended_and_given_up() {
        let typed = |bytes: &[u8]| hidden_line(bytes.iter().copied());
        assert_eq!(typed(b"sk-1\r"), Some("sk-1".to_owned()));
        assert_eq!(typed("sk-1é\x7f2\n".as_bytes()), Some("sk-12".to_owned()));
        assert_eq!(typed(b"wrong\x15right\r"), Some("right".to_owned()));
        assert_eq!(typed(b" sk-1 \t\r"), Some("sk-1".to_owned()));
        assert_eq!(typed(b"sk\x03"), None);
        assert_eq!(typed(b"\x04"), None);
    }

    #[test]
    fn keys_that_are_no_characters_do_not_get_into_what_nobody_sees() {
        let typed = |bytes: &[u8]| hidden_line(bytes.iter().copied());
        assert_eq!(typed(b"sk\x1b[D-1\x1bOC\r"), Some("sk-1".to_owned()));
        assert_eq!(typed(b"\x1b[200~sk-1\x1b[201~\r"), Some("sk-1".to_owned()));
        assert_eq!(typed(b"sk\x1b[1;5D-1\r"), Some("sk-1".to_owned()));
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        let hidden = |bytes: &[u8]| hidden_line(bytes.iter().copied());
        let shown = |bytes: &[u8]| line(bytes.iter().copied());
        assert_eq!(hidden(b"sk-half"), None);
        assert_eq!(hidden(b"sk\x1b["), None);
        assert_eq!(shown(b"y"), None);
        assert_eq!(shown(b""), None);
        assert_eq!(shown(b" yes \n"), Some("yes".to_owned()));
    }
}
