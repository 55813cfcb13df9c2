//! Signals as something to read.

#![expect(unsafe_code, reason = "signal masks and signalfd have no safe interface")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// A signal that the guest acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// A child ended.
    Child,
    /// The guest is to end in order.
    Stop,
}

/// The signals of the process.
#[derive(Debug)]
pub(super) struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Takes over the signals of this process. To be called before any thread
    /// is started, so that no thread receives them.
    ///
    /// SIGHUP is taken over and then not acted on. It is not ignored, because
    /// commands would inherit that.
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
            // A closed pipe and a file that may not grow are errors to handle,
            // not reasons to die.
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

    /// Returns the next signal that is waiting.
    pub(super) fn next(&self) -> Option<Signal> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut info = [0_u8; SIZE];
        while rustix::io::read(&self.fd, &mut info) == Ok(SIZE) {
            // The number is the first field.
            let number = info.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            match i32::try_from(number) {
                Ok(libc::SIGCHLD) => return Some(Signal::Child),
                Ok(libc::SIGTERM | libc::SIGINT) => return Some(Signal::Stop),
                _ => {}
            }
        }
        None
    }
}
