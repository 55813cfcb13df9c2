//! Telling the host who the first process of a sandbox is.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::failure::{Failure, Step};
use crate::json::quoted;

/// Writes the record of a process: whole or not at all. It need not survive the
/// machine's end, because the process does not.
pub(super) fn write(path: &[u8], pid: Pid) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::of(Step::Record, error).at(path);
    let (path, new) = paths(path);
    let content = describe(pid).map_err(failed)?;
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        fs::remove_file(&new).ok();
        failed(error)
    })
}

/// Removes the record of a process that is gone.
pub(super) fn remove(path: &[u8]) {
    let (path, new) = paths(path);
    // A record that stays names a process that is gone, which the host sees.
    fs::remove_file(path).ok();
    fs::remove_file(new).ok();
}

fn paths(path: &[u8]) -> (&Path, PathBuf) {
    let new = [path, b".new"].concat();
    (Path::new(OsStr::from_bytes(path)), PathBuf::from(OsStr::from_bytes(&new)))
}

fn describe(pid: Pid) -> io::Result<String> {
    let pid = pid.as_raw_nonzero();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let start = start_time(&stat).ok_or(io::ErrorKind::InvalidData)?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let boot = quoted(boot.trim());
    Ok(format!("{{\"pid\":{pid},\"pid_start\":{start},\"boot\":{boot}}}\n"))
}

/// Returns when a process started: the 22nd field of its line, the second of
/// which is a name that may hold anything.
fn start_time(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let fields: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let stat = format!("1 (a) b ( 9) {}", fields.join(" "));
        assert_eq!(start_time(&stat), Some(22));
        assert_eq!(start_time("1 (a) S 1"), None);
    }
}
