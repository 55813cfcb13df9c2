//! One connection: bytes to frames and frames to bytes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use vestal_wire::{FrameError, HEADER_LEN, Header, Kind, Role, Stream};

use super::channel::{Call, Channel};
use super::ids::JobKey;
use super::outbox::Outbox;

/// Waiting bytes from which on no more output of jobs and files is queued.
pub(super) const QUEUE_OUTPUT: usize = 256 << 10;

/// Waiting bytes at which a host that does not read is given up.
const QUEUE_MAX: usize = 8 << 20;

/// Bytes read from a connection at once.
const READ: usize = 64 << 10;

/// A host process.
#[derive(Debug)]
pub(super) struct Conn {
    fd: OwnedFd,
    /// What the host said it is; absent before its hello.
    pub(super) role: Option<Role>,
    pub(super) channels: HashMap<u32, Channel>,
    inbox: Vec<u8>,
    outbox: Outbox,
    /// Whether the poller watches for room to write.
    pub(super) awaits_room: bool,
    /// Whether output was held back because too much is waiting.
    pub(super) throttled: bool,
    /// Whether it is among those to be flushed.
    pub(super) dirty: bool,
    pub(super) state: ConnState,
}

/// Whether a connection is still of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnState {
    Open,
    /// It is to be closed at the end of the turn, and not acted on any more.
    Closing,
}

/// What reading a connection came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// There may be more.
    Open,
    /// The host hung up.
    HungUp,
}

impl Conn {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            role: None,
            channels: HashMap::new(),
            inbox: Vec::new(),
            outbox: Outbox::default(),
            awaits_room: false,
            throttled: false,
            dirty: false,
            state: ConnState::Open,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reads what is there, up to a bound that keeps the loop fair.
    pub(super) fn fill(&mut self) -> io::Result<Input> {
        self.inbox.reserve(READ);
        loop {
            let room = rustix::buffer::spare_capacity(&mut self.inbox);
            match rustix::io::read(&self.fd, room) {
                Ok(0) => return Ok(Input::HungUp),
                Ok(_) | Err(Errno::AGAIN) => return Ok(Input::Open),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the bytes read, to be put back with [`Self::put_back`].
    pub(super) fn take_inbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    /// Puts back what is not yet a whole frame.
    pub(super) fn put_back(&mut self, mut inbox: Vec<u8>, consumed: usize) {
        inbox.drain(..consumed);
        if inbox.is_empty() && inbox.capacity() > 2 * READ {
            inbox = Vec::new();
        }
        self.inbox = inbox;
    }

    /// Returns how many bytes wait to be written.
    pub(super) const fn waiting(&self) -> usize {
        self.outbox.len()
    }

    /// Returns whether output may be queued, and remembers if not.
    pub(super) const fn has_room(&mut self) -> bool {
        let room = self.outbox.len() < QUEUE_OUTPUT;
        self.throttled |= !room;
        room
    }

    pub(super) fn push(&mut self, channel: u32, kind: Kind, stream: Stream, payload: &[u8]) {
        self.outbox.push(channel, kind, stream, payload);
        if self.outbox.len() > QUEUE_MAX {
            self.state = ConnState::Closing;
        }
    }

    pub(super) fn push_data(&mut self, channel: u32, stream: Stream, payload: &[u8]) {
        self.outbox.push_data(self.fd.as_fd(), channel, stream, payload);
    }

    /// Writes what the host takes; returns whether output may flow again that
    /// was held back.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        self.outbox.flush(self.fd.as_fd())?;
        let relieved = self.throttled && self.outbox.len() < QUEUE_OUTPUT;
        if relieved {
            self.throttled = false;
        }
        Ok(relieved)
    }

    pub(super) const fn is_blocked(&self) -> bool {
        self.outbox.is_blocked()
    }

    /// Returns the jobs that the host follows.
    pub(super) fn followed(&self) -> impl Iterator<Item = JobKey> {
        self.channels.values().filter_map(|channel| match channel.call {
            Call::Follow(job, _) => Some(job),
            _ => None,
        })
    }

    /// Returns the channels with operations on files.
    pub(super) fn open_files(&self) -> impl Iterator<Item = u32> {
        let is_file = |channel: &Channel| matches!(channel.call, Call::File(_));
        self.channels.iter().filter(move |(_, channel)| is_file(channel)).map(|(id, _)| *id)
    }
}

/// A frame as it lies in the inbox.
#[derive(Debug)]
pub(super) struct Frame<'b> {
    pub(super) header: Header,
    pub(super) payload: &'b [u8],
}

impl Frame<'_> {
    /// Returns the length of the whole frame.
    pub(super) const fn len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }
}

/// Returns the first frame in `bytes`, if it is complete.
pub(super) fn next_frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, FrameError> {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let header = Header::from_bytes(*header)?;
    let payload = bytes.get(HEADER_LEN..HEADER_LEN + header.len as usize);
    Ok(payload.map(|payload| Frame { header, payload }))
}
