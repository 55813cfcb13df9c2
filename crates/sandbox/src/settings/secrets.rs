//! Which variables are secrets that commands have no business with.
//!
//! A command on this machine gets the caller's environment without:
//!
//! | class | what | let through by `terminal.env_passthrough` |
//! |---|---|---|
//! | [`SecretClass::Provider`] | keys, tokens and addresses of model providers | never |
//! | [`SecretClass::Own`] | Vestal's own secrets, relay identities | never |
//! | [`SecretClass::Sudo`] | `SUDO_PASSWORD` | never |
//! | [`SecretClass::Messaging`] | tokens and passwords of chat, mail and telephone services | yes |
//! | [`SecretClass::Tool`] | keys of search, browsing, speech and hosting services; `GH_TOKEN`, `GITHUB_TOKEN` | yes |
//! | [`SecretClass::Cloud`] | paths of Google Cloud credentials | yes |
//!
//! The general AWS chain (`AWS_ACCESS_KEY_ID`, `AWS_PROFILE`, …), `SSH_AUTH_SOCK`
//! and `CLAUDE_CODE_OAUTH_TOKEN` are inherited on purpose: commands that deploy,
//! push or start another agent need them. Names are compared without regard to
//! case, and a number at the end (`OPENAI_API_KEY_2`) makes no difference.

use std::ffi::OsString;

use vestal_config::{EnvName, EnvNames, Environment};

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;

/// What kind of secret a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecretClass {
    /// Key, token or address of a model provider.
    Provider,
    /// Belongs to Vestal itself.
    Own,
    /// The password for `sudo`.
    Sudo,
    /// Chat, mail or telephone service.
    Messaging,
    /// Service that a tool of an agent uses.
    Tool,
    /// Path of cloud credentials.
    Cloud,
}

impl SecretClass {
    /// Reports whether `terminal.env_passthrough` may let such a variable through.
    pub fn may_be_passed_on(self) -> bool {
        match self {
            Self::Provider | Self::Own | Self::Sudo => false,
            Self::Messaging | Self::Tool | Self::Cloud => true,
        }
    }
}

/// How names are recognised.
enum NameRule {
    /// These names.
    Names(&'static [&'static str]),
    /// Any of these names in front, `_`, and anything that ends in one of [`ENDINGS`].
    Owners(&'static [&'static str]),
    /// Anything that begins like this.
    Prefix(&'static str),
    /// Anything that begins and ends like this.
    Around(&'static str, &'static str),
}

/// What the name of a key, a token or an address ends in.
const ENDINGS: &[&str] = &[
    "API_KEY",
    "API_KEYS",
    "APIKEY",
    "ACCESS_KEY",
    "AUTH_KEY",
    "SECRET_KEY",
    "PRIVATE_KEY",
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "CREDENTIALS",
    "BASE_URL",
    "API_BASE",
    "API_URL",
    "ENDPOINT",
];

/// Kept although a rule below would match.
const INHERITED: &[&str] = &["CLAUDE_CODE_OAUTH_TOKEN", "SSH_AUTH_SOCK"];

