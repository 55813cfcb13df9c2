//! Writing to the terminal.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// The standard output, unbuffered: a frame is one write.
#[derive(Debug, Clone, Copy, Default)]
pub struct Output;

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(rustix::stdio::stdout(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn write_all(terminal: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = write(&terminal, bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Writes some of the bytes, and waits until some can be written.
fn write(terminal: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::io::write(&terminal, bytes) {
            // Another program that shares the terminal may have said that nobody
            // waits on it.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&terminal, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}
