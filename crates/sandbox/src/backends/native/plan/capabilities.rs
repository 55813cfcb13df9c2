//! Capabilities that a sandbox keeps.

use crate::backends::native::tier::Tier;

/// Capabilities by the kernel's numbers.
const CHOWN: u32 = 0;
const DAC_OVERRIDE: u32 = 1;
const FOWNER: u32 = 3;
const FSETID: u32 = 4;
const KILL: u32 = 5;
const SETGID: u32 = 6;
const SETUID: u32 = 7;

/// What package managers need: to give files away, to write to those of others
/// and to run parts of themselves as others.
const OF_A_SYSTEM: [u32; 7] = [CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID];

/// Returns the capabilities that remain, as a mask. They count among the
/// sandbox's own users alone. Where the system is the host's and cannot be
/// changed there is nothing to use any for.
pub(super) fn capabilities(tier: Tier) -> u64 {
    match tier {
        Tier::ReadOnly => 0,
        Tier::Overlay | Tier::Rootfs => {
            OF_A_SYSTEM.into_iter().fold(0, |mask, number| mask | 1 << number)
        }
    }
}
