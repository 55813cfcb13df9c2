//! Listing jobs, waiting for them, and reading what they have printed.

use std::time::Duration;

use serde_json::{Map, Value, json};
use vestal_sandbox::job::{JobEvent, JobFilter};
use vestal_sandbox::{AttachJob, Cause, Error, JobId, JobInfo, JobState, OutputDelivery, Sandbox};

use super::{ProcessCall, ProcessFailure, exit_code, status};
use crate::tools::arguments::{CountArgument, SecondsArgument};
use crate::tools::output::PlainText;
use crate::tools::terminal::warning;

/// Gives the plain text of a job's log, from `back` bytes before its end or
/// from its beginning, to `take`, piece by piece.
pub(super) async fn read(
    sandbox: &Sandbox,
    info: &JobInfo,
    back: Option<u64>,
    mut take: impl FnMut(&str),
) -> Result<(), Error> {
    let from = |total: u64| back.map_or(0, |back| total.saturating_sub(back));
    let request = AttachJob {
        id: info.id.clone(),
        stdout_from: from(info.stdout_bytes),
        stderr_from: from(info.stderr_bytes),
        follow: false,
        // A job that has ended cannot be slowed down.
        delivery: match info.state {
            JobState::Ended(_) => OutputDelivery::EveryByte,
            JobState::Starting | JobState::Running => OutputDelivery::Lossy,
        },
    };
    let mut plain = [PlainText::default(), PlainText::default()];
    let mut piece = String::new();
    let mut reading = sandbox.attach(request).await?;
    while let Some(event) = reading.next().await? {
        piece.clear();
        match event {
            JobEvent::Stdout(bytes) => plain[0].push(&bytes, &mut piece),
            JobEvent::Stderr(bytes) => plain[1].push(&bytes, &mut piece),
            JobEvent::Gap { bytes, .. } => {
                piece = format!("\n[… {bytes} bytes are no longer on record …]\n");
            }
            JobEvent::Started { .. } | JobEvent::Ended(_) => {}
        }
        take(&piece);
    }
    Ok(())
}

/// Returns the last characters of a job's log.
pub(super) async fn tail(
    sandbox: &Sandbox,
    info: &JobInfo,
    characters: usize,
) -> Result<String, Error> {
    // Escape sequences and long characters take more bytes than they show.
    let back = 4 * characters as u64;
    let mut text = String::new();
    read(sandbox, info, Some(back), |piece| text.push_str(piece)).await?;
    Ok(last_characters(&text, characters).replace("\r\n", "\n"))
}

/// Returns the end of a text.
pub(super) fn last_characters(text: &str, characters: usize) -> &str {
    match characters.checked_sub(1).and_then(|last| text.char_indices().rev().nth(last)) {
        Some((start, _)) => &text[start..],
        None => text,
    }
}

/// Which lines of a log are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogLines {
    /// The last ones.
    Last(usize),
    /// Those from this one on, counted from 0.
    From(usize, usize),
}

/// Keeps the lines wanted of a text that comes in pieces, each no longer than
/// allowed, and counts all.
#[derive(Debug)]
pub(super) struct LineWindow {
    wanted: LogLines,
    longest: usize,
    kept: std::collections::VecDeque<String>,
    complete: usize,
    line: String,
    cut: usize,
    is_open: bool,
}

