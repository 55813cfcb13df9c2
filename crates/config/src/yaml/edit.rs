//! Changes one value of a document and leaves every other byte alone.
//!
//! The edit is planned on the byte spans of the parsed tree, and its result is
//! parsed again: unless it means exactly the old document with that one value
//! changed, and every comment is still there, the edit is refused.

use std::ops::Range;

use thiserror::Error;

use super::node::{CollectionStyle, MapEntry, NodeKind, Style, YamlNode, flow};
use super::parse::{SyntaxError, YamlComment, YamlDocument, parse};

/// Why a document was left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// The document does not parse.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// An anchor, alias or tag is on the way; another place may depend on it.
    #[error("line {line} has an anchor, an alias or a tag, which is not edited automatically")]
    Shared {
        /// Line, from 1.
        line: usize,
    },
    /// The key is there more than once.
    #[error("`{name}` is there twice, at lines {first} and {second}")]
    Duplicate {
        /// The repeated key.
        name: String,
        /// Line of the first.
        first: usize,
        /// Line of the second.
        second: usize,
    },
    /// A section is not a map.
    #[error("`{name}` at line {line} is {found}, not a map of settings")]
    NotAMap {
        /// The section, or empty for the whole document.
        name: String,
        /// Line, from 1.
        line: usize,
        /// What is there instead.
        found: String,
    },
    /// The value is not a list.
    #[error("`{name}` at line {line} is {found}, not a list")]
    NotAList {
        /// The key.
        name: String,
        /// Line, from 1.
        line: usize,
        /// What is there instead.
        found: String,
    },
    /// Comments inside the value to be replaced would be lost.
    #[error("the comment at line {line} stands inside the value and would be lost")]
    CommentInside {
        /// Line, from 1.
        line: usize,
    },
    /// The document is written in a way this editor does not change.
    #[error("it is written in a way that cannot be changed safely")]
    Unsafe,
}

/// Returns the text with the value at `path` set.
pub(crate) fn set(text: &str, path: &[&str], value: &YamlNode) -> Result<String, EditError> {
    let document = parse(text)?;
    let editor = YamlEditor { text, document: &document, newline: newline(text) };
    let edited = editor.plan(path, value)?.apply(text).ok_or(EditError::Unsafe)?;
    verify(&document, path, value, &edited)?;
    Ok(edited)
}

/// Returns the text with one more item at the end of the list at `path`, which
/// is made when it is not there.
pub(crate) fn append(text: &str, path: &[&str], item: &YamlNode) -> Result<String, EditError> {
    let document = parse(text)?;
    let editor = YamlEditor { text, document: &document, newline: newline(text) };
    let Some(list) = editor.find(path)? else {
        return set(text, path, &YamlNode::list_of(vec![item.clone()]));
    };
    let NodeKind::List { items, layout } = &list.kind else {
        return Err(EditError::NotAList {
            name: path.join("."),
            line: list.line,
            found: list.noun().to_owned(),
        });
    };
    if list.shared {
        return Err(EditError::Shared { line: list.line });
    }
    let plan = match (items.last(), layout) {
        (None, _) => {
            let at = list.start + 1;
            Replacements(vec![(at..at, flow(item))])
        }
        (Some(last), CollectionStyle::Flow) => {
            Replacements(vec![(last.end..last.end, format!(", {}", flow(item)))])
        }
        (Some(last), CollectionStyle::Block) => editor.add_line(last, item)?,
    };
    let edited = plan.apply(text).ok_or(EditError::Unsafe)?;
    let longer = YamlNode::list_of(items.iter().chain([item]).cloned().collect());
    verify(&document, path, &longer, &edited)?;
    Ok(edited)
}

/// Text to be put in place of byte ranges that don't overlap, in order.
struct Replacements(Vec<(Range<usize>, String)>);

impl Replacements {
    fn apply(self, text: &str) -> Option<String> {
        let mut out = String::with_capacity(text.len() + 64);
        let mut done = 0;
        for (range, new) in self.0 {
            out.push_str(text.get(done..range.start)?);
            out.push_str(&new);
            done = range.end;
        }
        out.push_str(text.get(done..)?);
        Some(out)
    }
}

struct YamlEditor<'a> {
    text: &'a str,
    document: &'a YamlDocument,
    newline: &'static str,
}

