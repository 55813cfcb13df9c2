//! Looking at the machine's processes.

use std::path::Path;

pub(crate) use vestal_testkit::{
    is_alive as alive, is_below, living, marker, parent_of, processes_with, until_async as until,
};

/// Returns the living processes whose program lies below `root` or whose
/// environment names it: guests, supervisors and whatever a job started.
pub(super) fn processes_of(root: &Path) -> Vec<u32> {
    let named = root.as_os_str().as_encoded_bytes();
    living(|pid| {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        program.is_ok_and(|path| path.starts_with(root))
            || environment.windows(named.len()).any(|part| part == named)
            || sees_container_of(pid, root)
    })
}

/// Returns the guests in containers that have the fixture's directories mounted,
/// as this machine counts processes.
pub(super) fn container_guests(root: &Path) -> Vec<u32> {
    let found = living(|pid| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        cmdline.starts_with(b"/.vestal/boot/guest\0serve\0") && is_in_container_of(pid, root)
    });
    // A process that a guest is just starting is its image until it executes.
    let is_child = |pid: &u32| parent_of(*pid).is_some_and(|parent| found.contains(&parent));
    found.iter().filter(|pid| !is_child(pid)).copied().collect()
}

/// Returns the processes in containers that have the fixture's directories mounted.
pub(super) fn container_processes(root: &Path) -> Vec<u32> {
    living(|pid| is_in_container_of(pid, root))
}

/// Returns whether a process carries a connection to a guest.
pub(super) fn is_connection(pid: u32) -> bool {
    let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    cmdline.starts_with(b"/.vestal/boot/guest\0connect\0")
}

/// Returns the process that has this number in a container of the fixture.
pub(super) fn container_process(root: &Path, inside: u32) -> Option<u32> {
    let is_it = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()) == Some(inside)
    };
    living(|pid| is_it(pid) && is_in_container_of(pid, root)).first().copied()
}

/// Returns whether a process sees the fixture's directories where only a container has
/// them, or has built such a container.
fn sees_container_of(pid: u32, root: &Path) -> bool {
    let name = root.file_name().unwrap().to_str().unwrap();
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    mounts.lines().any(|line| line.contains("/.vestal/") && line.contains(name))
}

/// Returns whether a process sees the fixture's directories where only a
/// container has them.
fn is_in_container_of(pid: u32, root: &Path) -> bool {
    let name = root.file_name().unwrap().to_str().unwrap();
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    // In a pod they are mounted beside what is ours, in a container in it.
    mounts.contains(" /.vestal/") && mounts.contains(name)
}
