//! Moves input from host processes to a job's standard input.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};
use vestal_wire::{CallReply, FaultCode, JobId, Stream};

use super::connections::OpenCall;
use super::guest::Guest;
use super::lifetime::CallKind;
use super::reactor::{ChannelId, JobKey, PollToken, Ready};

const CLOSED: &str = "standard input is closed";

impl Guest {
    /// Opens a channel that writes to a job's standard input.
    pub(super) fn open_input(&mut self, at: ChannelId, kind: CallKind, id: &JobId, close: bool) {
        let Some(job) = self.job_or_fault(at, id) else {
            return;
        };
        let live = self.jobs.get(job).and_then(|job| job.live.as_ref());
        if live.is_some_and(|live| live.stdin.is_open()) {
            self.connections.open(at, OpenCall::Input { job, close, dropped: false }, kind);
        } else {
            self.connections.fault(at, FaultCode::Invalid, CLOSED);
        }
    }

    /// Queues input for a job.
    pub(super) fn feed(&mut self, key: JobKey, from: ChannelId, bytes: &[u8]) {
        match self.jobs.live_mut(key) {
            Some(live) => {
                live.stdin.push(from, bytes);
                self.write_input(key);
            }
            None => self.drop_input(from, bytes.len()),
        }
    }

    /// Records that a caller has sent all its input.
    pub(super) fn end_feeding(&mut self, key: JobKey, from: ChannelId, close: bool) {
        match self.jobs.live_mut(key) {
            Some(live) => {
                live.stdin.push_done(from, close);
                self.write_input(key);
            }
            None => self.answer_input(from),
        }
    }

    /// Closes a job's standard input; later input is dropped.
    pub(super) fn close_input(&mut self, key: JobKey) {
        self.unwatch_input(key);
        if let Some(live) = self.jobs.live_mut(key) {
            live.stdin.close();
            self.write_input(key);
        }
    }

    /// Removes a job's input from the poller. Must happen before it is closed: a
    /// terminal stays open for its output, and would stay in the poller.
    fn unwatch_input(&mut self, key: JobKey) {
        let Some(live) = self.jobs.live_mut(key) else {
            return;
        };
        if std::mem::take(&mut live.stdin.watched)
            && let Some(fd) = live.stdin.fd()
        {
            self.poller.remove(fd);
        }
    }

    /// Writes as much input as the job accepts, and polls for the rest.
    pub(super) fn write_input(&mut self, key: JobKey) {
        self.unwatch_input(key);
        let Some(live) = self.jobs.live_mut(key) else {
            return;
        };
        let stdin = &mut live.stdin;
        let progress = stdin.write();
        if stdin.is_waiting()
            && let Some(fd) = stdin.fd()
        {
            stdin.watched = self.poller.add(fd, PollToken::Input(key), Ready::OUT).is_ok();
        }
        for step in progress {
            match step {
                InputProgress::Taken(from, bytes) => {
                    self.connections.taken(from, Stream::Input, bytes);
                }
                InputProgress::Dropped(from, bytes) => self.drop_input(from, bytes),
                InputProgress::Done(from) => self.answer_input(from),
            }
        }
    }

    /// Drops bytes that arrived too late. The caller gets the report after it has sent
    /// everything: a job that ends between the last byte and the end has read
    /// everything.
    fn drop_input(&mut self, from: ChannelId, bytes: usize) {
        self.connections.taken(from, Stream::Input, bytes);
        if let Some(channel) = self.connections.channel(from)
            && let OpenCall::Input { dropped, .. } = &mut channel.call
        {
            *dropped = true;
        }
    }

    /// Replies to a caller that only wrote input. The caller that started the job
    /// gets its reply when the job ends.
    fn answer_input(&mut self, at: ChannelId) {
        let Some(channel) = self.connections.channel(at) else { return };
        match channel.call {
            OpenCall::Input { dropped: false, .. } => self.connections.reply(at, &CallReply::Done),
            OpenCall::Input { dropped: true, .. } => {
                self.connections.fault(at, FaultCode::Invalid, CLOSED);
            }
            _ => {}
        }
    }
}

/// The guest's end of a job's standard input, and the queued input.
#[derive(Debug)]
pub(super) struct StdinQueue {
    end: StdinEnd,
    queue: VecDeque<QueuedInput>,
    /// Whether the command has not started yet, so that nothing is written.
    held: bool,
    /// Whether the poller watches it.
    pub(super) watched: bool,
}

#[derive(Debug)]
enum StdinEnd {
    Closed,
    /// It is created when the job is launched.
    Planned,
    Pipe(OwnedFd),
    /// The master of a terminal, and the last byte written to it.
    Terminal(OwnedFd, u8),
}

