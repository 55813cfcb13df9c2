//! Everything that is wrong with the settings, whether it matters now or not.

use std::os::unix::fs::PermissionsExt as _;

use serde::Serialize;

use crate::error::ConfigError;
use crate::files::EnvFile;
use crate::key::AnyKey;
use crate::layers::{GivenValue, SettingLayer, ValueSource};
use crate::names;
use crate::settings::{self, Settings};

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Reading the key returns an error.
    Error,
    /// Something has no effect, or not the one it seems to have.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingFinding {
    /// How bad it is.
    pub severity: Severity,
    /// The key or variable concerned, as it is written; none for a whole file.
    pub name: Option<String>,
    /// Where, as far as there is a place.
    pub place: Option<ValueSource>,
    /// What is wrong, complete with place and advice.
    pub message: String,
}

impl Settings {
    /// Returns everything that is wrong: worst first, otherwise in order of place.
    pub fn check(&self) -> Vec<SettingFinding> {
        let mut findings = Vec::new();
        if let Err(error) = &self.file {
            findings.push(whole_file(&error.to_string()));
        }
        match &self.dotenv {
            Err(error) => findings.push(whole_file(&error.to_string())),
            Ok(file) => check_dotenv(file, &mut findings),
        }
        findings.extend(self.check_names());
        for key in self.schema.keys() {
            self.check_values(key, &mut findings);
        }
        for group in self.schema.groups() {
            findings.extend((group.check)(self));
        }
        findings.sort_by_key(|finding| finding.severity);
        findings
    }

    /// Checks a key's value in every place, also where a higher one hides it.
    fn check_values(&self, key: &dyn AnyKey, findings: &mut Vec<SettingFinding>) {
        for layer in SettingLayer::ORDER {
            match self.given(layer, key) {
                // A file that cannot be read is one finding, not one per key.
                // A misspelt name was found among the names.
                Err(ConfigError::File { .. } | ConfigError::Misspelt(_)) => {}
                Err(error) => push_once(findings, from_error(key, &error)),
                Ok(given) => check_layer(key, given, findings),
            }
        }
        if let Err(error @ ConfigError::Conflict(_)) = key.resolve(self) {
            push_once(findings, from_error(key, &error));
        }
    }
}

fn check_layer(key: &dyn AnyKey, given: Vec<GivenValue<'_>>, findings: &mut Vec<SettingFinding>) {
    for given in given {
        let wrong = match key.read_untyped(given.input) {
            Err(refusal) => Some((Severity::Error, refusal)),
            Ok(_) => key.doubt(given.input).map(|doubt| (Severity::Warning, doubt)),
        };
        if let Some((severity, refusal)) = wrong {
            let invalid = settings::invalid(key, &given, refusal);
            findings.push(SettingFinding {
                severity,
                name: Some(key.name().to_owned()),
                message: invalid.to_string(),
                place: Some(given.source),
            });
        }
    }
}

fn from_error(key: &dyn AnyKey, error: &ConfigError) -> SettingFinding {
    let (name, place, message) = match error {
        ConfigError::Conflict(conflict) => {
            (key.name(), Some(&conflict.second), conflict.to_string())
        }
        ConfigError::Duplicate(duplicate) => {
            (duplicate.name.as_str(), Some(&duplicate.second), duplicate.to_string())
        }
        // The same for every key of the section: reported once, without a key.
        ConfigError::Section { section, .. } => {
            (section.name.as_str(), Some(&section.from), section.to_string())
        }
        other => (key.name(), None, other.to_string()),
    };
    let name = Some(name.to_owned());
    SettingFinding { severity: Severity::Error, name, place: place.cloned(), message }
}

fn push_once(findings: &mut Vec<SettingFinding>, finding: SettingFinding) {
    if !findings.contains(&finding) {
        findings.push(finding);
    }
}

fn whole_file(message: &str) -> SettingFinding {
    SettingFinding {
        severity: Severity::Error,
        name: None,
        place: None,
        message: message.to_owned(),
    }
}

fn check_dotenv(file: &EnvFile, findings: &mut Vec<SettingFinding>) {
    let shown = file.path.display();
    for malformed in &file.content.malformed {
        findings.push(SettingFinding {
            severity: Severity::Warning,
            name: None,
            place: Some(names::line_of(file, malformed.line, "")),
            message: format!(
                "{shown}:{}: the line {} and is skipped",
                malformed.line, malformed.reason
            ),
        });
    }
    let mode = std::fs::metadata(&file.path).map(|metadata| metadata.permissions().mode());
    if let Ok(mode) = mode
        && mode & 0o077 != 0
    {
        findings.push(SettingFinding {
            severity: Severity::Warning,
            name: None,
            place: None,
            message: format!(
                "{shown} may be read or changed by others (mode {:03o}); run chmod 600 {shown}",
                mode & 0o777
            ),
        });
    }
}
