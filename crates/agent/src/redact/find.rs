//! Where secrets are in a text.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::fields;

/// What kind of secret something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// It has the form of a token.
    Token,
    /// It was given to a name that promises one.
    Value,
    /// It is a private key.
    PrivateKey,
    /// It is known to be one.
    Known,
}

impl SecretKind {
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
pub(super) struct SecretHit {
    pub(super) range: Range<usize>,
    pub(super) kind: SecretKind,
}

/// Addresses of web pages, which pass unchanged but for tokens in them.
static WEB: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\b(?:https?|wss?|ftp)://[^\s"'<>`\\]+"#).ok());

/// Finds all secrets, none overlapping another, in the order of the text.
pub(super) fn all(text: &str, known: &[String], pem: &mut PemState) -> Vec<SecretHit> {
    let mut hits = private_keys(text, pem);
    for secret in known {
        let found = text.match_indices(secret.as_str());
        hits.extend(
            found
                .map(|(at, _)| SecretHit { range: at..at + secret.len(), kind: SecretKind::Known }),
        );
    }
    hits.extend(tokens(text));
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

fn merge(hits: Vec<SecretHit>) -> Vec<SecretHit> {
    let mut merged: Vec<SecretHit> = Vec::with_capacity(hits.len());
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

/// Tokens whose beginning could as well be the end of a word, so that nothing
/// but a sign may stand before them.
const AFTER_A_SIGN: [&str; 45] = [
    r"sk-[A-Za-z0-9_-]{16,}",
    r"[srp]k_(?:live|test)_[A-Za-z0-9]{10,}",
    r"whsec_[A-Za-z0-9+/=]{16,}",
    r"hf_[A-Za-z0-9]{16,}",
    r"r8_[A-Za-z0-9]{20,}",
    r"gsk_[A-Za-z0-9]{20,}",
    r"xai-[A-Za-z0-9]{20,}",
    r"pplx-[A-Za-z0-9]{20,}",
    r"nvapi-[A-Za-z0-9_-]{20,}",
    r"csk-[A-Za-z0-9]{20,}",
    r"tvly-[A-Za-z0-9-]{16,}",
    r"fc-[a-f0-9]{32}",
    r"jina_[A-Za-z0-9_-]{20,}",
    r"pa-[A-Za-z0-9_-]{40,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[A-Za-z0-9_-]{16,}",
    r"rubygems_[a-f0-9]{32,}",
    r"do[opr]_v1_[a-f0-9]{32,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"key-[a-f0-9]{32}",
    r"SK[0-9a-f]{32}",
    r"shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}",
    r"lin_(?:api|oauth)_[A-Za-z0-9]{20,}",
    r"ntn_[A-Za-z0-9]{20,}",
    r"secret_[A-Za-z0-9]{32,}",
    r"sntry[su]_[A-Za-z0-9+/=_-]{20,}",
    r"gl(?:sa|c)_[A-Za-z0-9_+/=]{20,}",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    r"tskey-[a-z]+-[A-Za-z0-9-]{16,}",
    r"hv[sbr]\.[A-Za-z0-9_-]{16,}",
    r"ya29\.[A-Za-z0-9_-]{16,}",
    r"GOCSPX-[A-Za-z0-9_-]{16,}",
    r"sbp_[a-f0-9]{32,}",
    r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    r"syt_[A-Za-z0-9]+_[A-Za-z0-9]{16,}_[A-Za-z0-9]+",
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    r"figd_[A-Za-z0-9_-]{20,}",
    r"EAA[A-Za-z0-9]{40,}",
    r"sq0(?:atp|csp)-[A-Za-z0-9_-]{20,}",
    r"FLWSECK[A-Z_]*-[A-Za-z0-9-]{16,}",
    r"NRAK-[A-Z0-9]{20,}",
    r"phc_[A-Za-z0-9]{30,}",
    r"ops_eyJ[A-Za-z0-9_-]{20,}",
    r"[0-9]{8,10}:[A-Za-z0-9_-]{35}",
    r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
];

/// Tokens whose beginning is like nothing else.
const ANYWHERE: [&str; 11] = [
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent|oas)-[A-Za-z0-9_.-]{16,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"xapp-[0-9]-[A-Za-z0-9-]{16,}",
    r"(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"AGE-SECRET-KEY-1[0-9A-Z]{50,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?",
    r"sk-ant-[A-Za-z0-9_-]{16,}",
    r"sk-or-v1-[A-Za-z0-9]{16,}",
];

/// The secret part of addresses that are themselves secrets.
const IN_ADDRESSES: [&str; 2] = [
    r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9]+/[A-Z0-9]+/([A-Za-z0-9]{16,})",
    r"discord(?:app)?\.com/api/webhooks/[0-9]+/([A-Za-z0-9_-]{40,})",
];

static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let (free, bound) = (ANYWHERE.join("|"), AFTER_A_SIGN.join("|"));
    let addresses = IN_ADDRESSES.join("|");
    Regex::new(&format!("({free})|{addresses}|(?:^|[^A-Za-z0-9]|\\\\[nrt])({bound})")).ok()
});

/// The password of an address: `scheme://user:password@host`.
static PASSWORDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"://[^\s:/?#@"'<>\\]*:([^\s/"'<>\\]+)@"#).ok());

