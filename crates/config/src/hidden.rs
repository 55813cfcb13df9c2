//! A `config.yaml` as it may be shown: a marker stands in place of each secret, and the text that comes
//! back has the secrets put where their markers are.

use std::ops::Range;

use crate::key::{AnyKey, Secrecy};
use crate::schema::Schema;
use crate::yaml::{self, NodeKind, SyntaxError, YamlDocument, YamlNode};

/// Words at the end of a name whose value is taken for a secret, also where no key has the name: it may
/// be misspelt, or commented out.
const SECRET_WORDS: &[&str] = &[
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "key",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "token",
];

/// Shorter text is not looked for elsewhere: it would be found in ordinary words.
const SHORTEST: usize = 6;

/// A piece of a text that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HiddenRange {
    range: Range<usize>,
    /// Whether its place makes it a secret, and not only that it is the same as one.
    by_place: bool,
}

/// A text with markers in place of its secrets, and what they stand for.
#[derive(Clone)]
pub(crate) struct HiddenText {
    pub(crate) shown: String,
    /// What every marker begins with; nothing else in the text does.
    prefix: String,
    secrets: Vec<HiddenSecret>,
}

#[derive(Clone)]
struct HiddenSecret {
    text: String,
    by_place: bool,
}

/// Why markers were not replaced by what they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkerError {
    /// No secret has this number.
    Unknown(usize),
    /// The secret of this number would stand where it is shown.
    Exposed(usize),
}

impl HiddenText {
    /// Hides the secrets of a text: values whose key or name says so, and whatever is the same as one of
    /// them or of those that are known otherwise.
    pub(crate) fn of(text: &str, schema: &Schema, known: &[String]) -> Result<Self, SyntaxError> {
        let document = yaml::parse(text)?;
        let mut values = Vec::new();
        let mut pieces = by_place(text, &document, schema, &mut values);
        values.extend(known.iter().cloned());
        values.retain(|value| value.len() >= SHORTEST);
        // The longest first: one may be the beginning of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for value in &values {
            for (at, _) in text.match_indices(value.as_str()) {
                let range = at..at + value.len();
                if !pieces.iter().any(|piece| overlaps(&piece.range, &range)) {
                    pieces.push(HiddenRange { range, by_place: false });
                }
            }
        }
        pieces.sort_by_key(|piece| piece.range.start);
        let mut prefix = "<secret ".to_owned();
        while text.contains(&prefix) {
            prefix.insert(1, '_');
        }
        let mut hidden =
            Self { shown: String::with_capacity(text.len()), prefix, secrets: Vec::new() };
        let mut at = 0;
        for HiddenRange { range, by_place } in pieces {
            let (Some(before), Some(secret)) = (text.get(at..range.start), text.get(range.clone()))
            else {
                continue;
            };
            hidden.shown.push_str(before);
            hidden.secrets.push(HiddenSecret { text: secret.to_owned(), by_place });
            let marker = hidden.marker(hidden.secrets.len());
            hidden.shown.push_str(&marker);
            at = range.end;
        }
        hidden.shown.push_str(text.get(at..).unwrap_or_default());
        Ok(hidden)
    }

    /// Returns how many secrets are hidden.
    pub(crate) fn count(&self) -> usize {
        self.secrets.len()
    }

    fn marker(&self, number: usize) -> String {
        format!("{}{number}>", self.prefix)
    }

    /// Returns an edited text with the secrets in place of their markers. A secret goes only where it is
    /// hidden, or it could be read by moving it.
    pub(crate) fn restore(&self, edited: &str, schema: &Schema) -> Result<String, MarkerError> {
        let places = match yaml::parse(edited) {
            Ok(document) => by_place(edited, &document, schema, &mut Vec::new()),
            // It is refused later, for what is wrong with it.
            Err(_) => Vec::new(),
        };
        let mut restored = String::with_capacity(edited.len());
        let mut at = 0;
        for (start, _) in edited.match_indices(&self.prefix) {
            let digits = edited.get(start + self.prefix.len()..).unwrap_or_default();
            let Some((number, _)) = digits.split_once('>') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            let hidden = number.checked_sub(1).and_then(|index| self.secrets.get(index));
            let hidden = hidden.ok_or(MarkerError::Unknown(number))?;
            let range = start..start + self.marker(number).len();
            let is_inside = |piece: &HiddenRange| {
                piece.range.start <= range.start && range.end <= piece.range.end
            };
            if hidden.by_place && !places.iter().any(is_inside) {
                return Err(MarkerError::Exposed(number));
            }
            restored.push_str(edited.get(at..range.start).unwrap_or_default());
            restored.push_str(&hidden.text);
            at = range.end;
        }
        restored.push_str(edited.get(at..).unwrap_or_default());
        Ok(restored)
    }
}

