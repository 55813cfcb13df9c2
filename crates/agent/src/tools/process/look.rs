//! Looking at jobs.

use std::time::Duration;

use serde_json::{Map, Value, json};
use vestal_sandbox::job::JobFilter;
use vestal_wire::{Cause, JobId, JobInfo, JobState};

use super::log::{LineWindow, Lines, last_characters, read, tail};
use super::{Call, Failure, exit_code, status};
use crate::tools::terminal::warning;

/// Jobs that a listing shows at most, the newest.
const LISTED: usize = 40;

/// Jobs looked through for those.
const LOOKED_THROUGH: u32 = 500;

/// Characters of a command, and of its output in a listing.
const SUMMARY: usize = 200;

/// Characters of output that `poll` shows.
const POLLED: usize = 1000;

/// Characters of output that `wait` shows.
const WAITED: usize = 2000;

/// Lines that `log` shows by default.
const LOGGED: usize = 200;

impl Call<'_> {
    pub(super) async fn list(&self) -> Result<Value, Failure> {
        let found = self.sandbox.jobs(JobFilter::All, LOOKED_THROUGH).await?;
        let is_wanted = |info: &&JobInfo| info.background || info.processes > 0;
        let wanted: Vec<&JobInfo> = found.jobs.iter().filter(is_wanted).collect();
        let shown = &wanted[wanted.len().saturating_sub(LISTED)..];
        let mut processes = Vec::with_capacity(shown.len());
        for info in shown {
            let preview = tail(self.sandbox, info, SUMMARY).await?;
            let mut entry = self.describe(info, &preview);
            let own = info.session.as_deref() == Some(self.context.workshop.session());
            entry.insert("session_scoped".to_owned(), own.into());
            processes.push(Value::Object(entry));
        }
        let mut listing = json!({ "processes": processes });
        if shown.len() < wanted.len() || found.more {
            listing["note"] = format!("only the newest {} are shown", shown.len()).into();
        }
        Ok(listing)
    }

    pub(super) async fn poll(&self, id: &JobId) -> Result<Value, Failure> {
        let info = self.look_up(id).await?;
        let preview = tail(self.sandbox, &info, POLLED).await?;
        let mut entry = self.describe(&info, &preview);
        if let Some(warning) = warning(self.context, self.sandbox, &info).await {
            entry.insert("warning".to_owned(), warning.into());
        }
        Ok(Value::Object(entry))
    }

    pub(super) async fn log(&self, id: &JobId) -> Result<Value, Failure> {
        let limits = &self.context.limits;
        let most = self.arguments.count("limit", 1)?.unwrap_or(LOGGED).min(limits.output_lines);
        let wanted = match self.arguments.count("offset", 0)? {
            Some(first) => Lines::From(first, most),
            None => Lines::Last(most),
        };
        let info = self.look_up(id).await?;
        let mut window = LineWindow::new(wanted, limits.line_length);
        read(self.sandbox, &info, None, |piece| window.push(piece)).await?;
        let (mut lines, mut first, total) = window.finish();
        // A page is cut at whole lines, at the end that was not asked for.
        let mut size: usize = lines.iter().map(|line| line.len() + 1).sum();
        while size > limits.output_bytes && lines.len() > 1 {
            let dropped = match wanted {
                Lines::Last(_) => {
                    first += 1;
                    lines.remove(0)
                }
                Lines::From(..) => lines.pop().unwrap_or_default(),
            };
            size -= dropped.len() + 1;
        }
        let showing = match lines.len() {
            0 => "no lines".to_owned(),
            shown => format!("lines {first}-{} of {total}", first + shown - 1),
        };
        Ok(json!({
            "session_id": info.id.as_str(),
            "status": status(&info),
            "exit_code": exit_code(&info),
            "output": self.redacted(&lines.join("\n")),
            "total_lines": total,
            "showing": showing,
        }))
    }

    pub(super) async fn wait(&self, id: &JobId) -> Result<Value, Failure> {
        let longest = self.context.limits.command_timeout;
        let asked = self.arguments.seconds("timeout")?;
        let limit = asked.unwrap_or(longest).min(longest);
        let waiting = Box::pin(self.sandbox.wait(id, Some(limit)));
        let (info, interrupted) = tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => (self.look_up(id).await?, true),
            info = waiting => (info?, false),
        };
        let word = match info.state {
            JobState::Ended(_) => "exited",
            _ if interrupted => "interrupted",
            _ => "timeout",
        };
        let output = tail(self.sandbox, &info, WAITED).await?;
        let mut result = json!({
            "session_id": info.id.as_str(),
            "status": word,
            "exit_code": exit_code(&info),
            "output": self.redacted(&output),
        });
        if let Some(note) = how_it_ended(&info) {
            result["note"] = note.into();
        }
        if let Some(warning) = warning(self.context, self.sandbox, &info).await {
            result["warning"] = warning.into();
        }
        if word == "timeout" {
            result["timeout_note"] = timeout_note(asked, limit).into();
        }
        Ok(result)
    }

    /// Returns what a listing says of a job.
    fn describe(&self, info: &JobInfo, preview: &str) -> Map<String, Value> {
        let command = self.redacted(&info.summary);
        let mut entry = Map::new();
        let mut put = |name: &str, value: Value| {
            entry.insert(name.to_owned(), value);
        };
        put("session_id", info.id.as_str().into());
        put("command", first_characters(&command, SUMMARY).into());
        put("cwd", String::from_utf8_lossy(&info.cwd).into());
        put("pid", info.pid.into());
        put("started_at", timestamp(info.started_ms).into());
        put("uptime_seconds", uptime(info).as_secs().into());
        put("status", status(info).into());
        put("output_preview", last_characters(&self.redacted(preview), POLLED).into());
        if matches!(info.state, JobState::Ended(_)) {
            put("exit_code", exit_code(info).into());
            if let Some(note) = how_it_ended(info) {
                put("note", note.into());
            }
        }
        entry
    }
}

/// Says what an exit code alone does not.
pub(super) fn how_it_ended(info: &JobInfo) -> Option<String> {
    let JobState::Ended(exit) = info.state else { return None };
    let how = match exit.cause {
        Cause::Exited => None,
        Cause::Signaled(signal) => Some(format!("ended by signal {signal}")),
        Cause::TimedOut => Some("killed because its time was up".to_owned()),
        Cause::Killed => Some("killed".to_owned()),
        Cause::Lost => Some("the sandbox ended while it ran".to_owned()),
    };
    match (how, info.processes) {
        (how, 0) => how,
        (how, left) => {
            let how = how.unwrap_or_else(|| "its shell has ended".to_owned());
            Some(format!("{how}; {left} of its processes still run"))
        }
    }
}

fn timeout_note(asked: Option<Duration>, limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    match asked {
        Some(asked) if asked > limit => format!(
            "waited {seconds} s, the most there is, instead of {} s; the process still runs",
            asked.as_secs_f64()
        ),
        _ => format!("waited {seconds} s; the process still runs"),
    }
}

fn first_characters(text: &str, characters: usize) -> &str {
    match text.char_indices().nth(characters) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

fn timestamp(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).map(|time| time.to_string()).unwrap_or_default()
}

/// Returns how long a job has run.
fn uptime(info: &JobInfo) -> Duration {
    if let Some(micros) = info.duration_us {
        return Duration::from_micros(micros);
    }
    let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
    Duration::from_millis(info.ended_ms.unwrap_or(now).saturating_sub(info.started_ms))
}
