//! Which model answers, and who serves it.

use vestal_config::{
    ChangedBy, ConfigError, EnvName, Group, Range, Secrecy, SecretText, Settings, Text, Variable,
    VariableScope,
};

use super::base_url::BaseUrl;
use super::prices::PriceTable;
use super::providers::{
    ApiMode, CONTEXT_LENGTH, Fallbacks, MODEL_NAME, ProviderChoice, Providers, TokensOrAuto,
};
use super::reasoning::{BUDGET, EffortChoice, ReasoningTable};

vestal_config::keys! {
    /// Model that the agent talks to. In `config.yaml`, `model: NAME` says the same in short.
    MODEL_DEFAULT: Text = "model.default" {
        default: Text::EMPTY,
        limits: MODEL_NAME,
        env: ["VESTAL_MODEL"],
        aliases: ["model"],
        changed_by: ChangedBy::Clients,
    }

    /// Who serves the model: a provider that is built in, or a name in `providers`. `auto` takes
    /// what the address, the model and the keys at hand speak for.
    MODEL_PROVIDER: ProviderChoice = "model.provider" {
        default: ProviderChoice::Auto,
        limits: (),
        env: ["VESTAL_PROVIDER"],
    }

    /// Address of a server of your own: the provider `custom`, which `auto` takes when this is set.
    MODEL_BASE_URL: BaseUrl = "model.base_url" {
        default: BaseUrl::EMPTY,
        limits: (),
        env: ["VESTAL_BASE_URL"],
    }

    /// Key for the server at `model.base_url`. Without an address: for the built-in provider that
    /// `model.provider` names, in place of the one in its own variable. It is sent to no other
    /// server. `.env` is the place for it: `VESTAL_API_KEY=…`.
    MODEL_API_KEY: SecretText = "model.api_key" {
        default: SecretText::EMPTY,
        limits: (),
        env: ["VESTAL_API_KEY"],
        secrecy: Secrecy::Secret,
    }

    /// What the provider speaks. `auto` goes by its name and its address.
    MODEL_API_MODE: ApiMode = "model.api_mode" {
        default: ApiMode::Auto,
        limits: (),
        env: ["VESTAL_API_MODE"],
    }

    /// Tokens that the model takes. `auto` goes by what the provider says.
    MODEL_CONTEXT_LENGTH: TokensOrAuto = "model.context_length" {
        default: TokensOrAuto::Auto,
        limits: CONTEXT_LENGTH,
        env: ["VESTAL_CONTEXT_LENGTH"],
        changed_by: ChangedBy::Clients,
    }

    /// Tokens that one answer may have. `auto` leaves it to the provider, or to the largest it
    /// takes where it has to be sent.
    MODEL_MAX_OUTPUT_TOKENS: TokensOrAuto = "model.max_output_tokens" {
        default: TokensOrAuto::Auto,
        limits: Range { min: 1, max: 100_000_000 },
        env: ["VESTAL_MAX_OUTPUT_TOKENS"],
        changed_by: ChangedBy::Clients,
    }

    /// How much the model thinks before it answers. `auto` leaves it to the provider. A model that
    /// cannot be told is asked without it.
    MODEL_REASONING_EFFORT: EffortChoice = "model.reasoning_effort" {
        default: EffortChoice::Auto,
        limits: (),
        env: ["VESTAL_REASONING_EFFORT"],
        aliases: ["agent.reasoning_effort"],
        changed_by: ChangedBy::Clients,
    }
    /// Tokens that the model may think with, where the provider takes a number (Anthropic). It
    /// counts before `model.reasoning_effort` there; `auto` goes by that.
    MODEL_THINKING_BUDGET: TokensOrAuto = "model.thinking_budget" {
        default: TokensOrAuto::Auto,
        limits: BUDGET,
        env: ["VESTAL_THINKING_BUDGET"],
        changed_by: ChangedBy::Clients,
    }
    /// How much single models think, by name. It goes before `model.reasoning_effort` and
    /// `model.thinking_budget`.
    MODEL_REASONING: ReasoningTable = "model.reasoning" {
        default: ReasoningTable::EMPTY,
        limits: (),
        env: ["VESTAL_MODEL_REASONING"],
    }
    /// What tokens of a model cost, in US dollars per million, for the cost that is shown. It goes
    /// before what is known of the model.
    MODEL_PRICES: PriceTable = "model.prices" {
        default: PriceTable::EMPTY,
        limits: (),
        env: ["VESTAL_MODEL_PRICES"],
    }

    /// Providers of your own. `api_key_env` names the variable that holds the key, in the
    /// environment or in `.env`; commands never get that variable. A name that is built in
    /// replaces what is built in.
    PROVIDERS: Providers = "providers" {
        default: Providers::EMPTY,
        limits: (),
        env: ["VESTAL_PROVIDERS"],
        secrecy: Secrecy::Within(&["api_key"]),
    }

    /// Whom to ask, one after the other, when the provider fails.
    FALLBACK_PROVIDERS: Fallbacks = "fallback_providers" {
        default: Fallbacks::EMPTY,
        limits: (),
        env: ["VESTAL_FALLBACK_PROVIDERS"],
    }
}

/// The settings of this owner.
pub(super) static GROUP: Group =
    Group { variables: PROXY_VARIABLES, secret_variables, secrets, ..Group::of(KEYS) };

/// Variables that name the proxy which model providers are asked through, in
/// capitals or small letters; the first that is set counts.
pub const PROXY_VARIABLES: &[Variable] = &[
    Variable {
        name: "HTTPS_PROXY",
        doc: "Address of the proxy that model providers are asked through. Addresses of this machine are never asked through it.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "ALL_PROXY",
        doc: "The same, when `HTTPS_PROXY` is not set.",
        scope: VariableScope::Environment,
    },
];

/// Returns the variables that hold keys of the user's own providers: secrets
/// like those of providers that are built in, whatever they are called.
fn secret_variables(settings: &Settings) -> Result<Vec<EnvName>, ConfigError> {
    let providers = settings.get(&PROVIDERS)?.value;
    Ok(providers.iter().filter_map(|(_, own)| own.api_key_env.clone()).collect())
}

fn secrets(settings: &Settings) -> Vec<String> {
    let providers = settings.get(&PROVIDERS).map_or(Providers::EMPTY, |found| found.value);
    let key = settings.get(&MODEL_API_KEY).map_or(SecretText::EMPTY, |found| found.value);
    let keys = providers.iter().map(|(_, own)| &own.api_key).chain([&key]);
    keys.filter_map(SecretText::expose).map(str::to_owned).collect()
}
