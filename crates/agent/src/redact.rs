//! Keeps secrets out of what is shown, stored and sent.
//!
//! Each secret is found independently of the text around it, so no text can turn the
//! search off for the rest. `find.rs` finds tokens by their form, and private keys;
//! `fields.rs` finds values by the name before them. Each reads a text once, from
//! beginning to end.

mod fields;
mod find;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use find::{SecretHit, SecretKind};

/// Shortest value that is looked for wherever it appears: shorter ones are too
/// often words.
const SHORTEST: usize = 8;

/// Masks secrets in text. Cheap to clone; what one of the clones learns all of
/// them know.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Values that are known to be secret, the longest first.
    secrets: Arc<RwLock<Arc<[String]>>>,
    off: bool,
}

impl Redactor {
    /// Returns a redactor that knows these secrets beside all that look like
    /// one. Those shorter than eight characters, and plain addresses, are only
    /// found by their surroundings.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let redactor = Self::default();
        redactor.learn(secrets);
        redactor
    }

    /// Knows these secrets as well from now on, by the same rules.
    pub fn learn(&self, secrets: impl IntoIterator<Item = String>) {
        // Written under one lock, or of two that learn at once one would forget.
        let mut own = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        let mut known: Vec<String> = own.to_vec();
        for secret in secrets {
            let secret = secret.trim();
            // A key of several lines is also printed line by line.
            let lines = secret.lines().map(str::trim).filter(|line| line.len() > 2 * SHORTEST);
            let escaped = serde_json::Value::from(secret).to_string();
            let escaped = escaped.trim_matches('"').to_owned();
            known.extend([secret.to_owned(), escaped]);
            known.extend(lines.map(str::to_owned));
        }
        known.retain(|secret| {
            let begins = |scheme: &str| secret.starts_with(scheme) && !secret.contains('@');
            let plain = begins("http://") || begins("https://");
            secret.chars().count() >= SHORTEST && !plain && !secret.starts_with("-----")
        });
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        *own = known.into();
    }

    fn known(&self) -> Arc<[String]> {
        Arc::clone(&self.secrets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a redactor that changes nothing.
    pub fn off() -> Self {
        Self { secrets: Arc::default(), off: true }
    }

    /// Masks secrets in what commands print and in what is shown or logged.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replace(text, &mut find::PemState::default(), |secret, _| mask_secret(secret))
    }

    /// Masks secrets in the contents of a file, in a way that cannot be mistaken
    /// for the secret when it is written back. The lines stay the same in number.
    pub fn redact_file<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replace(text, &mut find::PemState::default(), |_, kind| sentinel(kind))
    }

    /// Masks secrets in the result of a tool: in each text of it if it is JSON, so
    /// that it stays JSON whatever is masked.
    pub fn redact_result<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.off || !text.trim_start().starts_with(['{', '[']) {
            return self.redact(text);
        }
        match serde_json::from_str(text) {
            Ok(value) => {
                let masked = self.redact_value(&value, None);
                if masked == value { Cow::Borrowed(text) } else { Cow::Owned(masked.to_string()) }
            }
            Err(_) => self.redact(text),
        }
    }

    fn redact_value(&self, value: &Value, name: Option<&str>) -> Value {
        match value {
            Value::String(text) => {
                let whole = name.and_then(|name| {
                    fields::read(text, 0, name, fields::ValueStyle::Equals)
                        .map(|_| mask_secret(text))
                });
                Value::String(whole.unwrap_or_else(|| self.redact(text).into_owned()))
            }
            Value::Array(items) => items.iter().map(|item| self.redact_value(item, name)).collect(),
            Value::Object(fields) => {
                let field = |(key, value): (&String, &Value)| {
                    let name = fields::is_secret(key).then_some(key.as_str());
                    (self.redact(key).into_owned(), self.redact_value(value, name))
                };
                Value::Object(fields.iter().map(field).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Reports whether a text holds what [`Redactor::redact_file`] puts in the
    /// place of a secret, so that writing it would destroy the secret.
    pub fn is_sentinel_in(text: &str) -> bool {
        has_sentinel(text)
    }

    /// Returns a redactor for text that comes in pieces.
    pub fn stream(&self) -> RedactingStream {
        RedactingStream::new(self.clone())
    }

    fn replace<'a>(
        &self,
        text: &'a str,
        pem: &mut find::PemState,
        mask: impl Fn(&str, find::SecretKind) -> String,
    ) -> Cow<'a, str> {
        if self.off {
            return Cow::Borrowed(text);
        }
        let hits = find::all(text, &self.known(), pem);
        if hits.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for SecretHit { range, kind } in hits {
            out.push_str(&text[at..range.start]);
            for (index, line) in text[range.clone()].split('\n').enumerate() {
                if index > 0 {
                    out.push('\n');
                }
                if is_mask(line) || line.trim().is_empty() {
                    out.push_str(line);
                } else {
                    out.push_str(&mask(line, kind));
                }
            }
            at = range.end;
        }
        out.push_str(&text[at..]);
        Cow::Owned(out)
    }
}

/// Returns the length of the character at an index; 0 at the end.
fn char_len(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("secrets", &self.known().len())
            .field("off", &self.off)
            .finish()
    }
}

