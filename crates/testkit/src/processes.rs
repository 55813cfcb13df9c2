//! The machine's processes.

use rustix::process::{Pid, Signal};

/// Returns a number that no other process on the machine has on its command line, for `sleep` to be
/// found by.
pub fn marker() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    format!("9{:09}", u32::from_str_radix(&hex, 16).unwrap() % 1_000_000_000)
}

/// Returns the living processes with `text` on their command line. Arguments are
/// separated by NUL bytes.
pub fn processes_with(text: &str) -> Vec<u32> {
    living(|pid| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&cmdline).contains(text)
    })
}

/// Returns the living processes that `wanted` accepts.
pub fn living(wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| wanted(*pid) && is_alive(*pid))
        .collect()
}

/// Returns whether a process is alive and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    after_name(pid).is_some_and(|fields| !fields.starts_with(['Z', 'X']))
}

/// Returns the parent of a process, unless the process is gone.
pub fn parent_of(pid: u32) -> Option<u32> {
    after_name(pid)?.split(' ').nth(1)?.parse().ok()
}

/// Returns whether a process descends from one of `ancestors`.
pub fn is_below(pid: u32, ancestors: &[u32]) -> bool {
    std::iter::successors(parent_of(pid), |above| parent_of(*above))
        .take_while(|above| *above != 0)
        .any(|above| ancestors.contains(&above))
}

/// Kills a process.
pub fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

/// Returns the fields of `/proc/<pid>/stat` after the program's name, which may
/// contain blanks and parentheses.
fn after_name(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ").map(|(_, fields)| fields.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_found_by_its_mark_until_it_is_killed() {
        let mark = marker();
        let mut child = Command::new("sleep").arg(&mark).spawn().unwrap();
        let pid = child.id();
        // Between fork and exec the command line is still this test's.
        while processes_with(&format!("sleep\0{mark}")) != [pid] {}
        assert_eq!(parent_of(pid), Some(std::process::id()));
        assert!(is_alive(pid) && is_below(pid, &[std::process::id()]));
        kill(pid);
        // Dead and not yet reaped: a zombie does not live.
        while is_alive(pid) {}
        assert_eq!(processes_with(&mark), []);
        child.wait().unwrap();
    }
}
