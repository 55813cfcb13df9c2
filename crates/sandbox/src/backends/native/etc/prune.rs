//! Removing pictures that nobody uses.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::backends::native::keep::{self, Kind};

/// Removes pictures in `dir` that no instance uses, by the digests in `used`,
/// and that nobody has asked for in a day.
pub(in crate::backends::native) fn prune(dir: &Path, used: &BTreeSet<String>) -> io::Result<()> {
    keep::prune(dir, Kind::Etc, used)
}
