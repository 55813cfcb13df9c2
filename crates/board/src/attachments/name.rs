//! Names of files that are safe whoever gave them.

use crate::{Error, Result};

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;

/// The longest name, in bytes; so it has no more characters either, and every
/// filesystem takes it.
const MAX_NAME: usize = 200;
/// The longest ending that is kept when a name is cut.
const MAX_ENDING: usize = 20;
/// The longest type.
const MAX_TYPE: usize = 127;

/// Returns the last part of a name, without what does harm in names of files: no
/// control characters, none that turn the direction of text, no dots in front.
pub(crate) fn safe_name(given: &str) -> String {
    let leaf = given.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
    let clean: String = leaf.chars().filter(|letter| !is_harmful(*letter)).collect();
    let clean = clean.trim().trim_start_matches(|c: char| c == '.' || c.is_whitespace()).trim();
    if clean.is_empty() { "file".to_owned() } else { with_suffix(clean, "") }
}

fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Returns the name, with a number where others have it.
pub(crate) fn unique_name(name: &str, taken: &[&str]) -> String {
    let free = |name: &String| !taken.contains(&name.as_str());
    let numbered = (1_usize..).map(|number| with_suffix(name, &format!(" ({number})")));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    // One of more names than are taken is free.
    names.find(free).unwrap_or_else(|| name.to_owned())
}

/// Puts something between a name and its ending, and cuts the name to fit.
fn with_suffix(name: &str, suffix: &str) -> String {
    let (stem, ending) = match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= MAX_ENDING => name.split_at(at),
        _ => (name, ""),
    };
    let room = MAX_NAME - suffix.len() - ending.len();
    let stem = &stem[..stem.floor_char_boundary(room)];
    format!("{stem}{suffix}{ending}")
}

/// Takes what is said to be in a file: `type/subtype`.
pub(crate) fn content_type(given: Option<&str>) -> Result<Option<String>> {
    let Some(given) = given.map(str::trim).filter(|given| !given.is_empty()) else {
        return Ok(None);
    };
    let printable = given.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let parts = given.split(';').next().and_then(|own| own.trim().split_once('/'));
    let word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let valid = given.len() <= MAX_TYPE
        && printable
        && parts.is_some_and(|(kind, subtype)| word(kind) && word(subtype));
    if valid {
        return Ok(Some(given.to_owned()));
    }
    Err(Error::Invalid {
        what: "the content type".to_owned(),
        reason: "is none; they look like text/plain".to_owned(),
    })
}
