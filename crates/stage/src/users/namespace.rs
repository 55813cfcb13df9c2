//! A user namespace that nobody is in yet.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, waitpid};
use vestal_wire::Users;

use super::maps;
use crate::failure::{Failure, Step, failed};
use crate::sys::process::{Cloned, clone, end_now};

/// Makes a user namespace. A process is needed for it, which only waits and is
/// gone when this returns.
pub(crate) fn make(users: &Users) -> Result<OwnedFd, Failure> {
    let (wait, release) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(Step::UserNamespace))?;
    let child = match clone(libc::CLONE_NEWUSER).map_err(failed(Step::UserNamespace))? {
        Cloned::Child => {
            drop(release);
            rustix::io::read(&wait, &mut [0_u8]).ok();
            end_now(0)
        }
        Cloned::Parent(child) => child,
    };
    let path = format!("/proc/{}/ns/user", child.pid.as_raw_nonzero());
    let made = maps::write(child.pid, users).and_then(|()| {
        File::open(&path)
            .map_err(|error| Failure::of(Step::UserNamespace, error).at(path.as_bytes()))
    });
    drop(release);
    waitpid(Some(child.pid), WaitOptions::empty()).map_err(failed(Step::UserNamespace))?;
    made.map(OwnedFd::from)
}
