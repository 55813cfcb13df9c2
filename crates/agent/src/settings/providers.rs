//! Providers of models, and which one is asked when another fails.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::json;
use vestal_config::kind::{Fields, SettingInput, ValueRefusal, YamlNode, is_name};
use vestal_config::{
    Count, EnvName, LineMode, Range, SecretText, Setting, SettingValue, Text, TextLimits,
};

use super::base_url::BaseUrl;

/// Limits of the name of a model.
pub(super) const MODEL_NAME: TextLimits = TextLimits { max_bytes: 256, lines: LineMode::One };
/// Limits of the tokens that a model takes.
pub(super) const CONTEXT_LENGTH: Range = Range { min: 1024, max: 100_000_000 };

vestal_config::choices! {
    /// What a provider speaks.
    ApiMode, "known API of a provider", {
        /// What its name and its address speak for.
        Auto = "auto",
        /// Chat completions, as `OpenAI` began them.
        ChatCompletions = "chat_completions",
        /// Messages, as Anthropic has them.
        AnthropicMessages = "anthropic_messages",
        /// Responses, as `OpenAI` has them.
        Responses = "responses",
    }
}

/// A number of tokens, or `auto` for what the model itself says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokensOrAuto {
    /// What is known of the model.
    Auto,
    /// So many.
    Tokens(u64),
}

impl TokensOrAuto {
    /// Returns the number, or none for `auto`.
    pub const fn get(self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Tokens(tokens) => Some(tokens),
        }
    }
}

impl Setting for TokensOrAuto {
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        if input.scalar()?.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        match Count::read(input, &Range { min: 0, max: limits.max })?.get() {
            0 => Ok(Self::Auto),
            _ => Count::read(input, limits).map(|count| Self::Tokens(u64::from(count.get()))),
        }
    }

    fn to_value(&self) -> SettingValue {
        match self {
            Self::Auto => SettingValue::Text("auto".to_owned()),
            Self::Tokens(tokens) => SettingValue::Integer(*tokens),
        }
    }

    fn allowed(limits: &Range) -> String {
        format!("{} to {} tokens; 0 or auto for what the model has", limits.min, limits.max)
    }

    fn examples(limits: &Range) -> Vec<String> {
        let mut examples = Count::examples(limits);
        examples.push("auto".to_owned());
        examples
    }

    fn schema(limits: &Range) -> serde_json::Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": limits.min, "maximum": limits.max},
            {"enum": [0, "auto"]},
        ]})
    }
}

/// The name of a provider, built in or of `providers`: letters, digits, `_`,
/// `-`, `.` and `:`; capitals become small letters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderName(String);

impl ProviderName {
    /// Makes a name, unless it is none.
    pub fn new(name: &str) -> Option<Self> {
        let folded = name.trim().to_ascii_lowercase();
        (is_name(&folded) && folded != AUTO).then_some(Self(folded))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const AUTO: &str = "auto";

/// The provider to ask.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProviderChoice {
    /// The one that the model, the address and the keys at hand speak for.
    Auto,
    /// This one.
    Named(ProviderName),
}

impl Setting for ProviderChoice {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?.trim();
        if text.is_empty() || text.eq_ignore_ascii_case(AUTO) {
            return Ok(Self::Auto);
        }
        ProviderName::new(text)
            .map(Self::Named)
            .ok_or_else(|| ValueRefusal::new("is not the name of a provider"))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(match self {
            Self::Auto => AUTO.to_owned(),
            Self::Named(name) => name.0.clone(),
        })
    }

    fn allowed((): &()) -> String {
        "auto, a provider that is built in, or a name in providers".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["anthropic".to_owned(), "openrouter".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string"})
    }
}

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
    pub api_key: SecretText,
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

fn provider(name: &ProviderName, node: &YamlNode) -> Result<Provider, ValueRefusal> {
    let fields = Fields::read(node, name.as_str(), FIELDS)?;
    let variable = |node| {
        let text = SettingInput::Node(node).scalar()?;
        EnvName::new(text).ok_or_else(|| {
            let advice = "it names the variable that holds the key; the key itself is api_key";
            ValueRefusal::new("is not the name of a variable").suggesting(Some(advice.to_owned()))
        })
    };
    let tokens = |node| TokensOrAuto::read(SettingInput::Node(node), &CONTEXT_LENGTH);
    let model = |node| Text::read(SettingInput::Node(node), &MODEL_NAME);
    let url = fields.required("base_url", |node| BaseUrl::read(SettingInput::Node(node), &()))?;
    if url.get().is_none() {
        return Err(ValueRefusal::new(format!("gives {name} an empty base_url")));
    }
    let mode = |node| ApiMode::read(SettingInput::Node(node), &());
    let key = |node| SecretText::read(SettingInput::Node(node), &());
    Ok(Provider {
        base_url: url,
        api_key_env: fields.value("api_key_env", variable)?,
        api_key: fields.value("api_key", key)?.unwrap_or(SecretText::EMPTY),
        api_mode: fields.value("api_mode", mode)?.unwrap_or(ApiMode::Auto),
        default_model: fields.value("default_model", model)?.unwrap_or(Text::EMPTY),
        context_length: fields.value("context_length", tokens)?.unwrap_or(TokensOrAuto::Auto),
    })
}

impl Setting for Providers {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = || Some(r#"write it as {"NAME": {"base_url": "https://…"}}"#.to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let Some(entries) = tree.entries() else {
            let reason = format!("is {}, not a map", tree.noun());
            return Err(ValueRefusal::new(reason).suggesting(hint()));
        };
        let mut providers = BTreeMap::new();
        for entry in entries {
            let name = entry.name().and_then(ProviderName::new).ok_or_else(|| {
                ValueRefusal::new("holds a key that is not the name of a provider")
            })?;
            let read = provider(&name, &entry.value)?;
            if providers.insert(name.clone(), read).is_some() {
                return Err(ValueRefusal::new(format!("has {name} twice")));
            }
        }
        Ok(Self(providers))
    }

