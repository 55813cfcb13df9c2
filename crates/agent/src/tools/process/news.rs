//! Telling the model of jobs it wants to hear of.

use std::time::Duration;

use vestal_sandbox::{Error, Sandbox};
use vestal_wire::{FaultCode, JobId, JobInfo, JobState};

use super::log::{last_characters, read, tail};
use super::look::how_it_ended;
use super::{exit_code, is};
use crate::notebook::Watched;
use crate::tool::ToolContext;
use crate::tools::terminal::warning;

/// Characters of a job's output that go with the news of its end.
const LAST_WORDS: usize = 2000;

/// Lines that match, and their characters, that are told of at once.
const MATCHES: usize = 20;
const MATCHED: usize = 2000;

/// Returns what is new about the jobs that the model wants to hear of, each in
/// words for it, and notes what it has been told. A conversation without such
/// jobs costs nothing; a job whose sandbox cannot be asked is asked again.
pub(crate) async fn job_news(context: &ToolContext) -> Vec<String> {
    let watched = context.notebook.read().watched;
    if watched.is_empty() {
        return Vec::new();
    }
    let sandbox = match context.workshop.sandbox(&context.events).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            tracing::warn!(%error, "cannot ask for watched jobs");
            return Vec::new();
        }
    };
    let mut news = Vec::new();
    for entry in watched {
        match Box::pin(look(context, &sandbox, &entry)).await {
            Ok((told, still)) => {
                news.extend(told);
                context.notebook.write(|notes| {
                    let same = |known: &Watched| known.job == entry.job;
                    match still {
                        Some(seen) => {
                            notes
                                .watched
                                .iter_mut()
                                .filter(|k| same(k))
                                .for_each(|k| k.seen = seen);
                        }
                        None => notes.watched.retain(|known| !same(known)),
                    }
                });
            }
            Err(error) => tracing::warn!(job = entry.job, %error, "cannot ask for a watched job"),
        }
    }
    news
}

/// Returns what there is to tell of one job, and how much of its output has
/// been seen if there may be more.
async fn look(
    context: &ToolContext,
    sandbox: &Sandbox,
    watched: &Watched,
) -> Result<(Option<String>, Option<u64>), Error> {
    let Ok(id) = watched.job.parse::<JobId>() else { return Ok((None, None)) };
    let info = match sandbox.wait(&id, Some(Duration::ZERO)).await {
        Ok(info) => info,
        Err(error) if is(&error, FaultCode::NoSuchJob) => {
            let told = format!("[Background process {id} is no longer on record.]");
            return Ok((Some(told), None));
        }
        Err(error) => return Err(error),
    };
    let matches = matches(context, sandbox, watched, &info).await?;
    if matches!(info.state, JobState::Ended(_)) {
        let output = tail(sandbox, &info, LAST_WORDS).await?;
        let code =
            exit_code(&info).map_or_else(String::new, |code| format!(" with exit code {code}"));
        let how = how_it_ended(&info).map_or_else(String::new, |how| format!(" ({how})"));
        let warning = warning(context, sandbox, &info).await;
        let warning = warning.map_or_else(String::new, |text| format!("\nWarning: {text}"));
        let told = format!(
            "[Background process {id} has ended{code}{how}.{warning}\nCommand: {}\nIts last output:\n{}]",
            context.redactor.redact(&info.summary),
            context.redactor.redact(output.trim_end()),
        );
        return Ok((Some(told), None));
    }
    let told = (!matches.is_empty()).then(|| {
        format!(
            "[Background process {id} printed what you watch for:\n{}]",
            context.redactor.redact(&matches)
        )
    });
    Ok((told, Some(info.stdout_bytes)))
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
