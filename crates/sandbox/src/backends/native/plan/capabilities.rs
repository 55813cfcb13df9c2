//! Capabilities that a sandbox keeps.

use crate::backends::native::tier::{Owners, Tier};

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
