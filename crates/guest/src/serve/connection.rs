//! One connection to a host process: frames in, frames out.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use vestal_wire::{FrameError, FrameKind, HEADER_LEN, Header, HostRole, Stream};

use super::connections::{OpenCall, OpenChannel};
use super::reactor::JobKey;

/// Queued bytes from which on no more output is queued.
pub(super) const QUEUE_OUTPUT: usize = 256 << 10;

/// Queued bytes at which a host that does not read is disconnected.
const QUEUE_MAX: usize = 8 << 20;

/// Bytes read from a connection at once.
const READ: usize = 64 << 10;

/// Data frames of this size or more are written without copying them.
const DIRECT: usize = 16 << 10;

/// Capacity kept after everything has been written.
const KEEP: usize = 64 << 10;

/// A connection to a host process.
#[derive(Debug)]
pub(super) struct HostConnection {
    fd: OwnedFd,
    /// The role from the host's hello; absent before it.
    pub(super) role: Option<HostRole>,
    pub(super) channels: HashMap<u32, OpenChannel>,
    inbox: Vec<u8>,
    outbox: SendBuffer,
    /// Whether the poller waits until the connection is writable.
    pub(super) awaits_room: bool,
    /// Whether output was held back because the queue is full.
    pub(super) throttled: bool,
    /// Whether it is in the list of connections to flush.
    pub(super) dirty: bool,
    pub(super) state: ConnectionState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    Open,
    /// It is closed at the end of the turn; further frames are ignored.
    Closing,
}

/// Result of reading a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadStatus {
    /// There may be more.
    Open,
    /// The host closed the connection.
    HungUp,
}

impl HostConnection {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            role: None,
            channels: HashMap::new(),
            inbox: Vec::new(),
            outbox: SendBuffer::default(),
            awaits_room: false,
            throttled: false,
            dirty: false,
            state: ConnectionState::Open,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reads available bytes, up to a limit that keeps the loop fair.
    pub(super) fn fill(&mut self) -> io::Result<ReadStatus> {
        self.inbox.reserve(READ);
        loop {
            let room = rustix::buffer::spare_capacity(&mut self.inbox);
            match rustix::io::read(&self.fd, room) {
                Ok(0) => return Ok(ReadStatus::HungUp),
                Ok(_) | Err(Errno::AGAIN) => return Ok(ReadStatus::Open),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the bytes read so far, to be returned with [`Self::put_back`].
    pub(super) fn take_inbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    /// Returns bytes that are not yet a complete frame.
    pub(super) fn put_back(&mut self, mut inbox: Vec<u8>, consumed: usize) {
        inbox.drain(..consumed);
        if inbox.is_empty() && inbox.capacity() > 2 * READ {
            inbox = Vec::new();
        }
        self.inbox = inbox;
    }

    /// Returns the number of queued bytes.
    pub(super) const fn waiting(&self) -> usize {
        self.outbox.len()
    }

    /// Returns whether output may be queued, and remembers if not.
    pub(super) const fn has_room(&mut self) -> bool {
        let room = self.outbox.len() < QUEUE_OUTPUT;
        self.throttled |= !room;
        room
    }

    pub(super) fn push(&mut self, channel: u32, kind: FrameKind, stream: Stream, payload: &[u8]) {
        self.outbox.push(channel, kind, stream, payload);
        if self.outbox.len() > QUEUE_MAX {
            self.state = ConnectionState::Closing;
        }
    }

    pub(super) fn push_data(&mut self, channel: u32, stream: Stream, payload: &[u8]) {
        self.outbox.push_data(self.fd.as_fd(), channel, stream, payload);
    }

    /// Writes queued bytes. Returns whether output that was held back may
    /// continue.
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
            OpenCall::Follow(job, _) => Some(job),
            _ => None,
        })
    }

    /// Returns the channels with file operations.
    pub(super) fn open_files(&self) -> impl Iterator<Item = u32> {
        let is_file = |channel: &OpenChannel| matches!(channel.call, OpenCall::File(_));
        self.channels.iter().filter(move |(_, channel)| is_file(channel)).map(|(id, _)| *id)
    }
}

#[derive(Debug)]
pub(super) struct InboxFrame<'b> {
    pub(super) header: Header,
    pub(super) payload: &'b [u8],
}

