//! Everything that is wrong with the settings, whether it matters now or not.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::Serialize;

use crate::environment::{VARIABLES, WORKER_VARIABLES};
use crate::error::ConfigError;
use crate::files::{ConfigFile, EnvFile};
use crate::key::AnyKey;
use crate::keys;
use crate::layers::{self, Given, Layer};
use crate::reserved;
use crate::secrets;
use crate::settings::{self, Settings};
use crate::source::Source;
use crate::suggest;
use crate::yaml::{Entry, Node, NodeKind};

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Whoever asks for the key gets an error.
    Error,
    /// Something has no effect, or not the one it seems to have.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The key or variable concerned, as it is written; none for a whole file.
    pub name: Option<String>,
    /// Where, as far as there is a place.
    pub place: Option<Source>,
    /// What is wrong, complete with place and advice.
    pub message: String,
}

impl Settings {
    /// Returns everything that is wrong: worst first, otherwise in order of place.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        match &self.file {
            Err(error) => findings.push(whole_file(&error.to_string())),
            Ok(file) => check_names(file, &mut findings),
        }
        match &self.dotenv {
            Err(error) => findings.push(whole_file(&error.to_string())),
            Ok(file) => check_dotenv(file, &mut findings),
        }
        self.check_variables(&mut findings);
        for key in keys::ALL {
            self.check_values(*key, &mut findings);
        }
        self.check_passthrough(&mut findings);
        self.check_containers(&mut findings);
        findings.sort_by_key(|finding| finding.severity);
        findings
    }

    /// Checks a key's value in every place, also where a higher one hides it.
    fn check_values(&self, key: &dyn AnyKey, findings: &mut Vec<Finding>) {
        for layer in Layer::ORDER {
            match self.given(layer, key) {
                // A file that cannot be read is one finding, not one per key.
                Err(ConfigError::File { .. }) => {}
                Err(error) => push_once(findings, from_error(key, &error)),
                Ok(given) => check_layer(key, given, findings),
            }
        }
        if let Err(error @ ConfigError::Conflict(_)) = key.resolve(self) {
            push_once(findings, from_error(key, &error));
        }
    }

    /// Looks for variables that are probably misspelt. Other programs have
    /// variables of their own, so only near misses count.
    fn check_variables(&self, findings: &mut Vec<Finding>) {
        for (name, _) in self.env.iter() {
            let Some(name) = name.to_str() else { continue };
            if !is_ours(name) || is_known(name) {
                continue;
            }
            if let Some(meant) = closest_variable(name) {
                findings.push(Finding {
                    severity: Severity::Warning,
                    name: Some(name.to_owned()),
                    place: Some(Source::Environment { name: name.to_owned() }),
                    message: format!(
                        "environment variable {name} has no effect; did you mean {meant}?"
                    ),
                });
            }
        }
    }

    /// Finds what containers cannot be made with, and what makes them less safe.
    fn check_containers(&self, findings: &mut Vec<Finding>) {
        // Keys without a value were found before.
        for message in self.contradictions().unwrap_or_default() {
            let severity = Severity::Error;
            findings.push(Finding { severity, name: None, place: None, message });
        }
        let volumes = self.get(&keys::DOCKER_VOLUMES).map(|own| (own.value.weakens(), own.source));
        let extra = self.get(&keys::DOCKER_EXTRA_ARGS).map(|own| (own.value.weakens(), own.source));
        let names = [keys::DOCKER_VOLUMES.name(), keys::DOCKER_EXTRA_ARGS.name()];
        for (name, own) in names.into_iter().zip([volumes, extra]) {
            let Ok((weakens, source)) = own else { continue };
            for what in weakens {
                findings.push(Finding {
                    severity: Severity::Note,
                    name: Some(name.to_owned()),
                    message: format!("{name} ({source}) weakens isolation: {what}"),
                    place: Some(source.clone()),
                });
            }
        }
    }

    fn check_passthrough(&self, findings: &mut Vec<Finding>) {
        let Ok(passthrough) = self.get(&keys::ENV_PASSTHROUGH) else {
            return;
        };
        // What keeps the environment from being read was found before.
        let refused = self.job_environment().map(|job| job.refused).unwrap_or_default();
        for name in refused {
            findings.push(Finding {
                severity: Severity::Warning,
                name: Some(keys::ENV_PASSTHROUGH.name().to_owned()),
                message: format!(
                    "{} ({}) names {name}, which is never passed on to commands",
                    keys::ENV_PASSTHROUGH.name(),
                    passthrough.source
                ),
                place: Some(passthrough.source.clone()),
            });
        }
    }
}

fn check_layer(key: &dyn AnyKey, given: Vec<Given<'_>>, findings: &mut Vec<Finding>) {
    for given in given {
        let wrong = match key.read_untyped(given.input) {
            Err(refusal) => Some((Severity::Error, refusal)),
            Ok(_) => key.doubt(given.input).map(|doubt| (Severity::Warning, doubt)),
        };
        if let Some((severity, refusal)) = wrong {
            let invalid = settings::invalid(key, &given, refusal);
            findings.push(Finding {
                severity,
                name: Some(key.name().to_owned()),
                message: invalid.to_string(),
                place: Some(given.source),
            });
        }
    }
}

