//! Who the users of a sandbox are on the host.

use std::os::unix::ffi::OsStrExt as _;

use vestal_wire::{IdRange, Mapping, Users};

use crate::backends::native::facts::{Facts, Subordinates};
use crate::backends::native::tier::Tier;

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