    fn to_value(&self) -> SettingValue {
        let own = |(name, own): (&ProviderName, &Provider)| {
            let mut fields = BTreeMap::from([
                ("base_url".to_owned(), own.base_url.to_value()),
                ("api_mode".to_owned(), own.api_mode.to_value()),
                ("context_length".to_owned(), own.context_length.to_value()),
            ]);
            if let Some(variable) = &own.api_key_env {
                let variable = SettingValue::Text(variable.as_str().to_owned());
                fields.insert("api_key_env".to_owned(), variable);
            }
            if own.api_key.expose().is_some() {
                fields.insert("api_key".to_owned(), own.api_key.to_value());
            }
            if own.default_model.get().is_some() {
                fields.insert("default_model".to_owned(), own.default_model.to_value());
            }
            (name.as_str().to_owned(), SettingValue::Map(fields))
        };
        SettingValue::Map(self.0.iter().map(own).collect())
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
        let Range { min, max } = CONTEXT_LENGTH;
        json!({
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["base_url"],
                "additionalProperties": false,
                "properties": {
                    "base_url": BaseUrl::schema(&()),
                    "api_key_env": {"type": "string"},
                    "api_key": SecretText::schema(&()),
                    "api_mode": ApiMode::schema(&()),
                    "default_model": {"type": "string"},
                    "context_length": TokensOrAuto::schema(&Range { min, max }),
                },
            },
        })
    }
}

/// A provider and a model to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The provider.
    pub provider: ProviderName,
    /// The model, as that provider calls it.
    pub model: String,
}

/// Whom to ask, one after the other, when a provider fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallbacks(Vec<Fallback>);

impl Fallbacks {
    /// Nobody.
    pub const EMPTY: Self = Self(Vec::new());

    /// Returns them in the order they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &Fallback> {
        self.0.iter()
    }
}

fn fallback(node: &YamlNode) -> Result<Fallback, ValueRefusal> {
    let fields = Fields::read(node, "an item", &["provider", "model"])?;
    let name = |node| {
        ProviderName::new(SettingInput::Node(node).scalar()?)
            .ok_or_else(|| ValueRefusal::new("is not the name of a provider"))
    };
    let model = |node| {
        let text = Text::read(SettingInput::Node(node), &MODEL_NAME)?;
        text.get().map(str::to_owned).ok_or_else(|| ValueRefusal::new("is empty"))
    };
    Ok(Fallback {
        provider: fields.required("provider", name)?,
        model: fields.required("model", model)?,
    })
}

impl Setting for Fallbacks {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = || Some(r#"write it as [{"provider": "NAME", "model": "NAME"}]"#.to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let Some(items) = tree.items() else {
            let reason = format!("is {}, not a list", tree.noun());
            return Err(ValueRefusal::new(reason).suggesting(hint()));
        };
        items.iter().map(fallback).collect::<Result<_, _>>().map(Self)
    }

    fn to_value(&self) -> SettingValue {
        let item = |own: &Fallback| {
            SettingValue::Map(BTreeMap::from([
                ("provider".to_owned(), SettingValue::Text(own.provider.as_str().to_owned())),
                ("model".to_owned(), SettingValue::Text(own.model.clone())),
            ]))
        };
        SettingValue::List(self.0.iter().map(item).collect())
    }

    fn allowed((): &()) -> String {
        "a list of maps with provider and model".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"[{"provider": "openrouter", "model": "some/model"}]"#.to_owned(),
            r#"[{"provider": "here", "model": "small"}, {"provider": "work", "model": "large"}]"#
                .to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {
            "type": "object",
            "required": ["provider", "model"],
            "additionalProperties": false,
            "properties": {"provider": {"type": "string"}, "model": {"type": "string"}},
        }})
    }
}

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
