//! Becoming the leader of a session.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, getppid, setpgid, setsid};

use crate::stat::Stat;

/// Makes this process lead a session of its own, so that no terminal and no
/// signal to whoever started it reaches it, and it can be ended with all it
/// starts.
///
/// Whoever starts such a process puts it into a group of its own at once. The
/// leader of a group has to step out of it for a moment to lead a session: into
/// the group of its parent, or that of its old session. Where both are gone
/// already it goes on leading its group, by which it can be ended as well.
pub fn lead_session() -> io::Result<()> {
    let me = std::process::id();
    let own = Stat::of(me).ok_or_else(|| io::Error::other("cannot read /proc"))?;
    if own.session == me {
        return Ok(());
    }
    match setsid() {
        Ok(_) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let parent = getppid().and_then(|parent| Stat::of(parent.as_raw_pid().unsigned_abs()));
    for group in parent.map(|stat| stat.group).into_iter().chain([own.session]) {
        // A group that is of another process namespace has no number here.
        let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) else { continue };
        if setpgid(None, Some(group)).is_err() {
            continue;
        }
        if setsid().is_ok() {
            return Ok(());
        }
        // A group of its own is what it had, and better than another's.
        setpgid(None, None)?;
    }
    Ok(())
}
