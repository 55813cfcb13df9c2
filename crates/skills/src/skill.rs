//! One skill.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::SkillError;
use crate::front_matter::FrontMatter;

/// Name of the file that makes a folder a skill.
pub(crate) const INSTRUCTIONS: &str = "SKILL.md";

/// A skill that is installed and in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What its front matter says.
    pub about: FrontMatter,
    /// The folder it is in below the skills' own, if any.
    pub category: Option<String>,
    /// Its own folder.
    pub dir: PathBuf,
    /// Whether it is used.
    pub enabled: bool,
}

impl Skill {
    /// Returns its name.
    pub fn name(&self) -> &SkillName {
        &self.about.name
    }

    /// Returns the file with its instructions.
    pub fn instructions(&self) -> PathBuf {
        self.dir.join(INSTRUCTIONS)
    }

    /// Returns its own folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Longest name.
const LONGEST: usize = 64;

/// What names are made of, for messages.
pub(crate) const RULE: &str =
    "1 to 64 lowercase letters, digits and single hyphens between them, as in pdf-forms";

/// A skill's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SkillName(String);

impl SkillName {
    /// Makes a name, unless it is none.
    pub fn new(text: &str) -> Result<Self, SkillError> {
        let is_fine = (1..=LONGEST).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-')
            && !text.contains("--");
        if is_fine { Ok(Self(text.to_owned())) } else { Err(SkillError::Name(text.to_owned())) }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Bytes of a `SKILL.md`.
pub(crate) const MAX_INSTRUCTIONS: u64 = 256 << 10;

/// Bytes of its front matter.
pub(crate) const MAX_FRONT_MATTER: usize = 32 << 10;

/// Characters of a description.
pub(crate) const MAX_DESCRIPTION: usize = 1024;

/// Characters of other words in the front matter.
pub(crate) const MAX_WORDS: usize = 1024;

/// Tags, and variables that are asked for.
pub(crate) const MAX_LIST: usize = 64;

/// Skills that are looked at.
pub(crate) const MAX_SKILLS: usize = 1000;

/// Files of a skill, as many as a sandbox can be shown.
pub(crate) const MAX_FILES: usize = 2000;

/// Bytes of all files of a skill, as many as a sandbox can be shown.
pub(crate) const MAX_BYTES: u64 = 32 << 20;

/// Bytes of one file that the agent looks at or writes.
pub(crate) const MAX_FILE: u64 = 1 << 20;

/// How deep the files of a skill may be nested.
pub(crate) const MAX_DEPTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_one_everywhere_are_taken() {
        for fine in ["a", "pdf-forms", "2fa", "a-b-c", &"x".repeat(64)] {
            assert_eq!(SkillName::new(fine).unwrap().as_str(), fine);
        }
        for wrong in
            ["", "-a", "a-", "a--b", "A", "a_b", "a b", "ä", "a/b", "..", ".a", &"x".repeat(65)]
        {
            let error = SkillName::new(wrong).unwrap_err().to_string();
            assert!(error.contains("lowercase"), "{wrong}: {error}");
        }
    }
}