impl YamlEditor<'_> {
    fn plan(&self, path: &[&str], value: &YamlNode) -> Result<Replacements, EditError> {
        let Some(root) = self.document.root.as_ref().filter(|root| !root.is_null()) else {
            if self.document.root.as_ref().is_some_and(|root| !root.is_missing() || root.shared) {
                return Err(EditError::Unsafe);
            }
            return self.append(path, value, 0);
        };
        let mut node = root;
        for (depth, name) in path.iter().enumerate() {
            let at = path.get(..depth).unwrap_or_default().join(".");
            let (entries, layout) = own_map(node, &at)?;
            let rest = path.get(depth..).unwrap_or_default();
            let indent = node.column - 1;
            let Some(entry) = unique(entries, name)? else {
                return match layout {
                    CollectionStyle::Flow => insert_in_flow(node, entries, rest, value),
                    CollectionStyle::Block if depth == 0 => self.append(rest, value, indent),
                    CollectionStyle::Block => Ok(self.insert_in_block(node, rest, value, indent)),
                };
            };
            if rest.len() == 1 {
                return self.replace(entry, layout, value);
            }
            if entry.value.is_null() {
                return self.fill(entry, layout, rest.get(1..).unwrap_or_default(), value);
            }
            node = &entry.value;
        }
        Err(EditError::Unsafe)
    }

    /// Returns the value at `path`, unless it is absent or null.
    fn find(&self, path: &[&str]) -> Result<Option<&YamlNode>, EditError> {
        let Some(mut node) = self.document.root.as_ref() else {
            return Ok(None);
        };
        for (depth, name) in path.iter().enumerate() {
            if node.is_null() {
                return Ok(None);
            }
            let at = path.get(..depth).unwrap_or_default().join(".");
            let (entries, _) = own_map(node, &at)?;
            match unique(entries, name)? {
                None => return Ok(None),
                Some(entry) => node = &entry.value,
            }
        }
        Ok((!node.is_null()).then_some(node))
    }

    /// Adds an item below the last one of a block list.
    fn add_line(&self, last: &YamlNode, item: &YamlNode) -> Result<Replacements, EditError> {
        let before = self.text.get(..last.start).unwrap_or_default();
        let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
        let line = line.trim_start_matches('\u{feff}');
        let indent = line.len() - line.trim_start_matches(' ').len();
        if !line.get(indent..).is_some_and(|rest| rest.starts_with("- ")) {
            return Err(EditError::Unsafe);
        }
        let at = self.line_end(last.end);
        let new = format!("{}{}- {}", self.newline, " ".repeat(indent), flow(item));
        Ok(Replacements(vec![(at..at, new)]))
    }

    /// Adds at the end of the text.
    fn append(
        &self,
        path: &[&str],
        value: &YamlNode,
        indent: usize,
    ) -> Result<Replacements, EditError> {
        if self.document.closed {
            return Err(EditError::Unsafe);
        }
        let gap = if self.text.is_empty() || self.text.ends_with('\n') || self.text == "\u{feff}" {
            ""
        } else {
            self.newline
        };
        let lines = self.block_entry(path, value, indent);
        let end = self.text.len();
        Ok(Replacements(vec![(end..end, format!("{gap}{lines}{}", self.newline))]))
    }

    /// Adds after the last line of a block map.
    fn insert_in_block(
        &self,
        map: &YamlNode,
        path: &[&str],
        value: &YamlNode,
        indent: usize,
    ) -> Replacements {
        let at = self.line_end(map.end);
        let lines = self.block_entry(path, value, indent);
        Replacements(vec![(at..at, format!("{}{lines}", self.newline))])
    }

    /// Gives a section that has no content yet its first entry.
    fn fill(
        &self,
        entry: &MapEntry,
        layout: CollectionStyle,
        path: &[&str],
        value: &YamlNode,
    ) -> Result<Replacements, EditError> {
        let node = &entry.value;
        if node.shared {
            return Err(EditError::Shared { line: node.line });
        }
        if !node.is_missing() || layout == CollectionStyle::Flow {
            let map = format!("{{{}}}", flow_entry(path, value));
            return self.replace_text(entry, &map);
        }
        let colon = self.colon(entry)?;
        let at = self.line_end(colon);
        let lines = self.block_entry(path, value, self.column_of(entry.key.start) + 2);
        Ok(Replacements(vec![(at..at, format!("{}{lines}", self.newline))]))
    }

    fn replace(
        &self,
        entry: &MapEntry,
        layout: CollectionStyle,
        value: &YamlNode,
    ) -> Result<Replacements, EditError> {
        let old = &entry.value;
        if old.shared {
            return Err(EditError::Shared { line: old.line });
        }
        match &old.kind {
            NodeKind::List { layout: CollectionStyle::Block, .. }
            | NodeKind::Map { layout: CollectionStyle::Block, .. }
                if layout == CollectionStyle::Block =>
            {
                self.replace_block(entry, value)
            }
            _ => self.replace_text(entry, &flow(value)),
        }
    }

    /// Replaces a value that is written as one piece of text, or not at all.
    fn replace_text(&self, entry: &MapEntry, new: &str) -> Result<Replacements, EditError> {
        let old = &entry.value;
        if old.is_missing() {
            let at = self.colon(entry)? + 1;
            return Ok(Replacements(vec![(at..at, format!(" {new}"))]));
        }
        let start = if matches!(old.kind, NodeKind::Scalar { style: Style::Block, .. }) {
            // The span of a block scalar begins after its `|` line.
            let after = self.colon(entry)? + 1;
            let rest = self.text.get(after..).unwrap_or_default();
            after + (rest.len() - rest.trim_start().len())
        } else {
            old.start
        };
        let range = start..old.end;
        self.refuse_comments_in(&range)?;
        Ok(Replacements(vec![(range, new.to_owned())]))
    }

    /// Replaces a list or map that takes lines of its own.
    fn replace_block(&self, entry: &MapEntry, value: &YamlNode) -> Result<Replacements, EditError> {
        let colon = self.colon(entry)?;
        let lines = self.line_end(colon)..self.line_end(entry.value.end);
        if lines.start >= lines.end {
            return Err(EditError::Unsafe);
        }
        self.refuse_comments_in(&lines)?;
        let first = self.text.get(lines.clone()).unwrap_or_default().trim_start();
        let indent = self.column_of(lines.end - first.len());
        if let Some(block) = self.block_value(value, indent) {
            return Ok(Replacements(vec![(lines, format!("{}{block}", self.newline))]));
        }
        let after = colon + 1;
        Ok(Replacements(vec![(after..after, format!(" {}", flow(value))), (lines, String::new())]))
    }

    /// Writes a non-empty collection as lines; none for what fits on one line.
    fn block_value(&self, value: &YamlNode, indent: usize) -> Option<String> {
        let pad = " ".repeat(indent);
        let lines: Vec<String> = match &value.kind {
            NodeKind::List { items, .. } => {
                items.iter().map(|item| format!("{pad}- {}", flow(item))).collect()
            }
            NodeKind::Map { entries, .. } => entries
                .iter()
                .map(|entry| format!("{pad}{}: {}", flow(&entry.key), flow(&entry.value)))
                .collect(),
            NodeKind::Scalar { .. } | NodeKind::Unsupported(_) => return None,
        };
        (!lines.is_empty()).then(|| lines.join(self.newline))
    }

    fn block_entry(&self, path: &[&str], value: &YamlNode, indent: usize) -> String {
        let mut out = String::new();
        for (depth, name) in path.iter().enumerate() {
            if depth > 0 {
                out.push_str(self.newline);
            }
            out.push_str(&" ".repeat(indent + 2 * depth));
            out.push_str(&super::quote(name));
            out.push(':');
        }
        out.push(' ');
        out.push_str(&flow(value));
        out
    }

    /// Returns where the `:` between a key and its value stands.
    fn colon(&self, entry: &MapEntry) -> Result<usize, EditError> {
        let rest = self.text.get(entry.key.end..).unwrap_or_default();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if rest.get(blanks..).is_some_and(|rest| rest.starts_with(':')) {
            Ok(entry.key.end + blanks)
        } else {
            Err(EditError::Unsafe)
        }
    }

    /// Returns where the line of a byte ends, before its line break.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let line = rest.find('\n').map_or(rest, |end| &rest[..end]);
        at + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// Returns how many characters stand before a byte on its line.
    fn column_of(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
        line.trim_start_matches('\u{feff}').chars().count()
    }

    fn refuse_comments_in(&self, range: &Range<usize>) -> Result<(), EditError> {
        let inside = self.document.comments.iter().find(|comment| range.contains(&comment.start));
        match inside {
            None => Ok(()),
            Some(comment) => {
                let before = self.text.get(..comment.start).unwrap_or_default();
                Err(EditError::CommentInside { line: before.matches('\n').count() + 1 })
            }
        }
    }
}

