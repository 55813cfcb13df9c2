//! What the event loop waits for: file descriptors, deadlines and signals, each
//! identified by a token.
//!
//! No id is used twice, so a late event about something that is gone finds nothing.

#![expect(unsafe_code, reason = "signal masks and signalfd have no safe interface")]

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::log::LogStream;

pub(super) use rustix::event::epoll::EventFlags as Ready;

/// Maximum wait, in case a deadline is missed.
const MAX_WAIT: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnectionId(pub(super) u64);

/// A job; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobKey(pub(crate) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SupervisorId(pub(super) u64);

/// A channel of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ChannelId {
    pub(super) conn: ConnectionId,
    pub(super) channel: u32,
}

/// What a file descriptor in the poller belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollToken {
    Listener,
    Signals,
    Workers,
    Connection(ConnectionId),
    Supervisor(SupervisorId),
    Output(JobKey, LogStream),
    Input(JobKey),
}

impl PollToken {
    /// Returns the token as a number for the kernel.
    const fn to_bits(self) -> u64 {
        match self {
            Self::Listener => 0,
            Self::Signals => 1,
            Self::Workers => 2,
            Self::Connection(id) => id.0 << 3 | 3,
            Self::Supervisor(id) => id.0 << 3 | 4,
            Self::Output(key, LogStream::Stdout) => key.0 << 3 | 5,
            Self::Output(key, LogStream::Stderr) => key.0 << 3 | 6,
            Self::Input(key) => key.0 << 3 | 7,
        }
    }

    /// Returns the token for a number from the kernel.
    pub(super) const fn from_bits(bits: u64) -> Self {
        let id = bits >> 3;
        match bits & 7 {
            0 => Self::Listener,
            1 => Self::Signals,
            2 => Self::Workers,
            3 => Self::Connection(ConnectionId(id)),
            4 => Self::Supervisor(SupervisorId(id)),
            5 => Self::Output(JobKey(id), LogStream::Stdout),
            6 => Self::Output(JobKey(id), LogStream::Stderr),
            _ => Self::Input(JobKey(id)),
        }
    }
}

/// The set of polled file descriptors.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    pub(super) fn add(&self, fd: impl AsFd, token: PollToken, ready: Ready) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token.to_bits()), ready)?)
    }

    pub(super) fn modify(&self, fd: impl AsFd, token: PollToken, ready: Ready) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token.to_bits()), ready)?)
    }

    pub(super) fn remove(&self, fd: impl AsFd) {
        // It fails only for a descriptor that is not in the set.
        epoll::delete(&self.epoll, fd).ok();
    }

    /// Waits until something is ready or the time is up.
    pub(super) fn wait(
        &self,
        events: &mut Vec<epoll::Event>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        events.clear();
        // Partial milliseconds are rounded up to avoid waking too early.
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

/// What a deadline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// A job's timeout expires.
    JobTimeout(JobKey),
    /// A caller's timeout expires.
    WaitOver(ChannelId),
    /// A spare supervisor is to be started.
    Spare,
    /// Orphans are to be reaped again.
    ReapOrphans,
    /// Connections are to be accepted again.
    Accept,
    /// The socket file is to be checked.
    CheckSocket,
}

/// A deadline that can be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerId(Instant, u64);

/// All deadlines.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queue: BTreeMap<TimerId, Timer>,
    next: u64,
}

impl Timers {
    /// Sets a deadline. Returns nothing if it is too far in the future for the
    /// clock.
    pub(super) fn set(&mut self, after: Duration, timer: Timer) -> Option<TimerId> {
        let id = TimerId(Instant::now().checked_add(after)?, self.next);
        self.next += 1;
        self.queue.insert(id, timer);
        Some(id)
    }

    pub(super) fn cancel(&mut self, id: TimerId) {
        self.queue.remove(&id);
    }

    /// Returns the next deadline.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|(id, _)| id.0)
    }

    /// Removes and returns one deadline that has passed.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Timer> {
        let entry = self.queue.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

/// A signal that the guest handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuestSignal {
    /// A child ended.
    Child,
    /// The guest is to shut down.
    Stop,
}

/// The signals of the process.
#[derive(Debug)]
pub(super) struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Takes over the signals of this process. Must be called before any thread
    /// is started, so that no thread receives them.
    ///
    /// SIGHUP is received but has no effect. It is not ignored, because commands
    /// would inherit that.
    pub(super) fn take_over() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is read, and
        // every pointer is valid for the call it is passed to. The descriptor
        // is a fresh one that nobody else owns.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            // A closed pipe and a file size limit are errors to handle, not
            // reasons to die.
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { fd: OwnedFd::from_raw_fd(fd) })
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the next pending signal.
    pub(super) fn next(&self) -> Option<GuestSignal> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut info = [0_u8; SIZE];
        while rustix::io::read(&self.fd, &mut info) == Ok(SIZE) {
            // The number is the first field.
            let number = info.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            match i32::try_from(number) {
                Ok(libc::SIGCHLD) => return Some(GuestSignal::Child),
                Ok(libc::SIGTERM | libc::SIGINT) => return Some(GuestSignal::Stop),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let key = JobKey(77);
        for token in [
            PollToken::Listener,
            PollToken::Signals,
            PollToken::Workers,
            PollToken::Connection(ConnectionId(0)),
            PollToken::Connection(ConnectionId(1 << 40)),
            PollToken::Supervisor(SupervisorId(5)),
            PollToken::Output(key, LogStream::Stdout),
            PollToken::Output(key, LogStream::Stderr),
            PollToken::Input(key),
        ] {
            assert_eq!(PollToken::from_bits(token.to_bits()), token);
        }
    }
}
