//! Records of processes, by which the host finds them again, and their cgroups.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteVec;
use rustix::process::Pid;

use crate::failure::{BuildStep, StepFailure, quoted};

/// Writes a record completely or not at all. It need not survive a crash of the
/// machine, because the process does not.
pub(crate) fn write_record(path: &[u8], content: &str) -> Result<(), StepFailure> {
    let failed = |error: io::Error| StepFailure::of(BuildStep::Record, error).at(path);
    let (path, new) = record_paths(path);
    let written = OpenOptions::new()
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
pub(crate) fn remove_record(path: &[u8]) {
    let (path, new) = record_paths(path);
    // A record that remains names a process that is gone, which the host detects.
    fs::remove_file(path).ok();
    fs::remove_file(new).ok();
}

fn record_paths(path: &[u8]) -> (&Path, PathBuf) {
    let new = [path, b".new"].concat();
    (Path::new(OsStr::from_bytes(path)), PathBuf::from(OsStr::from_bytes(&new)))
}

/// Returns the identity of a process as JSON.
pub(crate) fn describe_process(pid: Pid) -> io::Result<String> {
    let pid = pid.as_raw_nonzero();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let start = stat_field(&stat, START_TIME).ok_or(io::ErrorKind::InvalidData)?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let boot = quoted(boot.trim());
    Ok(format!("{{\"pid\":{pid},\"pid_start\":{start},\"boot\":{boot}}}"))
}

/// Returns the parent of a process, if there is such a process.
pub(crate) fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    Pid::from_raw(stat_field(&stat, PARENT)?.try_into().ok()?)
}

/// Number of the field with the parent.
const PARENT: usize = 4;

/// Number of the field with the start time.
const START_TIME: usize = 22;

/// Returns a field of a process's `stat`. The second field is a name that may
/// contain anything.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// Moves this process into cgroups, each given by its list of processes or, in
/// version 1, of threads. Child processes start in them. Moving itself, with a
/// single thread, avoids the kernel's lock over all processes, which would take
/// longer than everything else.
pub(crate) fn join_cgroups(lists: &[ByteVec]) -> Result<(), StepFailure> {
    for list in lists {
        OpenOptions::new()
            .write(true)
            .open(OsStr::from_bytes(list))
            .and_then(|mut file| file.write_all(b"0\n"))
            .map_err(|error| StepFailure::of(BuildStep::Cgroup, error).at(list))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let fields: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let stat = format!("1 (a) b ( 9) {}", fields.join(" "));
        assert_eq!(stat_field(&stat, START_TIME), Some(22));
        assert_eq!(stat_field(&stat, PARENT), Some(4));
        assert_eq!(stat_field("1 (a) S 1", START_TIME), None);
    }

    #[test]
    fn the_parent_of_a_process_is_known() {
        let own = rustix::process::getpid();
        assert_eq!(parent(own), rustix::process::getppid());
    }
}
