//! Packets between the guest and a supervisor.
//!
//! The two share a `SOCK_SEQPACKET` pair: one packet is one message, and files
//! travel beside it. Both ends are the same program, so there is no version.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use minicbor::{Decode, Encode};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::report::{FailedStep, WaitStatus};

/// Files that may travel with one packet.
const MAX_FILES: usize = 4;

/// Largest packet; what can be longer travels in a file.
const MAX_PACKET: usize = 256;

/// What the guest asks of a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Order {
    /// Run what the first file says, with the other three as standard streams.
    #[n(0)]
    Launch,
    /// Kill every process of the job.
    #[n(1)]
    Kill,
    /// Send a signal to the job.
    #[n(2)]
    Signal(#[n(0)] i32),
}

/// What a supervisor tells the guest: [`super::Report`] without its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Notice {
    /// See [`super::Report::Started`].
    #[n(0)]
    Started {
        #[n(0)]
        pid: u32,
        #[n(1)]
        pid_start: u64,
    },
    /// See [`super::Report::Failed`].
    #[n(1)]
    Failed {
        #[n(0)]
        step: FailedStep,
        #[n(1)]
        errno: i32,
    },
    /// See [`super::Report::Ended`]; the state travels beside it.
    #[n(2)]
    Ended {
        #[n(0)]
        status: WaitStatus,
    },
    /// See [`super::Report::Left`].
    #[n(3)]
    Left {
        #[n(0)]
        processes: u32,
    },
    /// See [`super::Report::Empty`].
    #[n(4)]
    Empty,
}

/// Whether to wait when the other side cannot take or give a packet yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Fail with [`io::ErrorKind::WouldBlock`].
    Now,
    /// Wait.
    Wait,
}

/// Sends one packet.
pub(crate) fn send<T: Encode<()>>(
    socket: BorrowedFd<'_>,
    message: &T,
    files: &[BorrowedFd<'_>],
    patience: Patience,
) -> io::Result<()> {
    let bytes = minicbor::to_vec(message).map_err(io::Error::other)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = match patience {
        Patience::Now => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        Patience::Wait => SendFlags::NOSIGNAL,
    };
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags)
    })?;
    Ok(())
}

/// Receives one packet without waiting. `None`: there is none yet. The end of
/// the other side is [`io::ErrorKind::UnexpectedEof`].
pub(crate) fn receive<T: for<'b> Decode<'b, ()>>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = [0; MAX_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)
    });
    let received = match received {
        Ok(received) => received,
        Err(rustix::io::Errno::AGAIN) => return Ok(None),
        Err(rustix::io::Errno::CONNRESET) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Err(errno) => return Err(errno.into()),
    };
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let message = minicbor::decode(&bytes[..received.bytes])
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some((message, files)))
}
