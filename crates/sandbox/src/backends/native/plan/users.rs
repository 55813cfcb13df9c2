//! Who the users of a sandbox are on the host, and what they may do and use.

use std::os::unix::ffi::OsStrExt as _;

use vestal_wire::{IdRange, Mapping, UserLimits, Users};

use crate::backends::native::facts::{Counted, Facts, Subordinates};
use crate::backends::native::tier::{Owners, Tier};

/// Where the users of root's sandboxes begin on the host: beyond every range
/// that distributions, systemd and container engines hand out.
pub(super) const SHIFT: u32 = 0x7000_0000;

/// How many users there are.
pub(super) const USERS: u32 = 65_536;

/// Returns the users of a sandbox. Host root is never among them: with it, the
/// kernel's own settings would be a sandbox's to change.
pub(in crate::backends::native) fn users(tier: Tier, facts: &Facts) -> Users {
    if facts.is_root() {
        let range = IdRange { inside: 0, outside: SHIFT, count: USERS };
        return Users { uids: vec![range], gids: vec![range], mapping: Mapping::Privileged };
    }
    let own = |number: u32| IdRange { inside: 0, outside: number, count: 1 };
    let (uid, gid) = (own(facts.uid), own(facts.gid));
    match (tier, &facts.helpers) {
        (Tier::Rootfs | Tier::ReadOnly, Some(helpers)) if facts.lack().is_none() => Users {
            uids: with_subordinates(uid, &facts.sub_uids),
            gids: with_subordinates(gid, &facts.sub_gids),
            mapping: Mapping::Helpers {
                newuidmap: helpers.newuidmap.as_os_str().as_bytes().to_vec().into(),
                newgidmap: helpers.newgidmap.as_os_str().as_bytes().to_vec().into(),
            },
        },
        _ => Users { uids: vec![uid], gids: vec![gid], mapping: Mapping::Own },
    }
}

/// Returns the user's own number as the first and subordinate ones after it.
fn with_subordinates(own: IdRange, subordinates: &[Subordinates]) -> Vec<IdRange> {
    let mut ranges = vec![own];
    let mut next = 1;
    for subordinate in subordinates {
        let count = subordinate.count.min(USERS - next);
        // One's own number cannot be mapped twice.
        let end = subordinate.first.saturating_add(count);
        if count == 0 || (subordinate.first..end).contains(&own.outside) {
            continue;
        }
        ranges.push(IdRange { inside: next, outside: subordinate.first, count });
        next += count;
    }
    ranges
}

/// A sandbox has this part of what its maker may use.
const SHARE: u64 = 4;

/// The same of watches, of which those who watch large trees need many.
const SHARE_OF_WATCHES: u64 = 2;

/// Returns what a sandbox may use, so that something is left for whoever made
/// it.
pub(super) fn user_limits(counted: &Counted) -> UserLimits {
    let part = |most: Option<u64>, share: u64| most.map(|most| (most / share).max(1));
    UserLimits {
        inotify_instances: part(counted.inotify_instances, SHARE),
        inotify_watches: part(counted.inotify_watches, SHARE_OF_WATCHES),
        pending_signals: part(counted.pending_signals, SHARE),
        message_queues: part(counted.message_queues, SHARE),
    }
}

/// Capabilities by the kernel's numbers.
const CHOWN: u32 = 0;
const DAC_OVERRIDE: u32 = 1;
const FOWNER: u32 = 3;
const FSETID: u32 = 4;
const KILL: u32 = 5;
const SETGID: u32 = 6;
const SETUID: u32 = 7;

/// What package managers, and servers that give up being root, need: to give files
/// away, to write to those of others and to run parts of themselves as others.
const OF_A_SYSTEM: [u32; 7] = [CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID];

/// Returns the capabilities that remain, as a mask. They count among the
/// sandbox's own users alone. Where the system is the host's, which cannot be
/// changed, and there is one user, there is nothing to use any for.
pub(super) fn capabilities(tier: Tier, owners: Owners) -> u64 {
    match (tier, owners) {
        (Tier::ReadOnly, Owners::One) => 0,
        (Tier::ReadOnly, Owners::Many) | (Tier::Overlay | Tier::Rootfs, _) => {
            OF_A_SYSTEM.into_iter().fold(0, |mask, number| mask | 1 << number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_has_a_part_of_what_there_is() {
        let counted = Counted {
            inotify_instances: Some(128),
            inotify_watches: Some(1000),
            pending_signals: Some(3),
            message_queues: None,
        };
        let expected = UserLimits {
            inotify_instances: Some(32),
            inotify_watches: Some(500),
            pending_signals: Some(1),
            message_queues: None,
        };
        assert_eq!(user_limits(&counted), expected);
    }
}
