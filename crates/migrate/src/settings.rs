//! `config.yaml` of the other home, key by key. Most keys have the same name here; the schema says which.

use std::collections::{BTreeMap, BTreeSet};

use vestal_config::{Environment, Home, Override, Secrecy, SettingValue, Settings, Yaml, YamlKind};

use crate::ledger::fingerprint;
use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem, SourceSecret};
use crate::variables::variable_item;

const FILE: &str = "config.yaml";
/// The variable that `model.api_key` goes into.
const MODEL_KEY: &str = "VESTAL_API_KEY";
/// Providers that need no entry in `providers`.
const PROVIDERS: [&str; 5] = ["auto", "anthropic", "openai", "openrouter", "custom"];
/// What an entry of `mcp_servers` may have, and of `providers` with what it is called there.
const SERVER: [&str; 11] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "transport",
    "enabled",
    "timeout",
    "connect_timeout",
    "supports_parallel_tool_calls",
];
const PROVIDER: [(&str, &str); 11] = [
    ("base_url", "base_url"),
    ("api", "base_url"),
    ("url", "base_url"),
    ("api_key_env", "api_key_env"),
    ("key_env", "api_key_env"),
    ("api_key", "api_key"),
    ("api_mode", "api_mode"),
    ("transport", "api_mode"),
    ("default_model", "default_model"),
    ("model", "default_model"),
    ("context_length", "context_length"),
];
/// Keys that are called otherwise here.
const RENAMED: [(&str, &str); 4] = [
    ("model.model", "model.default"),
    ("model.name", "model.default"),
    ("dashboard.oauth.client_id", "dashboard.oauth_client_id"),
    ("gateway.api_server.max_concurrent_runs", "api_server.max_concurrent_runs"),
];
/// Keys that do not come although there may be one of that name here.
const LEFT: [(&str, &str); 6] = [
    ("_config_version", ""),
    ("toolsets", "names toolsets of that program"),
    ("command_allowlist", "names rules of that program; approve commands again here"),
    ("terminal.sandbox_dir", "sandboxes of that program are there"),
    ("terminal.singularity_binary", "is found by itself here"),
    ("memory.provider", "only the notes themselves are kept here"),
];
/// Sections that mean nothing here, with more to say about it than that.
const SECTIONS: [(&str, &str); 9] = [
    ("telegram", MESSENGERS),
    ("discord", MESSENGERS),
    ("slack", MESSENGERS),
    ("whatsapp", MESSENGERS),
    ("signal", MESSENGERS),
    ("platforms", MESSENGERS),
    ("hooks", "hooks of that program are not run here"),
    ("plugins", "plugins of that program are not loaded here"),
    ("quick_commands", "has no counterpart here"),
];
const MESSENGERS: &str = "messengers are not served here";

/// What `config.yaml` of a home is to set here, and what not.
pub(crate) fn plan(place: &MigratedHome<'_>, items: &mut Vec<PlanItem>) -> BTreeSet<String> {
    let broken =
        |reason: String| PlanItem::new(ItemKind::Setting, place.name, FILE, Action::Broken, reason);
    let text = match place.source.text(FILE) {
        Ok(None) => return BTreeSet::new(),
        Ok(Some((text, false))) => text,
        Ok(Some((_, true))) => {
            items.push(broken("it is not UTF-8".to_owned()));
            return BTreeSet::new();
        }
        Err(error) => {
            items.push(broken(error.to_string()));
            return BTreeSet::new();
        }
    };
    let root = match Yaml::parse(&text) {
        Ok(root) => root,
        Err(error) => {
            let reason = format!("line {}: {}", error.line, error.message);
            items.push(broken(reason));
            return BTreeSet::new();
        }
    };
    let Some(Yaml { kind: YamlKind::Map(entries), .. }) = root else {
        if root.is_some() {
            items.push(broken("it is not a map of settings".to_owned()));
        }
        return BTreeSet::new();
    };
    let here = place.settings();
    let providers = names_of(&entries);
    let mut reader = SettingsReader {
        place,
        here,
        providers,
        found: BTreeMap::new(),
        items,
        unknown: BTreeMap::new(),
    };
    for (name, value) in &entries {
        if let Some(name) = name.text() {
            reader.visit(name, value);
        }
    }
    reader.end()
}

