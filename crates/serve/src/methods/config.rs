//! Settings of a session and of the profile, and models to choose from.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vestal_agent::settings::{self, ModelNameCheck, check_model_name};
use vestal_api::keys::BusyInputMode;
use vestal_api::{DefaultModelView, ModelsView, ProviderView};
use vestal_config::{ConfigError, SetError};
use vestal_model::Freshness;
use vestal_runtime::{endpoints, list_models};

use super::MethodCall;
use crate::error::{self, RpcError};
use crate::session::Session;

/// A setting that is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct GetParams {
    /// `model`, `provider`, `yolo`, `busy` or `approval_mode` of a session, or a key such as
    /// `terminal.backend`.
    key: String,
    /// The live session.
    #[serde(default)]
    session_id: Option<String>,
}

/// A setting.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigValue {
    /// The key.
    key: String,
    /// Its value, masked if it is a secret.
    value: Value,
    /// Whose it is.
    scope: Scope,
    /// Where a value of the profile comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// Whose a setting is.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Scope {
    /// The session's.
    Session,
    /// The profile's.
    Profile,
}

pub(super) async fn get(call: MethodCall, params: GetParams) -> Result<ConfigValue, RpcError> {
    let GetParams { key, session_id } = params;
    let session = || -> Result<Arc<Session>, RpcError> {
        call.server.session(session_id.as_deref().unwrap_or_default())
    };
    let value = match key.as_str() {
        "model" => json!(session()?.facts().model),
        "provider" => json!(session()?.facts().provider),
        "yolo" => json!(session()?.is_yolo()),
        "busy" => json!(session()?.busy_mode().as_str()),
        "approval_mode" => json!(session()?.info().approval_mode),
        _ => {
            let today = call.server.runtime().settings().reload();
            let found = today.get_by_name(&key).map_err(|error| config_error(&error))?;
            let shown = call.server.clients().secrecy(&today, &key).shown(found.value);
            let value = serde_json::to_value(&shown);
            let value = value.map_err(|error| RpcError::new(error::INTERNAL, error.to_string()))?;
            let source = Some(found.source.to_string());
            return Ok(ConfigValue { key, value, scope: Scope::Profile, source });
        }
    };
    Ok(ConfigValue { key, value, scope: Scope::Session, source: None })
}

/// A setting to be changed.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SetParams {
    /// `model`, `yolo` or `busy` of a session, or a key such as `terminal.backend`.
    key: String,
    /// The value: text, a number or a boolean; of a key of the profile as `vestal config set`
    /// takes it.
    value: Value,
    /// The live session.
    #[serde(default)]
    session_id: Option<String>,
}

/// A setting that was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigChanged {
    /// The key.
    key: String,
    /// The value now.
    value: Value,
    /// Whose it is.
    scope: Scope,
    /// Something to know about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

pub(super) async fn set(call: MethodCall, params: SetParams) -> Result<ConfigChanged, RpcError> {
    let SetParams { key, value, session_id } = params;
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            return Err(RpcError::new(
                error::BAD_VALUE,
                "value must be text, a number or a boolean",
            ));
        }
    };
    let session = || -> Result<Arc<Session>, RpcError> {
        call.server.session(session_id.as_deref().unwrap_or_default())
    };
    let (value, warning) = match key.as_str() {
        "model" => {
            let (value, warning) = set_model(&session()?, &text).await?;
            (json!(value), warning)
        }
        "yolo" => {
            let on = match text.as_str() {
                "true" | "on" | "1" => true,
                "false" | "off" | "0" => false,
                _ => return Err(RpcError::new(error::BAD_VALUE, "yolo is `on` or `off`")),
            };
            session()?.set_yolo(on);
            (json!(on), None)
        }
        "busy" => {
            let mode = match text.as_str() {
                "interrupt" => BusyInputMode::Interrupt,
                "queue" => BusyInputMode::Queue,
                "steer" => BusyInputMode::Steer,
                _ => {
                    let message = "busy is `interrupt`, `queue` or `steer`";
                    return Err(RpcError::new(error::BAD_VALUE, message));
                }
            };
            session()?.set_busy_mode(mode);
            (json!(mode.as_str()), None)
        }
        _ => return set_of_profile(&call, &key, &text),
    };
    Ok(ConfigChanged { key, value, scope: Scope::Session, warning })
}

