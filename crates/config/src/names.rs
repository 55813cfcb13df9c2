//! Names that no setting has, and what was probably meant.

use std::path::Path;

use crate::check::{SettingFinding, Severity};
use crate::environment::{Variable, VariableScope};
use crate::files::{ConfigFile, EnvFile};
use crate::layers::ValueSource;
use crate::schema::Schema;
use crate::settings::Settings;
use crate::yaml::{MapEntry, NodeKind, YamlNode};
use crate::{layers, misspelt};

impl Settings {
    /// Returns what there is to say about names in `config.yaml`, in `.env` and in the environment.
    pub(crate) fn check_names(&self) -> Vec<SettingFinding> {
        let mut findings = Vec::new();
        if let Ok(file) = &self.file {
            check_file(&self.schema, file, &mut findings);
        }
        if let Ok(file) = &self.dotenv {
            check_dotenv(&self.schema, file, &mut findings);
        }
        self.check_variables(&mut findings);
        // A likely misspelling of a key that protects makes reading that key fail.
        let stopping: Vec<ValueSource> =
            self.misspellings().into_iter().map(|misspelling| misspelling.from).collect();
        for finding in &mut findings {
            if finding.place.as_ref().is_some_and(|place| stopping.contains(place)) {
                finding.severity = Severity::Error;
            }
        }
        findings
    }

    /// Looks for variables that are probably misspelt. Other programs have
    /// variables of their own, so only near misses count.
    fn check_variables(&self, findings: &mut Vec<SettingFinding>) {
        for (name, _) in self.env.iter() {
            let Some(name) = name.to_str() else { continue };
            if !self.schema.is_ours(name) || self.schema.is_known(name) {
                continue;
            }
            if let Some(meant) = self.schema.closest_variable(name) {
                findings.push(SettingFinding {
                    severity: Severity::Warning,
                    name: Some(name.to_owned()),
                    place: Some(ValueSource::Environment { name: name.to_owned() }),
                    message: format!(
                        "environment variable {name} has no effect; did you mean {meant}?"
                    ),
                });
            }
        }
    }
}

/// Looks for names in `config.yaml` that mean nothing, or something else now.
fn check_file(schema: &Schema, file: &ConfigFile, findings: &mut Vec<SettingFinding>) {
    if let Some(root) = &file.root {
        check_map(schema, &file.path, root, "", findings);
    }
}

fn check_map(
    schema: &Schema,
    path: &Path,
    map: &YamlNode,
    prefix: &str,
    findings: &mut Vec<SettingFinding>,
) {
    let NodeKind::Map { entries, .. } = &map.kind else {
        return;
    };
    for entry in entries.iter().filter(|entry| !entry.merged) {
        check_entry(schema, path, entry, prefix, findings);
    }
}

fn check_entry(
    schema: &Schema,
    path: &Path,
    entry: &MapEntry,
    prefix: &str,
    findings: &mut Vec<SettingFinding>,
) {
    let place = layers::at(path, &entry.key);
    let mut push = |severity, name: &str, message| {
        findings.push(SettingFinding {
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
    if own.contains('.') && schema.find(&name).is_some() {
        let (section, rest) = own.split_once('.').unwrap_or((own, ""));
        let message =
            format!("{place}: {name} has no effect like this; write {rest} below {section}:");
        return push(Severity::Warning, &name, message);
    }
    let section = schema.is_section(&name);
    match schema.find(&name) {
        Some(key) if key.name() == name => {}
        Some(_) | None if section => check_map(schema, path, &entry.value, &name, findings),
        Some(key) => {
            let message = format!("{place}: {name} is another name of {}", key.name());
            push(Severity::Note, &name, message);
        }
        None if schema.is_reserved(&name) => {
            let message = format!("{place}: {name} has no meaning in this version");
            push(Severity::Note, &name, message);
        }
        None => {
            let meant = misspelt::closest_key(&name, &schema.names());
            let sections = schema.keys().filter_map(|key| key.name().split('.').next());
            let section = prefix.is_empty().then(|| misspelt::closest(&name, sections)).flatten();
            let hint = section.or(meant).map(|meant| format!("; did you mean {meant}?"));
            let message = format!("{place}: there is no key {name}{}", hint.unwrap_or_default());
            push(Severity::Warning, &name, message);
        }
    }
}

fn check_dotenv(schema: &Schema, file: &EnvFile, findings: &mut Vec<SettingFinding>) {
    let shown = file.path.display();
    for entry in &file.content.entries {
        let name = entry.name.as_str();
        let Some((severity, what)) = about_variable(schema, name) else {
            continue;
        };
        findings.push(SettingFinding {
            severity,
            name: Some(name.to_owned()),
            place: Some(line_of(file, entry.line, name)),
            message: format!("{shown}:{}: {name} {what}", entry.line),
        });
    }
}

/// Returns what is wrong with a variable in a `.env`.
fn about_variable(schema: &Schema, name: &str) -> Option<(Severity, String)> {
    let locates =
        |variable: &Variable| variable.scope == VariableScope::Locates && variable.name == name;
    if schema.variables().any(locates) {
        let what = "has no effect here; set it in the environment".to_owned();
        return Some((Severity::Warning, what));
    }
    if schema.is_reserved_variable(name) {
        return Some((Severity::Note, "has no meaning in this version".to_owned()));
    }
    if !schema.is_ours(name) || schema.is_known(name) || schema.is_secret(name) {
        return None;
    }
    let hint = schema.closest_variable(name).map(|meant| format!("; did you mean {meant}?"));
    Some((Severity::Warning, format!("has no effect{}", hint.unwrap_or_default())))
}

pub(crate) fn line_of(file: &EnvFile, line: usize, name: &str) -> ValueSource {
    ValueSource::DotEnv { path: file.path.clone(), line, name: name.to_owned() }
}