impl LineWindow {
    pub(super) fn new(wanted: LogLines, longest: usize) -> Self {
        Self {
            wanted,
            longest,
            kept: std::collections::VecDeque::new(),
            complete: 0,
            line: String::new(),
            cut: 0,
            is_open: false,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            self.is_open = true;
            let (part, ends) = match part.strip_suffix('\n') {
                Some(part) => (part, true),
                None => (part, false),
            };
            let room = self.longest.saturating_sub(self.line.len());
            let (now, rest) = part.split_at(part.floor_char_boundary(room));
            self.line.push_str(now);
            self.cut += rest.len();
            if ends {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        let cut = std::mem::take(&mut self.cut);
        if cut > 0 {
            let marker = format!(" [… {cut} more bytes in this line]");
            line.push_str(&marker);
        } else if line.ends_with('\r') {
            line.pop();
        }
        match self.wanted {
            LogLines::Last(most) => {
                self.kept.push_back(line);
                if self.kept.len() > most {
                    self.kept.pop_front();
                }
            }
            LogLines::From(first, most) => {
                if self.complete >= first && self.kept.len() < most {
                    self.kept.push_back(line);
                }
            }
        }
        self.complete += 1;
        self.is_open = false;
    }

    /// Returns the lines wanted, the number of the first, and how many there are.
    pub(super) fn finish(mut self) -> (Vec<String>, usize, usize) {
        if self.is_open {
            self.end_line();
        }
        let first = match self.wanted {
            LogLines::Last(_) => self.complete - self.kept.len(),
            LogLines::From(first, _) => first,
        };
        (self.kept.into(), first, self.complete)
    }
}

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

impl ProcessCall<'_> {
    pub(super) async fn list(&self) -> Result<Value, ProcessFailure> {
        let found = self.sandbox.jobs(JobFilter::All, LOOKED_THROUGH).await?;
        let is_wanted = |info: &&JobInfo| info.background || info.processes > 0;
        let wanted: Vec<&JobInfo> = found.jobs.iter().filter(is_wanted).collect();
        let shown = &wanted[wanted.len().saturating_sub(LISTED)..];
        let mut processes = Vec::with_capacity(shown.len());
        for info in shown {
            let preview = tail(self.sandbox, info, SUMMARY).await?;
            let mut entry = self.describe(info, &preview);
            let own = info.session.as_deref() == Some(self.context.sandbox.session());
            entry.insert("session_scoped".to_owned(), own.into());
            processes.push(Value::Object(entry));
        }
        let mut listing = json!({ "processes": processes });
        if shown.len() < wanted.len() || found.more {
            listing["note"] = format!("only the newest {} are shown", shown.len()).into();
        }
        Ok(listing)
    }

    pub(super) async fn poll(&self, id: &JobId) -> Result<Value, ProcessFailure> {
        let info = self.look_up(id).await?;
        let preview = tail(self.sandbox, &info, POLLED).await?;
        let mut entry = self.describe(&info, &preview);
        if let Some(warning) = warning(self.context, self.sandbox, &info).await {
            entry.insert("warning".to_owned(), warning.into());
        }
        Ok(Value::Object(entry))
    }

    pub(super) async fn log(&self, id: &JobId) -> Result<Value, ProcessFailure> {
        let limits = &self.context.limits;
        let most = self.arguments.limit.read("limit")?.map_or(LOGGED, |CountArgument(limit)| limit);
        let most = most.min(limits.output_lines);
        let wanted = match self.arguments.offset.read("offset")? {
            Some(CountArgument(first)) => LogLines::From(first, most),
            None => LogLines::Last(most),
        };
        let info = self.look_up(id).await?;
        let mut window = LineWindow::new(wanted, limits.line_length);
        read(self.sandbox, &info, None, |piece| window.push(piece)).await?;
        let (mut lines, mut first, total) = window.finish();
        // A page is cut at whole lines, at the end that was not asked for.
        let mut size: usize = lines.iter().map(|line| line.len() + 1).sum();
        while size > limits.output_bytes && lines.len() > 1 {
            let dropped = match wanted {
                LogLines::Last(_) => {
                    first += 1;
                    lines.remove(0)
                }
                LogLines::From(..) => lines.pop().unwrap_or_default(),
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

    pub(super) async fn wait(&self, id: &JobId) -> Result<Value, ProcessFailure> {
        let longest = self.context.limits.command_timeout;
        let asked = self.arguments.timeout.read("timeout")?.map(|SecondsArgument(timeout)| timeout);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(wanted: LogLines, pieces: &[&str]) -> (Vec<String>, usize, usize) {
        let mut window = LineWindow::new(wanted, 5);
        for piece in pieces {
            window.push(piece);
        }
        window.finish()
    }

    #[test]
    fn lines_are_found_from_either_end() {
        let text = ["a\nb", "b\r\nc\n", "d"];
        let all = || vec!["a".to_owned(), "bb".into(), "c".into(), "d".into()];
        assert_eq!(lines(LogLines::Last(9), &text), (all(), 0, 4));
        assert_eq!(lines(LogLines::Last(2), &text), (all()[2..].to_vec(), 2, 4));
        assert_eq!(lines(LogLines::From(0, 2), &text), (all()[..2].to_vec(), 0, 4));
        assert_eq!(lines(LogLines::From(3, 2), &text), (all()[3..].to_vec(), 3, 4));
        assert_eq!(lines(LogLines::From(9, 2), &text), (vec![], 9, 4));
        assert_eq!(lines(LogLines::Last(2), &[]), (vec![], 0, 0));
    }

    #[test]
    fn long_lines_are_cut_and_say_so() {
        let (lines, ..) = lines(LogLines::Last(1), &["abcd", "efgh\n"]);
        assert_eq!(lines, ["abcde [… 3 more bytes in this line]"]);
    }

    #[test]
    fn the_end_of_a_text_is_counted_in_characters() {
        assert_eq!(last_characters("aä€", 2), "ä€");
        assert_eq!(last_characters("aä€", 9), "aä€");
        assert_eq!(last_characters("aä€", 0), "aä€");
    }
}
