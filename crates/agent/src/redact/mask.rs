//! What stands in the place of a secret.

use super::find::Kind;

/// Length from which some of a secret is shown, so that two can be told apart.
const LONG: usize = 18;

/// Characters that are shown of its beginning and of its end.
const BEGINNING: usize = 6;
const END: usize = 4;

const GAP: char = '…';
const SHORT: &str = "***";
const SENTINEL: &str = "«redacted:";
const SENTINEL_END: char = '»';

/// Returns what is shown of a secret.
pub(super) fn shown(secret: &str) -> String {
    let length = secret.chars().count();
    if length < LONG {
        return SHORT.to_owned();
    }
    let beginning = secret.chars().take(BEGINNING);
    let end = secret.chars().skip(length - END);
    let shown: String = beginning.chain(std::iter::once(GAP)).chain(end).collect();
    // Half an escape would spoil the text around it.
    if shown.contains(['\\', '"', '\'']) { SHORT.to_owned() } else { shown }
}

/// Returns what stands in a file for a secret. It is no form that any secret
/// has, and easy to find again.
pub(super) fn sentinel(kind: Kind) -> String {
    format!("{SENTINEL}{}{SENTINEL_END}", kind.as_str())
}

/// Reports whether a text holds a sentinel.
pub(super) fn has_sentinel(text: &str) -> bool {
    text.split(SENTINEL).skip(1).any(|rest| {
        let kind = rest.split(SENTINEL_END).next().unwrap_or_default();
        Kind::ALL.iter().any(|own| own.as_str() == kind)
    })
}

/// Reports whether a text is nothing but a mask.
pub(super) fn is_mask(text: &str) -> bool {
    let masked = text.chars().nth(BEGINNING) == Some(GAP)
        && text.chars().nth(BEGINNING + END + 1).is_none()
        && text.chars().nth(BEGINNING + END).is_some();
    let sentinel = text.starts_with(SENTINEL) && text.ends_with(SENTINEL_END);
    text == SHORT || masked || sentinel
}
