//! The machine's processes, as `/proc` has them.

use std::path::Path;

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
    living(|pid| contains(&read(pid, "cmdline"), text.as_bytes()))
}

/// Returns the living processes with a variable in their environment, given as `NAME=value`.
pub fn with_variable(variable: &str) -> Vec<u32> {
    living(|pid| {
        read(pid, "environ").split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    })
}

/// Returns the living processes, other than this one, that have a path in one of these files below
/// `/proc/<pid>`, such as `cmdline`, `environ` or `mountinfo`.
pub fn naming(path: &Path, files: &[&str]) -> Vec<u32> {
    let path = path.as_os_str().as_encoded_bytes();
    let names = |pid| files.iter().any(|file| contains(&read(pid, file), path));
    living(|pid| pid != std::process::id() && names(pid))
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
    state_of(pid).is_some_and(|state| !['Z', 'X'].contains(&state))
}

/// Returns the state of a process by its letter, such as `T` or `Z`, unless the process is gone.
pub fn state_of(pid: u32) -> Option<char> {
    field(pid, 0)
}

/// Returns the parent of a process, unless the process is gone.
pub fn parent_of(pid: u32) -> Option<u32> {
    field(pid, 1)
}

/// Returns the process group of a process, unless the process is gone.
pub fn group_of(pid: u32) -> Option<u32> {
    field(pid, 2)
}

/// Returns the processor time that a process has used, in clock ticks.
pub fn cpu_ticks(pid: u32) -> u64 {
    field::<u64>(pid, 11).unwrap() + field::<u64>(pid, 12).unwrap()
}

/// Returns whether a process descends from one of `ancestors`.
pub fn is_below(pid: u32, ancestors: &[u32]) -> bool {
    std::iter::successors(parent_of(pid), |above| parent_of(*above))
        .take_while(|above| *above != 0)
        .any(|above| ancestors.contains(&above))
}

/// Kills a process.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Kills a process that may be gone already.
pub fn kill_if_alive(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).ok();
}

/// Sends a process a signal.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Returns a file of a process's directory; of a process that is gone, nothing.
fn read(pid: u32, file: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// Returns a field of `/proc/<pid>/stat`, counted from the one after the program's name, which may
/// contain blanks and parentheses.
fn field<T: std::str::FromStr>(pid: u32, number: usize) -> Option<T> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(number)?.parse().ok()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_found_by_its_mark_until_it_is_killed() {
        let mark = marker();
        let mut child = Command::new("sleep").arg(&mark).env("MARK", &mark).spawn().unwrap();
        let pid = child.id();
        // Between fork and exec the command line is still this test's.
        while processes_with(&format!("sleep\0{mark}")) != [pid] {}
        assert_eq!(with_variable(&format!("MARK={mark}")), [pid]);
        assert_eq!(with_variable(&mark), [0_u32; 0]);
        assert_eq!(naming(Path::new(&mark), &["environ"]), [pid]);
        assert_eq!(naming(Path::new(&mark), &["mountinfo"]), [0_u32; 0]);
        assert_eq!(parent_of(pid), Some(std::process::id()));
        assert_eq!(group_of(pid), group_of(std::process::id()));
        assert!(is_alive(pid) && is_below(pid, &[std::process::id()]));
        kill(pid);
        // Dead and not yet reaped: a zombie does not live.
        while state_of(pid) != Some('Z') {}
        assert!(!is_alive(pid));
        assert_eq!(processes_with(&mark), [0_u32; 0]);
        child.wait().unwrap();
        assert_eq!(state_of(pid), None);
        kill_if_alive(pid);
    }
}
