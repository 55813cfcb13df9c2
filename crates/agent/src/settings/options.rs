//! How turns are run.

use std::sync::Arc;
use std::time::Duration;

use vestal_config::{ConfigError, Names, Patterns, SettingKey, Settings};
use vestal_model::ListCache;

use crate::agent::{AgentOptions, Delegation};
use crate::approvals::{ApprovalPolicy, GuardMode, Unattended as UnattendedPolicy};
use crate::compress::CompressionPolicy;
use crate::hooks::{Hook, Hooks};
use crate::limits::ToolLimits;
use crate::memory::MemoryTimeouts;
use crate::registry::Selection;
use crate::settings::{ApprovalMode, HookList, HookSetting, PROXY_VARIABLES, Unattended, keys};
use crate::turn::Guardrails;

/// Distinguishes "never" and a time so long that nobody will see its end.
const NEVER: Duration = Duration::from_hours(100 * 365 * 24);

/// Returns how turns are run.
pub fn options(settings: &Settings) -> Result<AgentOptions, ConfigError> {
    Ok(AgentOptions {
        max_turns: settings.get(&keys::AGENT_MAX_TURNS)?.value.get(),
        max_output_tokens: settings.get(&keys::MODEL_MAX_OUTPUT_TOKENS)?.value.get(),
        compression: compression(settings)?,
        guardrails: guardrails(settings)?,
        limits: Arc::new(limits(settings)?),
        policy: policy(settings)?,
        delegation: delegation(settings)?,
        memory_timeouts: MemoryTimeouts::default(),
        hooks: Arc::new(hooks(settings)?),
    })
}

/// Returns how models are asked.
pub fn model_options(settings: &Settings) -> Result<vestal_model::ModelOptions, ConfigError> {
    Ok(vestal_model::ModelOptions {
        retries: settings.get(&keys::AGENT_API_MAX_RETRIES)?.value.get(),
        idle_timeout: settings.get(&keys::AGENT_REQUEST_TIMEOUT)?.value.duration(),
        proxy: proxy(settings),
        lists: Some(super::model_lists(settings)),
        ..vestal_model::ModelOptions::default()
    })
}

/// Returns the proxy that providers are asked through, if the environment names one.
fn proxy(settings: &Settings) -> Option<String> {
    let named = PROXY_VARIABLES.iter().find_map(|variable| {
        let lower = variable.name.to_ascii_lowercase();
        let environment = settings.environment();
        environment.non_empty(variable.name).or_else(|| environment.non_empty(lower))
    })?;
    named.to_str().map(str::to_owned)
}

/// Returns which tools a conversation gets.
pub fn selection(settings: &Settings) -> Result<Selection, ConfigError> {
    let names = |key: &SettingKey<Names>| -> Result<Vec<String>, ConfigError> {
        Ok(settings.get(key)?.value.iter().map(str::to_owned).collect())
    };
    Ok(Selection {
        toolsets: names(&keys::TOOLSETS)?,
        without_toolsets: names(&keys::AGENT_DISABLED_TOOLSETS)?,
        without_tools: names(&keys::AGENT_DISABLED_TOOLS)?,
    })
}

fn compression(settings: &Settings) -> Result<CompressionPolicy, ConfigError> {
    Ok(CompressionPolicy {
        enabled: settings.get(&keys::COMPRESSION_ENABLED)?.value,
        threshold: settings.get(&keys::COMPRESSION_THRESHOLD)?.value.as_f64(),
        target_ratio: settings.get(&keys::COMPRESSION_TARGET_RATIO)?.value.as_f64(),
        protect_first: size(settings, &keys::COMPRESSION_PROTECT_FIRST_N)?,
        protect_last: size(settings, &keys::COMPRESSION_PROTECT_LAST_N)?,
    })
}

fn guardrails(settings: &Settings) -> Result<Guardrails, ConfigError> {
    Ok(Guardrails {
        warn_after: settings.get(&keys::TOOL_LOOP_WARN_AFTER)?.value.get().unwrap_or(u32::MAX),
        stop_after: settings.get(&keys::TOOL_LOOP_STOP_AFTER)?.value.get(),
    })
}