/// Adds behind the last entry of a flow map.
fn insert_in_flow(
    map: &YamlNode,
    entries: &[MapEntry],
    path: &[&str],
    value: &YamlNode,
) -> Result<Replacements, EditError> {
    let entry = flow_entry(path, value);
    let last = entries.iter().rfind(|entry| !entry.merged);
    let (at, new) = match last {
        Some(last) if last.value.is_missing() => return Err(EditError::Unsafe),
        Some(last) => (last.value.end, format!(", {entry}")),
        None => (map.start + 1, entry),
    };
    Ok(Replacements(vec![(at..at, new)]))
}

fn flow_entry(path: &[&str], value: &YamlNode) -> String {
    let Some((last, outer)) = path.split_last() else {
        return String::new();
    };
    let innermost = format!("{}: {}", super::quote(last), flow(value));
    outer.iter().rev().fold(innermost, |inner, name| format!("{}: {{{inner}}}", super::quote(name)))
}

fn own_map<'a>(
    node: &'a YamlNode,
    name: &str,
) -> Result<(&'a [MapEntry], CollectionStyle), EditError> {
    if node.shared {
        return Err(EditError::Shared { line: node.line });
    }
    match &node.kind {
        NodeKind::Map { entries, layout } => Ok((entries, *layout)),
        _ => Err(EditError::NotAMap {
            name: name.to_owned(),
            line: node.line,
            found: node.noun().to_owned(),
        }),
    }
}

