//! Waiting for news of jobs while nothing is said.

use std::time::Duration;

use futures_util::future::select_all;
use vestal_sandbox::client::{CallError, Connection};
use vestal_sandbox::job::{self, JobError, JobEvent};
use vestal_sandbox::{Engine, Task};
use vestal_wire::{AttachJob, Delivery, FaultCode, JobId, JobState};

use super::super::printed::Plain;
use crate::notebook::Watched;

/// Shortest and longest time between two attempts to reach a sandbox that
/// cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Bytes of output after which a job that prints fast is given some time: what
/// it prints meanwhile is read with the news.
const BURST: usize = 1 << 20;
const AFTER_BURST: Duration = Duration::from_millis(50);

/// Waits until there is something to tell of the jobs that a conversation's
/// model wants to hear of.
///
/// The guest tells of ends and of output, and is not asked again and again. The
/// sandbox is looked at and not used: nothing is started, and it idles out as
/// it would without.
#[derive(Debug, Clone)]
pub struct JobWatch {
    pub(crate) engine: Engine,
    pub(crate) task: Task,
    pub(crate) watched: Vec<Watched>,
    /// Longest line that is compared with patterns.
    pub(crate) line_length: usize,
}

/// The sandbox cannot be asked now.
#[derive(Debug)]
struct OutOfReach;

impl JobWatch {
    /// Returns when there is something to tell. While the sandbox is stopped or
    /// out of reach it is looked for now and then.
    pub async fn news(self) {
        let mut pause = PAUSE;
        while let Err(OutOfReach) = self.wait(&mut pause).await {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn wait(&self, pause: &mut Duration) -> Result<(), OutOfReach> {
        let observed = Box::pin(self.engine.observe(&self.task)).await;
        let connection = observed.map_err(|_| OutOfReach)?;
        *pause = PAUSE;
        let ids = self.watched.iter().filter_map(|watched| {
            Some((watched.job.parse::<JobId>().ok()?, &watched.patterns, watched.seen))
        });
        let waits: Vec<_> = ids
            .map(|(id, patterns, seen)| {
                let connection = &connection;
                Box::pin(async move {
                    if patterns.is_empty() {
                        ended(connection, &id).await
                    } else {
                        self.printed(connection, &id, patterns, seen).await
                    }
                })
            })
            .collect();
        if waits.is_empty() {
            return std::future::pending().await;
        }
        select_all(waits).await.0
    }

    /// Waits until a job prints a line with one of the patterns, or ends.
    async fn printed(
        &self,
        connection: &Connection,
        id: &JobId,
        patterns: &[String],
        seen: u64,
    ) -> Result<(), OutOfReach> {
        let request = AttachJob {
            id: id.clone(),
            stdout_from: seen,
            stderr_from: 0,
            follow: true,
            // Whoever only listens slows nobody down.
            delivery: Delivery::Lossy,
        };
        let mut plain = Plain::default();
        let (mut text, mut line) = (String::new(), String::new());
        let mut burst = 0;
        let mut job = match job::attach(connection, request).await {
            Ok(job) => job,
            Err(error) => return over(error),
        };
        loop {
            let bytes = match job.next().await {
                Ok(Some(JobEvent::Stdout(bytes))) => bytes,
                Ok(Some(JobEvent::Ended(_)) | None) => return Ok(()),
                Ok(Some(_)) => continue,
                Err(error) => return over(error),
            };
            text.clear();
            plain.push(&bytes, &mut text);
            for part in text.split_inclusive('\n') {
                let room = self.line_length.saturating_sub(line.len());
                line.push_str(&part[..part.floor_char_boundary(room)]);
                if patterns.iter().any(|pattern| line.contains(pattern.as_str())) {
                    return Ok(());
                }
                if part.ends_with('\n') {
                    line.clear();
                }
            }
            burst += bytes.len();
            if burst >= BURST {
                burst = 0;
                tokio::time::sleep(AFTER_BURST).await;
            }
        }
    }
}

/// Waits until a job has ended.
async fn ended(connection: &Connection, id: &JobId) -> Result<(), OutOfReach> {
    loop {
        match job::wait(connection, id, None).await {
            Ok(info) if matches!(info.state, JobState::Ended(_)) => return Ok(()),
            Ok(_) => {}
            Err(CallError::Fault(fault)) => return over(JobError::Fault(fault)),
            Err(error) => {
                tracing::debug!(%error, "a watched job cannot be waited for");
                return Err(OutOfReach);
            }
        }
    }
}

/// Tells a job that is no longer on record, which is news, from a sandbox that
/// cannot be asked.
fn over(error: JobError) -> Result<(), OutOfReach> {
    match error {
        JobError::Fault(fault) if fault.code == FaultCode::NoSuchJob => Ok(()),
        error => {
            tracing::debug!(%error, "a watched job cannot be waited for");
            Err(OutOfReach)
        }
    }
}
