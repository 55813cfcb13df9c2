//! Waiting for file descriptors.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::ids::Token;

pub(super) use rustix::event::epoll::EventFlags as Ready;

/// Longest wait, so that a forgotten deadline can never be forgotten for ever.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// The set of file descriptors that are waited for.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    pub(super) fn add(&self, fd: impl AsFd, token: Token, ready: Ready) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token.to_bits()), ready)?)
    }

    pub(super) fn modify(&self, fd: impl AsFd, token: Token, ready: Ready) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token.to_bits()), ready)?)
    }

    pub(super) fn remove(&self, fd: impl AsFd) {
        // It fails only for a descriptor that is not in the set, as wanted.
        epoll::delete(&self.epoll, fd).ok();
    }

    /// Waits until something is ready or the time is up.
    pub(super) fn wait(
        &self,
        events: &mut Vec<epoll::Event>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        events.clear();
        // A partial millisecond is rounded up: waking early is only work.
        let millis = timeout.unwrap_or(MAX_WAIT).min(MAX_WAIT).as_micros().div_ceil(1000);
        let millis = i64::try_from(millis).unwrap_or(i64::MAX);
        let timeout = Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
