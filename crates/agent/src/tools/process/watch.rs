//! Background jobs that the model watches: what is new about them, and waiting
//! for that between turns.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use futures_util::future::select_all;
use vestal_sandbox::client::{CallError, Connection};
use vestal_sandbox::job::{self, JobError, JobEvent};
use vestal_sandbox::{
    AttachJob, Engine, Error, FaultCode, JobId, JobInfo, JobState, OutputDelivery, Sandbox,
    TaskName,
};

use super::log::{how_it_ended, last_characters, read, tail};
use super::{exit_code, has_code};
use crate::notebook::Watched;
use crate::tool::ToolContext;
use crate::tools::output::PlainText;
use crate::tools::terminal::warning;

/// Characters of a job's output that go with the news of its end.
const OUTPUT_TAIL: usize = 2000;

/// Lines that match, and their characters, that are reported at once.
const MATCHES: usize = 20;
const MATCHED: usize = 2000;

/// Returns what is new about the jobs that the model watches, each as
/// words for it, and notes what was reported to it. A conversation without such
/// jobs costs nothing; a job whose sandbox cannot be asked is asked again.
pub(crate) async fn job_updates(context: &ToolContext) -> Vec<String> {
    let watched = context.notebook.read().watched;
    if watched.is_empty() {
        return Vec::new();
    }
    let sandbox = match context.sandbox.attach(&context.events).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            tracing::warn!(%error, "cannot ask for watched jobs");
            return Vec::new();
        }
    };
    let mut updates = Vec::new();
    let mut reported = Vec::new();
    for entry in watched {
        match Box::pin(look(context, &sandbox, &entry)).await {
            Ok((update, still)) => {
                updates.extend(update);
                reported.push((entry.job, still));
            }
            Err(error) => tracing::warn!(job = entry.job, %error, "cannot ask for a watched job"),
        }
    }
    // After the last look: a wait that is given up earlier has reported nothing and notes nothing.
    context.notebook.write(|notes| {
        for (job, still) in reported {
            let same = |known: &Watched| known.job == job;
            match still {
                Some(seen) => {
                    notes.watched.iter_mut().filter(|k| same(k)).for_each(|k| k.seen = seen);
                }
                None => notes.watched.retain(|known| !same(known)),
            }
        }
    });
    updates
}

/// Returns what there is to report about one job, and how much of its output has
/// been seen if there may be more.
async fn look(
    context: &ToolContext,
    sandbox: &Sandbox,
    watched: &Watched,
) -> Result<(Option<String>, Option<u64>), Error> {
    let Ok(id) = watched.job.parse::<JobId>() else { return Ok((None, None)) };
    let info = match sandbox.wait(&id, Some(Duration::ZERO)).await {
        Ok(info) => info,
        Err(error) if has_code(&error, FaultCode::NoSuchJob) => {
            let update = format!("[Background process {id} is no longer on record.]");
            return Ok((Some(update), None));
        }
        Err(error) => return Err(error),
    };
    let matches = matches(context, sandbox, watched, &info).await?;
    if matches!(info.state, JobState::Ended(_)) {
        let output = tail(sandbox, &info, OUTPUT_TAIL).await?;
        let code =
            exit_code(&info).map_or_else(String::new, |code| format!(" with exit code {code}"));
        let how = how_it_ended(&info).map_or_else(String::new, |how| format!(" ({how})"));
        let warning = warning(context, sandbox, &info).await;
        let warning = warning.map_or_else(String::new, |text| format!("\nWarning: {text}"));
        let update = format!(
            "[Background process {id} has ended{code}{how}.{warning}\nCommand: {}\nIts last output:\n{}]",
            context.redactor.redact(&info.summary),
            context.redactor.redact(output.trim_end()),
        );
        return Ok((Some(update), None));
    }
    let update = (!matches.is_empty()).then(|| {
        format!(
            "[Background process {id} printed what you watch for:\n{}]",
            context.redactor.redact(&matches)
        )
    });
    Ok((update, Some(info.stdout_bytes)))
}

/// Returns the new lines of a job's output that contain one of its patterns,
/// the last of them if there are many.
async fn matches(
    context: &ToolContext,
    sandbox: &Sandbox,
    watched: &Watched,
    info: &JobInfo,
) -> Result<String, Error> {
    if watched.patterns.is_empty() || info.stdout_bytes <= watched.seen {
        return Ok(String::new());
    }
    let mut found: Vec<String> = Vec::new();
    let mut line = String::new();
    let longest = context.limits.line_length;
    let mut end = |line: &mut String| {
        if watched.patterns.iter().any(|pattern| line.contains(pattern.as_str())) {
            if found.len() == MATCHES {
                found.remove(0);
            }
            found.push(line.clone());
        }
        line.clear();
    };
    let back = info.stdout_bytes - watched.seen;
    read(sandbox, info, Some(back), |piece| {
        for part in piece.split_inclusive('\n') {
            let room = longest.saturating_sub(line.len());
            line.push_str(&part[..part.floor_char_boundary(room)]);
            if part.ends_with('\n') {
                end(&mut line);
            }
        }
    })
    .await?;
    end(&mut line);
    let found: Vec<&str> = found.iter().map(|line| line.trim_end()).collect();
    Ok(last_characters(&found.join("\n"), MATCHED).to_owned())
}

/// Shortest and longest time between two attempts to reach a sandbox that
/// cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Bytes of output after which a job that prints fast is given some time: what
/// it prints meanwhile is read with the news.
const BURST: usize = 1 << 20;
const AFTER_BURST: Duration = Duration::from_millis(50);

/// Waits until there is something to report about the jobs that a conversation's
/// model watches.
///
/// The guest reports ends and output, and is not asked again and again. The
/// sandbox is looked at and not used: nothing is started, and it idles out as
/// it would without.
#[derive(Debug, Clone)]
pub struct JobWatch {
    pub(crate) engine: Engine,
    pub(crate) task: TaskName,
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
    #[boxed]
    pub async fn changed(self) {
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
            // A listener must not slow the job down.
            delivery: OutputDelivery::Lossy,
        };
        let mut plain = PlainText::default();
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
