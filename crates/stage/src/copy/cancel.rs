//! Being told to stop.

#![expect(unsafe_code, reason = "nothing but the C library installs handlers of signals")]

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::failure::Failure;

/// The signal that came, or zero.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Whether nobody waits for the copy any more.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// Lets the signals that end a program end the copy, which is removed first.
pub(super) fn listen() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: a `sigaction` of zeros is a valid one, which the lines below
        // complete; the handler only stores to an atomic, which is allowed in
        // a handler; nothing is read back.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int) = note;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn note(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
}

/// Gives the copy up because nobody waits for it.
pub(super) fn abandon() {
    ABANDONED.store(true, Ordering::Relaxed);
}

/// Fails once the copy is to be given up.
pub(super) fn check() -> Result<(), Failure> {
    if requested() { Err(Failure::Cancelled) } else { Ok(()) }
}

/// Returns whether the copy is to be given up.
pub(super) fn requested() -> bool {
    SIGNAL.load(Ordering::Relaxed) != 0 || ABANDONED.load(Ordering::Relaxed)
}

/// Returns the exit code of a copy that was given up, as shells have it.
pub(super) fn exit_code() -> u8 {
    let signal = match SIGNAL.load(Ordering::Relaxed) {
        0 => libc::SIGPIPE,
        signal => signal,
    };
    128 + u8::try_from(signal).unwrap_or(0)
}
