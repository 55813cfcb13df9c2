//! The types that settings of several owners have. What only one owner needs is declared there.

mod amounts;
mod choices;
mod environment;
mod limits;
mod read;
mod text;

pub use amounts::{ByteSize, Count, DAY, Fraction, Moment, Range, Seconds, SecondsOrNever, YEAR};
pub use choices::{choose, one_of, words};
pub use environment::{EnvName, EnvNames, EnvPairs, SecretText};
pub use limits::{CountOrNone, Cpus, Megabytes};
pub use read::{Fields, expand, path, scaled, texts};
pub use text::{LineMode, Names, Patterns, Text, TextLimits, is_name};

use crate::value::{SettingInput, SettingValue, ValueRefusal};

#[cfg(test)]
#[path = "kinds/kinds_tests.rs"]
mod kinds_tests;

/// A type that a setting can have: how it is read, checked, shown and described.
pub trait Setting: Clone + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// What narrows the type for one key, such as a smallest and a largest value.
    type Limits: Send + Sync + 'static;

    /// Whether an unquoted `~` in YAML means the user's home rather than nothing.
    const TILDE_IS_HOME: bool = false;

    /// Reads a value that was given, or says why it cannot be taken.
    fn read(input: SettingInput<'_>, limits: &Self::Limits) -> Result<Self, ValueRefusal>;

    /// Returns the value without its type.
    fn to_value(&self) -> SettingValue;

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