#[derive(Debug)]
enum QueuedInput {
    Bytes {
        from: ChannelId,
        bytes: Vec<u8>,
        written: usize,
    },
    /// The caller has sent everything.
    Done {
        from: ChannelId,
        close: bool,
    },
}

/// Result of writing input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputProgress {
    /// This many bytes of the caller were written.
    Taken(ChannelId, usize),
    /// This many bytes of the caller were too late and were dropped.
    Dropped(ChannelId, usize),
    /// All input of the caller was processed.
    Done(ChannelId),
}

impl StdinQueue {
    /// Returns the input of a job that reads nothing.
    pub(super) const fn closed() -> Self {
        Self { end: StdinEnd::Closed, queue: VecDeque::new(), held: false, watched: false }
    }

    /// Returns the input of a job that has not been launched.
    pub(super) const fn planned() -> Self {
        Self { end: StdinEnd::Planned, queue: VecDeque::new(), held: true, watched: false }
    }

    pub(super) fn connect_pipe(&mut self, fd: OwnedFd) {
        self.end = StdinEnd::Pipe(fd);
    }

    pub(super) fn connect_terminal(&mut self, master: OwnedFd) {
        self.end = StdinEnd::Terminal(master, b'\n');
    }

    /// Starts writing: the command has started.
    pub(super) const fn release(&mut self) {
        self.held = false;
    }

    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.end, StdinEnd::Closed)
    }

    /// Returns whether input is queued.
    fn is_waiting(&self) -> bool {
        !self.queue.is_empty() && !self.held
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.end {
            StdinEnd::Closed | StdinEnd::Planned => None,
            StdinEnd::Pipe(fd) | StdinEnd::Terminal(fd, _) => Some(fd.as_fd()),
        }
    }

    pub(super) fn push(&mut self, from: ChannelId, bytes: &[u8]) {
        self.queue.push_back(QueuedInput::Bytes { from, bytes: bytes.to_vec(), written: 0 });
    }

    pub(super) fn push_done(&mut self, from: ChannelId, close: bool) {
        self.queue.push_back(QueuedInput::Done { from, close });
    }

    /// Closes it; queued input is dropped.
    pub(super) fn close(&mut self) {
        self.end = StdinEnd::Closed;
        self.held = false;
    }

    /// Writes as much as possible now.
    pub(super) fn write(&mut self) -> Vec<InputProgress> {
        let mut progress = Vec::new();
        if self.held {
            return progress;
        }
        while let Some(item) = self.queue.front_mut() {
            match item {
                QueuedInput::Bytes { from, bytes, written } => {
                    match self.end.write(&bytes[*written..]) {
                        Ok(taken) => {
                            progress.push(InputProgress::Taken(*from, taken));
                            *written += taken;
                        }
                        Err(Errno::AGAIN) => break,
                        // Nobody reads any more.
                        Err(_) => {
                            self.end = StdinEnd::Closed;
                            progress.push(InputProgress::Dropped(*from, bytes.len() - *written));
                            *written = bytes.len();
                        }
                    }
                    if *written < bytes.len() {
                        continue;
                    }
                }
                QueuedInput::Done { from, close } => {
                    if *close && self.end.finish() == Err(Errno::AGAIN) {
                        break;
                    }
                    progress.push(InputProgress::Done(*from));
                }
            }
            self.queue.pop_front();
        }
        progress
    }
}

impl StdinEnd {
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

    /// Ends the input: closes a pipe, or sends the end-of-file character to a
    /// terminal.
    fn finish(&mut self) -> Result<(), Errno> {
        match self {
            Self::Terminal(master, last) => {
                let modes = tcgetattr(&*master)?;
                let eof = modes.special_codes[SpecialCodeIndex::VEOF];
                // In the middle of a line the first character only ends the line.
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

    use super::*;
    use crate::serve::reactor::ConnectionId;

    const ME: ChannelId = ChannelId { conn: ConnectionId(1), channel: 1 };

    fn pipe() -> (StdinQueue, std::fs::File) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        let mut stdin = StdinQueue::planned();
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
        let mut stdin = StdinQueue::planned();
        stdin.push(ME, b"text");
        assert_eq!(stdin.write(), []);
        assert!(stdin.is_open() && !stdin.is_waiting());
    }

    #[test]
    fn input_that_nobody_reads_is_dropped_and_reported() {
        let (mut stdin, reader) = pipe();
        drop(reader);
        stdin.push(ME, b"text");
        stdin.push_done(ME, false);
        assert_eq!(stdin.write(), [InputProgress::Dropped(ME, 4), InputProgress::Done(ME)]);
        assert!(!stdin.is_open());
    }
}
