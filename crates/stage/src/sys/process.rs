//! Processes: making, changing and ending them.

#![expect(unsafe_code, reason = "a process is copied, replaced and ended")]

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use rustix::process::Pid;
use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

/// Which of two processes this is.
#[derive(Debug)]
pub(crate) enum Cloned {
    /// The new one.
    Child,
    /// The one that made it.
    Parent(Child),
}

/// A process that this one made.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its number, as this process sees it.
    pub(crate) pid: Pid,
    /// Itself.
    pub(crate) handle: OwnedFd,
}

/// Copies this process, with new namespaces for the copy.
///
/// The copy is as of `fork`: this process must have one thread.
pub(crate) fn clone(namespaces: i32) -> io::Result<Cloned> {
    let mut handle: RawFd = -1;
    let flags = libc::c_long::from(namespaces | libc::CLONE_PIDFD | libc::SIGCHLD);
    // SAFETY: without a stack and without shared memory the copy goes on with a
    // copy of everything this process has, which is a single thread. The kernel
    // writes a descriptor to `handle`, which outlives the call. The first three
    // arguments are in this order on every architecture that there are guests
    // for, and the others are zero.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, flags, 0_usize, &raw mut handle, 0_usize, 0_usize)
    };
    match i32::try_from(pid) {
        Ok(0) => Ok(Cloned::Child),
        Ok(pid) => match Pid::from_raw(pid).filter(|pid| pid.as_raw_nonzero().get() > 0) {
            Some(pid) => {
                // SAFETY: the kernel has just made this descriptor for us.
                let handle = unsafe { OwnedFd::from_raw_fd(handle) };
                Ok(Cloned::Parent(Child { pid, handle }))
            }
            None => Err(io::Error::last_os_error()),
        },
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Lets other processes of the same user look at this one.
pub(crate) fn be_open() -> io::Result<()> {
    // SAFETY: it changes a flag of this process and touches no memory.
    match unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends this process here and now.
pub(crate) fn end_now(code: i32) -> ! {
    // SAFETY: it does not return, and nothing of this process is to be done.
    unsafe { libc::_exit(code) }
}

/// Does something as another user to whom files belong that are made, with all
/// the rights this process has.
pub(crate) fn as_file_owner<T>(uid: u32, gid: u32, work: impl FnOnce() -> T) -> io::Result<T> {
    let before = capabilities(None)?;
    // SAFETY: these change numbers of this process, which has one thread. They
    // say the number before, not whether they succeeded; that is seen when
    // rights are taken back below.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
    // The kernel takes away the rights over files along with the user.
    let done = set_capabilities(None, before).map(|()| work());
    // SAFETY: as above. The numbers are those of the process again.
    unsafe {
        libc::setfsuid(libc::geteuid());
        libc::setfsgid(libc::getegid());
    }
    set_capabilities(None, before)?;
    Ok(done?)
}

/// Gives up every capability but those of a mask, for good.
pub(crate) fn keep_capabilities(mask: u64) -> io::Result<()> {
    for number in 0..u64::BITS {
        if mask & (1 << number) != 0 {
            continue;
        }
        // SAFETY: it changes a set of this process and touches no memory.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) } != 0
        {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The kernel knows no more than these.
                Some(libc::EINVAL) if number > 0 => break,
                _ => return Err(error),
            }
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let held = capabilities(None)?;
    let kept = rustix::thread::CapabilitySet::from_bits_retain(mask) & held.permitted;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: rustix::thread::CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

/// Signals that the kernel knows.
const SIGNALS: i32 = 64;

/// Bytes of a set of as many.
const SIGNAL_SET: usize = 8;

/// Has every signal do what it does by default, and blocks none.
pub(crate) fn reset_signals() {
    // The C library does not touch the two that it keeps for itself, but hands
    // on what it was started with: so the kernel is asked.
    let default = [0_u64; 4];
    for signal in 1..=SIGNALS {
        // SAFETY: the action is as large as any architecture's, and all zeroes
        // is the default one, which runs no code of this process. It fails for
        // the few that cannot be changed.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                SIGNAL_SET,
            );
        }
    }
    let none = 0_u64;
    // SAFETY: the set is as large as is said and outlives the call, which only
    // reads it.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            ptr::null_mut::<u64>(),
            SIGNAL_SET,
        );
    }
}

/// Becomes another program. Returns only why it could not.
pub(crate) fn execute(arguments: &[Vec<u8>], environment: &[Vec<u8>]) -> io::Error {
    let texts = |list: &[Vec<u8>]| -> io::Result<Vec<CString>> {
        let texts = list.iter().map(|text| CString::new(text.as_slice()));
        texts.collect::<Result<_, _>>().map_err(|_| io::ErrorKind::InvalidInput.into())
    };
    let (arguments, environment) = match (texts(arguments), texts(environment)) {
        (Ok(arguments), Ok(environment)) => (arguments, environment),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let Some(program) = arguments.first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    // SAFETY: both lists end with a null pointer and point to texts that live
    // until the call is over.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Parts with the keys of the session that this process was started in.
pub(crate) fn leave_session_keyring() {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for a keyring without one; no memory is touched.
    unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, ptr::null::<c_char>()) };
}
