//! What was decided about each slot at boot, a line each, as it happens.

use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::files;
use crate::state;

/// Size at which the file is moved to `.1`.
const MAX_BYTES: u64 = 256 << 10;

/// What was done about a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BootAction {
    Registered,
    Started,
    Failed(String),
}

/// The file `container-boot.log`.
#[derive(Debug)]
pub(crate) struct BootLog {
    path: PathBuf,
}

impl BootLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Notes a decision. A log that cannot be written keeps no slot down.
    pub(crate) fn note(&self, name: &str, prior: Option<&str>, action: &BootAction) {
        if let Err(error) = self.append(&line(name, prior, action)) {
            tracing::warn!(%error, path = %self.path.display(), "cannot write the boot log");
        }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            files::make_dir(dir)?;
        }
        let size = self.path.metadata().map_or(0, |metadata| metadata.len());
        if size > 0 && size + line.len() as u64 > MAX_BYTES {
            let mut full = self.path.clone().into_os_string();
            full.push(".1");
            std::fs::rename(&self.path, full)?;
        }
        files::private().append(true).create(true).open(&self.path)?.write_all(line.as_bytes())
    }
}

fn line(name: &str, prior: Option<&str>, action: &BootAction) -> String {
    let (word, reason) = match action {
        BootAction::Registered => ("registered", String::new()),
        BootAction::Started => ("started", String::new()),
        BootAction::Failed(reason) => ("failed", format!(" reason={}", one_line(reason))),
    };
    let (time, name) = (state::now(), one_word(name));
    format!(
        "{time} profile={name} prior_state={} action={word}{reason}\n",
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
            line("work", Some("running"), &BootAction::Started),
            line("default", None, &BootAction::Registered),
            line("a b\nprofile=c", None, &BootAction::Failed("bad\nname".into())),
        ];
        let shown: Vec<&str> = lines.iter().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(
            shown,
            [
                "profile=work prior_state=running action=started\n",
                "profile=default prior_state=missing action=registered\n",
                "profile=\"a\\u{20}b\\nprofile\\u{3d}c\" prior_state=missing action=failed reason=bad name\n",
            ]
        );
    }

    #[test]
    fn a_full_log_is_moved_aside_and_nothing_of_it_lost() {
        let dir = tempfile::tempdir().unwrap();
        let log = BootLog::new(dir.path().join("container-boot.log"));
        let full = "x".repeat(usize::try_from(MAX_BYTES).unwrap());
        std::fs::write(&log.path, &full).unwrap();
        log.note("work", None, &BootAction::Registered);
        let moved = std::fs::read_to_string(dir.path().join("container-boot.log.1")).unwrap();
        assert_eq!(moved, full);
        assert_eq!(std::fs::read_to_string(&log.path).unwrap().lines().count(), 1);
    }
}
