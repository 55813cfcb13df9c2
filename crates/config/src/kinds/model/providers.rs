//! Providers of the user's own.

use std::collections::BTreeMap;

use serde_json::json;

use super::fields::Fields;
use super::provider::ProviderName;
use crate::input::{Input, Refusal};
use crate::kinds::{
    ApiMode, BaseUrl, EnvName, Range, Secret, Setting, Text, TokensOrAuto, limits_of,
};
use crate::value::Value;
use crate::yaml::{Node, NodeKind};

/// Entries of a provider.
const FIELDS: &[&str] =
    &["base_url", "api_key_env", "api_key", "api_mode", "default_model", "context_length"];

/// One provider of the user's own. Its key is in no debug output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Where it is.
    pub base_url: BaseUrl,
    /// The variable that holds its key, in the environment or in `.env`.
    pub api_key_env: Option<EnvName>,
    /// Its key, for those who keep it in `config.yaml`.
    pub api_key: Secret,
    /// What it speaks.
    pub api_mode: ApiMode,
    /// The model that is meant when none is named.
    pub default_model: Text,
    /// Tokens that its models take.
    pub context_length: TokensOrAuto,
}

/// Providers of the user's own, in order of name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Providers(BTreeMap<ProviderName, Provider>);

impl Providers {
    /// No providers.
    pub const EMPTY: Self = Self(BTreeMap::new());

    /// Returns names and providers.
    pub fn iter(&self) -> impl Iterator<Item = (&ProviderName, &Provider)> {
        self.0.iter()
    }

    /// Returns the provider of a name.
    pub fn get(&self, name: &ProviderName) -> Option<&Provider> {
        self.0.get(name)
    }
}

fn provider(name: &ProviderName, node: &Node) -> Result<Provider, Refusal> {
    let fields = Fields::read(node, name.as_str(), FIELDS)?;
    let variable = |node| {
        let text = Input::Node(node).scalar()?;
        EnvName::new(text).ok_or_else(|| {
            let advice = "it names the variable that holds the key; the key itself is api_key";
            Refusal::new("is no name of a variable").suggesting(Some(advice.to_owned()))
        })
    };
    let tokens = |node| TokensOrAuto::read(Input::Node(node), &limits_of::CONTEXT_LENGTH);
    let model = |node| Text::read(Input::Node(node), &limits_of::MODEL_NAME);
    let url = fields.required("base_url", |node| BaseUrl::read(Input::Node(node), &()))?;
    if url.get().is_none() {
        return Err(Refusal::new(format!("gives {name} an empty base_url")));
    }
    let mode = |node| ApiMode::read(Input::Node(node), &());
    let key = |node| Secret::read(Input::Node(node), &());
    Ok(Provider {
        base_url: url,
        api_key_env: fields.value("api_key_env", variable)?,
        api_key: fields.value("api_key", key)?.unwrap_or(Secret::EMPTY),
        api_mode: fields.value("api_mode", mode)?.unwrap_or(ApiMode::Auto),
        default_model: fields.value("default_model", model)?.unwrap_or(Text::EMPTY),
        context_length: fields.value("context_length", tokens)?.unwrap_or(TokensOrAuto::Auto),
    })
}

impl Setting for Providers {
    type Limits = ();

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let hint = || Some(r#"write it as {"NAME": {"base_url": "https://…"}}"#.to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let NodeKind::Map { entries, .. } = &tree.kind else {
            let reason = format!("is {}, not a map", tree.noun());
            return Err(Refusal::new(reason).suggesting(hint()));
        };
        let mut providers = BTreeMap::new();
        for entry in entries {
            let name = entry
                .name()
                .and_then(ProviderName::new)
                .ok_or_else(|| Refusal::new("holds a key that is no name of a provider"))?;
            let read = provider(&name, &entry.value)?;
            if providers.insert(name.clone(), read).is_some() {
                return Err(Refusal::new(format!("has {name} twice")));
            }
        }
        Ok(Self(providers))
    }

    fn to_value(&self) -> Value {
        let own = |(name, own): (&ProviderName, &Provider)| {
            let mut fields = BTreeMap::from([
                ("base_url".to_owned(), own.base_url.to_value()),
                ("api_mode".to_owned(), own.api_mode.to_value()),
                ("context_length".to_owned(), own.context_length.to_value()),
            ]);
            if let Some(variable) = &own.api_key_env {
                let variable = Value::Text(variable.as_str().to_owned());
                fields.insert("api_key_env".to_owned(), variable);
            }
            if own.api_key.expose().is_some() {
                fields.insert("api_key".to_owned(), own.api_key.to_value());
            }
            if own.default_model.get().is_some() {
                fields.insert("default_model".to_owned(), own.default_model.to_value());
            }
            (name.as_str().to_owned(), Value::Map(fields))
        };
        Value::Map(self.0.iter().map(own).collect())
    }

    fn allowed((): &()) -> String {
        format!("a map from names to maps with {}", FIELDS.join(", "))
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"{"here": {"base_url": "http://127.0.0.1:8000/v1"}}"#.to_owned(),
            r#"{"work": {"base_url": "https://models.example.com/v1", "api_key_env": "WORK_KEY"}}"#
                .to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        let Range { min, max } = limits_of::CONTEXT_LENGTH;
        json!({
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["base_url"],
                "additionalProperties": false,
                "properties": {
                    "base_url": BaseUrl::schema(&()),
                    "api_key_env": {"type": "string"},
                    "api_key": Secret::schema(&()),
                    "api_mode": ApiMode::schema(&()),
                    "default_model": {"type": "string"},
                    "context_length": TokensOrAuto::schema(&Range { min, max }),
                },
            },
        })
    }
}
