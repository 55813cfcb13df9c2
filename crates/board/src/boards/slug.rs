//! Names of boards, and errors about boards.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The longest name.
const MAX: usize = 64;
const DEFAULT: &str = "default";

/// The name of a board: letters, digits, `_` and `-`, a letter or a digit
/// first. It is safe as the name of a directory, and stays what it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug(String);

/// A text that names no board.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a valid board name: use up to {MAX} of a-z, 0-9, _ and -, a letter or a digit first"
)]
pub struct InvalidSlug {
    /// The text, shortened.
    pub text: String,
}

impl Slug {
    /// Makes a name; capitals become small letters, and space around it goes.
    pub fn new(text: &str) -> Result<Self, InvalidSlug> {
        let folded = text.trim().to_ascii_lowercase();
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = folded.len() <= MAX
            && folded.bytes().next().is_some_and(letter)
            && folded.bytes().all(|byte| letter(byte) || byte == b'_' || byte == b'-');
        if valid {
            Ok(Self(folded))
        } else {
            Err(InvalidSlug { text: text.chars().take(2 * MAX).collect() })
        }
    }

    /// Returns the name of the board that is always there.
    pub fn default_board() -> Self {
        Self(DEFAULT.to_owned())
    }

    /// Reports whether this is the board that is always there.
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what the board is called as long as nobody gave it a name:
    /// `my-board` becomes `My Board`.
    pub(super) fn in_words(&self) -> String {
        let capital = |word: &str| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        let words = self.0.split(['-', '_']).filter(|word| !word.is_empty());
        words.map(capital).collect::<Vec<_>>().join(" ")
    }
}

impl FromStr for Slug {
    type Err = InvalidSlug;

    fn from_str(text: &str) -> Result<Self, InvalidSlug> {
        Self::new(text)
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for Slug {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Why something was not done with a board. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BoardsError {
    /// A text that names no board.
    #[error(transparent)]
    Name(#[from] InvalidSlug),
    /// There is no such board.
    #[error("board {slug} does not exist; make it with: vestal kanban boards create {slug}")]
    Missing {
        /// Its name.
        slug: Slug,
    },
    /// The board was removed, and is kept.
    #[error(
        "board {slug} is archived; bring it back with: vestal kanban boards restore {slug}, or be rid of it with: vestal kanban boards rm {slug} --delete"
    )]
    Archived {
        /// Its name.
        slug: Slug,
    },
    /// The board was archived while somebody had it open.
    #[error("the board was archived; nothing new is begun on it")]
    Closed,
    /// Tasks of the board are being worked on.
    #[error("cannot {verb} board {slug}: {count} of its tasks {} being worked on; wait, or take them back with: vestal kanban --board {slug} reclaim TASK", if *count == 1 { "is" } else { "are" })]
    Busy {
        /// What was asked: `archive` or `delete`.
        verb: &'static str,
        /// Its name.
        slug: Slug,
        /// How many.
        count: usize,
    },
    /// The board is always there.
    #[error("cannot {verb} board default: it is always there")]
    Default {
        /// What was asked.
        verb: &'static str,
    },
    /// A board came back under the name of one that was being deleted.
    #[error("board {slug} was not deleted: work on it began meanwhile, and its name was taken; it is in {}", path.display())]
    Displaced {
        /// Its name.
        slug: Slug,
        /// Where it is.
        path: PathBuf,
    },
}

#[cfg(test)]
#[path = "slug_tests.rs"]
mod tests;
