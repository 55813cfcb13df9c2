//! What works on a machine and what does not: the report of `vestal doctor`.

use serde::{Deserialize, Serialize};
use vestal_config::{SettingFinding, Severity};
use vestal_sandbox::backend::DoctorNote;

/// How well something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It works.
    Ok,
    /// It works, and something about it is worth knowing.
    Note,
    /// It works, and something should be done about it.
    Warning,
    /// It does not work.
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheckView {
    /// What was looked at.
    pub name: String,
    /// How well it works.
    pub health: Health,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl HealthCheckView {
    /// Returns a check without advice.
    pub fn new(name: impl Into<String>, health: Health, message: impl Into<String>) -> Self {
        Self { name: name.into(), health, message: message.into(), advice: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Adds several pieces of advice, if there are any.
    #[must_use]
    pub fn advise_all(self, advice: &[String]) -> Self {
        if advice.is_empty() { self } else { self.advise(advice.join("; ")) }
    }

    /// Returns what a backend reports about itself. It is in order unless it comes with advice; advice about isolation
    /// and about instances that leaked is a warning.
    pub fn of_backend(backend: &str, remark: DoctorNote) -> Self {
        let health = match (&remark.advice, remark.topic.as_str()) {
            (None, _) => Health::Ok,
            (Some(_), "isolation" | "leaked") => Health::Warning,
            (Some(_), _) => Health::Note,
        };
        let name = format!("{backend} {}", remark.topic);
        Self { name, health, message: remark.text, advice: remark.advice }
    }
}

impl From<SettingFinding> for HealthCheckView {
    fn from(finding: SettingFinding) -> Self {
        let health = match finding.severity {
            Severity::Error => Health::Broken,
            Severity::Warning => Health::Warning,
            Severity::Note => Health::Note,
        };
        Self::new("settings", health, finding.message)
    }
}

/// Everything that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthReportView {
    /// Whether nothing is broken.
    pub ok: bool,
    /// Version of this program.
    pub version: String,
    /// What was looked at.
    pub checks: Vec<HealthCheckView>,
}

impl HealthReportView {
    /// Returns the report of some checks.
    pub fn new(version: &str, checks: Vec<HealthCheckView>) -> Self {
        let ok = checks.iter().all(|check| check.health < Health::Broken);
        Self { ok, version: version.to_owned(), checks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_promised_shape() {
        let report = HealthReportView::new(
            "1.2.3",
            vec![
                HealthCheckView::new("guest", Health::Ok, "built in"),
                HealthCheckView::new("home", Health::Broken, "is full").advise("free some space"),
            ],
        );
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"ok":false,"version":"1.2.3","checks":[{"name":"guest","health":"ok","message":"built in","advice":null},{"name":"home","health":"broken","message":"is full","advice":"free some space"}]}"#
        );
    }
}
