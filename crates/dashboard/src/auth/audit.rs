//! The record of who came in, who did not, and what was changed: a line of JSON each.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use serde::Serialize;
use vestal_logs::{LogFiles, LogWriter};

use crate::gate::{Client, Principal};

/// Characters of a path that are recorded.
const MAX_PATH: usize = 256;

/// Refusals that are recorded in a minute. The refused caller decides how often, and the log keeps
/// a fixed size: without a limit a flood would push out who came in before.
const MAX_REFUSALS: u32 = 120;
const REFUSALS_PER: Duration = Duration::from_mins(1);

/// Returns the log in the directory of logs of the root home.
pub fn audit_log_files(logs_dir: &Path) -> LogFiles {
    LogFiles::new(logs_dir.join("dashboard-audit.log"), 5_000_000, 5)
}

/// Something worth remembering. No member can hold a secret: paths are recorded without their query.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AuditEvent {
    event: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    from: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl AuditEvent {
    fn new(event: &'static str, outcome: &'static str, client: &Client) -> Self {
        let from = client.address;
        Self { event, outcome, who: None, method: None, from, request: None, status: None }
    }

    /// Somebody logged in, or tried to.
    pub(crate) fn login(method: &'static str, outcome: &'static str, client: &Client) -> Self {
        Self { method: Some(method), ..Self::new("login", outcome, client) }
    }

    /// Somebody logged out.
    pub(crate) fn logout(client: &Client) -> Self {
        Self::new("logout", "done", client)
    }

    /// A request was turned away by the gate.
    pub(crate) fn refused(why: &'static str, client: &Client, path: &str) -> Self {
        Self { request: Some(shortened(path)), ..Self::new("refused", why, client) }
    }

    /// What operators alone may do was done, or was to be: a change, or reading what is not for
    /// everybody who may look.
    pub(crate) fn done(
        what: &'static str,
        client: &Client,
        method: &Method,
        path: &str,
        status: StatusCode,
    ) -> Self {
        let outcome =
            if status.is_success() || status.is_informational() { "done" } else { "failed" };
        let request = Some(format!("{method} {}", shortened(path)));
        Self { request, status: Some(status.as_u16()), ..Self::new(what, outcome, client) }
    }

    /// A secret was shown, or was to be. Its name is recorded.
    pub(crate) fn reveal(client: &Client, outcome: &'static str, what: &str) -> Self {
        Self { request: Some(shortened(what)), ..Self::new("reveal", outcome, client) }
    }

    /// Adds who it was.
    pub(crate) fn by(self, principal: &Principal) -> Self {
        Self { who: Some(principal.name.clone()), method: Some(principal.method), ..self }
    }
}

impl AuditEvent {
    /// Reports whether somebody who is nobody yet can make any number of these.
    fn is_refusal(&self) -> bool {
        self.event == "refused" || (self.event == "login" && self.outcome != "done")
    }
}

fn shortened(path: &str) -> String {
    path.chars().take(MAX_PATH).collect()
}

#[derive(Serialize)]
struct AuditLine<'e> {
    at: String,
    #[serde(flatten)]
    event: &'e AuditEvent,
}

/// What was left out: there was too much of it.
#[derive(Serialize)]
struct OmittedLine {
    at: String,
    event: &'static str,
    outcome: &'static str,
    count: u64,
}

/// Refusals since a moment.
#[derive(Debug)]
struct Refusals {
    since: Instant,
    recorded: u32,
    omitted: u64,
}

impl Refusals {
    fn new(now: Instant) -> Self {
        Self { since: now, recorded: 0, omitted: 0 }
    }

    /// Begins to count anew when the time is over. Returns how many were left out until then.
    fn turn(&mut self, now: Instant) -> u64 {
        if now.duration_since(self.since) < REFUSALS_PER {
            return 0;
        }
        std::mem::replace(self, Self::new(now)).omitted
    }

    /// Counts one. Returns whether it is to be recorded.
    fn count(&mut self) -> bool {
        let is_room = self.recorded < MAX_REFUSALS;
        if is_room {
            self.recorded += 1;
        } else {
            self.omitted += 1;
        }
        is_room
    }
}

/// Writes the record.
#[derive(Debug)]
pub(crate) struct Audit {
    log: Mutex<LogWriter>,
    refusals: Mutex<Refusals>,
}

impl Audit {
    pub(crate) fn new(files: LogFiles) -> Self {
        let refusals = Mutex::new(Refusals::new(Instant::now()));
        Self { log: Mutex::new(LogWriter::new(files)), refusals }
    }

    /// Writes a line. What cannot be written is said in the program's own log; nobody is kept out
    /// by a full disk who could then not make room.
    pub(crate) fn record(&self, event: &AuditEvent) {
        self.record_at(event, Instant::now());
    }

    fn record_at(&self, event: &AuditEvent, now: Instant) {
        let (omitted, is_recorded) = {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let omitted = refusals.turn(now);
            (omitted, !event.is_refusal() || refusals.count())
        };
        let at = Timestamp::now().to_string();
        if omitted > 0 {
            let (event, outcome) = ("refused", "not_recorded");
            self.write(&OmittedLine { at: at.clone(), event, outcome, count: omitted });
        }
        if is_recorded {
            self.write(&AuditLine { at, event });
        }
    }

    fn write(&self, line: &impl Serialize) {
        let written =
            serde_json::to_vec(line).map_err(std::io::Error::other).and_then(|mut line| {
                line.push(b'\n');
                self.log.lock().unwrap_or_else(PoisonError::into_inner).write(&line)
            });
        if let Err(error) = written {
            tracing::error!(%error, "the audit log of the dashboard was not written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_pushes_nothing_out_of_the_log_and_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::new(audit_log_files(dir.path()));
        let client = Client {
            address: "203.0.113.9".parse().unwrap(),
            origin: String::new(),
            is_secure: false,
            is_proxied: false,
        };
        let start = Instant::now();
        for _ in 0..MAX_REFUSALS + 7 {
            audit.record_at(&AuditEvent::refused("bad_origin", &client, "/"), start);
        }
        audit.record_at(&AuditEvent::login("link", "done", &client), start);
        audit.record_at(&AuditEvent::login("link", "refused", &client), start + REFUSALS_PER);
        let log = std::fs::read_to_string(dir.path().join("dashboard-audit.log")).unwrap();
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), MAX_REFUSALS as usize + 3);
        let outcomes: Vec<&str> = lines[MAX_REFUSALS as usize..]
            .iter()
            .map(|line| line["outcome"].as_str().unwrap())
            .collect();
        assert_eq!(outcomes, ["done", "not_recorded", "refused"]);
        assert_eq!(lines[MAX_REFUSALS as usize + 1]["count"], 7);
    }
}