fn unique<'a>(entries: &'a [MapEntry], name: &str) -> Result<Option<&'a MapEntry>, EditError> {
    let mut own = entries.iter().filter(|entry| !entry.merged && entry.name() == Some(name));
    match (own.next(), own.next()) {
        (Some(first), Some(second)) => Err(EditError::Duplicate {
            name: name.to_owned(),
            first: first.key.line,
            second: second.key.line,
        }),
        (first, _) => Ok(first),
    }
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Proves that the edit did what was asked and nothing else.
fn verify(
    before: &YamlDocument,
    path: &[&str],
    value: &YamlNode,
    edited: &str,
) -> Result<(), EditError> {
    let after = parse(edited).map_err(|_| EditError::Unsafe)?;
    let same_comments = texts(&before.comments).eq(texts(&after.comments));
    let expected = with_value(before.root.as_ref(), path, value);
    let same_meaning = after.root.is_some_and(|root| root.means_the_same(&expected));
    if same_comments && same_meaning { Ok(()) } else { Err(EditError::Unsafe) }
}

fn texts(comments: &[YamlComment]) -> impl Iterator<Item = &str> {
    comments.iter().map(|comment| comment.text.as_str())
}

/// Returns what the document should mean after the edit.
pub(super) fn with_value(node: Option<&YamlNode>, path: &[&str], value: &YamlNode) -> YamlNode {
    let Some((name, rest)) = path.split_first() else {
        return value.clone();
    };
    let mut entries = match node.map(|node| &node.kind) {
        Some(NodeKind::Map { entries, .. }) => entries.clone(),
        _ => Vec::new(),
    };
    let own = entries.iter().position(|e| !e.merged && e.name() == Some(*name));
    if let Some(entry) = own.and_then(|at| entries.get_mut(at)) {
        entry.value = with_value(Some(&entry.value), rest, value);
    } else {
        // A merged entry of that name is hidden by the new one, which stands
        // behind the map's own entries and before what is merged in.
        entries.retain(|e| e.name() != Some(*name));
        let place = entries.iter().position(|e| e.merged).unwrap_or(entries.len());
        let new = MapEntry {
            key: synthetic(NodeKind::Scalar { text: (*name).to_owned(), style: Style::Quoted }),
            value: with_value(None, rest, value),
            merged: false,
        };
        entries.insert(place, new);
    }
    synthetic(NodeKind::Map { entries, layout: CollectionStyle::Block })
}

pub(super) fn synthetic(kind: NodeKind) -> YamlNode {
    YamlNode { kind, start: 0, end: 0, line: 1, column: 1, shared: false }
}
