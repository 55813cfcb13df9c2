//! A value as it was given, before anybody knows whether it is right.

use std::borrow::Cow;
use std::ffi::OsStr;

use serde::de::IgnoredAny;

use crate::yaml::{self, Node, NodeKind};

/// Characters of a value that an error message repeats.
const SHOWN: usize = 120;

/// A value as it was given.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Text of a variable or of the command line, taken as it is.
    Text(&'a OsStr),
    /// A value of a YAML document.
    Node(&'a Node),
}

/// Why a value cannot be taken, to be read after "which …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub reason: String,
    /// What to do about it, where there is more to say than what is allowed.
    pub suggestion: Option<String>,
    /// Whether the value may hold a secret and is not to be repeated.
    pub secret: bool,
}

impl Refusal {
    /// Makes a refusal: "is no …".
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), suggestion: None, secret: false }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn suggesting(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }

    /// Keeps the value out of messages even though its key is public.
    #[must_use]
    pub fn about_a_secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

impl<'a> Input<'a> {
    /// Reports whether the source names the key but says nothing.
    pub fn is_unset(self, tilde_is_home: bool) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Node(node) => node.is_null() && !(tilde_is_home && node.is_tilde()),
        }
    }

    /// Returns the text of a single value.
    pub fn scalar(self) -> Result<&'a str, Refusal> {
        match self {
            Self::Text(text) => text.to_str().ok_or_else(|| Refusal::new("is not valid UTF-8")),
            Self::Node(node) => node
                .scalar()
                .ok_or_else(|| Refusal::new(format!("is {}, not a single value", node.noun()))),
        }
    }

    /// Returns the value as a tree; text is read as JSON.
    pub fn tree(self) -> Result<Cow<'a, Node>, Refusal> {
        match self {
            Self::Node(node) => Ok(Cow::Borrowed(node)),
            Self::Text(_) => {
                let text = self.scalar()?;
                serde_json::from_str::<IgnoredAny>(text)
                    .map_err(|error| Refusal::new(format!("is not JSON ({error})")))?;
                // YAML contains JSON, so one kind of tree serves both.
                let document = yaml::parse(text)
                    .map_err(|error| Refusal::new(format!("is not JSON ({error})")))?;
                document.root.map(Cow::Owned).ok_or_else(|| Refusal::new("is not JSON"))
            }
        }
    }

    /// Returns the value for a message: short, on one line.
    pub fn shown(self) -> String {
        let text = self.written();
        if text.chars().count() <= SHOWN {
            return text;
        }
        let head: String = text.chars().take(SHOWN).collect();
        format!("{head}…")
    }

    /// Returns the whole value on one line.
    pub fn written(self) -> String {
        match self {
            Self::Text(text) => format!("{:?}", text.to_string_lossy()),
            Self::Node(node) => match &node.kind {
                NodeKind::Scalar { text, .. } => format!("{text:?}"),
                NodeKind::Unsupported(what) => what.clone(),
                NodeKind::List { .. } | NodeKind::Map { .. } => yaml::flow(node),
            },
        }
    }
}
