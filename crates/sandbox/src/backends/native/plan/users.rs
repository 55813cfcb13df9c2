//! The users of a sandbox: their ids on the host, capabilities and quotas.

use std::os::unix::ffi::OsStrExt as _;

use vestal_wire::{IdRange, Mapping, UserLimits, UserMapping};

use crate::backends::native::facts::{HostFacts, SubordinateIds, UserQuotas};
use crate::backends::native::tier::{Owners, Tier};

/// The host id of the root user in root's sandboxes. It lies beyond all ranges that
/// distributions, systemd and container engines assign.
pub(super) const ROOT_ID_SHIFT: u32 = 0x7000_0000;

/// Number of users and groups in a sandbox.
pub(super) const USERS: u32 = 65_536;

/// Returns the id mapping of a sandbox. Host root is never mapped: root in a sandbox
/// could otherwise change sysctls of the host.
pub(in crate::backends::native) fn users(tier: Tier, facts: &HostFacts) -> UserMapping {
    if facts.is_root() {
        let range = IdRange { inside: 0, outside: ROOT_ID_SHIFT, count: USERS };
        return UserMapping { uids: vec![range], gids: vec![range], mapping: Mapping::Privileged };
    }
    let own = |number: u32| IdRange { inside: 0, outside: number, count: 1 };
    let (uid, gid) = (own(facts.uid), own(facts.gid));
    match (tier, &facts.helpers) {
        (Tier::Rootfs | Tier::ReadOnly, Some(helpers)) if facts.single_user_reason().is_none() => {
            UserMapping {
                uids: with_subordinates(uid, &facts.sub_uids),
                gids: with_subordinates(gid, &facts.sub_gids),
                mapping: Mapping::Helpers {
                    newuidmap: helpers.newuidmap.as_os_str().as_bytes().to_vec().into(),
                    newgidmap: helpers.newgidmap.as_os_str().as_bytes().to_vec().into(),
                },
            }
        }
        _ => UserMapping { uids: vec![uid], gids: vec![gid], mapping: Mapping::Own },
    }
}

/// Maps the user's own id to 0 and subordinate ids after it.
fn with_subordinates(own: IdRange, subordinates: &[SubordinateIds]) -> Vec<IdRange> {
    let mut ranges = vec![own];
    let mut next = 1;
    for subordinate in subordinates {
        let count = subordinate.count.min(USERS - next);
        // The user's own id must not be mapped twice.
        let end = subordinate.first.saturating_add(count);
        if count == 0 || (subordinate.first..end).contains(&own.outside) {
            continue;
        }
        ranges.push(IdRange { inside: next, outside: subordinate.first, count });
        next += count;
    }
    ranges
}

/// A sandbox may use one part in this many of its user's quotas.
const QUOTA_SHARE: u64 = 4;

/// The same for inotify watches, of which file watchers need many.
const WATCHES_SHARE: u64 = 2;

/// Returns the quotas of a sandbox, so that the rest is left for its user.
pub(super) fn user_limits(quotas: &UserQuotas) -> UserLimits {
    let part = |quota: Option<u64>, share: u64| quota.map(|quota| (quota / share).max(1));
    UserLimits {
        inotify_instances: part(quotas.inotify_instances, QUOTA_SHARE),
        inotify_watches: part(quotas.inotify_watches, WATCHES_SHARE),
        pending_signals: part(quotas.pending_signals, QUOTA_SHARE),
        message_queues: part(quotas.message_queues, QUOTA_SHARE),
    }
}

/// Capability numbers of the kernel.
const CHOWN: u32 = 0;
const DAC_OVERRIDE: u32 = 1;
const FOWNER: u32 = 3;
const FSETID: u32 = 4;
const KILL: u32 = 5;
const SETGID: u32 = 6;
const SETUID: u32 = 7;

/// What package managers and servers that drop root need: to change owners, to write
/// files of other users, and to switch users.
const SYSTEM_CAPABILITIES: [u32; 7] = [CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID];

/// Returns the capabilities that a sandbox keeps, as a mask. They apply to the
/// sandbox's own users only. A read-only sandbox with a single user needs none.
pub(super) fn capabilities(tier: Tier, owners: Owners) -> u64 {
    match (tier, owners) {
        (Tier::ReadOnly, Owners::One) => 0,
        (Tier::ReadOnly, Owners::Many) | (Tier::Overlay | Tier::Rootfs, _) => {
            SYSTEM_CAPABILITIES.into_iter().fold(0, |mask, number| mask | 1 << number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_has_a_share_of_its_users_quotas() {
        let quotas = UserQuotas {
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
        assert_eq!(user_limits(&quotas), expected);
    }
}
