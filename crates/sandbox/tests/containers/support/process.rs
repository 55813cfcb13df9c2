//! Looking at the machine's processes.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

/// Longest time a test waits for what must happen. Far beyond what it takes:
/// only a promise that is broken runs into it.
const PATIENCE: Duration = Duration::from_mins(2);

/// Returns a number that no other process on the machine has on its command
/// line, for `sleep` to be found by.
pub(crate) fn marker() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).take(7).collect();
    format!("9{:09}", u32::from_str_radix(&hex, 16).unwrap())
}

/// Returns the living processes that have `text` on their command line.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    living(|pid| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&cmdline).contains(text)
    })
}

/// Returns the living processes that have files of a world mounted where only
/// its containers do, or whose program is one of its.
pub(crate) fn processes_of(root: &Path) -> Vec<u32> {
    let name = root.file_name().unwrap().to_str().unwrap();
    living(|pid| {
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        mounts.lines().any(|line| line.contains(" /.vestal/") && line.contains(name))
            || program.is_ok_and(|path| path.starts_with(root))
    })
}

fn living(wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| wanted(*pid) && alive(*pid))
        .collect()
}

/// Returns whether a process lives and is no zombie.
pub(crate) fn alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// Kills a process as the kernel would for want of memory.
pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Waits until something holds. Used where the event is another process's and
/// there is nothing to await but the machine itself.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
