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
mod misspelt;
mod names;
mod portable;
mod schema;
mod set;
mod set_variable;
mod settings;
mod value;
mod yaml;

#[cfg(test)]
#[expect(unreachable_pub, reason = "what declares keys and choices makes them public")]
mod testing;

pub use check::{Audience, Finding, Severity};
pub use config_text::{
    ConfigText, ConfigTextError, ConfigTextOutcome, TextUse, config_text, use_config_text,
};
pub use entries::{AppendOutcome, TakeOutcome, append, remove_entry, set_entry, take_out};
pub use environment::{Environment, Unresolved, Variable, VariableScope};
pub use error::{
    ConfigError, Conflict, Duplicate, FileError, FileProblem, InvalidValue, Misspelling,
    NotASection,
};
pub use fields::{Field, FieldSecrecy};
pub use files::read_text;
pub use home::{Home, HomeError, ProfileName, is_within};
pub use key::{AnyKey, IsolatingSetting, Key, Protection, Secrecy};
pub use kinds::{
    Bytes, Count, CountOrNone, Cpus, DAY, EnvName, EnvNames, EnvPairs, Fraction, Lines, Megabytes,
    Moment, Names, Patterns, Range, Seconds, SecondsOrNever, Secret, Setting, Text, TextLimits,
    YEAR,
};
pub use layers::{Override, Source};
pub use portable::PortableSettings;
pub use schema::{Group, Schema, SecretVariables};
pub use set::{SetError, SetOutcome, check_value, set, unset};
pub use set_variable::{SetVariableError, remove_variable, set_variable};
pub use settings::{Resolved, Row, Settings};
#[cfg(test)]
use testing::{keys, schema};
pub use value::{Decimal, Value};
pub use yaml::{EditError, SyntaxError, Yaml, YamlKind};

pub mod kind {
    //! What a type of setting is made of, for owners that declare types of their own.
    //!
    //! A type implements [`Setting`](crate::Setting): it reads an [`Input`] or returns a [`Refusal`].
    //! One that is a choice of words is declared with [`choices!`](crate::choices!).

    pub use serde_json::Value as Json;

    pub use crate::kinds::{Fields, choose, expand, is_name, one_of, path, scaled, texts, words};
    pub use crate::misspelt::closest;
    pub use crate::value::{Input, Refusal};
    pub use crate::yaml::{Entry, Node};
}