/// Returns the providers that the file itself names.
fn names_of(entries: &[(Yaml, Yaml)]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, value) in entries {
        match (name.text(), &value.kind) {
            (Some("providers"), YamlKind::Map(own)) => {
                names.extend(own.iter().filter_map(|(name, _)| Some(name.text()?.to_owned())));
            }
            (Some("custom_providers"), YamlKind::List(own)) => {
                names.extend(
                    own.iter().filter_map(|own| child(own, "name")?.text().map(str::to_owned)),
                );
            }
            _ => {}
        }
    }
    names
}

struct SettingsReader<'p, 'i> {
    place: &'p MigratedHome<'p>,
    here: Settings,
    providers: BTreeSet<String>,
    /// Values by key, in the order of names, with what is different about them.
    found: BTreeMap<String, String>,
    items: &'i mut Vec<PlanItem>,
    /// Names without a meaning, by section.
    unknown: BTreeMap<String, Vec<String>>,
}

impl SettingsReader<'_, '_> {
    fn visit(&mut self, path: &str, node: &Yaml) {
        if let Some((_, reason)) = LEFT.iter().find(|(name, _)| *name == path) {
            if !reason.is_empty() && node.kind != YamlKind::Null {
                self.leave(path, *reason);
            }
            return;
        }
        match path {
            "mcp_servers" => return self.servers(node),
            "providers" => return self.providers(node),
            "custom_providers" => return self.custom_providers(node),
            "fallback_providers" => return self.fallbacks(path, node),
            "fallback_model" => {
                let kind = match &node.kind {
                    YamlKind::Map(own) if own.is_empty() => return,
                    YamlKind::Map(_) => YamlKind::List(vec![node.clone()]),
                    other => other.clone(),
                };
                return self.fallbacks(path, &Yaml { kind, line: node.line });
            }
            "model.api_key" => return self.model_key(node),
            _ => {}
        }
        let renamed = RENAMED.iter().find(|(name, _)| *name == path).map(|(_, to)| *to);
        let name = renamed.unwrap_or(path);
        let section = format!("{name}.");
        let is_section = self.place.schema.keys().any(|key| key.name().starts_with(&section));
        match (&node.kind, self.place.schema.find(name)) {
            (YamlKind::Null, _) => {}
            (YamlKind::Map(own), _) if is_section || has_renamed(path) => {
                for (child, value) in own {
                    if let Some(child) = child.text() {
                        self.visit(&format!("{path}.{child}"), value);
                    }
                }
            }
            (_, Some(key)) => {
                let (name, is_public) = (key.name().to_owned(), key.secrecy() == Secrecy::Public);
                self.known(path, &name, is_public, node);
            }
            (YamlKind::Map(own), None) if own.is_empty() => {}
            (YamlKind::List(own), None) if own.is_empty() => {}
            _ => {
                let section = path.split('.').next().unwrap_or(path).to_owned();
                self.unknown.entry(section).or_default().push(path.to_owned());
            }
        }
    }

    fn leave(&mut self, path: &str, reason: impl Into<String>) {
        let item = PlanItem::new(ItemKind::Setting, self.place.name, path, Action::Leave, reason);
        self.items.push(item);
    }

    /// A key that there is here.
    fn known(&mut self, path: &str, name: &str, is_public: bool, node: &Yaml) {
        let Some(value) = value_of(node) else {
            return self.leave(path, "its value cannot be carried over");
        };
        let (value, note) = match self.translated(name, value) {
            Ok(translated) => translated,
            Err(reason) => return self.leave(path, reason),
        };
        self.set(path, name, is_public, &value, note);
    }

    /// Returns the value that means the same here, and what is different about it.
    fn translated(
        &self,
        name: &str,
        value: SettingValue,
    ) -> Result<(SettingValue, &'static str), String> {
        let SettingValue::Text(text) = value.clone() else { return Ok((value, "")) };
        let text_of = |text: &str| SettingValue::Text(text.to_owned());
        Ok(match (name, text.as_str()) {
            ("terminal.backend", "singularity") => {
                (text_of("apptainer"), "is called apptainer here")
            }
            ("approvals.mode", "smart") => {
                (text_of("manual"), "no model decides about commands here; you are asked")
            }
            ("approvals.cron_mode", "approve") => (text_of("allow"), ""),
            ("model.provider", own)
                if !PROVIDERS.contains(&own) && !self.providers.contains(own) =>
            {
                return Err("there is no such provider here; name its address in model.base_url, or add it to providers".to_owned());
            }
            _ => (value, ""),
        })
    }

