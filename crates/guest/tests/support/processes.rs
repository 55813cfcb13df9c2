//! What the machine says of the processes of a test.

use std::time::{Duration, Instant};

use super::{PATIENCE, TestGuest};

/// Waits until something is so.
pub(crate) fn await_true(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to be");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the living processes whose environment has this variable.
pub(crate) fn processes_with(variable: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|var| var == variable.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

pub(crate) fn processes_of_instance(instance: &str) -> Vec<u32> {
    processes_with(&format!("VESTAL_INSTANCE={instance}"))
}

/// Returns the living processes of a job.
pub(crate) fn processes_of(guest: &TestGuest, job: &str) -> Vec<u32> {
    let marked = processes_with(&format!("VESTAL_JOB={job}"));
    let own = processes_of_instance(&guest.settings.instance);
    marked.into_iter().filter(|pid| own.contains(pid)).collect()
}

/// Returns the CPU time a process has used, in clock ticks.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
