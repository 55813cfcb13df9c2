//! Names that no setting has, and what was probably meant.
//!
//! A setting under a misspelt name has no effect, and for most keys a warning is enough. Where the
//! key would have protected more than its default does, the sandbox would be weaker than its owner
//! believes. So reading such a key returns an error, as for a wrong value, unless a place of higher
//! precedence has the key under its right name.

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "announce_tests.rs"]
mod announce_tests;

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::check::{SettingFinding, Severity};
use crate::environment::{Variable, VariableScope};
use crate::error::Misspelling;
use crate::files::{ConfigFile, EnvFile};
use crate::key::{AnyKey, Protection};
use crate::layers::{self, SettingLayer, ValueSource};
use crate::schema::Schema;
use crate::settings::Settings;
use crate::yaml::{MapEntry, NodeKind, YamlNode};

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

    /// Returns every name that was probably meant for a key that protects.
    pub(crate) fn misspellings(&self) -> Vec<Misspelling> {
        let protecting = self.schema.keys().filter(|key| key.protection() != Protection::None);
        protecting
            .flat_map(|key| SettingLayer::ORDER.map(|layer| self.misspelling(layer, key)))
            .flatten()
            .collect()
    }

    /// Returns a name in one place that was probably meant for a key.
    pub(crate) fn misspelling(&self, layer: SettingLayer, key: &dyn AnyKey) -> Option<Misspelling> {
        match layer {
            // `--set` takes no name that no key has.
            SettingLayer::CommandLine => None,
            SettingLayer::Environment => self.env.iter().find_map(|(name, value)| {
                let name = name.to_str().filter(|_| !value.is_empty())?;
                let from = || ValueSource::Environment { name: name.to_owned() };
                misspelt_variable(&self.schema, key, name, from)
            }),
            SettingLayer::DotEnv => {
                let file = self.dotenv.as_ref().ok()?;
                file.content.entries.iter().find_map(|entry| {
                    let name = Some(entry.name.as_str()).filter(|_| !entry.value().is_empty())?;
                    misspelt_variable(&self.schema, key, name, || line_of(file, entry.line, name))
                })
            }
            SettingLayer::File => {
                let file = self.file.as_ref().ok()?;
                let (written, hint, entry) =
                    misspelt_entry(&self.schema, key, file.root.as_ref()?)?;
                let from = layers::at(&file.path, &entry.key);
                Some(Misspelling { key: key.name(), written, hint, from })
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
            let meant = closest_key(&name, &schema.names());
            let sections = schema.keys().filter_map(|key| key.name().split('.').next());
            let section = prefix.is_empty().then(|| closest(&name, sections)).flatten();
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

fn misspelt_variable(
    schema: &Schema,
    key: &dyn AnyKey,
    name: &str,
    from: impl FnOnce() -> ValueSource,
) -> Option<Misspelling> {
    if !schema.is_ours(name) || schema.is_known(name) || schema.is_reserved_variable(name) {
        return None;
    }
    // What all names share says nothing about how alike two of them are.
    let own = |name: &str| name.split_once('_').map(|(_, own)| own.to_owned());
    let written = own(name)?;
    let meant = key.env().iter().find(|variable| {
        let Some(variable) = own(variable).map(|own| own.to_ascii_lowercase()) else {
            return false;
        };
        is_misspelling(&written, &variable)
            || schema.without_prefix(&variable).is_some_and(|own| written.eq_ignore_ascii_case(own))
    })?;
    let hint = format!("did you mean {meant}?");
    Some(Misspelling { key: key.name(), written: name.to_owned(), hint, from: from() })
}

/// Returns an entry of `config.yaml` that was probably meant for a key: as it is written, what to
/// write instead, and where it is.
fn misspelt_entry<'a>(
    schema: &Schema,
    key: &dyn AnyKey,
    root: &'a YamlNode,
) -> Option<(String, String, &'a MapEntry)> {
    let (section, own) = key.name().rsplit_once('.')?;
    let meant = || format!("did you mean {}?", key.name());
    printed(root).find_map(|(name, entry)| {
        if name == key.name() {
            let hint = format!("write {own} below {section}:");
            return Some((name.to_owned(), hint, entry));
        }
        if name == section {
            let (below, misspelt) =
                printed(&entry.value).find(|(below, _)| is_meant(schema, section, below, own))?;
            return Some((format!("{section}.{below}"), meant(), misspelt));
        }
        if schema.find(name).is_some() || schema.is_section(name) || schema.is_reserved(name) {
            return None;
        }
        // A setting that stands outside its section, or in one that is misspelt.
        if name == own || is_meant(schema, section, name, own) {
            return Some((name.to_owned(), meant(), entry));
        }
        let is_section = is_misspelling(name, section);
        let below =
            || printed(&entry.value).find(|(b, _)| *b == own || is_meant(schema, section, b, own));
        let (below, _) = is_section.then(below).flatten()?;
        Some((format!("{name}.{below}"), meant(), entry))
    })
}

/// Returns the entries of a map that say something, by name.
fn printed(map: &YamlNode) -> impl Iterator<Item = (&str, &MapEntry)> {
    let entries = match &map.kind {
        NodeKind::Map { entries, .. } => entries.as_slice(),
        _ => &[],
    };
    let printed = entries.iter().filter(|entry| !entry.value.is_null());
    printed.filter_map(|entry| Some((entry.name()?, entry)))
}

/// Reports whether a name that no key of a section has is a slip of one that it has, and of no other.
fn is_meant(schema: &Schema, section: &str, name: &str, own: &str) -> bool {
    let full = format!("{section}.{name}");
    if schema.find(&full).is_some() || schema.is_reserved(&full) {
        return false;
    }
    if schema.without_prefix(own) == Some(name) {
        return true;
    }
    is_misspelling(name, own)
        && closest_key(&full, &schema.names())
            .is_none_or(|closest| closest.rsplit('.').next() == Some(own))
}

/// Returns the candidate a mistyped name most likely meant.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    // A name of hundreds of characters is not a typing mistake, and comparing is quadratic.
    if name.len() > 128 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (distance(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(&name, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Reports whether a name is so near another that it was hardly meant for anything else: stricter
/// than [`closest`] is for a hint, for short names have many neighbours.
fn is_misspelling(name: &str, meant: &str) -> bool {
    let (name, meant) = (name.to_ascii_lowercase(), meant.to_ascii_lowercase());
    // Of a short name a letter too many, one that is missing, or two in the wrong order: another
    // letter in place of one makes another word.
    let slips = if meant.len() < 4 { 1 } else { (meant.len() / 4).min(3) };
    if name.len() > meant.len() + slips || distance(&name, &meant) > slips {
        return false;
    }
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    meant.len() >= 4 || name.len() != meant.len() || letters(&name) == letters(&meant)
}

fn distance(a: &str, b: &str) -> usize {
    strsim::damerau_levenshtein(a, b)
}

fn tolerance(name: &str, candidate: &str) -> usize {
    (name.len().min(candidate.len()) / 4).clamp(1, 3)
}

/// Returns the known key a name most likely meant: a misspelt one, or one of
/// another section (`timeout` or `agent.timeout` for `terminal.timeout`), or a
/// map of which the name is an entry.
pub(crate) fn closest_key(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let own = name.rsplit('.').next().unwrap_or(name);
    let is_below =
        |name: &str, key: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    // A section that is also a key is not a map of which the name could be an entry.
    let is_map = |key: &&'static str| !known.iter().any(|other| is_below(other, key));
    let parent = known.iter().copied().filter(is_map).find(|key| is_below(name, key));
    // A short word behind another section, as in `x.key`, says too little of what was meant.
    let tells = own == name || own.len() > 4;
    parent.or_else(|| closest(name, known.iter().copied())).or_else(|| {
        if !tells {
            return None;
        }
        let lasts = known.iter().copied().map(last);
        let found = closest(own, lasts)?;
        known.iter().copied().find(|key| last(key) == found)
    })
}

/// Announcements that are remembered. More findings than this are announced every time.
const REMEMBERED: usize = 256;

/// Who reads an announcement. What each has read is remembered apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Audience {
    /// A person at a terminal.
    Person,
    /// Whatever else reads the output of a program.
    Log,
}

impl Settings {
    /// Returns the names in `config.yaml`, in `.env` and among the variables that have no effect and
    /// that were not reported to the audience since the file last changed, and remembers them as reported.
    ///
    /// Where that cannot be stored, they are reported again: a home that cannot be written must not
    /// hide mistakes.
    pub fn unannounced_names(&self, audience: Audience) -> Vec<SettingFinding> {
        let mut findings = self.check_names();
        findings.retain(|finding| finding.severity != Severity::Note);
        if findings.is_empty() {
            return findings;
        }
        let memory = self.home().dir().join("settings-told");
        let announced = read(&memory);
        let mark = |finding: &SettingFinding| mark(finding, audience);
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
/// mark, and then reports once more.
fn mark(finding: &SettingFinding, audience: Audience) -> String {
    let changed = match &finding.place {
        Some(ValueSource::File { path, .. } | ValueSource::DotEnv { path, .. }) => {
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

/// Writes the marks in place. A race or a crash may lose marks; those findings are reported once
/// more. A home that does not exist is not created for this.
fn write(memory: &Path, marks: &[String]) {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(memory);
    if let Ok(mut file) = file {
        let text = marks.join("\n");
        // A failure means that these are reported again.
        file.write_all(text.as_bytes()).ok();
    }
}