fn limits(settings: &Settings) -> Result<ToolLimits, ConfigError> {
    let bytes = settings.get(&keys::TOOL_OUTPUT_MAX_BYTES)?.value.get();
    let clarify = settings.get(&keys::AGENT_CLARIFY_TIMEOUT)?.value;
    Ok(ToolLimits {
        command_timeout: settings.get(&vestal_sandbox::keys::TIMEOUT)?.value.duration(),
        output_bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        output_lines: size(settings, &keys::TOOL_OUTPUT_MAX_LINES)?,
        line_length: size(settings, &keys::TOOL_OUTPUT_MAX_LINE_LENGTH)?,
        result_bytes: crate::limits::RESULT_BYTES,
        code_timeout: settings.get(&keys::CODE_EXECUTION_TIMEOUT)?.value.duration(),
        code_tool_calls: settings.get(&keys::CODE_EXECUTION_MAX_TOOL_CALLS)?.value.get(),
        clarify_timeout: clarify.duration().unwrap_or(NEVER),
    })
}

fn policy(settings: &Settings) -> Result<ApprovalPolicy, ConfigError> {
    let patterns = |key: &SettingKey<Patterns>| -> Result<Vec<String>, ConfigError> {
        Ok(settings.get(key)?.value.iter().map(str::to_owned).collect())
    };
    Ok(ApprovalPolicy {
        mode: match settings.get(&keys::APPROVALS_MODE)?.value {
            ApprovalMode::Manual => GuardMode::Manual,
            ApprovalMode::Off => GuardMode::Off,
        },
        timeout: settings.get(&keys::APPROVALS_TIMEOUT)?.value.duration(),
        deny: patterns(&keys::APPROVALS_DENY)?,
        unattended: match settings.get(&keys::APPROVALS_UNATTENDED)?.value {
            Unattended::Deny => UnattendedPolicy::Deny,
            Unattended::Allow => UnattendedPolicy::Allow,
        },
        allowlist: patterns(&keys::COMMAND_ALLOWLIST)?,
        user_home: settings.environment().user_home(),
        vestal_home: Some(settings.home().root().to_owned()),
    })
}

fn delegation(settings: &Settings) -> Result<Delegation, ConfigError> {
    Ok(Delegation {
        max_turns: settings.get(&keys::DELEGATION_MAX_ITERATIONS)?.value.get(),
        max_concurrent: size(settings, &keys::DELEGATION_MAX_CONCURRENT_CHILDREN)?,
        max_depth: settings.get(&keys::DELEGATION_MAX_SPAWN_DEPTH)?.value.get(),
        auto_approve: settings.get(&keys::DELEGATION_SUBAGENT_AUTO_APPROVE)?.value,
        max_report_chars: size(settings, &keys::DELEGATION_MAX_SUMMARY_CHARS)?,
    })
}

/// Variables that hooks get, and those that begin with [`HOOK_PREFIXES`]: no keys of providers.
const HOOK_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TERM",
    "SHELL",
    "TMPDIR",
    "TZ",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
];
const HOOK_PREFIXES: &[&str] = &["LC_", "XDG_"];

fn hooks(settings: &Settings) -> Result<Hooks, ConfigError> {
    let list = |key: &SettingKey<HookList>| -> Result<Vec<Hook>, ConfigError> {
        let hooks = settings.get(key)?.value;
        let hook =
            |own: &HookSetting| Hook::new(&own.command, &own.tools, own.timeout(), own.on_failure);
        Ok(hooks.iter().map(hook).collect())
    };
    let environment = settings.environment();
    let passes = |name: &std::ffi::OsStr| {
        name.to_str().is_some_and(|name| {
            HOOK_VARIABLES.contains(&name)
                || HOOK_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        })
    };
    let env = environment
        .iter()
        .filter(|(name, _)| passes(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Hooks {
        before: list(&keys::HOOKS_BEFORE_TOOL)?,
        after: list(&keys::HOOKS_AFTER_TOOL)?,
        env: env.collect(),
        dir: environment.user_home().unwrap_or_else(|| settings.home().dir()),
    })
}

fn size(settings: &Settings, key: &SettingKey<vestal_config::Count>) -> Result<usize, ConfigError> {
    Ok(usize::try_from(settings.get(key)?.value.get()).unwrap_or(usize::MAX))
}

/// How long a provider's list counts.
const MAX_AGE: Duration = Duration::from_hours(24);

/// Returns the lists that are kept, so that names of models can be completed
/// without anybody being asked.
pub fn model_lists(settings: &Settings) -> ListCache {
    ListCache::new(settings.home().dir().join("cache").join("models.json"), MAX_AGE)
}
