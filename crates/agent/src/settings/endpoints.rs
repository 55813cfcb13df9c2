//! Which model is asked, where, and with which key.

use std::sync::Arc;

use vestal_config::{ConfigError, EnvName, ProfileName, Settings, SettingsFileError};
use vestal_model::{ApiKey, Endpoint, ModelPrices, ProviderApi, is_same_server};

use super::inherited::inherited;
use crate::settings::{ApiMode, Provider, ProviderChoice, keys};

/// A provider that needs no address.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) api: ProviderApi,
    pub(super) base_url: &'static str,
    pub(super) key: &'static str,
}

/// In the order in which their keys are looked for.
pub(super) const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "anthropic",
        api: ProviderApi::AnthropicMessages,
        base_url: "https://api.anthropic.com/v1",
        key: "ANTHROPIC_API_KEY",
    },
    BuiltIn {
        name: "openai",
        api: ProviderApi::ChatCompletions,
        base_url: "https://api.openai.com/v1",
        key: "OPENAI_API_KEY",
    },
    BuiltIn {
        name: "openrouter",
        api: ProviderApi::ChatCompletions,
        base_url: "https://openrouter.ai/api/v1",
        key: "OPENROUTER_API_KEY",
    },
];

/// The provider that `model.base_url` makes.
pub(super) const CUSTOM: &str = "custom";

