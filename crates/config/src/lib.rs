#![doc = include_str!("../README.md")]

mod check;
mod config_text;
mod docs;
mod entries;
mod environment;
mod error;
mod fields;
mod files;
mod hidden;
mod home;
mod key;
mod kinds;
mod layers;
mod names;
mod portable;
mod schema;
mod set;
mod set_variable;
mod settings;
mod value;
mod workspace;
mod yaml;

#[cfg(test)]
#[expect(unreachable_pub, reason = "what declares keys and choices makes them public")]
mod testing;

pub use check::{SettingFinding, Severity};
pub use config_text::{
    ConfigText, ConfigTextError, ConfigTextOutcome, TextUse, config_text, use_config_text,
};
pub use entries::{AppendOutcome, TakeOutcome, append, remove_entry, set_entry, take_out};
pub use environment::{Environment, Unresolved, Variable, VariableScope};
pub use error::{
    ConfigError, Conflict, Duplicate, FileProblem, InvalidValue, Misspelling, NotASection,
    SettingsFileError,
};
pub use fields::{Field, FieldSecrecy};
pub use files::read_text;
pub use home::{Home, HomeNotFound, ProfileName, is_within};
pub use key::{AnyKey, ChangedBy, IsolatingSetting, Protection, Secrecy, SettingKey};
pub use kinds::{
    ByteSize, Count, CountOrNone, Cpus, DAY, EnvName, EnvNames, EnvPairs, Fraction, LineMode,
    Megabytes, Moment, Names, Patterns, Range, Seconds, SecondsOrNever, SecretText, Setting, Text,
    TextLimits, YEAR,
};
pub use layers::{Override, ValueSource};
pub use names::Audience;
pub use portable::PortableSettings;
pub use schema::{Group, Schema, SecretVariables};
pub use set::{SetError, SetOutcome, check_value, set, unset};
pub use set_variable::{SetVariableError, remove_variable, set_variable};
pub use settings::{Resolved, SettingRow, Settings};
#[cfg(test)]
use testing::{keys, schema};
pub use value::{Decimal, SettingValue};
pub use workspace::too_wide;
pub use yaml::{EditError, SyntaxError, Yaml, YamlKind};

pub mod kind {
    //! What a type of setting is made of, for owners that declare types of their own.
    //!
    //! A type implements [`Setting`](crate::Setting): it reads a [`SettingInput`] or returns a [`ValueRefusal`].
    //! One that is a choice of words is declared with [`choices!`](crate::choices!).

    pub use serde_json::Value as Json;

    pub use crate::kinds::{Fields, choose, expand, is_name, one_of, path, scaled, texts, words};
    pub use crate::names::closest;
    pub use crate::value::{SettingInput, ValueRefusal};
    pub use crate::yaml::{MapEntry, YamlNode};
}