/// What a header says after the kind of the token.
static BEARER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\bbearer[ \t]+([A-Za-z0-9._~+/-]{16,}=*)").ok());

/// Finds them.
pub(super) fn tokens(text: &str) -> Vec<SecretHit> {
    let mut hits = Vec::new();
    let groups =
        |regex: &'static Option<Regex>| regex.iter().flat_map(|regex| regex.captures_iter(text));
    for captures in groups(&TOKENS) {
        let group = captures.iter().skip(1).flatten().next();
        hits.extend(group.map(|token| SecretHit { range: token.range(), kind: SecretKind::Token }));
    }
    for captures in groups(&PASSWORDS) {
        let password =
            captures.get(1).filter(|found| !super::fields::is_placeholder(found.as_str()));
        hits.extend(
            password.map(|found| SecretHit { range: found.range(), kind: SecretKind::Value }),
        );
    }
    for captures in groups(&BEARER) {
        let random = |text: &str| text.len() >= 24 || text.bytes().any(|b| b.is_ascii_digit());
        let token = captures.get(1).filter(|found| random(found.as_str()));
        hits.extend(token.map(|found| SecretHit { range: found.range(), kind: SecretKind::Token }));
    }
    hits
}

#[cfg(test)]
pub(super) fn patterns() -> impl Iterator<Item = &'static str> {
    ANYWHERE.into_iter().chain(AFTER_A_SIGN)
}

#[cfg(test)]
#[test]
fn every_pattern_can_be_used() {
    assert!(TOKENS.is_some() && PASSWORDS.is_some() && BEARER.is_some());
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END";

/// Headers that stand in a key before its body.
const HEADERS: [&str; 5] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"];

/// Where a text is: inside a key or not. It outlives the text, for the next piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PemState {
    inside: bool,
}

/// Finds the bodies of private keys, line by line.
pub(super) fn private_keys(text: &str, state: &mut PemState) -> Vec<SecretHit> {
    let mut hits = Vec::new();
    if !state.inside && !text.contains(BEGIN) {
        return hits;
    }
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        line_of(line, start, state, &mut hits);
        start += line.len();
    }
    hits
}

fn line_of(line: &str, start: usize, state: &mut PemState, hits: &mut Vec<SecretHit>) {
    let mut at = 0;
    loop {
        if !state.inside {
            let Some(after) = begins(&line[at..]) else { return };
            at += after;
            state.inside = true;
        }
        let rest = &line[at..];
        if let Some(end) = rest.find(END) {
            push_key(&rest[..end], start + at, hits);
            state.inside = false;
            at += end + END.len();
            continue;
        }
        // Right after its first line anything is the key; a line of its own must look like it.
        if at > 0 {
            let length = rest.find(['"', '\'']).unwrap_or(rest.len());
            push_key(&rest[..length], start + at, hits);
            state.inside = length == rest.len();
        } else if is_body(rest) {
            push_key(rest, start + at, hits);
        } else {
            state.inside = false;
        }
        return;
    }
}

/// Returns where the text after the first line of a private key begins.
fn begins(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find(BEGIN).map(|at| from + at) {
        let name = at + BEGIN.len();
        let length = text[name..].find("-----");
        let is_key = |label: &str| {
            label.contains("PRIVATE KEY") && label.len() < 64 && !label.contains(['"', '\''])
        };
        if let Some(length) = length.filter(|length| is_key(&text[name..name + length])) {
            return Some(name + length + 5);
        }
        from = name;
    }
    None
}

/// Reports whether a line can be part of a key.
fn is_body(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['+', '>', '#', '|', '*', ' ', '\t', '"', '\'']);
    let line = line.trim_start_matches("- ");
    if line.is_empty() || HEADERS.iter().any(|header| line.starts_with(header)) {
        return true;
    }
    let line = line.trim_end_matches(['"', '\'', ',', '\\', ';', ' ', '+']);
    let line = line.trim_end_matches("\\n");
    super::is_mask(line)
        || line.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
}

/// Adds what is not blank of a part of a line.
fn push_key(part: &str, start: usize, hits: &mut Vec<SecretHit>) {
    let trimmed = part.trim();
    if trimmed.is_empty() || matches!(trimmed, "\"" | "'" | "\\n" | "\\n\\") {
        return;
    }
    let from = start + (part.len() - part.trim_start().len());
    hits.push(SecretHit { range: from..from + trimmed.len(), kind: SecretKind::PrivateKey });
}
