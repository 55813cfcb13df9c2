//! Takes one entry out of a map and leaves every other byte alone.

use super::edit::{self, EditError};
use super::node::{CollectionStyle, MapEntry, NodeKind, YamlNode};
use super::parse::{YamlDocument, parse};

/// Returns the text without the entry at `path`; none if there is no such entry.
/// Comments inside the entry and at the end of its lines go with it.
pub(crate) fn remove(text: &str, path: &[&str]) -> Result<Option<String>, EditError> {
    let document = parse(text)?;
    let Some((name, outer)) = path.split_last() else {
        return Ok(None);
    };
    let Some(map) = document.root.as_ref().and_then(|root| root.at(outer)) else {
        return Ok(None);
    };
    let NodeKind::Map { entries, layout } = &map.kind else {
        return Ok(None);
    };
    let mut own = entries.iter().filter(|entry| entry.name() == Some(name));
    let Some(entry) = own.next() else {
        return Ok(None);
    };
    if let Some(second) = own.next() {
        let (first, second) = (entry.key.line, second.key.line);
        return Err(EditError::Duplicate { name: (*name).to_owned(), first, second });
    }
    if map.shared || entry.merged || entry.value.shared {
        return Err(EditError::Shared { line: entry.key.line });
    }
    let left: Vec<MapEntry> =
        entries.iter().filter(|other| other.name() != Some(name)).cloned().collect();
    let edited = match layout {
        CollectionStyle::Flow => {
            let rest =
                edit::synthetic(NodeKind::Map { entries: left, layout: CollectionStyle::Flow });
            return edit::set(text, outer, &rest).map(Some);
        }
        CollectionStyle::Block => without_lines(text, entry).ok_or(EditError::Unsafe)?,
    };
    verify(&document, outer, left, &edited)?;
    Ok(Some(edited))
}

/// Takes out the lines of an entry of a block map.
fn without_lines(text: &str, entry: &MapEntry) -> Option<String> {
    let before = text.get(..entry.key.start)?;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    // What shares a line with the beginning of another thing is not lines of its own.
    if !before.get(start..)?.trim_matches([' ', '\u{feff}']).is_empty() {
        return None;
    }
    let last = entry.value.end.max(entry.key.end);
    let end = text.get(last..)?.find('\n').map_or(text.len(), |end| last + end + 1);
    Some(format!("{}{}", text.get(..start)?, text.get(end..)?))
}

/// Proves that nothing but the entry is gone.
fn verify(
    before: &YamlDocument,
    outer: &[&str],
    left: Vec<MapEntry>,
    edited: &str,
) -> Result<(), EditError> {
    let after = parse(edited).map_err(|_| EditError::Unsafe)?;
    let rest = if left.is_empty() {
        YamlNode::scalar_for("", false)
    } else {
        edit::synthetic(NodeKind::Map { entries: left, layout: CollectionStyle::Block })
    };
    let expected = edit::with_value(before.root.as_ref(), outer, &rest);
    let same = match &after.root {
        Some(root) => root.means_the_same(&expected),
        None => expected.is_null(),
    };
    if same { Ok(()) } else { Err(EditError::Unsafe) }
}
