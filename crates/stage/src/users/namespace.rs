//! A user namespace that nobody is in yet.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use vestal_wire::{IdRange, Mapping, UserLimits, Users};

use super::{become_owner, become_root, limit_namespace, limit_process, maps};
use crate::failure::{Failure, Step, failed};
use crate::sys::process::{Child, Cloned, be_open, clone, end_now};

/// Makes a user namespace for the users of a sandbox. It is within another one
/// whose users have the host's numbers: what the kernel counts for each user of the inner one it
/// counts together for the one user of the outer one who made it, and that one
/// is limited.
///
/// A process is needed for each, which only waits and is gone when this returns.
pub(crate) fn make(users: &Users, limits: &UserLimits) -> Result<OwnedFd, Failure> {
    let (told, tell) = pipe()?;
    let (wait, release) = pipe()?;
    let outer = match clone(libc::CLONE_NEWUSER).map_err(failed(Step::UserNamespace))? {
        Cloned::Child => {
            drop((told, release));
            end_now(i32::from(nest(users, limits, &wait, &tell).is_err()))
        }
        Cloned::Parent(outer) => outer,
    };
    drop((tell, wait));
    let made = maps::write(outer.pid, &as_outside(users)).and_then(|()| {
        // It goes on once its users are known.
        rustix::io::write(&release, b"+").map_err(failed(Step::UserNamespace))?;
        let mut number = [0_u8; 4];
        let read = rustix::io::read(&told, &mut number).map_err(failed(Step::UserNamespace))?;
        if read != number.len() {
            return Err(Failure::new(
                Step::UserNamespace,
                "a user namespace within another one cannot be made",
            ));
        }
        let path = format!("/proc/{}/ns/user", i32::from_ne_bytes(number));
        File::open(&path)
            .map_err(|error| Failure::of(Step::UserNamespace, error).at(path.as_bytes()))
    });
    drop(release);
    waitpid(Some(outer.pid), WaitOptions::empty()).map_err(failed(Step::UserNamespace))?;
    made.map(OwnedFd::from)
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    pipe_with(PipeFlags::CLOEXEC).map_err(failed(Step::UserNamespace))
}

/// Makes the inner namespace, tells who is in it, and waits until the other end
/// of `wait` is closed.
fn nest(users: &Users, limits: &UserLimits, wait: &OwnedFd, tell: &OwnedFd) -> Result<(), Failure> {
    if rustix::io::read(wait, &mut [0_u8]).map_err(failed(Step::UserNamespace))? != 1 {
        return Ok(());
    }
    become_owner(users).map_err(failed(Step::UserNamespace))?;
    // Whoever changes users is closed to others of the same user, and would not
    // be let near its own copy.
    be_open().map_err(failed(Step::UserNamespace))?;
    limit_namespace(limits).map_err(failed(Step::UserNamespace))?;
    limit_process(limits).map_err(failed(Step::UserNamespace))?;
    let (ended, end) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(Step::UserNamespace))?;
    let inner: Child = match clone(libc::CLONE_NEWUSER).map_err(failed(Step::UserNamespace))? {
        Cloned::Child => {
            drop(end);
            rustix::io::read(ended.as_fd(), &mut [0_u8]).ok();
            end_now(0)
        }
        Cloned::Parent(inner) => inner,
    };
    let told = maps::write(inner.pid, users).and_then(|()| {
        let number = pid_bytes(inner.pid);
        rustix::io::write(tell, &number).map_err(failed(Step::UserNamespace))?;
        rustix::io::read(wait, &mut [0_u8]).map_err(failed(Step::UserNamespace))?;
        Ok(())
    });
    drop(end);
    waitpid(Some(inner.pid), WaitOptions::empty()).map_err(failed(Step::UserNamespace))?;
    told
}

fn pid_bytes(pid: Pid) -> [u8; 4] {
    pid.as_raw_nonzero().get().to_ne_bytes()
}

/// Returns users that have the numbers of the host.
fn as_outside(users: &Users) -> Users {
    let same = |ranges: &[IdRange]| {
        ranges.iter().map(|range| IdRange { inside: range.outside, ..*range }).collect()
    };
    Users { uids: same(&users.uids), gids: same(&users.gids), mapping: Mapping::Privileged }
}

/// Returns users that have the numbers of the sandbox.
fn as_inside(users: &Users) -> Users {
    let same = |ranges: &[IdRange]| {
        ranges.iter().map(|range| IdRange { outside: range.inside, ..*range }).collect()
    };
    Users { uids: same(&users.uids), gids: same(&users.gids), mapping: Mapping::Privileged }
}

/// Enters a user namespace within the one that this process is in, with the same
/// users, so that those are limited together. This process is the first of its
/// sandbox, whose `/proc` is there.
pub(crate) fn descend(users: &Users, limits: &UserLimits) -> Result<(), Failure> {
    let failed = || failed(Step::UserNamespace);
    let failed_io = |error: io::Error| Failure::of(Step::UserNamespace, error);
    limit_process(limits).map_err(failed_io)?;
    let (wait, go) = pipe()?;
    // Who the users are only somebody outside can say.
    let writer = match clone(0).map_err(failed_io)? {
        Cloned::Child => {
            drop(go);
            let went = rustix::io::read(&wait, &mut [0_u8]) == Ok(1)
                && maps::write(Pid::INIT, &as_inside(users)).is_ok();
            end_now(i32::from(!went))
        }
        Cloned::Parent(writer) => writer,
    };
    drop(wait);
    let entered = unshare_users().map_err(failed()).and_then(|()| {
        be_open().map_err(failed_io)?;
        rustix::io::write(&go, b"+").map_err(failed())
    });
    drop(go);
    let ended = waitpid(Some(writer.pid), WaitOptions::empty()).map_err(failed())?;
    entered?;
    if ended.is_none_or(|(_, status)| status.exit_status() != Some(0)) {
        return Err(Failure::new(
            Step::MapUsers,
            "users of the sandbox cannot be limited together",
        ));
    }
    become_root(&Mapping::Privileged).map_err(failed_io)
}

#[expect(unsafe_code, reason = "the library holds all unsharing to be as unsafe as of descriptors")]
fn unshare_users() -> rustix::io::Result<()> {
    // SAFETY: descriptors stay shared; this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }
}
