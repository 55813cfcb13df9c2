//! Announces names without effect once, and again when their file changes.

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::check::{Finding, Severity};
use crate::settings::Settings;
use crate::source::Source;

#[cfg(test)]
#[path = "announce_tests.rs"]
mod tests;

/// Announcements that are remembered. More findings than this are announced every time.
const REMEMBERED: usize = 256;

/// Who reads an announcement. What a log has been given, a person has not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Audience {
    /// A person at a terminal.
    Person,
    /// Whatever else reads the output of a program.
    Log,
}

impl Settings {
    /// Returns the names in `config.yaml`, in `.env` and among the variables that have no effect and
    /// that the audience has not been told of since the file last changed, and remembers them as told.
    ///
    /// Where that cannot be remembered, they are told again: a home that cannot be written is no
    /// reason to be silent.
    pub fn unannounced_names(&self, audience: Audience) -> Vec<Finding> {
        let mut findings = self.check_names();
        findings.retain(|finding| finding.severity != Severity::Note);
        if findings.is_empty() {
            return findings;
        }
        let memory = self.home().dir().join("settings-told");
        let announced = read(&memory);
        let mark = |finding: &Finding| mark(finding, audience);
        findings.retain(|finding| !announced.contains(&mark(finding)));
        if !findings.is_empty() {
            let mut all: Vec<String> = findings.iter().map(mark).chain(announced).collect();
            all.truncate(REMEMBERED);
            write(&memory, &all);
        }
        findings
    }
}

/// Returns what a finding is remembered by. Another version of this program may compute another
/// mark, and tells once more.
fn mark(finding: &Finding, audience: Audience) -> String {
    let changed = match &finding.place {
        Some(Source::File { path, .. } | Source::DotEnv { path, .. }) => {
            fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
        }
        _ => None,
    };
    let mut hasher = DefaultHasher::new();
    (audience, changed, &finding.message).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn read(memory: &Path) -> Vec<String> {
    let mut text = String::new();
    // Each mark is a line of 17 bytes.
    let limit = 17 * REMEMBERED as u64;
    match fs::File::open(memory).and_then(|file| file.take(limit).read_to_string(&mut text)) {
        Ok(_) => text.lines().map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    }
}

/// Writes the marks in place: what is lost in a race or a crash is told once more. A home that is not
/// there yet is not made for this.
fn write(memory: &Path, marks: &[String]) {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(memory);
    if let Ok(mut file) = file {
        let text = marks.join("\n");
        // A failure means that these are told again.
        file.write_all(text.as_bytes()).ok();
    }
}
