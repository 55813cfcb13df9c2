//! Removing root filesystems that nobody uses.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::backends::native::keep::{self, Kind};

/// Removes what was unpacked in `dir` and no instance uses, by the identities in
/// `used`, and nobody has asked for in a day; and what is left of attempts.
pub(in crate::backends::native) fn prune(dir: &Path, used: &BTreeSet<String>) -> io::Result<()> {
    keep::prune(dir, Kind::Rootfs, used)
}
