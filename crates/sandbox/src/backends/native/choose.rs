//! Which tier a sandbox of today's settings has.

use super::facts::Facts;
use super::settings::NativeSettings;
use super::tier::{Owners, Tier, missing};
use vestal_wire::Users;

/// Returns the tier of a new sandbox. There is one for each user and setting:
/// where it cannot be had, another one would be a surprise.
pub(super) fn tier(settings: &NativeSettings, facts: &Facts) -> Tier {
    if settings.rootfs.is_some() {
        Tier::Rootfs
    } else if facts.is_root() {
        Tier::Overlay
    } else {
        Tier::ReadOnly
    }
}

/// Returns what is missing for a better one.
pub(super) fn lacking(tier: Tier, facts: &Facts, users: &Users) -> Vec<String> {
    missing(tier, owners(users), facts.lack(), &facts.user)
}

/// Returns whose the files of a sandbox with these users can be.
pub(super) fn owners(users: &Users) -> Owners {
    let count: u64 = users.uids.iter().map(|range| u64::from(range.count)).sum();
    if count > 1 { Owners::Many } else { Owners::One }
}
