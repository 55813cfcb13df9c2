//! What was decided about each slot at boot, a line each, as it happens.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use vestal_logs::{LogFiles, LogWriter};

use crate::slot::SlotName;
use crate::state;

/// Size at which the file is moved to `.1`.
const MAX_BYTES: u64 = 256 << 10;

/// Returns the log of what was decided at boot, in the directory of logs.
pub fn boot_log_files(logs_dir: &Path) -> LogFiles {
    LogFiles::new(logs_dir.join("container-boot.log"), MAX_BYTES, 1)
}

/// What was done about a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BootAction {
    Registered,
    Started,
    Failed(String),
}

/// What a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    /// A profile, or what should be one.
    Profile(&'a str),
    /// A service that the home has once.
    Service(&'a str),
}

impl<'a> From<&'a SlotName> for Subject<'a> {
    fn from(name: &'a SlotName) -> Self {
        name.service_of_home().map_or(Self::Profile(name.as_str()), Self::Service)
    }
}

/// The file `container-boot.log`.
#[derive(Debug)]
pub(crate) struct BootLog {
    writer: Mutex<LogWriter>,
}

impl BootLog {
    pub(crate) fn new(logs_dir: &Path) -> Self {
        Self { writer: Mutex::new(LogWriter::new(boot_log_files(logs_dir))) }
    }

    /// Notes a decision. A log that cannot be written keeps no slot down.
    pub(crate) fn note(&self, subject: &Subject<'_>, prior: Option<&str>, action: &BootAction) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writer.write(line(subject, prior, action).as_bytes()) {
            let path = writer.files().path().display();
            tracing::warn!(%error, %path, "cannot write the boot log");
        }
    }
}

fn line(subject: &Subject<'_>, prior: Option<&str>, action: &BootAction) -> String {
    let (word, reason) = match action {
        BootAction::Registered => ("registered", String::new()),
        BootAction::Started => ("started", String::new()),
        BootAction::Failed(reason) => ("failed", format!(" reason={}", one_line(reason))),
    };
    let (kind, name) = match subject {
        Subject::Profile(name) => ("profile", name),
        Subject::Service(name) => ("service", name),
    };
    let (time, name) = (state::now(), one_word(name));
    format!(
        "{time} {kind}={name} prior_state={} action={word}{reason}\n",
        prior.unwrap_or("missing")
    )
}

/// A name may be anything that stands in a directory; in the log it is one word.
fn one_word(name: &str) -> String {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'=') {
        return name.to_owned();
    }
    format!("{name:?}").replace(' ', "\\u{20}").replace('=', "\\u{3d}")
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_one_line_whatever_the_name_is() {
        let lines = [
            line(&Subject::Profile("work"), Some("running"), &BootAction::Started),
            line(&Subject::Service("dashboard"), None, &BootAction::Registered),
            line(
                &Subject::Profile("a b\nprofile=c"),
                None,
                &BootAction::Failed("bad\nname".into()),
            ),
        ];
        let shown: Vec<&str> = lines.iter().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(
            shown,
            [
                "profile=work prior_state=running action=started\n",
                "service=dashboard prior_state=missing action=registered\n",
                "profile=\"a\\u{20}b\\nprofile\\u{3d}c\" prior_state=missing action=failed reason=bad name\n",
            ]
        );
    }
}