fn set_of_profile(call: &MethodCall, key: &str, value: &str) -> Result<ConfigChanged, RpcError> {
    let settings = call.server.runtime().settings().reload();
    call.server.clients().check_setting(&settings, key)?;
    let outcome = vestal_config::set(&settings, key, value).map_err(|error| match &error {
        SetError::Config(error) => config_error(error),
        _ => RpcError::new(error::BAD_VALUE, error.to_string()),
    })?;
    let warning =
        outcome.hidden_by.map(|by| format!("it has no effect, because {by} overrides it"));
    let (key, value) = (outcome.name, json!(value));
    Ok(ConfigChanged { key, value, scope: Scope::Profile, warning })
}

fn config_error(error: &ConfigError) -> RpcError {
    let code = match error {
        ConfigError::UnknownKey { .. } | ConfigError::NotInThisVersion { .. } => error::NOT_FOUND,
        _ => error::BAD_VALUE,
    };
    RpcError::new(code, error.to_string())
}

/// Has a session ask another model from now on. Returns its name in full, and what to know.
pub(crate) async fn set_model(
    session: &Arc<Session>,
    name: &str,
) -> Result<(String, Option<String>), RpcError> {
    if name.trim().is_empty() {
        return Err(RpcError::empty("value"));
    }
    let today = session.runtime.settings().reload();
    let chain = endpoints(&today, Some(name))?;
    let Some(first) = chain.first() else {
        return Err(RpcError::new(error::AGENT, "no model is configured"));
    };
    let (provider, model) = (first.name.clone(), first.model.clone());
    let unlisted = format!("{provider} does not list a model {model}");
    let warning = match check_model_name(&today, name, first) {
        ModelNameCheck::Listed => None,
        ModelNameCheck::Unlisted => Some(unlisted),
        ModelNameCheck::Typo(meant) => {
            let advice = format!("did you mean {meant}? To use it anyway: {provider}:{model}");
            return Err(RpcError::new(error::NOT_FOUND, unlisted).advise(advice));
        }
    };
    let mut exclusive = session.exclusive("changing the model").await?;
    if let Some(opening) = exclusive.opening() {
        opening.request.model = Some(format!("{provider}:{model}"));
        session.update_facts(|facts| {
            facts.provider = Some(provider.clone());
            facts.model = Some(model.clone());
        });
    } else if let Some(conversation) = exclusive.conversation() {
        conversation.set_chain(chain).await?;
        session.refresh(conversation).await;
    }
    Ok((format!("{provider}:{model}"), warning))
}

/// Which keys are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ShowParams {
    /// Only those whose value is not the default.
    #[serde(default)]
    changed: bool,
}

/// Keys of the profile.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShowResult {
    /// As `vestal config show --json` prints them.
    keys: Vec<Value>,
}

pub(super) async fn show(call: MethodCall, params: ShowParams) -> Result<ShowResult, RpcError> {
    let rows = call.server.runtime().settings().reload().rows();
    let rows = rows.into_iter().filter(|row| row.changed || !params.changed);
    let keys: Result<Vec<Value>, _> = rows.map(|row| serde_json::to_value(&row)).collect();
    let keys = keys.map_err(|error| RpcError::new(error::INTERNAL, error.to_string()))?;
    Ok(ShowResult { keys })
}

/// How models are asked for.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ModelsParams {
    /// Whether the providers are asked although the lists are fresh.
    #[serde(default)]
    refresh: bool,
}

/// Models to choose from.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ModelsResult {
    /// As `vestal model list --json` prints them: `default` and `providers`.
    #[serde(flatten)]
    #[schemars(with = "Value")]
    models: ModelsView,
}

pub(super) async fn models(
    call: MethodCall,
    params: ModelsParams,
) -> Result<ModelsResult, RpcError> {
    let today = call.server.runtime().settings().reload();
    let freshness = if params.refresh { Freshness::Refresh } else { Freshness::Cached };
    let providers = list_models(&today, freshness).await?.into_iter().map(|provider| {
        ProviderView::new(provider.provider, provider.listed.map_err(|error| error.to_string()))
    });
    let default = settings::endpoints(&today, None).ok().and_then(|chain| chain.into_iter().next());
    let default =
        default.map(|endpoint| DefaultModelView { provider: endpoint.name, model: endpoint.model });
    Ok(ModelsResult { models: ModelsView { default, providers: providers.collect() } })
}
