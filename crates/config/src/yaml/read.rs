//! YAML for readers outside of this crate: what a text says, and on which line.

use super::node::{Node, NodeKind, Style};
use super::parse::{SyntaxError, parse};

/// One value of a YAML text and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Yaml {
    /// What it is.
    pub kind: YamlKind,
    /// Line, from 1.
    pub line: usize,
}

/// What a value of a YAML text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlKind {
    /// Nothing, or YAML's null.
    Null,
    /// A single value, as it is written.
    Scalar {
        /// The text, without quotes.
        text: String,
        /// Whether it is text whatever it looks like: `"1"`, `'yes'`.
        quoted: bool,
    },
    /// A list.
    List(Vec<Yaml>),
    /// A map, in the order written. A name may be there twice.
    Map(Vec<(Yaml, Yaml)>),
    /// Something that is none of these, in words.
    Other(String),
}

impl Yaml {
    /// Reads a text that holds one document; none when it holds comments at most.
    pub fn parse(text: &str) -> Result<Option<Self>, SyntaxError> {
        Ok(parse(text)?.root.map(Self::of))
    }

    fn of(node: Node) -> Self {
        let line = node.line;
        let is_null = node.is_null();
        let kind = match node.kind {
            NodeKind::Scalar { .. } if is_null => YamlKind::Null,
            NodeKind::Scalar { text, style } => {
                YamlKind::Scalar { text, quoted: style != Style::Plain }
            }
            NodeKind::List { items, .. } => {
                YamlKind::List(items.into_iter().map(Self::of).collect())
            }
            NodeKind::Map { entries, .. } => {
                let pair = |entry: super::Entry| (Self::of(entry.key), Self::of(entry.value));
                YamlKind::Map(entries.into_iter().map(pair).collect())
            }
            NodeKind::Unsupported(what) => YamlKind::Other(what),
        };
        Self { kind, line }
    }

    /// Returns the text of a single value.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            YamlKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns what it is, for messages.
    pub fn noun(&self) -> &str {
        match &self.kind {
            YamlKind::Null => "empty",
            YamlKind::Scalar { .. } => "a single value",
            YamlKind::List(_) => "a list",
            YamlKind::Map(_) => "a map",
            YamlKind::Other(what) => what,
        }
    }
}
