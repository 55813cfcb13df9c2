//! Text, lists of names and lists of patterns.

use std::borrow::Cow;

use serde_json::json;

use super::Setting;
use super::read::texts;
use crate::value::{SettingInput, SettingValue, ValueRefusal};

/// Whether text may have several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineMode {
    /// It is one line.
    One,
    /// It may have several.
    Many,
}

/// What narrows text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// The largest number of bytes.
    pub max_bytes: usize,
    /// Whether it may have several lines.
    pub lines: LineMode,
}

/// Text; empty means none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Text(String);

impl Text {
    /// No text.
    pub const EMPTY: Self = Self(String::new());

    /// Returns the text, or none when it is empty.
    pub fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }
}

impl Setting for Text {
    type Limits = TextLimits;

    fn read(input: SettingInput<'_>, limits: &TextLimits) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?;
        let text = if limits.lines == LineMode::One { text.trim() } else { text };
        if text.len() > limits.max_bytes {
            return Err(ValueRefusal::new(format!("is longer than {} bytes", limits.max_bytes)));
        }
        let wrong =
            |c: char| c.is_control() && (limits.lines == LineMode::One || !"\n\r\t".contains(c));
        if text.contains(wrong) {
            return Err(ValueRefusal::new("contains control characters"));
        }
        Ok(Self(text.to_owned()))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.0.clone())
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_empty().then(|| "none".to_owned())
    }

    fn allowed(limits: &TextLimits) -> String {
        let lines = match limits.lines {
            LineMode::One => "one line of text",
            LineMode::Many => "text",
        };
        format!("{lines}, up to {} bytes", limits.max_bytes)
    }

    fn examples(_: &TextLimits) -> Vec<String> {
        vec!["some-text".to_owned(), "other/text".to_owned()]
    }

    fn schema(limits: &TextLimits) -> serde_json::Value {
        json!({"type": "string", "maxLength": limits.max_bytes})
    }
}

/// The longest name in a list of names.
const MAX_NAME: usize = 128;

/// Names, each once, in the order given: of tools, of toolsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(Cow<'static, [Cow<'static, str>]>);

impl Names {
    /// No names.
    pub const EMPTY: Self = Self(Cow::Borrowed(&[]));

    /// Makes the names of a default.
    pub const fn declared(names: &'static [Cow<'static, str>]) -> Self {
        Self(Cow::Borrowed(names))
    }

    /// Returns the names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Reports whether a name is among them.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|own| own == name)
    }
}

impl Setting for Names {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let mut names: Vec<Cow<'static, str>> = Vec::new();
        for name in texts(input, r#"write it as ["name", "other"]"#)? {
            if !is_name(&name) {
                return Err(ValueRefusal::new(format!("holds {name:?}, which is not a name")));
            }
            if !names.contains(&Cow::Borrowed(name.as_str())) {
                names.push(Cow::Owned(name));
            }
        }
        Ok(Self(Cow::Owned(names)))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::List(self.iter().map(|name| SettingValue::Text(name.to_owned())).collect())
    }

    fn allowed((): &()) -> String {
        "a list of names (letters, digits, _, -, . and :)".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![r#"["terminal"]"#.to_owned(), r#"["terminal", "file"]"#.to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9_.:-]+$"}})
    }
}

/// Reports whether text may name a tool, a toolset or a provider.
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
}

/// The longest pattern.
const MAX_PATTERN: usize = 4096;

/// Patterns of commands, each once, in the order given. What they mean is for
/// those who match them to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// No patterns.
    pub const EMPTY: Self = Self(Vec::new());

    /// Returns the patterns.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Reports whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Setting for Patterns {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let mut patterns = Vec::new();
        for pattern in texts(input, r#"write it as ["git status", "ls *"]"#)? {
            if pattern.trim().is_empty() {
                return Err(ValueRefusal::new("holds an empty pattern"));
            }
            if pattern.len() > MAX_PATTERN {
                let reason = format!("holds a pattern that is longer than {MAX_PATTERN} bytes");
                return Err(ValueRefusal::new(reason));
            }
            if pattern.contains('\0') {
                return Err(ValueRefusal::new("holds a pattern with a NUL character"));
            }
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Ok(Self(patterns))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::List(self.0.iter().cloned().map(SettingValue::Text).collect())
    }

    fn allowed((): &()) -> String {
        "a list of text".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![r#"["git push *"]"#.to_owned(), r#"["git push *", "npm publish*"]"#.to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "minLength": 1}})
    }
}
