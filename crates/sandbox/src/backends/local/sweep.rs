//! Ending what a dead guest left behind.
//!
//! A guest that is killed takes its jobs along: their supervisors see it go. If
//! those were killed too, only the mark in their environment still tells whose
//! the processes are. A guest that has not come up yet has a mark of its own.
//! Processes that wiped their environment, or changed user,
//! cannot be told; the guest's orderly stop does not need to.

use std::io;
use std::time::Duration;

use vestal_process::{ProcessId, boot_id, start_time};

use crate::backends::spawn::MARK;

/// Kills every process that carries the instance's mark, until none is left.
pub(super) async fn sweep(instance: &str, patience: Duration) -> io::Result<Vec<u32>> {
    let deadline = tokio::time::Instant::now() + patience;
    let mut none_before = false;
    loop {
        let marked = marked(instance)?;
        // A process that just runs another program in its place shows no mark
        // for a moment: so nothing is left when nothing is seen twice.
        let none = marked.is_empty();
        if (none && none_before) || tokio::time::Instant::now() >= deadline {
            return Ok(marked.into_iter().map(|process| process.pid).collect());
        }
        none_before = none;
        for process in &marked {
            if let Some(handle) = process.handle()? {
                handle.kill()?;
                // Its end is what the next round looks for; this only keeps the
                // rounds from spinning.
                handle.ended_within(Duration::from_millis(100)).await?;
            }
        }
    }
}

/// Returns the living processes that carry the instance's mark.
fn marked(instance: &str) -> io::Result<Vec<ProcessId>> {
    let marks = [format!("VESTAL_INSTANCE={instance}"), format!("{MARK}={instance}")];
    let boot = boot_id()?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // The start time is read first: if the number changes hands in between,
        // the identity no longer fits and nobody is killed.
        let Some(start) = start_time(pid) else {
            continue;
        };
        // Other users' processes cannot be read, and are not ours to end.
        let Ok(environ) = std::fs::read(entry.path().join("environ")) else {
            continue;
        };
        let is_mark = |variable: &[u8]| marks.iter().any(|mark| mark.as_bytes() == variable);
        if environ.split(|byte| *byte == 0).any(is_mark) {
            found.push(ProcessId { pid, start, boot: boot.clone() });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn processes_with_the_mark_are_ended_and_others_left_alone() {
        let spawn = |mark: &str| {
            tokio::process::Command::new("sleep")
                .arg("1000")
                .env("VESTAL_INSTANCE", mark)
                .kill_on_drop(true)
                .spawn()
                .unwrap()
        };
        let unique = crate::key::random_hex::<6>().unwrap();
        let mut ours = spawn(&unique);
        let mut other = spawn(&format!("{unique}x"));
        let left = sweep(&unique, Duration::from_secs(30)).await.unwrap();
        assert_eq!(left, Vec::<u32>::new());
        assert!(!ours.wait().await.unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "the other one lives");
    }
}
