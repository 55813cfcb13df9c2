//! What a job has written, read into memory within a bound.

use async_recursion::async_recursion as boxed;
use vestal_wire::{AttachJob, JobInfo, JobState, OutputDelivery, Stream};

use super::{JobEvent, JobStream};
use crate::{Engine, Error, TaskName};

/// Where reading begins in each stream, and how much of each is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputWindow {
    /// The first byte of standard output.
    pub stdout_from: u64,
    /// The first byte of standard error.
    pub stderr_from: u64,
    /// At most so many bytes of each.
    pub limit: u64,
}

impl OutputWindow {
    /// Returns the request to follow a job from there. One that has ended cannot be slowed down, so
    /// nothing of it is passed over.
    pub fn attach(self, info: &JobInfo, follow: bool) -> AttachJob {
        AttachJob {
            id: info.id.clone(),
            stdout_from: self.stdout_from,
            stderr_from: self.stderr_from,
            follow,
            delivery: match info.state {
                JobState::Ended(_) => OutputDelivery::EveryByte,
                JobState::Starting | JobState::Running => OutputDelivery::Lossy,
            },
        }
    }
}

/// What a job has written, as far as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput {
    /// The job.
    pub info: JobInfo,
    /// Its standard output.
    pub stdout: StreamPart,
    /// Its standard error.
    pub stderr: StreamPart,
}

/// A part of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamPart {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How many between the first and the last of them are not kept.
    pub omitted: u64,
    is_full: bool,
}

impl StreamPart {
    fn take(&mut self, bytes: &[u8], limit: usize) {
        let room = if self.is_full { 0 } else { limit.saturating_sub(self.bytes.len()) };
        self.is_full |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn skip(&mut self, bytes: u64) {
        if !self.is_full {
            self.omitted += bytes;
        }
    }
}

impl Engine {
    /// Returns what a job has written by now, without waiting for more. The sandbox must run, and is
    /// not used by this.
    #[boxed]
    pub async fn job_output(
        &self,
        task: &TaskName,
        info: &JobInfo,
        window: OutputWindow,
    ) -> Result<JobOutput, Error> {
        let job = self.observe_job(task, window.attach(info, false)).await?;
        collect(job, info, window.limit).await
    }
}

async fn collect(mut job: JobStream, info: &JobInfo, limit: u64) -> Result<JobOutput, Error> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut stdout, mut stderr) = (StreamPart::default(), StreamPart::default());
    let mut info = info.clone();
    while let Some(event) = job.next().await? {
        match event {
            JobEvent::Stdout(bytes) => stdout.take(&bytes, limit),
            JobEvent::Stderr(bytes) => stderr.take(&bytes, limit),
            JobEvent::Gap { stream: Stream::Stdout, bytes } => stdout.skip(bytes),
            JobEvent::Gap { stream: Stream::Stderr, bytes } => stderr.skip(bytes),
            JobEvent::Gap { .. } | JobEvent::Started { .. } => {}
            JobEvent::Ended(ended) => info = *ended,
        }
        if stdout.is_full && stderr.is_full {
            break;
        }
    }
    Ok(JobOutput { info, stdout, stderr })
}
