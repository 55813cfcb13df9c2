//! A background job that has ended, in words.

use std::time::Duration;

use vestal_wire::{Cause, JobInfo, JobState};

use crate::text;

/// Characters of a command that are shown.
const COMMAND: usize = 80;

/// Says how a job ended: `● job k3f9 ended: exit 0 after 12s: cargo build`.
pub(crate) fn ended(job: &JobInfo) -> String {
    let how = match job.state {
        JobState::Ended(exit) => match (exit.cause, exit.code) {
            (Cause::Exited, Some(code)) => format!("exit {code}"),
            (Cause::Signaled(signal), _) => format!("by signal {signal}"),
            (Cause::TimedOut, _) => "its time was up".to_owned(),
            (Cause::Killed, _) => "killed".to_owned(),
            (Cause::Lost, _) | (Cause::Exited, None) => "lost with its sandbox".to_owned(),
        },
        _ => "not ended".to_owned(),
    };
    let took = match (job.duration_us, job.ended_ms) {
        (Some(micros), _) => Some(Duration::from_micros(micros)),
        (None, Some(ended)) => Some(Duration::from_millis(ended.saturating_sub(job.started_ms))),
        (None, None) => None,
    };
    let took = took.map(|took| format!(" after {}", text::took(took))).unwrap_or_default();
    let command = job.summary.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = match command.char_indices().nth(COMMAND) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command,
    };
    format!("● job {} ended: {how}{took}: {command}", job.id)
}