fn from_error(key: &dyn AnyKey, error: &ConfigError) -> Finding {
    let (name, place, message) = match error {
        ConfigError::Conflict(conflict) => {
            (key.name(), Some(&conflict.second), conflict.to_string())
        }
        ConfigError::Duplicate(duplicate) => {
            (duplicate.name.as_str(), Some(&duplicate.second), duplicate.to_string())
        }
        // The same for every key of the section: said once, without a key.
        ConfigError::Section { section, .. } => {
            (section.name.as_str(), Some(&section.from), section.to_string())
        }
        other => (key.name(), None, other.to_string()),
    };
    let name = Some(name.to_owned());
    Finding { severity: Severity::Error, name, place: place.cloned(), message }
}

fn push_once(findings: &mut Vec<Finding>, finding: Finding) {
    if !findings.contains(&finding) {
        findings.push(finding);
    }
}

fn whole_file(message: &str) -> Finding {
    Finding { severity: Severity::Error, name: None, place: None, message: message.to_owned() }
}

/// Looks for names in `config.yaml` that mean nothing, or something else now.
fn check_names(file: &ConfigFile, findings: &mut Vec<Finding>) {
    if let Some(root) = &file.root {
        check_map(&file.path, root, "", findings);
    }
}

fn check_map(path: &Path, map: &Node, prefix: &str, findings: &mut Vec<Finding>) {
    let NodeKind::Map { entries, .. } = &map.kind else {
        return;
    };
    for entry in entries.iter().filter(|entry| !entry.merged) {
        check_entry(path, entry, prefix, findings);
    }
}

fn check_entry(path: &Path, entry: &Entry, prefix: &str, findings: &mut Vec<Finding>) {
    let place = layers::at(path, &entry.key);
    let mut push = |severity, name: &str, message| {
        findings.push(Finding {
            severity,
            name: Some(name.to_owned()),
            place: Some(place.clone()),
            message,
        });
    };
    let Some(own) = entry.name() else {
        let message = format!("{place}: a key that is {} has no effect", entry.key.noun());
        return push(Severity::Warning, prefix, message);
    };
    let name = if prefix.is_empty() { own.to_owned() } else { format!("{prefix}.{own}") };
    // A dot within one name: written flat where sections are expected.
    if own.contains('.') && keys::find(&name).is_some() {
        let (section, rest) = own.split_once('.').unwrap_or((own, ""));
        let message =
            format!("{place}: {name} has no effect like this; write {rest} below {section}:");
        return push(Severity::Warning, &name, message);
    }
    let section = keys::is_section(&name);
    match keys::find(&name) {
        Some(key) if key.name() == name => {}
        Some(_) | None if section => check_map(path, &entry.value, &name, findings),
        Some(key) => {
            let message = format!("{place}: {name} is another name of {}", key.name());
            push(Severity::Note, &name, message);
        }
        None if reserved::is_reserved_key(&name) => {
            let message = format!("{place}: {name} has no meaning in this version");
            push(Severity::Note, &name, message);
        }
        None => {
            let meant = suggest::closest_key(&name, &keys::names());
            let sections = keys::ALL.iter().filter_map(|key| key.name().split('.').next());
            let section = prefix.is_empty().then(|| suggest::closest(&name, sections)).flatten();
            let hint = section.or(meant).map(|meant| format!("; did you mean {meant}?"));
            let message = format!("{place}: there is no key {name}{}", hint.unwrap_or_default());
            push(Severity::Warning, &name, message);
        }
    }
}

fn check_dotenv(file: &EnvFile, findings: &mut Vec<Finding>) {
    let shown = file.path.display();
    for malformed in &file.content.malformed {
        findings.push(Finding {
            severity: Severity::Warning,
            name: None,
            place: Some(line_of(file, malformed.line, "")),
            message: format!(
                "{shown}:{}: the line {} and is skipped",
                malformed.line, malformed.reason
            ),
        });
    }
    for entry in &file.content.entries {
        let name = entry.name.as_str();
        let Some((severity, what)) = about_variable(name) else {
            continue;
        };
        findings.push(Finding {
            severity,
            name: Some(name.to_owned()),
            place: Some(line_of(file, entry.line, name)),
            message: format!("{shown}:{}: {name} {what}", entry.line),
        });
    }
    let mode = std::fs::metadata(&file.path).map(|metadata| metadata.permissions().mode());
    if let Ok(mode) = mode
        && mode & 0o077 != 0
    {
        findings.push(Finding {
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

/// Says what is to be said about a variable in a `.env`.
fn about_variable(name: &str) -> Option<(Severity, String)> {
    if VARIABLES.iter().any(|variable| variable.name == name) {
        let what = "has no effect here; set it in the environment".to_owned();
        return Some((Severity::Warning, what));
    }
    if reserved::is_reserved_variable(name) {
        return Some((Severity::Note, "has no meaning in this version".to_owned()));
    }
    if !is_ours(name) || is_known(name) || secrets::is_secret_name(name) {
        return None;
    }
    let hint = closest_variable(name).map(|meant| format!("; did you mean {meant}?"));
    Some((Severity::Warning, format!("has no effect{}", hint.unwrap_or_default())))
}

fn line_of(file: &EnvFile, line: usize, name: &str) -> Source {
    Source::DotEnv { path: file.path.clone(), line, name: name.to_owned() }
}

fn is_ours(name: &str) -> bool {
    name.starts_with("TERMINAL_") || name.starts_with("VESTAL_")
}

fn is_known(name: &str) -> bool {
    let mut known = VARIABLES.iter().chain(WORKER_VARIABLES);
    keys::find_by_variable(name).is_some() || known.any(|known| known.name == name)
}

fn closest_variable(name: &str) -> Option<&'static str> {
    let keys = keys::ALL.iter().flat_map(|key| key.env().iter().copied());
    suggest::closest(name, keys.chain(VARIABLES.iter().map(|variable| variable.name)))
}
