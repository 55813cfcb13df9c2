//! The end of every process below the supervisor.

#![expect(unsafe_code, reason = "waiting for any child is not offered for good reason elsewhere")]

use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::super::report::WaitStatus;
use super::super::tree::Freeze;

/// How long the supervisor kills and reaps in one go. Whoever lives after that
/// sleeps uninterruptibly or belongs to another user.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest pause between two rounds of killing.
const PAUSE: Duration = Duration::from_millis(20);

/// What is left below the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remains {
    /// Nothing: there is no child to wait for, and orphans come here.
    Nothing,
    /// Some process.
    Some,
}

/// A child that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reaped {
    /// Which one.
    pub(super) pid: Pid,
    /// How.
    pub(super) status: WaitStatus,
}

/// Reaps every child that has ended.
pub(super) fn reap(mut each: impl FnMut(Reaped)) -> Remains {
    loop {
        let mut status = 0;
        // SAFETY: waitpid writes one int through a valid pointer. Every child of
        // this single-threaded process is the job's, so waiting for any is right.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        if pid < 0 {
            // Without a signal to interrupt it, all it can say is ECHILD.
            return Remains::Nothing;
        }
        match Pid::from_raw(pid) {
            None => return Remains::Some,
            Some(pid) => each(Reaped { pid, status: decode(status) }),
        }
    }
}

/// Stops, kills and reaps until nothing is left or patience ends.
pub(super) fn kill(mut each: impl FnMut(Reaped)) -> Remains {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(100);
    loop {
        if round(&mut each) == Remains::Nothing {
            return Remains::Nothing;
        }
        if Instant::now() >= deadline {
            return Remains::Some;
        }
        std::thread::sleep(pause);
        if reap(&mut each) == Remains::Nothing {
            return Remains::Nothing;
        }
        pause = (pause * 2).min(PAUSE);
    }
}

/// Stops the whole tree, kills it, and reaps who is dead already.
pub(super) fn round(each: impl FnMut(Reaped)) -> Remains {
    // Nothing is reaped before the tree stands still: reaping would free
    // process ids, and a fork bomb would win the race.
    let mut freeze = Freeze::below_self();
    freeze.settle();
    freeze.kill();
    reap(each)
}

/// Kills everything without wanting to know more.
pub(super) fn kill_all() {
    kill(|_| {});
}

fn decode(status: i32) -> WaitStatus {
    if libc::WIFSIGNALED(status) {
        WaitStatus::Signaled(libc::WTERMSIG(status))
    } else {
        WaitStatus::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
    }
}
