//! The types settings have.

mod amounts;
mod backend;
mod caps;
mod choices;
mod docker;
mod environment;
mod flag;
mod items;
mod limits;
mod mcp;
mod model;
mod moment;
mod places;
mod secret;
mod text;
mod tokens;
mod url;

pub use amounts::{Bytes, Count, DAY, Range, Seconds, SecondsOrNever, YEAR};
pub use backend::{BackendChoice, BackendNames};
pub use caps::{Cap, CountOrSame, Uncapped};
pub use choices::{
    ApiMode, ApprovalMode, DockerTransport, Durability, Isolation, OnConfigChange, Unattended,
};
pub use docker::{
    Device, DockerBinary, ExtraArgs, Gpus, HostPath, ImageName, Mount, MountKind, PortMapping,
    Propagation, Protocol, Relabel, Seccomp, SecurityOption, Ulimit, Volume, VolumeSource, Volumes,
};
pub use environment::{EnvName, EnvNames, EnvPairs};
pub use limits::{CountOrNone, Cpus, Megabytes};
pub use mcp::{Headers, McpConnection, McpServer, McpServerName, McpServers, McpTransport};
pub use model::{
    Fallback, Fallbacks, Price, Prices, Provider, ProviderChoice, ProviderName, Providers,
    TokenPrices,
};
pub use moment::Moment;
pub use places::{Rootfs, SandboxDir, StartDir};
pub use secret::Secret;
pub use text::{Lines, Names, Patterns, Text, TextLimits};
pub use tokens::{Fraction, TokensOrAuto};
pub use url::BaseUrl;

use crate::input::{Input, Refusal};
use crate::value::Value;

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod kinds_tests;

/// Limits that a key and an entry of a map share.
pub(crate) mod limits_of {
    use super::{Lines, Range, TextLimits};

    /// Of the name of a model.
    pub(crate) const MODEL_NAME: TextLimits = TextLimits { max_bytes: 256, lines: Lines::One };
    /// Of the tokens that a model takes.
    pub(crate) const CONTEXT_LENGTH: Range = Range { min: 1024, max: 100_000_000 };
}

/// A type that a setting can have: how it is read, checked, shown and described.
pub trait Setting: Clone + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// What narrows the type for one key, such as a smallest and a largest value.
    type Limits: Send + Sync + 'static;

    /// Whether an unquoted `~` in YAML means the user's home rather than nothing.
    const TILDE_IS_HOME: bool = false;

    /// Reads a value that was given, or says why it cannot be taken.
    #[doc(hidden)]
    fn read(input: Input<'_>, limits: &Self::Limits) -> Result<Self, Refusal>;

    /// Returns the value without its type.
    fn to_value(&self) -> Value;

    /// Returns the value in words where they say more than [`Setting::to_value`].
    fn in_words(&self) -> Option<String> {
        None
    }

    /// Says what is wrong with a value that was taken all the same, to be read
    /// after "which …". It is worth a warning.
    fn doubt(&self) -> Option<&'static str> {
        None
    }

    /// Says what is allowed, to be read after "allowed: ".
    fn allowed(limits: &Self::Limits) -> String;

    /// Returns values that are allowed, at least two, as they may stand in a variable.
    fn examples(limits: &Self::Limits) -> Vec<String>;

    /// Returns the JSON schema of the values that are allowed.
    fn schema(limits: &Self::Limits) -> serde_json::Value;
}
