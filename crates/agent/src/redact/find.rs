//! Where secrets are in a text.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::{fields, pem, shapes};

/// What kind of secret something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has the form of a token.
    Token,
    /// It was given to a name that promises one.
    Value,
    /// It is a private key.
    PrivateKey,
    /// It is known to be one.
    Known,
}

impl Kind {
    /// All kinds.
    pub(super) const ALL: [Self; 4] = [Self::Token, Self::Value, Self::PrivateKey, Self::Known];

    /// Returns the word for it that sentinels carry.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Value => "value",
            Self::PrivateKey => "private key",
            Self::Known => "secret",
        }
    }
}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

/// Addresses of web pages, which pass unchanged but for tokens in them.
static WEB: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\b(?:https?|wss?|ftp)://[^\s"'<>`\\]+"#).ok());

/// Finds all secrets, none overlapping another, in the order of the text.
pub(super) fn all(text: &str, known: &[String], pem: &mut pem::State) -> Vec<Hit> {
    let mut hits = pem::find(text, pem);
    for secret in known {
        let found = text.match_indices(secret.as_str());
        hits.extend(found.map(|(at, _)| Hit { range: at..at + secret.len(), kind: Kind::Known }));
    }
    hits.extend(shapes::find(text));
    let addresses: Vec<Range<usize>> = match &*WEB {
        Some(web) if text.contains("://") => {
            web.find_iter(text).map(|found| found.range()).collect()
        }
        _ => Vec::new(),
    };
    hits.extend(fields::find(text, &addresses));
    hits.retain(|hit| !hit.range.is_empty());
    hits.sort_by_key(|hit| (hit.range.start, hit.range.end));
    merge(hits)
}

fn merge(hits: Vec<Hit>) -> Vec<Hit> {
    let mut merged: Vec<Hit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match merged.last_mut() {
            Some(last) if hit.range.start < last.range.end => {
                last.range.end = last.range.end.max(hit.range.end);
            }
            _ => merged.push(hit),
        }
    }
    merged
}
