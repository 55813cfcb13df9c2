//! What skills are called.

use std::fmt;

use crate::error::SkillError;

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
