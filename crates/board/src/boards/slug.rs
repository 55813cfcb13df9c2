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
    #[error("the board was archived; no new work starts on it")]
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
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_trimmed_and_folded() {
        for (text, slug) in [("Default", "default"), (" my-board ", "my-board"), ("1_a", "1_a")] {
            assert_eq!(Slug::new(text).expect("a name").as_str(), slug);
        }
        assert!(Slug::new("DEFAULT").expect("a name").is_default());
        assert!(Slug::new(&"a".repeat(64)).is_ok());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(65);
        let wrong = [
            "",
            " ",
            "-a",
            "_a",
            ".",
            "..",
            "a/b",
            "../a",
            "a.b",
            "a b",
            "é",
            "a\0",
            "a\nb",
            "_archived",
            &long,
        ];
        for text in wrong {
            let error = Slug::new(text).expect_err("no name");
            assert!(error.to_string().contains("is not a valid board name"), "{error}");
        }
    }

    #[test]
    fn a_board_without_a_name_is_called_after_its_slug() {
        for (slug, name) in
            [("default", "Default"), ("my-big_board", "My Big Board"), ("a--b", "A B")]
        {
            assert_eq!(Slug::new(slug).expect("a name").in_words(), name);
        }
    }

    proptest! {
        #[test]
        fn no_name_leads_anywhere_else(text in "[a-zA-Z0-9./\\\\ _-]{0,6}|.*") {
            if let Ok(slug) = Slug::new(&text) {
                let path = Path::new("/boards").join(slug.as_str());
                prop_assert_eq!(path.parent(), Some(Path::new("/boards")));
                prop_assert_eq!(path.components().count(), 3);
            }
        }
    }
}