impl InboxFrame<'_> {
    /// Returns the length of the frame including its header.
    pub(super) const fn len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }
}

/// Returns the first frame in `bytes`, if it is complete.
pub(super) fn next_frame(bytes: &[u8]) -> Result<Option<InboxFrame<'_>>, FrameError> {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let header = Header::from_bytes(*header)?;
    let payload = bytes.get(HEADER_LEN..HEADER_LEN + header.len as usize);
    Ok(payload.map(|payload| InboxFrame { header, payload }))
}

/// Frames waiting to be written.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    bytes: Vec<u8>,
    /// Number of bytes that have been written.
    written: usize,
    /// Whether the last write was incomplete.
    full: bool,
}

impl SendBuffer {
    /// Returns the number of queued bytes.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Returns whether the connection is not writable.
    pub(super) const fn is_blocked(&self) -> bool {
        self.full
    }

    /// Queues a frame. The payload must not exceed the limit of its kind.
    pub(super) fn push(&mut self, channel: u32, kind: FrameKind, stream: Stream, payload: &[u8]) {
        self.bytes.extend_from_slice(&header(channel, kind, stream, payload));
        self.bytes.extend_from_slice(payload);
    }

    /// Sends a data frame after the queued ones, without copying it if the
    /// connection accepts it.
    pub(super) fn push_data(
        &mut self,
        fd: BorrowedFd<'_>,
        channel: u32,
        stream: Stream,
        payload: &[u8],
    ) {
        if payload.len() < DIRECT || self.full {
            return self.push(channel, FrameKind::Data, stream, payload);
        }
        let header = header(channel, FrameKind::Data, stream, payload);
        let waiting = &self.bytes[self.written..];
        let slices = [IoSlice::new(waiting), IoSlice::new(&header), IoSlice::new(payload)];
        // The next flush detects a broken connection.
        let sent = rustix::io::writev(fd, &slices).unwrap_or_default();
        let of_waiting = sent.min(waiting.len());
        let of_header = (sent - of_waiting).min(header.len());
        let of_payload = sent - of_waiting - of_header;
        self.full = of_payload < payload.len();
        self.written += of_waiting;
        self.forget_written();
        self.bytes.extend_from_slice(&header[of_header..]);
        self.bytes.extend_from_slice(&payload[of_payload..]);
    }

    /// Writes as much as the connection accepts.
    pub(super) fn flush(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.full = false;
        while self.len() > 0 {
            match rustix::io::write(fd, &self.bytes[self.written..]) {
                Ok(sent) => self.written += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.full = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.forget_written();
        Ok(())
    }

    fn forget_written(&mut self) {
        if self.len() == 0 {
            self.bytes.clear();
            self.written = 0;
            if self.bytes.capacity() > KEEP {
                self.bytes.shrink_to(KEEP);
            }
        } else if self.written > KEEP && self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

fn header(
    channel: u32,
    kind: FrameKind,
    stream: Stream,
    payload: &[u8],
) -> [u8; vestal_wire::HEADER_LEN] {
    debug_assert!(payload.len() <= kind.max_len());
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    Header { len, channel, kind, stream }.to_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn frames_arrive_in_order_through_a_reader_that_stalls() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut outbox = SendBuffer::default();
        let mut expected = Vec::new();
        for i in 0..200_u8 {
            let payload = vec![i; if i % 3 == 0 { 60_000 } else { 10 }];
            vestal_wire::write_frame(
                &mut expected,
                i.into(),
                FrameKind::Data,
                Stream::Stdout,
                &payload,
            )
            .unwrap();
            outbox.push_data(near.as_fd(), i.into(), Stream::Stdout, &payload);
        }
        assert!(outbox.is_blocked() && outbox.len() > 0);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            far.read_to_end(&mut all).unwrap();
            all
        });
        while outbox.len() > 0 {
            outbox.flush(near.as_fd()).unwrap();
            std::thread::yield_now();
        }
        drop(near);
        assert!(reader.join().unwrap() == expected);
    }

    #[test]
    fn a_broken_connection_is_an_error_of_the_flush() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        let mut outbox = SendBuffer::default();
        outbox.push_data(near.as_fd(), 1, Stream::Stdout, &[0; DIRECT]);
        assert!(outbox.flush(near.as_fd()).is_err());
    }
}
