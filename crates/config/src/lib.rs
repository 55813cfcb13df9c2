#![doc = include_str!("../README.md")]

mod announce;
mod append;
mod check;
mod docs;
mod dotenv;
mod entries;
mod environment;
mod error;
mod files;
mod home;
mod input;
mod key;
pub mod kind;
mod kinds;
mod layers;
mod misspelt;
mod names;
mod overrides;
mod portable;
mod references;
mod schema;
mod set;
mod set_variable;
mod settings;
mod show;
mod source;
mod suggest;
mod value;
mod yaml;

#[cfg(test)]
#[expect(unreachable_pub, reason = "what declares keys and choices makes them public")]
mod testing;

pub use announce::Audience;
pub use append::{AppendOutcome, TakeOutcome, append, take_out};
pub use check::{Finding, Severity};
pub use entries::{remove_entry, set_entry};
pub use environment::{Environment, Scope, Variable};
pub use error::{
    ConfigError, Conflict, Duplicate, FileError, FileProblem, InvalidValue, Misspelling,
    NotASection,
};
pub use files::read_text;
pub use home::{Home, HomeError, ProfileName, is_within};
pub use key::{AnyKey, IsolatingSetting, Key, Protection, Secrecy};
pub use kinds::{
    Bytes, Count, CountOrNone, Cpus, DAY, EnvName, EnvNames, EnvPairs, Fraction, Lines, Megabytes,
    Moment, Names, Patterns, Range, Seconds, SecondsOrNever, Secret, Setting, Text, TextLimits,
    YEAR,
};
pub use overrides::Override;
pub use portable::PortableSettings;
pub use references::Unresolved;
pub use schema::{Group, Schema, SecretVariables};
pub use set::{SetError, SetOutcome, set, unset};
pub use set_variable::{SetVariableError, set_variable};
pub use settings::{Resolved, Settings};
pub use show::Row;
pub use source::Source;
#[cfg(test)]
use testing::{keys, schema};
pub use value::{Decimal, Value};
pub use yaml::{EditError, SyntaxError, Yaml, YamlKind};
