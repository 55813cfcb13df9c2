//! To whom the files of a sandbox belong.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use vestal_wire::{IdRange, Mapping, Users};

use crate::sys::process::as_file_owner;

/// Who root of a sandbox is to the process that builds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The process itself.
    Myself,
    /// Somebody else.
    Other {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

impl Owner {
    /// Returns who root of the sandbox is.
    pub(crate) fn of(users: &Users) -> Self {
        match users.mapping {
            Mapping::Own | Mapping::Helpers { .. } => Self::Myself,
            Mapping::Privileged => {
                // A plan without them is refused before.
                let outside = |ranges| outside(ranges, 0).unwrap_or(u32::MAX);
                Self::Other { uid: outside(&users.uids), gid: outside(&users.gids) }
            }
        }
    }

    /// Makes something in the filesystem that belongs to root of the sandbox.
    pub(crate) fn make<T>(self, make: impl FnOnce() -> rustix::io::Result<T>) -> io::Result<T> {
        Ok(match self {
            Self::Myself => make()?,
            Self::Other { uid, gid } => as_file_owner(uid, gid, make)??,
        })
    }
}

/// Returns what a number of the sandbox is on the host.
pub(crate) fn outside(ranges: &[IdRange], inside: u32) -> Option<u32> {
    ranges.iter().find_map(|range| {
        let offset = inside.checked_sub(range.inside).filter(|offset| *offset < range.count)?;
        range.outside.checked_add(offset)
    })
}

/// Returns the first and the last group of a sandbox, as the process that builds
/// it knows them.
pub(crate) fn groups_to_ping(users: &Users) -> (u32, u32) {
    let count: u32 = users.gids.iter().map(|range| range.count).sum();
    let first = match Owner::of(users) {
        Owner::Myself => 0,
        Owner::Other { gid, .. } => gid,
    };
    (first, first.saturating_add(count.saturating_sub(1)))
}

/// Becomes root of the user namespace that this process is in.
pub(crate) fn become_root(mapping: &Mapping) -> io::Result<()> {
    match mapping {
        // Nobody may leave a group in a namespace of one's own making.
        Mapping::Own => {}
        Mapping::Privileged | Mapping::Helpers { .. } => set_thread_groups(&[])?,
    }
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    Ok(())
}

/// Becomes the user of the host that root of the sandbox is, in a user namespace
/// that has the host's numbers.
pub(crate) fn become_owner(users: &Users) -> io::Result<()> {
    let number = |ranges| outside(ranges, 0).ok_or(io::ErrorKind::InvalidInput);
    let (uid, gid) = (number(&users.uids)?, number(&users.gids)?);
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_sandbox_are_found_on_the_host() {
        let range = |inside, outside, count| IdRange { inside, outside, count };
        let ranges = [range(0, 1000, 1), range(1, 100_000, 10)];
        assert_eq!(outside(&ranges, 0), Some(1000));
        assert_eq!(outside(&ranges, 5), Some(100_004));
        assert_eq!(outside(&ranges, 11), None);
    }
}