    fn set(&mut self, path: &str, name: &str, is_public: bool, value: &SettingValue, note: &str) {
        let is_scalar = !matches!(value, SettingValue::List(_) | SettingValue::Map(_));
        // What would have no effect is refused by `set` alone.
        let checked = vestal_config::check_value(&self.here, name, &written(value));
        let read = self.read(name, value);
        let wanted = match checked.map_err(|error| error.to_string()).and(read) {
            Ok(wanted) => wanted,
            // A list or a map may have a secret in it wherever it stands.
            Err(error) if is_public && is_scalar => {
                return self.leave(path, format!("is not a value here: {error}"));
            }
            Err(_) => return self.leave(path, "is not a value here"),
        };
        let text_here = wanted.to_string();
        if self.found.contains_key(name) {
            return self.leave(path, format!("{name} is set by another name, too"));
        }
        self.found.insert(name.to_owned(), text_here.clone());
        let item =
            PlanItem::new(ItemKind::Setting, self.place.name, path, Action::Take, note).to(name);
        let here = match self.here.get_by_name(name) {
            Ok(here) => here,
            Err(error) => {
                let reason = format!("cannot be read here: {error}");
                self.items.push(PlanItem { action: Action::Broken, reason, ..item });
                return;
            }
        };
        let print = is_public.then(|| fingerprint(&text_here));
        let (action, reason) = if here.value == wanted {
            let is_told = here.is_default() && note.is_empty();
            (Action::Present, if is_told { "the default here" } else { "" })
        } else {
            let current = (!here.is_default()).then(|| fingerprint(here.value.to_string()));
            self.place.ledger.decide(
                &item.record_key(),
                current.as_deref(),
                &fingerprint(&text_here),
            )
        };
        let reason = if reason.is_empty() { note } else { reason }.to_owned();
        let step = MigrationStep::Setting {
            home: self.place.home.clone(),
            key: name.to_owned(),
            value: value.clone(),
            wrote: print,
        };
        let item = PlanItem { action, reason, ..item };
        let item = if item.is_pending() { item.step(step) } else { item };
        self.items.push(item);
    }

    /// Returns what this program makes of a value.
    fn read(&self, name: &str, value: &SettingValue) -> Result<SettingValue, String> {
        let given = format!("{name}={}", written(value));
        let given =
            Override::parse(self.place.schema, &given).map_err(|error| error.to_string())?;
        let nowhere = Home::at("/nonexistent/vestal");
        let alone = Settings::load(self.place.schema, nowhere, Environment::default(), vec![given]);
        alone.get_by_name(name).map(|read| read.value).map_err(|error| error.to_string())
    }

    /// The key of the model: secrets are in `.env` here, unless it names a variable.
    fn model_key(&mut self, node: &Yaml) {
        let Some(text) = node.text().filter(|text| !text.is_empty()) else { return };
        if text.starts_with("${") {
            let value = SettingValue::Text(text.to_owned());
            return self.set("model.api_key", "model.api_key", false, &value, "");
        }
        let secret = SourceSecret(text.to_owned());
        let item = variable_item(
            self.place,
            &self.here,
            "model.api_key",
            MODEL_KEY,
            secret,
            ".env is the place for secrets",
        );
        self.items.push(item);
    }

    fn servers(&mut self, node: &Yaml) {
        let YamlKind::Map(own) = &node.kind else { return };
        for (name, server) in own {
            let Some(name) = name.text() else { continue };
            let pairs = SERVER.map(|key| (key, key));
            self.entry(&format!("mcp_servers.{name}"), "mcp_servers", name, server, &pairs);
        }
    }

    fn providers(&mut self, node: &Yaml) {
        let YamlKind::Map(own) = &node.kind else { return };
        for (name, provider) in own {
            let Some(name) = name.text() else { continue };
            self.entry(&format!("providers.{name}"), "providers", name, provider, &PROVIDER);
        }
    }

    fn custom_providers(&mut self, node: &Yaml) {
        let YamlKind::List(own) = &node.kind else { return };
        for provider in own {
            let Some(name) = child(provider, "name").and_then(Yaml::text) else { continue };
            self.entry(&format!("custom_providers.{name}"), "providers", name, provider, &PROVIDER);
        }
    }

