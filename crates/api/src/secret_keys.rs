//! Keys and other secrets of a profile: which there are, where they are, and who they are for. Never what
//! they are.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use vestal_agent::settings::ProviderCandidate;
use vestal_config::{AnyKey, EnvName, Secrecy, SettingValue, Settings, ValueSource};

use crate::dashboard::TroubleView;

/// The variable that holds the key of `model.base_url`.
const CUSTOM_KEY: &str = "VESTAL_API_KEY";

/// The keys of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysPageView {
    /// The profile.
    pub profile: String,
    /// The file that they are kept in.
    pub file: String,
    /// Variables that hold keys or could, and all others of the file.
    pub keys: Vec<KeyView>,
    /// Secret settings that are set.
    pub settings: Vec<SecretSettingView>,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// A variable that holds a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyView {
    /// Its name.
    pub name: String,
    /// Whether it has a value.
    pub set: bool,
    /// Where the value is that counts.
    pub source: Option<String>,
    /// The line of the file that has it.
    pub line: Option<usize>,
    /// Whether the environment of the dashboard has it too, and comes before the file.
    pub overridden: bool,
    /// What it is for.
    pub uses: Vec<KeyUseView>,
}

/// What a key is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyUseView {
    /// Who uses it.
    pub what: String,
    /// The address it is sent to, where it is sent to one.
    pub address: Option<String>,
}

/// A setting that is a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretSettingView {
    /// Its key.
    pub key: String,
    /// Where it is set.
    pub source: String,
    /// What it is for.
    pub doc: String,
}

impl KeysPageView {
    /// Returns the keys of a profile.
    pub fn new(settings: &Settings) -> Self {
        let mut troubles = Vec::new();
        let lines = settings.file_variables().unwrap_or_else(|error| {
            troubles.push(TroubleView::new(".env", &error));
            BTreeMap::new()
        });
        let uses = uses(settings, &mut troubles);
        let names: BTreeSet<&EnvName> = uses.keys().chain(lines.keys()).collect();
        let view = |name: &EnvName| {
            let found = settings.variable(name).ok().flatten();
            let is_outside = settings.environment().non_empty(name.as_str()).is_some();
            KeyView {
                name: name.to_string(),
                set: found.is_some(),
                source: found.map(|found| found.source.to_string()),
                line: lines.get(name).copied(),
                overridden: is_outside && lines.contains_key(name),
                uses: uses.get(name).map(|all| all.iter().cloned().collect()).unwrap_or_default(),
            }
        };
        let keys = names.into_iter().map(view).collect();
        let is_set = |key: &&'static dyn AnyKey| key.secrecy() == Secrecy::Secret;
        let secrets = settings.schema().keys().filter(is_set).filter_map(|key| {
            let source = key.resolve(settings).ok()?.source;
            (source != ValueSource::Default).then(|| SecretSettingView {
                key: key.name().to_owned(),
                source: source.to_string(),
                doc: key.doc().to_owned(),
            })
        });
        Self {
            profile: settings.home().profile().to_string(),
            file: settings.home().env_file().to_string_lossy().into_owned(),
            keys,
            settings: secrets.collect(),
            troubles,
        }
    }
}

type KeyUses = BTreeMap<EnvName, BTreeSet<KeyUseView>>;

