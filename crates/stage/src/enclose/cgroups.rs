//! Limits of the host.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use minicbor::bytes::ByteVec;

use crate::failure::{Failure, Step};

/// Puts this process into cgroups, each named by its list of processes or, in
/// version 1, of threads. Whoever it makes afterwards is in them from its first
/// moment. That it moves itself, and has one thread, spares it the kernel's lock
/// over all processes, which takes longer than all the rest.
pub(super) fn join(lists: &[ByteVec]) -> Result<(), Failure> {
    for list in lists {
        OpenOptions::new()
            .write(true)
            .open(OsStr::from_bytes(list))
            .and_then(|mut file| file.write_all(b"0\n"))
            .map_err(|error| Failure::of(Step::Cgroup, error).at(list))?;
    }
    Ok(())
}
