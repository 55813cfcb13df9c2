//! The tree of a document, and its nodes as text.

/// One value of a document and where it stands.
#[derive(Debug, Clone)]
pub struct YamlNode {
    pub(crate) kind: NodeKind,
    /// First byte of the value. For a block collection: of its first child.
    pub(crate) start: usize,
    /// One past the last byte, without trailing blanks.
    pub(crate) end: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Carries an anchor or a tag, or is an alias: other places may depend on it.
    pub(crate) shared: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    Scalar {
        text: String,
        style: Style,
    },
    List {
        items: Vec<YamlNode>,
        layout: CollectionStyle,
    },
    Map {
        entries: Vec<MapEntry>,
        layout: CollectionStyle,
    },
    /// Something no setting can be made of, in words.
    Unsupported(String),
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// No quotes. An absent value is a plain scalar without text.
    Plain,
    Quoted,
    /// `|` or `>`.
    Block,
}

/// How a collection is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CollectionStyle {
    Block,
    Flow,
}

/// A key of a map and its value.
#[derive(Debug, Clone)]
pub struct MapEntry {
    /// The key.
    pub key: YamlNode,
    /// Its value.
    pub value: YamlNode,
    /// Came from another map by a merge key (`<<`) and is not written here.
    pub(crate) merged: bool,
}

impl MapEntry {
    /// Returns the key's text, unless the key is not a scalar.
    pub fn name(&self) -> Option<&str> {
        self.key.scalar()
    }
}

impl YamlNode {
    /// Returns a scalar that stands nowhere yet. Text is quoted where it would
    /// be taken for something else; numbers and words are not.
    pub(crate) fn scalar_for(text: &str, is_text: bool) -> Self {
        let style = if is_text { Style::Quoted } else { Style::Plain };
        Self {
            kind: NodeKind::Scalar { text: text.to_owned(), style },
            start: 0,
            end: text.len(),
            line: 1,
            column: 1,
            shared: false,
        }
    }

    /// Returns a list that stands nowhere yet.
    pub(crate) fn list_of(items: Vec<Self>) -> Self {
        let kind = NodeKind::List { items, layout: CollectionStyle::Flow };
        Self { kind, start: 0, end: 0, line: 1, column: 1, shared: false }
    }

    /// Returns the first value under these names of nested maps.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, part| match &node.kind {
            NodeKind::Map { entries, .. } => {
                entries.iter().find(|e| e.name() == Some(part)).map(|e| &e.value)
            }
            _ => None,
        })
    }

    /// Returns the items of a list.
    pub fn items(&self) -> Option<&[Self]> {
        match &self.kind {
            NodeKind::List { items, .. } => Some(items),
            _ => None,
        }
    }

    /// Returns the entries of a map.
    pub fn entries(&self) -> Option<&[MapEntry]> {
        match &self.kind {
            NodeKind::Map { entries, .. } => Some(entries),
            _ => None,
        }
    }

    /// Returns the text of a scalar.
    pub fn scalar(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Reports whether nothing is written where the value would stand.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar { text, style: Style::Plain } if text.is_empty())
    }

    /// Reports whether the value is YAML's null, written or missing.
    pub fn is_null(&self) -> bool {
        matches!(
            &self.kind,
            NodeKind::Scalar { text, style: Style::Plain }
                if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
        )
    }

    /// Reports whether the value is an unquoted `~`.
    pub(crate) fn is_tilde(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar { text, style: Style::Plain } if text == "~")
    }

    /// Returns what the node is, for messages.
    pub fn noun(&self) -> &str {
        match &self.kind {
            NodeKind::Scalar { .. } if self.is_null() => "empty",
            NodeKind::Scalar { .. } => "a single value",
            NodeKind::List { .. } => "a list",
            NodeKind::Map { .. } => "a map",
            NodeKind::Unsupported(what) => what,
        }
    }

    /// Returns how many nodes the tree below and including this one has.
    pub(crate) fn count(&self) -> usize {
        match &self.kind {
            NodeKind::Scalar { .. } | NodeKind::Unsupported(_) => 1,
            NodeKind::List { items, .. } => 1 + items.iter().map(Self::count).sum::<usize>(),
            NodeKind::Map { entries, .. } => {
                1 + entries.iter().map(|e| e.key.count() + e.value.count()).sum::<usize>()
            }
        }
    }

    /// Reports whether two trees mean the same, wherever and however they are written.
    pub(crate) fn means_the_same(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (NodeKind::Scalar { text: a, .. }, NodeKind::Scalar { text: b, .. }) => {
                (a == b && self.is_null() == other.is_null()) || (self.is_null() && other.is_null())
            }
            (NodeKind::List { items: a, .. }, NodeKind::List { items: b, .. }) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.means_the_same(b))
            }
            (NodeKind::Map { entries: a, .. }, NodeKind::Map { entries: b, .. }) => {
                a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| {
                        a.key.means_the_same(&b.key) && a.value.means_the_same(&b.value)
                    })
            }
            (NodeKind::Unsupported(a), NodeKind::Unsupported(b)) => a == b,
            _ => false,
        }
    }
}

/// Writes a value on one line, safe in block and in flow context.
pub(crate) fn flow(node: &YamlNode) -> String {
    match &node.kind {
        NodeKind::Scalar { text, style } => scalar(text, *style),
        NodeKind::List { items, .. } => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        NodeKind::Map { entries, .. } => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}: {}", flow(&entry.key), flow(&entry.value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        NodeKind::Unsupported(what) => quote(what),
    }
}

fn scalar(text: &str, style: Style) -> String {
    match style {
        Style::Plain if text.is_empty() => "null".to_owned(),
        Style::Plain if is_plain_safe(text) => text.to_owned(),
        _ => quote(text),
    }
}

/// Writes text so that it reads back as exactly that text: plain when that is
/// beyond doubt, else in double quotes.
pub(crate) fn quote(text: &str) -> String {
    if is_plain_safe(text) && !is_ambiguous(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if needs_escape(c) => out.push_str(&escape(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn is_plain_safe(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "_./~+-@%:".contains(c);
    let first = |c: char| c.is_ascii_alphanumeric() || "_./~+".contains(c);
    text.chars().next().is_some_and(first)
        && text.chars().all(inner)
        && !text.ends_with(':')
        && text != "..."
}

/// Reports whether plain text would be taken for null, a boolean or a number.
fn is_ambiguous(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let word =
        matches!(lower.as_str(), "~" | "null" | "true" | "false" | "yes" | "no" | "on" | "off");
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+.".contains(c))
        && text.chars().all(|c| c.is_ascii_hexdigit() || "_.+-xoe:".contains(c));
    word || numeric
}

fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn escape(c: char) -> String {
    let code = u32::from(c);
    if code <= 0xff { format!("\\x{code:02x}") } else { format!("\\u{code:04x}") }
}
