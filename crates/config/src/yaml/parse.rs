//! From text to a tree with places.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle, Tag};
use thiserror::Error;

use super::node::{CollectionStyle, MapEntry, NodeKind, Style, YamlNode};

/// Nesting no settings file needs; deeper input is refused.
const MAX_DEPTH: usize = 64;
/// Nodes no settings file needs, aliases counted as often as they are used.
const MAX_NODES: usize = 50_000;

/// Text that is not YAML, or not of a kind that settings can be written in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message} at line {line}, column {column}")]
pub struct SyntaxError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// A parsed document.
#[derive(Debug)]
pub(crate) struct YamlDocument {
    /// The top-level value; none when the text holds comments at most.
    pub(crate) root: Option<YamlNode>,
    pub(crate) comments: Vec<YamlComment>,
    /// Ends with `...`, so nothing can be appended.
    pub(crate) closed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlComment {
    pub(crate) start: usize,
    pub(crate) text: String,
}

/// Parses one document.
pub(crate) fn parse(text: &str) -> Result<YamlDocument, SyntaxError> {
    let mut builder = YamlBuilder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| SyntaxError {
            line: error.marker().line(),
            column: error.marker().col() + 1,
            message: error.info().clone(),
        })?;
        builder.take(text, event, &span)?;
    }
    Ok(YamlDocument { root: builder.root, comments: builder.comments, closed: builder.closed })
}

#[derive(Default)]
struct YamlBuilder {
    stack: Vec<OpenCollection>,
    root: Option<YamlNode>,
    comments: Vec<YamlComment>,
    anchors: HashMap<usize, YamlNode>,
    nodes: usize,
    documents: usize,
    closed: bool,
}

/// A collection whose end has not come yet.
struct OpenCollection {
    node: YamlNode,
    anchor: usize,
    key: Option<YamlNode>,
}

