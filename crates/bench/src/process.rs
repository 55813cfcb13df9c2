//! What the kernel says of a process.

use std::fs;

use crate::Result;

/// Returns the resident memory of a process in bytes.
pub fn resident(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
        .ok_or("no VmRSS")?;
    Ok(kibibytes.parse::<u64>()? << 10)
}

/// Returns the memory of a process in bytes, with pages that several processes
/// have shared out among them.
pub fn proportional(pid: u32) -> Result<u64> {
    of_rollup(pid, "Pss:")
}

/// Returns the memory of a process in bytes that is in no file: what it has to itself and the
/// kernel cannot drop.
pub fn anonymous(pid: u32) -> Result<u64> {
    of_rollup(pid, "Anonymous:")
}

fn of_rollup(pid: u32, name: &str) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kibibytes = rollup
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"))
        .ok_or_else(|| format!("no {name} in smaps_rollup"))?;
    Ok(kibibytes.parse::<u64>()? << 10)
}