/// Finds out which variables are for what.
fn uses(settings: &Settings, troubles: &mut Vec<TroubleView>) -> KeyUses {
    let mut uses = KeyUses::new();
    let mut add = |name: &str, what: &str, address: Option<String>| {
        if let Some(name) = EnvName::new(name) {
            let what = what.to_owned();
            uses.entry(name).or_default().insert(KeyUseView { what, address });
        }
    };
    for known in ProviderCandidate::built_in() {
        add(known.variable, known.provider, Some(known.base_url));
    }
    match settings.get_by_name("model.base_url").map(|found| found.value) {
        Ok(SettingValue::Text(address)) if !address.is_empty() => {
            add(CUSTOM_KEY, "model.base_url", Some(address));
        }
        _ => {}
    }
    for key in settings.schema().keys().filter(|key| key.secrecy() == Secrecy::Secret) {
        for name in key.env() {
            add(name, key.name(), None);
        }
    }
    for section in ["providers", "mcp_servers"] {
        let found = match settings.get_by_name(section) {
            Ok(found) => found.value,
            Err(error) => {
                troubles.push(TroubleView::new(section, &error));
                continue;
            }
        };
        let SettingValue::Map(entries) = found else { continue };
        for (name, entry) in &entries {
            let what = format!("{section}.{name}");
            let address = address(entry);
            if let SettingValue::Map(members) = entry
                && let Some(SettingValue::Text(variable)) = members.get("api_key_env")
            {
                add(variable, &what, address.clone());
            }
            for variable in references(entry) {
                add(&variable, &what, address.clone());
            }
        }
    }
    let named = settings.secret_variables();
    if let Some(error) = named.unread {
        troubles.push(TroubleView::new("settings", &error));
    }
    for name in named.names {
        uses.entry(name).or_default();
    }
    uses
}

/// Returns where a provider or a server is, without a password in it.
fn address(entry: &SettingValue) -> Option<String> {
    let SettingValue::Map(members) = entry else { return None };
    let found = ["base_url", "url"].iter().find_map(|name| members.get(*name));
    let Some(SettingValue::Text(address)) = found else { return None };
    Some(vestal_mcp::public_url(address)).filter(|address| !address.is_empty())
}

/// Finds the variables that a value names: `${NAME}`.
fn references(value: &SettingValue) -> Vec<String> {
    match value {
        SettingValue::Text(text) => {
            let names = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
            names.map(|(name, _)| name.to_owned()).collect()
        }
        SettingValue::List(items) => items.iter().flat_map(references).collect(),
        SettingValue::Map(entries) => entries.values().flat_map(references).collect(),
        SettingValue::Bool(_) | SettingValue::Integer(_) | SettingValue::Decimal(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vestal_config::{Environment, Home};

    #[test]
    fn each_key_says_whom_it_is_for_and_none_says_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("config.yaml"),
            "model: {base_url: 'http://127.0.0.1:9/v1', default: m}\nproviders:\n  work: {base_url: \
             'https://models.example/v1', api_key_env: WORK_KEY}\nmcp_servers:\n  wiki: {url: \
             'https://wiki.example/mcp', headers: {Authorization: 'Bearer ${WIKI_TOKEN}'}}\n",
        )
        .unwrap();
        let file = "WORK_KEY=sk-of-work\nOTHER=sk-of-other\nOPENAI_API_KEY=sk-of-openai\n";
        std::fs::write(dir.path().join(".env"), file).unwrap();
        let environment = Environment::from_pairs([("OPENAI_API_KEY", "sk-from-outside")]);
        let settings =
            Settings::load(&crate::schema(), Home::at(dir.path()), environment, Vec::new());
        let page = KeysPageView::new(&settings);
        assert_eq!(page.troubles, []);
        let key = |name: &str| page.keys.iter().find(|key| key.name == name).unwrap();
        let used = |name: &str| {
            let uses = &key(name).uses;
            uses.iter().map(|own| (own.what.as_str(), own.address.as_deref())).collect::<Vec<_>>()
        };
        assert_eq!(used("WORK_KEY"), [("providers.work", Some("https://models.example/v1"))]);
        assert_eq!(used("WIKI_TOKEN"), [("mcp_servers.wiki", Some("https://wiki.example/mcp"))]);
        let own = [("model.api_key", None), ("model.base_url", Some("http://127.0.0.1:9/v1"))];
        assert_eq!(used("VESTAL_API_KEY"), own);
        assert_eq!((key("WORK_KEY").set, key("WORK_KEY").line), (true, Some(1)));
        assert!(!key("WIKI_TOKEN").set && used("OTHER").is_empty());
        assert!(key("OPENAI_API_KEY").overridden && !key("WORK_KEY").overridden);
        let shown = serde_json::to_string(&page).unwrap();
        assert!(!shown.contains("sk-"), "{shown}");
    }
}