impl YamlBuilder {
    fn take(&mut self, text: &str, event: Event<'_>, span: &Span) -> Result<(), SyntaxError> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(at(span, "a second document begins; only one is read"));
                }
            }
            Event::DocumentEnd => self.closed = span.slice(text).is_some_and(|s| s == "..."),
            Event::Comment(body, _) => {
                let start = bytes(span).0;
                self.comments.push(YamlComment { start, text: body.into_owned() });
            }
            Event::Scalar(body, style, anchor, tag) => {
                let node = scalar(text, &body, style, anchor, tag.as_deref(), span);
                self.complete(node, anchor, span)?;
            }
            Event::SequenceStart(style, anchor, tag) => {
                let kind = NodeKind::List { items: Vec::new(), layout: layout(style) };
                self.open(kind, anchor, tag.as_deref(), span)?;
            }
            Event::MappingStart(style, anchor, tag) => {
                let kind = NodeKind::Map { entries: Vec::new(), layout: layout(style) };
                self.open(kind, anchor, tag.as_deref(), span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
            Event::Alias(id) => {
                let node = self.alias(id, span)?;
                self.complete(node, 0, span)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn open(
        &mut self,
        kind: NodeKind,
        anchor: usize,
        tag: Option<&Tag>,
        span: &Span,
    ) -> Result<(), SyntaxError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(at(span, &format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let mut node = located(kind, span);
        node.shared = anchor != 0 || tag.is_some();
        self.stack.push(OpenCollection { node, anchor, key: None });
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), SyntaxError> {
        let Some(mut frame) = self.stack.pop() else {
            return Err(at(span, "a collection ends that never began"));
        };
        match &mut frame.node.kind {
            NodeKind::List { items, layout } => {
                frame.node.end = match layout {
                    CollectionStyle::Flow => bytes(span).1,
                    CollectionStyle::Block => items.last().map_or(frame.node.end, |item| item.end),
                };
            }
            NodeKind::Map { entries, layout } => {
                frame.node.end = match layout {
                    CollectionStyle::Flow => bytes(span).1,
                    CollectionStyle::Block => entries
                        .last()
                        .map_or(frame.node.end, |entry| entry.value.end.max(entry.key.end)),
                };
                merge(entries);
            }
            NodeKind::Scalar { .. } | NodeKind::Unsupported(_) => {}
        }
        self.complete(frame.node, frame.anchor, span)
    }

    /// Hands a finished node to the collection it belongs to.
    fn complete(&mut self, node: YamlNode, anchor: usize, span: &Span) -> Result<(), SyntaxError> {
        self.spend(1, span)?;
        if anchor != 0 {
            self.spend(node.count(), span)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut frame.node.kind {
            NodeKind::List { items, .. } => items.push(node),
            NodeKind::Map { entries, .. } => match frame.key.take() {
                None => frame.key = Some(node),
                Some(key) => entries.push(MapEntry { key, value: node, merged: false }),
            },
            NodeKind::Scalar { .. } | NodeKind::Unsupported(_) => {}
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<YamlNode, SyntaxError> {
        // Paid for before it is copied.
        let count = self.anchors.get(&id).map_or(0, YamlNode::count);
        self.spend(count, span)?;
        let Some(target) = self.anchors.get(&id) else {
            return Err(at(span, "an alias refers to the value that contains it"));
        };
        let mut node = target.clone();
        let place = located(NodeKind::Unsupported(String::new()), span);
        (node.start, node.end) = (place.start, place.end);
        (node.line, node.column) = (place.line, place.column);
        node.shared = true;
        Ok(node)
    }

    fn spend(&mut self, nodes: usize, span: &Span) -> Result<(), SyntaxError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err(at(span, &format!("holds more than {MAX_NODES} values")));
        }
        Ok(())
    }
}

/// Takes over the entries of maps named by a merge key (`<<`); what is written
/// in the map itself wins.
fn merge(entries: &mut Vec<MapEntry>) {
    let Some(position) = entries.iter().position(is_merge) else {
        return;
    };
    let donor = entries.remove(position);
    let donors = match donor.value.kind {
        NodeKind::List { items, .. } => items,
        kind => vec![YamlNode { kind, ..donor.value }],
    };
    for donor in donors {
        let NodeKind::Map { entries: given, .. } = donor.kind else {
            continue;
        };
        for entry in given {
            if !entries.iter().any(|own| own.key.means_the_same(&entry.key)) {
                entries.push(MapEntry { merged: true, ..entry });
            }
        }
    }
}

fn is_merge(entry: &MapEntry) -> bool {
    let is_map = |node: &YamlNode| matches!(node.kind, NodeKind::Map { .. });
    let mergeable = match &entry.value.kind {
        NodeKind::Map { .. } => true,
        NodeKind::List { items, .. } => items.iter().all(is_map),
        NodeKind::Scalar { .. } | NodeKind::Unsupported(_) => false,
    };
    let key = &entry.key.kind;
    mergeable && matches!(key, NodeKind::Scalar { text, style: Style::Plain } if text == "<<")
}

fn scalar(
    text: &str,
    body: &str,
    style: ScalarStyle,
    anchor: usize,
    tag: Option<&Tag>,
    span: &Span,
) -> YamlNode {
    let written = span.slice(text).unwrap_or_default();
    let style = match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    };
    // The parser reports an absent value as a `~` without extent.
    let body = if written.is_empty() && style == Style::Plain { "" } else { body };
    let mut node = located(NodeKind::Scalar { text: body.to_owned(), style }, span);
    if style == Style::Block {
        node.end = node.start + written.trim_end().len();
    }
    node.shared = anchor != 0 || tag.is_some();
    match tag {
        Some(tag) if tag.is_yaml_core_schema_tag("str") => {
            node.kind = NodeKind::Scalar { text: body.to_owned(), style: Style::Quoted };
        }
        Some(tag) if tag.core_suffix().is_none() => {
            node.kind = NodeKind::Unsupported(format!("a value with the tag {tag}"));
        }
        _ => {}
    }
    node
}

fn located(kind: NodeKind, span: &Span) -> YamlNode {
    let (start, end) = bytes(span);
    YamlNode {
        kind,
        start,
        end,
        line: span.start.line(),
        column: span.start.col() + 1,
        shared: false,
    }
}

/// Returns the byte range of a span; parsing from a string always knows it.
fn bytes(span: &Span) -> (usize, usize) {
    span.byte_range().map_or((0, 0), |range| (range.start, range.end))
}

fn layout(style: StructureStyle) -> CollectionStyle {
    match style {
        StructureStyle::Block => CollectionStyle::Block,
        StructureStyle::Flow => CollectionStyle::Flow,
    }
}

fn at(span: &Span, message: &str) -> SyntaxError {
    SyntaxError {
        line: span.start.line(),
        column: span.start.col() + 1,
        message: message.to_owned(),
    }
}

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

    fn of(node: YamlNode) -> Self {
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
                let pair = |entry: super::MapEntry| (Self::of(entry.key), Self::of(entry.value));
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
