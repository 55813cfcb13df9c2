//! Processes without a supervisor.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

/// Environment variable that marks every process of an instance.
pub(crate) const INSTANCE_MARK: &str = "VESTAL_INSTANCE";

/// Maximum passes over `/proc` while marked processes keep appearing.
const MAX_PASSES: usize = 100;

/// Maximum children continued in one pass, so that a process that keeps stopping
/// them cannot block the guest. Each stop is a signal, so another pass follows.
const MAX_CONTINUED: usize = 16;

/// Reaps all children that have ended, and continues those that were stopped. A
/// command may stop its supervisor, and a stopped supervisor cannot kill its job.
pub(crate) fn reap() {
    let mut continued = 0;
    let changed = WaitOptions::NOHANG | WaitOptions::UNTRACED;
    while let Ok(Some((pid, status))) = rustix::process::wait(changed) {
        if status.stopped() {
            // It may be gone by now.
            rustix::process::kill_process(pid, Signal::CONT).ok();
            continued += 1;
            if continued == MAX_CONTINUED {
                return;
            }
        }
    }
}

/// Returns the children of this process that are not in `known`. A job's
/// processes become children of the guest if their supervisor dies first.
pub(crate) fn unknown_children(known: &[u32]) -> Vec<u32> {
    own_children().into_iter().filter(|pid| !known.contains(pid)).collect()
}

/// Kills all processes of this user that carry the mark of one of these
/// instances, until none is found.
pub(crate) fn kill_marked(instances: &[String]) {
    if instances.is_empty() {
        return;
    }
    let marks: Vec<Vec<u8>> = instances
        .iter()
        .map(|instance| format!("{INSTANCE_MARK}={instance}").into_bytes())
        .collect();
    for _ in 0..MAX_PASSES {
        let found = all_processes().into_iter().filter(|pid| kill_if_marked(*pid, &marks)).count();
        if found == 0 {
            return;
        }
        // A killed process is gone once its parent has reaped it.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Kills a process if it carries a mark. Returns whether it was killed.
fn kill_if_marked(pid: Pid, marks: &[Vec<u8>]) -> bool {
    if pid == rustix::process::getpid() || !is_marked(pid, marks) {
        return false;
    }
    // The pid may be reused between the check and the signal. So the process is
    // pinned and checked again.
    let Ok(pinned) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    is_marked(pid, marks) && rustix::process::pidfd_send_signal(&pinned, Signal::KILL).is_ok()
}

/// Returns whether a process carries a mark. A process that has ended has no
/// environment.
fn is_marked(pid: Pid, marks: &[Vec<u8>]) -> bool {
    let Ok(environ) = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else {
        return false;
    };
    environ.split(|byte| *byte == 0).any(|variable| marks.iter().any(|mark| mark == variable))
}

fn all_processes() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .collect()
}

fn own_children() -> Vec<u32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn processes_with_the_mark_are_killed_and_others_are_not() {
        let own = format!("orphan-test-{}", std::process::id());
        let mut marked = Command::new("sleep").arg("60").env(INSTANCE_MARK, &own).spawn().unwrap();
        let mut other = Command::new("sleep")
            .arg("60")
            .env(INSTANCE_MARK, format!("{own}-not"))
            .spawn()
            .unwrap();
        // The environment is the new one only when exec is done.
        while fs::read_to_string(format!("/proc/{}/comm", marked.id())).unwrap().trim() != "sleep" {
        }
        kill_marked(&[own]);
        assert_eq!(marked.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
