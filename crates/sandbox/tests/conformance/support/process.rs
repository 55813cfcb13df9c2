//! Looking at the machine's processes.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

/// Longest time a test waits for what must happen. Far beyond what it takes:
/// only a promise that is broken runs into it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns a number that no other process on the machine has on its command
/// line, for `sleep` to be found by.
pub(crate) fn marker() -> String {
    let random = u32::from_le_bytes(uuid_bytes());
    format!("9{:09}", random % 1_000_000_000)
}

fn uuid_bytes() -> [u8; 4] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    u32::from_str_radix(&hex, 16).unwrap().to_le_bytes()
}

/// Returns the living processes that have `text` on their command line.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    living(|pid| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&cmdline).contains(text)
    })
}

/// Returns the living processes whose program lies below `root` or whose
/// environment tells of it: guests, supervisors and whatever a job started.
pub(super) fn processes_of(root: &Path) -> Vec<u32> {
    let named = root.as_os_str().as_encoded_bytes();
    living(|pid| {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        program.is_ok_and(|path| path.starts_with(root))
            || environment.windows(named.len()).any(|part| part == named)
            || is_in_container_of(pid, root)
    })
}

/// Returns the guests in containers that have the world's directories mounted,
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

/// Returns the process that has this number in a container of the world.
pub(super) fn container_process(root: &Path, inside: u32) -> Option<u32> {
    let is_it = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()) == Some(inside)
    };
    living(|pid| is_it(pid) && is_in_container_of(pid, root)).first().copied()
}

/// Returns whether a process sees the world's directories where only a
/// container has them.
fn is_in_container_of(pid: u32, root: &Path) -> bool {
    let name = root.file_name().unwrap().to_str().unwrap();
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    mounts.lines().any(|line| line.contains(" /.vestal/") && line.contains(name))
}

fn living(wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| wanted(*pid) && alive(*pid))
        .collect()
}

/// Returns the parent of a process, unless that is gone.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

/// Returns whether a process descends from one of `ancestors`.
pub(crate) fn is_below(pid: u32, ancestors: &[u32]) -> bool {
    std::iter::successors(parent_of(pid), |above| parent_of(*above))
        .take_while(|above| *above != 0)
        .any(|above| ancestors.contains(&above))
}

/// Returns whether a process lives and is no zombie.
pub(crate) fn alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// Waits until something holds. Used where the event is another process's and
/// there is nothing to await but the machine itself.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(5);
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(pause).await;
        // What takes long is looked at less often: looking takes its time too.
        pause = (pause * 5 / 4).min(Duration::from_millis(100));
    }
}