/// Why nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// No model is named.
    #[error("no model is configured")]
    NoModel,
    /// A model is named, and nothing says who serves it.
    #[error("no provider is configured for the model {model}")]
    NoProvider {
        /// The model.
        model: String,
    },
    /// There is no provider of that name.
    #[error("there is no provider {name:?}; there are: {}", known.join(", "))]
    UnknownProvider {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The provider wants a key, and there is none.
    #[error("the provider {provider} needs a key, and {variable} is not set")]
    NoKey {
        /// The provider.
        provider: String,
        /// The variable it would be in.
        variable: String,
    },
    /// A key that no header can carry.
    #[error("the key of the provider {provider} is not text")]
    KeyNotText {
        /// The provider.
        provider: String,
    },
    /// The settings are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// `.env` cannot be read.
    #[error("failed to read the keys: {0}")]
    Keys(#[from] Arc<SettingsFileError>),
}

impl EndpointError {
    /// Returns what to do about it in a profile, line by line.
    pub fn advice_in(&self, profile: &ProfileName) -> Vec<String> {
        let advice = self.advice();
        if profile.is_default() {
            return advice;
        }
        let program = format!("vestal -p {profile} ");
        advice.into_iter().map(|line| line.replace("vestal ", &program)).collect()
    }

    /// Returns what to do about it, line by line.
    pub fn advice(&self) -> Vec<String> {
        match self {
            Self::NoModel => vec![
                "answer the questions of vestal model setup, or by hand: vestal config set model.default NAME (and model.base_url URL for an OpenAI-compatible server of your own)".to_owned(),
                "and its key in the environment or in .env: ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY or VESTAL_API_KEY".to_owned(),
            ],
            Self::NoProvider { .. } => vec![
                "for an OpenAI-compatible server: vestal config set model.base_url URL".to_owned(),
                "else put ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY into the environment or .env".to_owned(),
                "VESTAL_API_KEY does not say whose key it is: name the provider with vestal config set model.provider NAME".to_owned(),
            ],
            Self::UnknownProvider { .. } => {
                vec!["name one of them in model.provider, or add it under providers".to_owned()]
            }
            Self::NoKey { variable, .. } => vec![format!(
                "put {variable}=… into the environment, or into .env beside the file that `vestal config path` names"
            )],
            Self::KeyNotText { provider } => {
                vec![format!("give the key for {provider} again, as one line of plain text")]
            }
            Self::Config(_) | Self::Keys(_) => Vec::new(),
        }
    }
}

/// Returns who is asked first and who is asked where that one fails. `model`
/// takes the place of the configured model; `PROVIDER:MODEL` names both.
pub fn endpoints(settings: &Settings, model: Option<&str>) -> Result<Vec<Endpoint>, EndpointError> {
    let inherited = inherited(settings)?;
    let settings = inherited.as_ref().unwrap_or(settings);
    let asked = model.map(|model| split_model(settings, model)).transpose()?;
    let (provider, model) = match asked {
        Some((provider, model)) => (provider, Some(model)),
        None => (None, None),
    };
    let configured = settings.get(&keys::MODEL_DEFAULT)?.value;
    let model = model.or_else(|| configured.get().map(str::to_owned));
    let first = primary(settings, provider.as_deref(), model)?;
    let mut chain = vec![first];
    for fallback in settings.get(&keys::FALLBACK_PROVIDERS)?.value.iter() {
        let endpoint = named(settings, fallback.provider.as_str(), Some(fallback.model.clone()))?;
        chain.push(endpoint);
    }
    Ok(chain)
}

/// Splits `PROVIDER:MODEL`. A colon that follows no provider's name belongs to
/// the model's: many names have one.
pub fn split_model(
    settings: &Settings,
    text: &str,
) -> Result<(Option<String>, String), EndpointError> {
    if let Some((provider, model)) = text.split_once(':')
        && !model.is_empty()
        && known(settings)?.iter().any(|name| name == provider)
    {
        return Ok((Some(provider.to_owned()), model.to_owned()));
    }
    Ok((None, text.to_owned()))
}

fn primary(
    settings: &Settings,
    provider: Option<&str>,
    model: Option<String>,
) -> Result<Endpoint, EndpointError> {
    if let Some(provider) = provider {
        return named(settings, provider, model);
    }
    match settings.get(&keys::MODEL_PROVIDER)?.value {
        ProviderChoice::Named(name) => named(settings, name.as_str(), model),
        ProviderChoice::Auto => {
            if settings.get(&keys::MODEL_BASE_URL)?.value.get().is_some() {
                return named(settings, CUSTOM, model);
            }
            let model = model.ok_or(EndpointError::NoModel)?;
            for built_in in BUILT_IN {
                if variable(settings, built_in.key, built_in.name)?.is_some() {
                    return named(settings, built_in.name, Some(model));
                }
            }
            let providers = settings.get(&keys::PROVIDERS)?.value;
            match providers.iter().next() {
                Some((name, _)) => named(settings, name.as_str(), Some(model)),
                None => Err(EndpointError::NoProvider { model }),
            }
        }
    }
}

/// Returns the endpoint of a provider.
fn named(
    settings: &Settings,
    name: &str,
    model: Option<String>,
) -> Result<Endpoint, EndpointError> {
    let providers = settings.get(&keys::PROVIDERS)?.value;
    let declared = providers.iter().find(|(known, _)| known.as_str() == name);
    if let Some((_, provider)) = declared {
        return of_declared(settings, name, provider, model);
    }
    if name == CUSTOM {
        return of_address(settings, model);
    }
    let Some(built_in) = BUILT_IN.iter().find(|built_in| built_in.name == name) else {
        return Err(EndpointError::UnknownProvider {
            name: name.to_owned(),
            known: known(settings)?,
        });
    };
    let own = match key_owner(settings)? {
        KeyOwner::BuiltIn(owner) if owner == name => own_key(settings)?,
        _ => None,
    };
    let key = match own {
        Some(key) => key,
        None => variable(settings, built_in.key, name)?.ok_or_else(|| EndpointError::NoKey {
            provider: name.to_owned(),
            variable: built_in.key.to_owned(),
        })?,
    };
    finish(settings, name, built_in.api, built_in.base_url, Some(key), model, None)
}

fn of_declared(
    settings: &Settings,
    name: &str,
    provider: &Provider,
    model: Option<String>,
) -> Result<Endpoint, EndpointError> {
    let base_url = provider.base_url.get().unwrap_or_default();
    let key = match (provider.api_key.expose(), &provider.api_key_env) {
        (Some(key), _) => Some(ApiKey::new(key)),
        (None, Some(variable)) => {
            let found = by_name(settings, variable, name)?;
            Some(found.ok_or_else(|| EndpointError::NoKey {
                provider: name.to_owned(),
                variable: variable.to_string(),
            })?)
        }
        (None, None) => None,
    };
    let model = model.or_else(|| provider.default_model.get().map(str::to_owned));
    let api = api(provider.api_mode, base_url);
    finish(settings, name, api, base_url, key, model, provider.context_length.get())
}

fn of_address(settings: &Settings, model: Option<String>) -> Result<Endpoint, EndpointError> {
    let base_url = settings.get(&keys::MODEL_BASE_URL)?.value;
    let Some(base_url) = base_url.get() else {
        let name = CUSTOM.to_owned();
        return Err(EndpointError::UnknownProvider { name, known: known(settings)? });
    };
    let api = api(settings.get(&keys::MODEL_API_MODE)?.value, base_url);
    // A key of one of the known providers goes to that provider alone, and not
    // over a connection that everybody on the way can read.
    let built_in = BUILT_IN.iter().find(|built_in| is_same_server(built_in.base_url, base_url));
    let key = match (own_key(settings)?, built_in) {
        (Some(key), _) => Some(key),
        (None, Some(built_in)) => variable(settings, built_in.key, CUSTOM)?,
        (None, None) => None,
    };
    finish(settings, CUSTOM, api, base_url, key, model, None)
}

fn finish(
    settings: &Settings,
    name: &str,
    api: ProviderApi,
    base_url: &str,
    key: Option<ApiKey>,
    model: Option<String>,
    context_length: Option<u64>,
) -> Result<Endpoint, EndpointError> {
    let model = model.ok_or(EndpointError::NoModel)?;
    let reasoning = super::reasoning::of_model(settings, &model)?;
    let configured = settings.get(&keys::MODEL_CONTEXT_LENGTH)?.value.get();
    let prices = settings.get(&keys::MODEL_PRICES)?.value.get(&model).map(|prices| ModelPrices {
        input: dollars(prices.input),
        output: dollars(prices.output),
        cache_read: prices.cache_read.map(dollars),
        cache_write: prices.cache_write.map(dollars),
    });
    Ok(Endpoint {
        name: name.to_owned(),
        api,
        base_url: base_url.to_owned(),
        key,
        model,
        context_length: context_length.or(configured),
        prices,
        reasoning,
    })
}

#[expect(clippy::cast_precision_loss, reason = "prices are far below 2^52 millionths")]
fn dollars(price: crate::settings::TokenPrice) -> f64 {
    price.millionths() as f64 / 1e6
}

pub(super) fn api(mode: ApiMode, base_url: &str) -> ProviderApi {
    match mode {
        ApiMode::ChatCompletions => ProviderApi::ChatCompletions,
        ApiMode::AnthropicMessages => ProviderApi::AnthropicMessages,
        ApiMode::Responses => ProviderApi::Responses,
        ApiMode::Auto => {
            let known = BUILT_IN.iter().find(|built_in| host(built_in.base_url) == host(base_url));
            known.map_or(ProviderApi::ChatCompletions, |built_in| built_in.api)
        }
    }
}

/// Returns the host of an address.
pub(super) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

/// The server that `model.api_key` is the key of. It is sent nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOwner {
    /// The one at `model.base_url`.
    Address(String),
    /// The built-in provider that `model.provider` names.
    BuiltIn(&'static str),
    /// No setting says which one; so it is not sent.
    Nobody,
}

/// Returns whose key `model.api_key` is, whether or not there is one.
pub fn key_owner(settings: &Settings) -> Result<KeyOwner, ConfigError> {
    if let Some(base_url) = settings.get(&keys::MODEL_BASE_URL)?.value.get() {
        return Ok(KeyOwner::Address(base_url.to_owned()));
    }
    let ProviderChoice::Named(name) = settings.get(&keys::MODEL_PROVIDER)?.value else {
        return Ok(KeyOwner::Nobody);
    };
    // A declared provider has a key of its own, also one with a known name.
    let providers = settings.get(&keys::PROVIDERS)?.value;
    if providers.iter().any(|(declared, _)| declared.as_str() == name.as_str()) {
        return Ok(KeyOwner::Nobody);
    }
    let built_in = BUILT_IN.iter().find(|built_in| built_in.name == name.as_str());
    Ok(built_in.map_or(KeyOwner::Nobody, |built_in| KeyOwner::BuiltIn(built_in.name)))
}

/// Returns the key that the settings name for the model itself.
fn own_key(settings: &Settings) -> Result<Option<ApiKey>, EndpointError> {
    Ok(settings.get(&keys::MODEL_API_KEY)?.value.expose().map(ApiKey::new))
}

fn variable(
    settings: &Settings,
    name: &str,
    provider: &str,
) -> Result<Option<ApiKey>, EndpointError> {
    match EnvName::new(name) {
        Some(name) => by_name(settings, &name, provider),
        None => Ok(None),
    }
}

fn by_name(
    settings: &Settings,
    name: &EnvName,
    provider: &str,
) -> Result<Option<ApiKey>, EndpointError> {
    let Some(found) = settings.variable(name)? else {
        return Ok(None);
    };
    match found.value.into_string() {
        Ok(key) => Ok(Some(ApiKey::new(key))),
        Err(_) => Err(EndpointError::KeyNotText { provider: provider.to_owned() }),
    }
}

/// Returns the names of all providers.
fn known(settings: &Settings) -> Result<Vec<String>, ConfigError> {
    let declared = settings.get(&keys::PROVIDERS)?.value;
    let declared = declared.iter().map(|(name, _)| name.as_str().to_owned());
    let mut names: Vec<String> = declared.collect();
    for built_in in BUILT_IN {
        if !names.iter().any(|name| name == built_in.name) {
            names.push(built_in.name.to_owned());
        }
    }
    if settings.get(&keys::MODEL_BASE_URL)?.value.get().is_some() {
        names.push(CUSTOM.to_owned());
    }
    Ok(names)
}

/// A provider that could be asked, with an endpoint that names no model yet.
#[derive(Debug)]
pub struct ProviderRow {
    /// Its name.
    pub name: String,
    /// Where it is asked, or why it cannot be.
    pub endpoint: Result<Endpoint, EndpointError>,
}

/// Returns the providers that are configured: those declared, the one of
/// `model.base_url`, and the known ones whose key is at hand.
pub fn provider_rows(settings: &Settings) -> Result<Vec<ProviderRow>, EndpointError> {
    let inherited = inherited(settings)?;
    let settings = inherited.as_ref().unwrap_or(settings);
    let mut rows = Vec::new();
    for name in known(settings)? {
        let endpoint = named(settings, &name, Some(String::new()));
        let is_known_without_key = BUILT_IN.iter().any(|built_in| built_in.name == name)
            && matches!(endpoint, Err(EndpointError::NoKey { .. }));
        if !is_known_without_key {
            rows.push(ProviderRow { name, endpoint });
        }
    }
    Ok(rows)
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;
