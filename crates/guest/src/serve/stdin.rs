//! A job's standard input.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};

use super::ids::Address;

/// Our end of a job's standard input, and what waits to be written to it.
#[derive(Debug)]
pub(super) struct Stdin {
    end: End,
    queue: VecDeque<Item>,
    /// Nothing is written before the command has started.
    held: bool,
    /// Whether the poller watches it.
    pub(super) watched: bool,
}

#[derive(Debug)]
enum End {
    Closed,
    /// It will be there when the job is launched.
    Planned,
    Pipe(OwnedFd),
    /// The master of a terminal, and the last byte written to it.
    Terminal(OwnedFd, u8),
}

#[derive(Debug)]
enum Item {
    Bytes {
        from: Address,
        bytes: Vec<u8>,
        written: usize,
    },
    /// Everything this caller sent has been written.
    Done {
        from: Address,
        close: bool,
    },
}

/// What came of writing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// This many bytes of this caller were taken.
    Taken(Address, usize),
    /// This many bytes of this caller came too late and were dropped.
    Dropped(Address, usize),
    /// Everything this caller sent was dealt with.
    Done(Address),
}

impl Stdin {
    /// Returns the input of a job that reads nothing.
    pub(super) const fn closed() -> Self {
        Self { end: End::Closed, queue: VecDeque::new(), held: false, watched: false }
    }

    /// Returns the input of a job that has not been launched.
    pub(super) const fn planned() -> Self {
        Self { end: End::Planned, queue: VecDeque::new(), held: true, watched: false }
    }

    /// Connects it to a pipe.
    pub(super) fn connect_pipe(&mut self, fd: OwnedFd) {
        self.end = End::Pipe(fd);
    }

    /// Connects it to a terminal.
    pub(super) fn connect_terminal(&mut self, master: OwnedFd) {
        self.end = End::Terminal(master, b'\n');
    }

    /// Lets bytes through: the command has started.
    pub(super) const fn release(&mut self) {
        self.held = false;
    }

    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.end, End::Closed)
    }

    /// Returns whether something waits for room to be written.
    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty() && !self.held
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.end {
            End::Closed | End::Planned => None,
            End::Pipe(fd) | End::Terminal(fd, _) => Some(fd.as_fd()),
        }
    }

    pub(super) fn push(&mut self, from: Address, bytes: &[u8]) {
        self.queue.push_back(Item::Bytes { from, bytes: bytes.to_vec(), written: 0 });
    }

    pub(super) fn push_done(&mut self, from: Address, close: bool) {
        self.queue.push_back(Item::Done { from, close });
    }

    /// Closes it; what waits is too late.
    pub(super) fn close(&mut self) {
        self.end = End::Closed;
        self.held = false;
    }

    /// Writes as much as is taken now.
    pub(super) fn write(&mut self) -> Vec<Progress> {
        let mut progress = Vec::new();
        if self.held {
            return progress;
        }
        while let Some(item) = self.queue.front_mut() {
            match item {
                Item::Bytes { from, bytes, written } => {
                    match self.end.write(&bytes[*written..]) {
                        Ok(taken) => {
                            progress.push(Progress::Taken(*from, taken));
                            *written += taken;
                        }
                        Err(Errno::AGAIN) => break,
                        // Nobody reads any more.
                        Err(_) => {
                            self.end = End::Closed;
                            progress.push(Progress::Dropped(*from, bytes.len() - *written));
                            *written = bytes.len();
                        }
                    }
                    if *written < bytes.len() {
                        continue;
                    }
                }
                Item::Done { from, close } => {
                    if *close && self.end.finish() == Err(Errno::AGAIN) {
                        break;
                    }
                    progress.push(Progress::Done(*from));
                }
            }
            self.queue.pop_front();
        }
        progress
    }
}

impl End {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let fd = match self {
            Self::Closed | Self::Planned => return Err(Errno::PIPE),
            Self::Pipe(fd) | Self::Terminal(fd, _) => fd,
        };
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&*fd, bytes))?;
        if let (Self::Terminal(_, last), [.., byte]) = (self, &bytes[..written]) {
            *last = *byte;
        }
        Ok(written)
    }

    /// Ends the input: closes a pipe, types the end-of-file character into a
    /// terminal.
    fn finish(&mut self) -> Result<(), Errno> {
        match self {
            Self::Terminal(master, last) => {
                let modes = tcgetattr(&*master)?;
                let eof = modes.special_codes[SpecialCodeIndex::VEOF];
                // In the middle of a line the first one only ends the line.
                let twice = modes.local_modes.contains(LocalModes::ICANON) && *last != b'\n';
                let keys = [eof, eof];
                rustix::io::write(&*master, &keys[..=usize::from(twice)])?;
                *last = b'\n';
            }
            Self::Pipe(_) | Self::Planned | Self::Closed => *self = Self::Closed,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::ids::ConnId;
    use super::*;

    const ME: Address = Address { conn: ConnId(1), channel: 1 };

    fn pipe() -> (Stdin, std::fs::File) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        let mut stdin = Stdin::planned();
        stdin.connect_pipe(write);
        stdin.release();
        (stdin, std::fs::File::from(read))
    }

    #[test]
    fn bytes_are_written_as_they_are_read_and_the_end_closes() {
        let (mut stdin, mut reader) = pipe();
        let bytes = vec![5; 300_000];
        stdin.push(ME, &bytes);
        stdin.push_done(ME, true);
        let mut all = Vec::new();
        while stdin.is_waiting() {
            stdin.write();
            let mut buf = vec![0; 70_000];
            let n = reader.read(&mut buf).unwrap();
            all.extend_from_slice(&buf[..n]);
        }
        reader.read_to_end(&mut all).unwrap();
        assert!(all == bytes && !stdin.is_open());
    }

    #[test]
    fn nothing_is_written_before_the_command_has_started() {
        let mut stdin = Stdin::planned();
        stdin.push(ME, b"text");
        assert_eq!(stdin.write(), []);
        assert!(stdin.is_open() && !stdin.is_waiting());
    }

    #[test]
    fn input_that_nobody_reads_is_dropped_and_said_to_be() {
        let (mut stdin, reader) = pipe();
        drop(reader);
        stdin.push(ME, b"text");
        stdin.push_done(ME, false);
        assert_eq!(stdin.write(), [Progress::Dropped(ME, 4), Progress::Done(ME)]);
        assert!(!stdin.is_open());
    }
}
