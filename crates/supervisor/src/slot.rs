//! What is supervised: named children, and who says which there are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const MAX_NAME: usize = 64;

/// The name of a slot: lower-case letters, digits, `_` and `-`, 64 at most, a letter or a digit
/// first. It is safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SlotName(String);

impl SlotName {
    /// Makes a name.
    pub fn new(name: &str) -> Result<Self, BadSlotName> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = name.len() <= MAX_NAME
            && name.bytes().next().is_some_and(letter)
            && name.bytes().all(|byte| letter(byte) || byte == b'_' || byte == b'-');
        if valid { Ok(Self(name.to_owned())) } else { Err(BadSlotName(shortened(name))) }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SlotName {
    type Error = BadSlotName;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(&name)
    }
}

impl From<SlotName> for String {
    fn from(name: SlotName) -> Self {
        name.0
    }
}

/// A name that no slot can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name for a slot: up to {MAX_NAME} of a-z, 0-9, _ and -, a letter or a digit first"
)]
pub struct BadSlotName(String);

fn shortened(name: &str) -> String {
    name.chars().take(2 * MAX_NAME).collect()
}

/// A named child that is kept running while it is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub name: SlotName,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// All variables of its environment but those of the [seam](crate#the-seam).
    pub env: BTreeMap<OsString, OsString>,
    /// Its working directory.
    pub dir: PathBuf,
    /// The file with the desired state, which the supervisor writes.
    pub desired: PathBuf,
    /// The file with the actual state, which only the child writes.
    pub actual: PathBuf,
    /// From SIGTERM to SIGKILL.
    pub stop_within: Duration,
    /// From the start to the byte that announces readiness. A child that is not ready by then is
    /// ended and started again.
    pub ready_within: Duration,
}

/// What a source found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A slot.
    Slot(Box<Slot>),
    /// Something that should be a slot and cannot be one. The others are not affected.
    Broken {
        /// What it is called; any text.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Says which slots there are. It is asked at the start and whenever something changed.
pub trait SlotSource: Send + Sync + 'static {
    /// Returns all slots there are now.
    fn slots(&self) -> Vec<Found>;

    /// Returns directories whose entries decide which slots there are. It is asked again after each
    /// change, so that a directory that is yet to be made is found by watching the one above.
    fn watched(&self) -> Vec<PathBuf>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_as_a_file_name() {
        for good in ["default", "a", "0", "a-b_c", &"x".repeat(64)] {
            assert_eq!(SlotName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "-a", "_a", "A", "a/b", "a b", "a\n", "ä", &"x".repeat(65)] {
            assert!(SlotName::new(bad).is_err(), "{bad:?}");
        }
    }
}