/// The table. The first rule that matches decides.
const RULES: &[(SecretClass, NameRule)] = &[
    (SecretClass::Sudo, NameRule::Names(&["SUDO_PASSWORD"])),
    (SecretClass::Own, NameRule::Owners(&["VESTAL"])),
    (SecretClass::Own, NameRule::Names(&["VESTAL_PROVIDERS"])),
    (SecretClass::Own, NameRule::Prefix("GATEWAY_RELAY_")),
    (SecretClass::Provider, NameRule::Around("AUXILIARY_", "_API_KEY")),
    (SecretClass::Provider, NameRule::Around("AUXILIARY_", "_BASE_URL")),
    (
        SecretClass::Provider,
        NameRule::Names(&[
            "AWS_BEARER_TOKEN_BEDROCK",
            "GLM_API_KEY",
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "KIMI_CN_API_KEY",
            "LLM_MODEL_API_KEY",
            "OPENAI_ORGANIZATION",
            "OPENAI_ORG_ID",
            "OPENAI_PROJECT_ID",
        ]),
    ),
    (
        SecretClass::Provider,
        NameRule::Owners(&[
            "AI21",
            "AI_GATEWAY",
            "ALIBABA",
            "ANTHROPIC",
            "ANYSCALE",
            "ARCEE",
            "AZURE_AI",
            "AZURE_ANTHROPIC",
            "AZURE_FOUNDRY",
            "AZURE_INFERENCE",
            "AZURE_OPENAI",
            "BASETEN",
            "CEREBRAS",
            "CLAUDE",
            "CLOUDFLARE_AI",
            "CODEX",
            "COHERE",
            "CO",
            "COPILOT",
            "DASHSCOPE",
            "DEEPINFRA",
            "DEEPSEEK",
            "FIREWORKS",
            "GEMINI",
            "GLM",
            "GOOGLE",
            "GOOGLE_AI",
            "GOOGLE_GENERATIVE_AI",
            "GROK",
            "GROQ",
            "HF",
            "HUGGINGFACE",
            "HUGGINGFACEHUB",
            "HUGGING_FACE",
            "HYPERBOLIC",
            "INFERENCE",
            "KILOCODE",
            "KIMI",
            "LAMBDA",
            "LITELLM",
            "LLM",
            "LM_STUDIO",
            "LM",
            "MINIMAX",
            "MISTRAL",
            "MOONSHOT",
            "NEBIUS",
            "NOUS",
            "NOVITA",
            "NVIDIA",
            "NVIDIA_NIM",
            "OLLAMA",
            "OPENAI",
            "OPENCODE",
            "OPENROUTER",
            "PERPLEXITY",
            "PORTKEY",
            "PPLX",
            "QWEN",
            "REPLICATE",
            "SAMBANOVA",
            "SILICONFLOW",
            "STEPFUN",
            "TOGETHER",
            "TOGETHERAI",
            "UPSTAGE",
            "VERCEL_AI_GATEWAY",
            "VERTEX",
            "VOLCENGINE",
            "VOYAGE",
            "WATSONX",
            "XAI",
            "XIAOMI",
            "YI",
            "ZAI",
            "Z_AI",
            "ZHIPU",
            "ZHIPUAI",
        ]),
    ),
    (
        SecretClass::Messaging,
        NameRule::Owners(&[
            "BLUEBUBBLES",
            "DINGTALK",
            "DISCORD",
            "EMAIL",
            "FEISHU",
            "HASS",
            "HOMEASSISTANT",
            "IMAP",
            "LARK",
            "LINE",
            "MAILGUN",
            "MATRIX",
            "MATTERMOST",
            "NTFY",
            "PUSHOVER",
            "QQ",
            "SENDGRID",
            "SIGNAL",
            "SLACK",
            "SMTP",
            "TEAMS",
            "TELEGRAM",
            "TWILIO",
            "VONAGE",
            "WECOM",
            "WEIXIN",
            "WHATSAPP",
        ]),
    ),
    (
        SecretClass::Messaging,
        NameRule::Names(&[
            "DINGTALK_CLIENT_ID",
            "DISCORD_WEBHOOK_URL",
            "EMAIL_ADDRESS",
            "MATRIX_RECOVERY_KEY",
            "SIGNAL_ACCOUNT",
            "SIGNAL_HTTP_URL",
            "SLACK_WEBHOOK_URL",
            "TWILIO_ACCOUNT_SID",
            "WHATSAPP_PHONE_NUMBER_ID",
        ]),
    ),
    (
        SecretClass::Tool,
        NameRule::Names(&[
            "CAMOFOX_URL",
            "FIRECRAWL_GATEWAY_URL",
            "GH_TOKEN",
            "GITHUB_APP_ID",
            "GITHUB_APP_INSTALLATION_ID",
            "GITHUB_APP_PRIVATE_KEY_PATH",
            "GITHUB_TOKEN",
            "MODAL_TOKEN_ID",
            "SEARXNG_URL",
        ]),
    ),
    (
        SecretClass::Tool,
        NameRule::Owners(&[
            "APIFY",
            "ASSEMBLYAI",
            "BRAVE",
            "BRAVE_SEARCH",
            "BROWSERBASE",
            "BROWSER_USE",
            "CARTESIA",
            "DAYTONA",
            "DEEPGRAM",
            "E2B",
            "ELEVENLABS",
            "EXA",
            "FAL",
            "FIRECRAWL",
            "GITHUB_APP",
            "HONCHO",
            "JINA",
            "KAGI",
            "LANGFUSE",
            "LANGSMITH",
            "MEM0",
            "MODAL",
            "NOTION",
            "PARALLEL",
            "RUNWAY",
            "SERPAPI",
            "SERPER",
            "STABILITY",
            "SUPERMEMORY",
            "TAVILY",
            "TINKER",
            "WANDB",
        ]),
    ),
    (SecretClass::Tool, NameRule::Names(&["FAL_KEY"])),
    (
        SecretClass::Cloud,
        NameRule::Names(&[
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE",
            "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
            "GCLOUD_SERVICE_KEY",
            "GCP_SERVICE_ACCOUNT_KEY",
            "GOOGLE_CLOUD_KEYFILE_JSON",
            "GOOGLE_GHA_CREDS_PATH",
            "VERTEX_CREDENTIALS_PATH",
        ]),
    ),
];

