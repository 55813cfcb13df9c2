//! Every setting of Vestal, declared once.
//!
//! A key's type, default, environment names, documentation and limits stand in
//! one table ([`mod@keys`]); everything else (reading, checking, showing, editing,
//! the generated documentation) follows from it. No other crate reads
//! environment variables or YAML.
//!
//! ```
//! use vestal_config::{Environment, Home, Settings, keys};
//!
//! let env = Environment::from_pairs([("HOME", "/home/ada"), ("TERMINAL_TIMEOUT", "10m")]);
//! let home = Home::locate(&env, None)?;
//! let settings = Settings::load(&vestal_config::schema(), home, env, Vec::new());
//! let timeout = settings.get(&keys::TIMEOUT)?;
//! assert_eq!(timeout.value.as_secs(), 600);
//! assert_eq!(timeout.source.to_string(), "environment variable TERMINAL_TIMEOUT");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

mod append;
mod check;
mod contradictions;
mod docs;
mod dotenv;
mod entries;
mod environment;
mod error;
mod files;
mod forward;
mod home;
mod input;
mod isolating;
mod key;
pub mod keys;
mod kinds;
mod known_secrets;
mod layers;
mod misspelt;
mod names;
mod overrides;
pub mod profiles;
mod references;
mod schema;
pub mod secrets;
mod set;
mod set_variable;
mod settings;
mod show;
mod source;
mod suggest;
mod told;
mod value;
mod yaml;

#[cfg(test)]
mod kanban_tests;
#[cfg(test)]
mod testing;

pub use append::{AppendOutcome, TakeOutcome, append, take_out};
pub use check::{Finding, Severity};
pub use entries::{remove_entry, set_entry};
pub use environment::{ENGINE_VARIABLES, Environment, PROXY_VARIABLES, Scope, Variable};
pub use error::{
    ConfigError, Conflict, Duplicate, FileError, FileProblem, InvalidValue, Misspelling,
    NotASection,
};
pub use forward::Handing;
pub use home::{Home, HomeError, ProfileName, is_within};
pub use isolating::IsolatingSetting;
pub use key::{AnyKey, Key, Protection, Secrecy};
pub use keys::schema;
pub use kinds::{
    ApiMode, ApprovalMode, BackendChoice, BackendNames, BaseUrl, Bytes, Cap, Count, CountOrNone,
    CountOrSame, Cpus, DAY, Device, DockerBinary, DockerTransport, Durability, EnvName, EnvNames,
    EnvPairs, ExtraArgs, Fallback, Fallbacks, Fraction, Gpus, Headers, HostPath, ImageName,
    Isolation, Lines, McpConnection, McpServer, McpServerName, McpServers, McpTransport, Megabytes,
    Moment, Mount, MountKind, Names, OnConfigChange, Patterns, PortMapping, Price, Prices,
    Propagation, Protocol, Provider, ProviderChoice, ProviderName, Providers, Range, Relabel,
    Rootfs, SandboxDir, Seccomp, Seconds, SecondsOrNever, Secret, SecurityOption, Setting,
    StartDir, Text, TextLimits, TokenPrices, TokensOrAuto, Ulimit, Unattended, Uncapped, Volume,
    VolumeSource, Volumes, YEAR,
};
pub use overrides::Override;
pub use references::Unresolved;
pub use schema::{Group, Schema};
pub use set::{SetError, SetOutcome, set, unset};
pub use set_variable::{SetVariableError, set_variable};
pub use settings::{JobEnvironment, Resolved, Settings};
pub use show::Row;
pub use source::Source;
pub use told::Audience;
pub use value::{Decimal, Value};
pub use yaml::{EditError, SyntaxError, Yaml, YamlKind};
