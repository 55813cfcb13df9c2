//! The record of who came in, who did not, and what was changed: a line of JSON each.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use serde::Serialize;
use vestal_logs::{LogFiles, LogWriter};

use crate::gate::{Client, Principal};

/// Characters of a path that are recorded.
const MAX_PATH: usize = 256;

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

    /// Something was changed, or was to be.
    pub(crate) fn change(client: &Client, method: &Method, path: &str, status: StatusCode) -> Self {
        let outcome =
            if status.is_success() || status.is_informational() { "done" } else { "failed" };
        let request = Some(format!("{method} {}", shortened(path)));
        Self { request, status: Some(status.as_u16()), ..Self::new("change", outcome, client) }
    }

    /// Adds who it was.
    pub(crate) fn by(self, principal: &Principal) -> Self {
        Self { who: Some(principal.name.clone()), method: Some(principal.method), ..self }
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

/// Writes the record.
#[derive(Debug)]
pub(crate) struct Audit(Mutex<LogWriter>);

impl Audit {
    pub(crate) fn new(files: LogFiles) -> Self {
        Self(Mutex::new(LogWriter::new(files)))
    }

    /// Writes a line. What cannot be written is said in the program's own log; nobody is kept out
    /// by a full disk who could then not make room.
    pub(crate) fn record(&self, event: &AuditEvent) {
        let line = AuditLine { at: Timestamp::now().to_string(), event };
        let written =
            serde_json::to_vec(&line).map_err(std::io::Error::other).and_then(|mut line| {
                line.push(b'\n');
                self.0.lock().unwrap_or_else(PoisonError::into_inner).write(&line)
            });
        if let Err(error) = written {
            tracing::error!(%error, event = event.event, "the audit log of the dashboard was not written");
        }
    }
}