    /// One entry of a map, with what it may have here.
    fn entry(&mut self, path: &str, key: &str, name: &str, node: &Yaml, pairs: &[(&str, &str)]) {
        let YamlKind::Map(own) = &node.kind else {
            return self.leave(path, "it is not a map");
        };
        let (mut kept, mut dropped) = (BTreeMap::new(), Vec::new());
        for (child, value) in own {
            let Some(child) = child.text() else { continue };
            let to = pairs.iter().find(|(there, _)| *there == child).map(|(_, to)| *to);
            match (to, value_of(value)) {
                (_, None) => {}
                (Some(to), Some(value)) => drop(kept.entry(to.to_owned()).or_insert(value)),
                (None, Some(_)) if child == "name" => {}
                (None, Some(_)) => dropped.push(child),
            }
        }
        let value = SettingValue::Map(kept);
        let alone = SettingValue::Map([(name.to_owned(), value.clone())].into());
        let Ok(SettingValue::Map(wanted)) = self.read(key, &alone) else {
            return self.leave(path, "is not an entry that is possible here");
        };
        let note = if dropped.is_empty() {
            String::new()
        } else {
            format!("without what has no meaning here: {}", dropped.join(", "))
        };
        let item = PlanItem::new(ItemKind::Setting, self.place.name, path, Action::Take, note)
            .to(format!("{key}.{name}"));
        let here = self.here.get_by_name(key).map(|here| here.value);
        let here = match here {
            Ok(SettingValue::Map(here)) => here.get(name).cloned(),
            _ => None,
        };
        let (action, reason) = match here {
            None if self.place.ledger.has(&item.record_key()) => {
                (Action::Leave, crate::ledger::REMOVED.to_owned())
            }
            None => (Action::Take, item.reason.clone()),
            Some(here) if Some(&here) == wanted.get(name) => (Action::Present, String::new()),
            Some(_) => (Action::Keep, "one of that name is here".to_owned()),
        };
        let step = MigrationStep::Entry {
            home: self.place.home.clone(),
            key: key.to_owned(),
            entry: name.to_owned(),
            value,
        };
        let item = PlanItem { action, reason, ..item };
        self.items.push(if item.is_pending() { item.step(step) } else { item });
    }

    fn fallbacks(&mut self, path: &str, node: &Yaml) {
        let YamlKind::List(own) = &node.kind else { return };
        let of = |own: &Yaml, name: &str| child(own, name).and_then(value_of);
        let entries: Vec<SettingValue> = own
            .iter()
            .filter_map(|own| {
                let pair = [("provider", of(own, "provider")?), ("model", of(own, "model")?)];
                Some(SettingValue::Map(pair.map(|(name, value)| (name.to_owned(), value)).into()))
            })
            .collect();
        if !entries.is_empty() {
            let note = "provider and model of each; more is not kept";
            self.set(path, "fallback_providers", true, &SettingValue::List(entries), note);
        }
    }

    fn end(self) -> BTreeSet<String> {
        for (section, names) in self.unknown {
            let reason = SECTIONS.iter().find(|(own, _)| *own == section);
            let reason = reason.map_or("has no meaning here", |(_, reason)| *reason);
            let names = names.join(", ");
            let item =
                PlanItem::new(ItemKind::Setting, self.place.name, names, Action::Leave, reason);
            self.items.push(item);
        }
        self.found.into_keys().collect()
    }
}

fn has_renamed(path: &str) -> bool {
    RENAMED
        .iter()
        .chain(&LEFT)
        .any(|(name, _)| name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

fn child<'y>(node: &'y Yaml, name: &str) -> Option<&'y Yaml> {
    let YamlKind::Map(own) = &node.kind else { return None };
    own.iter().find(|(child, _)| child.text() == Some(name)).map(|(_, value)| value)
}

/// Returns a value, as far as a setting can have it.
fn value_of(node: &Yaml) -> Option<SettingValue> {
    Some(match &node.kind {
        YamlKind::Null | YamlKind::Other(_) => return None,
        YamlKind::Scalar { text, quoted: true } => SettingValue::Text(text.clone()),
        YamlKind::Scalar { text, quoted: false } => match text.as_str() {
            "true" => SettingValue::Bool(true),
            "false" => SettingValue::Bool(false),
            text => text
                .parse()
                .map_or_else(|_| SettingValue::Text(text.to_owned()), SettingValue::Integer),
        },
        YamlKind::List(items) => SettingValue::List(items.iter().filter_map(value_of).collect()),
        YamlKind::Map(entries) => {
            let pair =
                |(name, value): &(Yaml, Yaml)| Some((name.text()?.to_owned(), value_of(value)?));
            SettingValue::Map(entries.iter().filter_map(pair).collect())
        }
    })
}

/// Returns a value as it is given to `config set`.
pub(crate) fn written(value: &SettingValue) -> String {
    match value {
        // What looks like something else is text_here to be text.
        SettingValue::Text(text) if text.trim_start().starts_with(['"', '\'', '[', '{']) => {
            serde_json::Value::from(text.as_str()).to_string()
        }
        other => other.to_string(),
    }
}
