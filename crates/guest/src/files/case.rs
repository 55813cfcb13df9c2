//! Upper and lower case of single characters.

/// Whether `A` is `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Exact,
    Ignored,
}

impl From<bool> for Case {
    fn from(ignored: bool) -> Self {
        if ignored { Self::Ignored } else { Self::Exact }
    }
}

/// Returns the lower case of a character, where that is one character.
pub(super) fn lower(character: char) -> char {
    only(character.to_lowercase()).unwrap_or(character)
}

/// Returns the upper case of a character, where that is one character.
pub(super) fn upper(character: char) -> char {
    only(character.to_uppercase()).unwrap_or(character)
}

fn only(mut characters: impl Iterator<Item = char>) -> Option<char> {
    let first = characters.next()?;
    characters.next().is_none().then_some(first)
}