/// Says how much, and not what.
impl std::fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HiddenText").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Finds what is secret because of where it stands, and collects the values themselves.
fn by_place(
    text: &str,
    document: &YamlDocument,
    schema: &Schema,
    values: &mut Vec<String>,
) -> Vec<HiddenRange> {
    let mut finder = Finder { schema, values, pieces: Vec::new() };
    if let Some(root) = &document.root {
        finder.walk(root, "", HidingRule::ByName);
    }
    for comment in &document.comments {
        finder.comment(text, comment.start);
    }
    let mut pieces = finder.pieces;
    pieces.sort_by_key(|piece| (piece.range.start, std::cmp::Reverse(piece.range.end)));
    // A value that is used twice (an anchor) stands in the text once.
    let mut kept: Vec<HiddenRange> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if kept.last().is_none_or(|last| !overlaps(&last.range, &piece.range)) {
            kept.push(piece);
        }
    }
    kept
}

/// What is hidden of a value.
#[derive(Clone, Copy)]
enum HidingRule {
    /// What has the name of a secret.
    ByName,
    /// Entries of these names, and what has the name of a secret.
    Within(&'static [&'static str]),
    /// All of it.
    All,
}

struct Finder<'a> {
    schema: &'a Schema,
    values: &'a mut Vec<String>,
    pieces: Vec<HiddenRange>,
}

impl Finder<'_> {
    fn walk(&mut self, node: &YamlNode, name: &str, rule: HidingRule) {
        match &node.kind {
            NodeKind::Scalar { text, .. } => {
                if matches!(rule, HidingRule::All) && !node.is_null() && !is_reference(text) {
                    self.values.push(text.clone());
                    self.pieces.push(HiddenRange { range: node.start..node.end, by_place: true });
                }
            }
            NodeKind::List { items, .. } => {
                for item in items {
                    self.walk(item, name, rule);
                }
            }
            NodeKind::Map { entries, .. } => {
                for entry in entries {
                    let own = entry.name().unwrap_or_default();
                    let full =
                        if name.is_empty() { own.to_owned() } else { format!("{name}.{own}") };
                    self.walk(&entry.value, &full, self.rule(&full, own, rule));
                }
            }
            // It may be anything, also a secret with a tag in front.
            NodeKind::Unsupported(_) => {
                if matches!(rule, HidingRule::All) && node.start < node.end {
                    self.pieces.push(HiddenRange { range: node.start..node.end, by_place: true });
                }
            }
        }
    }

    fn rule(&self, full: &str, own: &str, around: HidingRule) -> HidingRule {
        match around {
            HidingRule::All => return HidingRule::All,
            HidingRule::Within(names) if names.contains(&own) => return HidingRule::All,
            HidingRule::Within(_) | HidingRule::ByName => {}
        }
        match self.schema.find(full).map(AnyKey::secrecy) {
            Some(Secrecy::Secret) => HidingRule::All,
            Some(Secrecy::Within(names)) => HidingRule::Within(names),
            None if is_secret_name(own) || self.schema.is_secret(own) => HidingRule::All,
            // Also where its owner says that it may be shown, whatever its name.
            Some(Secrecy::Public) | None => around,
        }
    }

    /// A line that was commented out is as secret as it was before.
    fn comment(&mut self, text: &str, start: usize) {
        let Some(line) = text.get(start..).and_then(|rest| rest.lines().next()) else { return };
        let separators = line.match_indices([':', '=']);
        for (at, separator) in separators {
            let before = line.get(..at).unwrap_or_default();
            let name = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').next();
            if !name.is_some_and(is_secret_name) {
                continue;
            }
            let after = line.get(at + separator.len()..).unwrap_or_default();
            let value = after.trim();
            if value.is_empty() || is_reference(value) {
                continue;
            }
            let from = start + at + separator.len() + (after.len() - after.trim_start().len());
            self.values.push(value.trim_matches(['"', '\'']).to_owned());
            self.pieces.push(HiddenRange { range: from..from + value.len(), by_place: true });
            return;
        }
    }
}

/// Reports whether a name says that its value is a secret: `api_key`, `TOKEN`, and not `api_key_env`.
fn is_secret_name(name: &str) -> bool {
    let last = name.rsplit(['_', '-', '.']).next().unwrap_or_default();
    SECRET_WORDS.iter().any(|word| last.eq_ignore_ascii_case(word))
}

/// Reports whether a value only names a variable: `${NAME}`.
fn is_reference(value: &str) -> bool {
    let inner =
        value.trim_matches(['"', '\'']).strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
#[path = "hidden_tests.rs"]
mod tests;
