//! Names of tasks and numbers of runs.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// What every task's name begins with.
const PREFIX: &str = "t_";
/// Letters after the prefix: 60 bits, so that a million tasks collide once in
/// two million boards; the store's key catches that one, and another is made.
const LETTERS: usize = 12;
/// Without letters that are mistaken for others when read aloud.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The name of a task: `t_` and twelve letters or digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

/// A text that names no task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the name of a task; they look like t_4x7k2m9qwe3r")]
pub struct InvalidId {
    /// The text, shortened.
    pub text: String,
}

impl TaskId {
    /// Makes a name that nothing else has.
    pub fn generate() -> Result<Self, std::io::Error> {
        let mut random = getrandom::u64().map_err(std::io::Error::other)?;
        let mut name = String::with_capacity(PREFIX.len() + LETTERS);
        name.push_str(PREFIX);
        for _ in 0..LETTERS {
            let letter = usize::try_from(random & 31).unwrap_or_default();
            name.push(char::from(ALPHABET[letter]));
            random >>= 5;
        }
        Ok(Self(name))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether a text may be the beginning of a name, so that it is
    /// worth looking for tasks that have it.
    pub fn is_prefix(text: &str) -> bool {
        text.strip_prefix(PREFIX).is_some_and(|rest| {
            rest.len() <= LETTERS && rest.bytes().all(|byte| ALPHABET.contains(&byte))
        })
    }
}

impl FromStr for TaskId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text.len() == PREFIX.len() + LETTERS && Self::is_prefix(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { text: text.chars().take(40).collect() })
        }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The number of a run. It grows with every claim on a board, so it is the
/// fencing token, too: of two runs of a task the one with the larger number is
/// the valid one, and the store takes nothing from the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RunId(i64);

impl RunId {
    /// Returns the run with this number.
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
#[path = "id_tests.rs"]
mod tests;
