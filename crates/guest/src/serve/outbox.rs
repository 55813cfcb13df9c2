//! Bytes on their way to a host process.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use vestal_wire::{Header, Kind, Stream};

/// Data frames from this size on are written straight from where they are.
const DIRECT: usize = 16 << 10;

/// Capacity that is kept when everything has been written.
const KEEP: usize = 64 << 10;

/// Frames that wait until the connection takes them.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that have been written.
    written: usize,
    /// The connection took less than it was offered.
    full: bool,
}

impl Outbox {
    /// Returns how many bytes wait.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Returns whether the connection must be waited for.
    pub(super) const fn is_blocked(&self) -> bool {
        self.full
    }

    /// Queues a frame. The payload keeps to the limit of its kind.
    pub(super) fn push(&mut self, channel: u32, kind: Kind, stream: Stream, payload: &[u8]) {
        self.bytes.extend_from_slice(&header(channel, kind, stream, payload));
        self.bytes.extend_from_slice(payload);
    }

    /// Sends a data frame after everything that waits, without a copy where the
    /// connection takes it.
    pub(super) fn push_data(
        &mut self,
        fd: BorrowedFd<'_>,
        channel: u32,
        stream: Stream,
        payload: &[u8],
    ) {
        if payload.len() < DIRECT || self.full {
            return self.push(channel, Kind::Data, stream, payload);
        }
        let header = header(channel, Kind::Data, stream, payload);
        let waiting = &self.bytes[self.written..];
        let slices = [IoSlice::new(waiting), IoSlice::new(&header), IoSlice::new(payload)];
        // A broken connection is found by the next flush.
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

    /// Writes what the connection takes.
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
    kind: Kind,
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
        let mut outbox = Outbox::default();
        let mut expected = Vec::new();
        for i in 0..200_u8 {
            let payload = vec![i; if i % 3 == 0 { 60_000 } else { 10 }];
            vestal_wire::write_frame(&mut expected, i.into(), Kind::Data, Stream::Stdout, &payload)
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
        let mut outbox = Outbox::default();
        outbox.push_data(near.as_fd(), 1, Stream::Stdout, &[0; DIRECT]);
        assert!(outbox.flush(near.as_fd()).is_err());
    }
}
