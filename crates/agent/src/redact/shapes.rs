//! Secrets that are known by their form.

use std::sync::LazyLock;

use regex::Regex;

use super::find::{Hit, Kind};

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
pub(super) fn find(text: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    let groups =
        |regex: &'static Option<Regex>| regex.iter().flat_map(|regex| regex.captures_iter(text));
    for captures in groups(&TOKENS) {
        let group = captures.iter().skip(1).flatten().next();
        hits.extend(group.map(|token| Hit { range: token.range(), kind: Kind::Token }));
    }
    for captures in groups(&PASSWORDS) {
        let password =
            captures.get(1).filter(|found| !super::value::is_placeholder(found.as_str()));
        hits.extend(password.map(|found| Hit { range: found.range(), kind: Kind::Value }));
    }
    for captures in groups(&BEARER) {
        let random = |text: &str| text.len() >= 24 || text.bytes().any(|b| b.is_ascii_digit());
        let token = captures.get(1).filter(|found| random(found.as_str()));
        hits.extend(token.map(|found| Hit { range: found.range(), kind: Kind::Token }));
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
