//! A profile's settings without what is secret or belongs to one person or machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::environment::Environment;
use crate::error::SettingsFileError;
use crate::files::DotEnv;
use crate::files::{self, EnvFile};
use crate::home::Home;
use crate::key::Secrecy;
use crate::schema::Schema;
use crate::settings::Settings;
use crate::value::SettingValue;
use crate::yaml::{self, NodeKind, YamlNode};

const HEADER: &str = "# Settings of an exported profile. Secrets and unknown keys were left out.\n";

/// A profile's settings that can be passed on: without what is secret or belongs to one person or
/// machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortableSettings {
    /// They as the text of a `config.yaml`.
    pub text: String,
    /// The names of settings that were left out.
    pub left_out: Vec<String>,
}

impl PortableSettings {
    /// Writes a profile's settings again from the values of known keys: neither a
    /// comment nor a key nobody knows can carry a secret along.
    pub fn of(schema: &Schema, home: &Home) -> Result<Self, Arc<SettingsFileError>> {
        let file = files::load_config(&home.config_file())?;
        let mut given = Vec::new();
        if let Some(root) = &file.root {
            names(schema, root, "", &mut given);
        }
        let settings = Settings {
            schema: schema.clone(),
            home: home.clone(),
            env: Environment::default(),
            overrides: Vec::new(),
            dotenv: Ok(EnvFile { path: home.env_file(), content: DotEnv::default() }),
            file: Ok(file),
        };
        let mut sections: Sections<'_> = BTreeMap::new();
        let mut left_out = Vec::new();
        for key in schema.keys() {
            let Ok(resolved) = key.resolve(&settings) else { continue };
            if resolved.is_default() || !key.travels() {
                continue;
            }
            let value = match key.secrecy() {
                Secrecy::Secret => continue,
                Secrecy::Public => resolved.value,
                Secrecy::Within(secret) => {
                    let rest = resolved.value.without(secret);
                    if rest != resolved.value {
                        left_out.extend(secret.iter().map(|own| format!("{}.*.{own}", key.name())));
                    }
                    rest
                }
            };
            let (section, own) = key.name().rsplit_once('.').unwrap_or(("", key.name()));
            let section = section.split('.').filter(|part| !part.is_empty()).collect();
            sections.entry(section).or_default().push((own, value));
            given.retain(|name| name != key.name() && !key.aliases().contains(&name.as_str()));
        }
        left_out.extend(given);
        Ok(Self { text: write(&sections), left_out })
    }
}

/// Keys and their values by the names of the sections they are in, outermost first.
type Sections<'a> = BTreeMap<Vec<&'a str>, Vec<(&'a str, SettingValue)>>;

fn write(sections: &Sections<'_>) -> String {
    let mut text = HEADER.to_owned();
    let mut open: &[&str] = &[];
    for (section, entries) in sections {
        let shared = open.iter().zip(section).take_while(|(own, other)| own == other).count();
        for (depth, name) in section.iter().enumerate().skip(shared) {
            // Writing to a String cannot fail.
            writeln!(text, "{}{name}:", "  ".repeat(depth)).ok();
        }
        open = section;
        let indent = "  ".repeat(section.len());
        for (name, value) in entries {
            let value = match value {
                SettingValue::Text(text) => yaml::quote(text),
                other => other.to_string(),
            };
            writeln!(text, "{indent}{name}: {value}").ok();
        }
    }
    text
}

/// Collects the names of what a file sets, sections opened up.
fn names(schema: &Schema, map: &YamlNode, prefix: &str, all: &mut Vec<String>) {
    let NodeKind::Map { entries, .. } = &map.kind else { return };
    for entry in entries {
        let own = entry.name().unwrap_or("?");
        let name = if prefix.is_empty() { own.to_owned() } else { format!("{prefix}.{own}") };
        if schema.is_section(&name) && matches!(entry.value.kind, NodeKind::Map { .. }) {
            names(schema, &entry.value, &name, all);
        } else if !entry.value.is_null() {
            all.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestHome;

    #[test]
    fn settings_in_sections_of_sections_are_exported_as_they_are() {
        let home = TestHome::with_config(
            "kanban:\n  diagnostics: {crash_threshold: 5}\n  max_spawn: \"4\"\n  host: here\n",
        );
        let portable = PortableSettings::of(&crate::schema(), &home.home()).expect("readable");
        let expected = "\nkanban:\n  max_spawn: 4\n  diagnostics:\n    crash_threshold: 5\n";
        assert!(portable.text.ends_with(expected), "{}", portable.text);
        assert_eq!(portable.left_out, ["kanban.host"]);
    }
}