/// Length from which some of a secret is shown, so that two can be distinguished.
const LONG: usize = 18;

/// Characters that are shown of its beginning and of its end.
const BEGINNING: usize = 6;
const END: usize = 4;

const GAP: char = '…';
const SHORT: &str = "***";
const SENTINEL: &str = "«redacted:";
const SENTINEL_END: char = '»';

/// Returns what is shown of a secret.
fn mask_secret(secret: &str) -> String {
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

/// Returns what stands in a file for a secret. It is not a form that any secret
/// has, and easy to find again.
fn sentinel(kind: SecretKind) -> String {
    format!("{SENTINEL}{}{SENTINEL_END}", kind.as_str())
}

/// Reports whether a text holds a sentinel.
fn has_sentinel(text: &str) -> bool {
    text.split(SENTINEL).skip(1).any(|rest| {
        let kind = rest.split(SENTINEL_END).next().unwrap_or_default();
        SecretKind::ALL.iter().any(|own| own.as_str() == kind)
    })
}

/// Reports whether a text is nothing but a mask.
fn is_mask(text: &str) -> bool {
    let masked = text.chars().nth(BEGINNING) == Some(GAP)
        && text.chars().nth(BEGINNING + END + 1).is_none()
        && text.chars().nth(BEGINNING + END).is_some();
    let sentinel = text.starts_with(SENTINEL) && text.ends_with(SENTINEL_END);
    text == SHORT || masked || sentinel
}

/// Most that is held back while a line has no end.
const LONGEST_LINE: usize = 64 * 1024;

/// Masks secrets in text that comes in pieces. What may be the beginning of a
/// secret is held back: a line is shown when its end has come.
#[derive(Debug)]
pub struct RedactingStream {
    redactor: Redactor,
    held: String,
    pem: find::PemState,
}

impl RedactingStream {
    fn new(redactor: Redactor) -> Self {
        Self { redactor, held: String::new(), pem: find::PemState::default() }
    }

    /// Takes a piece and returns what may be shown.
    pub fn push(&mut self, piece: &str) -> String {
        if self.redactor.off {
            return piece.to_owned();
        }
        // What is held back holds no end of a line, so only the piece is searched for one.
        let line_end = piece.bytes().rposition(|byte| matches!(byte, b'\n' | b'\r'));
        let before = self.held.len();
        self.held.push_str(piece);
        let end = match line_end {
            Some(at) => before + at + 1,
            None if self.held.len() > LONGEST_LINE => self.cut(),
            None => return String::new(),
        };
        let rest = self.held.split_off(end);
        let ready = std::mem::replace(&mut self.held, rest);
        self.show(&ready)
    }

    /// Returns what was held back.
    pub fn finish(mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        self.show(&rest)
    }

    /// Returns where a line that is too long is cut: between two words where
    /// there are any, the last of which is kept for what follows it.
    fn cut(&self) -> usize {
        let mut half = LONGEST_LINE / 2;
        while !self.held.is_char_boundary(half) {
            half += 1;
        }
        self.held[half..].rfind(' ').map_or(self.held.len(), |at| half + at + 1)
    }

    fn show(&mut self, text: &str) -> String {
        let masked = self.redactor.replace(text, &mut self.pem, |secret, _| mask_secret(secret));
        masked.into_owned()
    }
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