/// Paths of credentials that a provider's rule would match first.
const CLOUD_FIRST: &[&str] =
    &["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"];

/// Returns what kind of secret a variable is, or none when it is none.
pub fn class_of(name: &str) -> Option<SecretClass> {
    let folded = name.to_ascii_uppercase();
    let bare = folded.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    let is_in = |names: &[&str]| names.contains(&folded.as_str());
    if is_in(INHERITED) {
        return None;
    }
    if is_in(CLOUD_FIRST) {
        return Some(SecretClass::Cloud);
    }
    let found = |name: &str| RULES.iter().find(|(_, rule)| rule.matches(name));
    found(&folded).or_else(|| found(bare)).map(|(class, _)| *class)
}

/// Reports whether a variable is a secret that commands don't get.
pub fn is_secret_name(name: &str) -> bool {
    class_of(name).is_some()
}

impl NameRule {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Names(names) => names.contains(&name),
            Self::Prefix(prefix) => name.starts_with(prefix),
            Self::Around(prefix, ending) => {
                name.len() > prefix.len() + ending.len()
                    && name.starts_with(prefix)
                    && name.ends_with(ending)
            }
            Self::Owners(owners) => owners.iter().any(|owner| {
                name.strip_prefix(owner)
                    .and_then(|rest| rest.strip_prefix('_'))
                    .is_some_and(|rest| ENDINGS.iter().any(|ending| ends_with_word(rest, ending)))
            }),
        }
    }
}

/// Reports whether a name ends in a word, alone or after a `_`.
fn ends_with_word(name: &str, word: &str) -> bool {
    name.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
}

/// An environment without secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Stripped {
    /// What is left, in order of name.
    pub variables: Vec<(OsString, OsString)>,
    /// Names that were asked for but are never passed on, whether set or not.
    pub refused: Vec<EnvName>,
}

/// Shows names only.
impl std::fmt::Debug for Stripped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.variables.iter().map(|(name, _)| name).collect();
        f.debug_struct("Stripped")
            .field("variables", &names)
            .field("refused", &self.refused)
            .finish()
    }
}

/// Takes the secrets out of an environment, except those in `passthrough` that
/// may be passed on.
pub fn strip(env: &Environment, passthrough: &EnvNames) -> Stripped {
    let passes = |name: &str| match class_of(name) {
        None => true,
        Some(class) => class.may_be_passed_on() && passthrough.contains(name),
    };
    let variables = env
        .iter()
        // What is secret is decided on the readable part of an odd name.
        .filter(|(name, _)| passes(&name.to_string_lossy()))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let refused = passthrough
        .iter()
        .filter(|name| class_of(name.as_str()).is_some_and(|class| !class.may_be_passed_on()))
        .cloned()
        .collect();
    Stripped { variables, refused }
}
