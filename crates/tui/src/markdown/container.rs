//! Blocks that hold other blocks.

use super::starts::{Kind, Marker, indented};

/// How deep blocks may be within each other; what is deeper is text. Nobody writes
/// so deep by intent, and each line costs work for every level.
pub(super) const DEEPEST: usize = 32;

/// A block that holds others and may still go on.
#[derive(Debug, Clone)]
pub(super) enum Container {
    Quote,
    Item(Item),
}

/// An item of a list, or a footnote.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// What the list is marked with; none for a footnote.
    pub(super) kind: Option<Kind>,
    pub(super) number: u64,
    /// The column from which on text belongs to the item.
    offset: usize,
    /// What stands before the item's first line.
    pub(super) mark: String,
    /// Whether the mark has been shown.
    pub(super) shown: bool,
    /// Whether nothing is in it so far. Such an item ends with a blank line.
    pub(super) bare: bool,
}

impl Item {
    /// Returns the item that a mark begins, as number `number` of its list.
    pub(super) fn of_list(marker: &Marker<'_>, number: u64, indent: usize) -> Self {
        let mark = match marker.kind {
            Kind::Bullet(_) => "- ".to_owned(),
            Kind::Ordered(delimiter) => format!("{number}{delimiter} "),
        };
        Self {
            kind: Some(marker.kind),
            number,
            offset: indent + marker.offset,
            // What is meant to be nested but is indented too little for that looks as
            // its author meant it.
            mark: " ".repeat(indent) + &mark,
            shown: false,
            bare: marker.rest.is_empty(),
        }
    }

    /// Returns a footnote.
    pub(super) fn of_footnote(label: &str, rest: &str) -> Self {
        Self {
            kind: None,
            number: 0,
            offset: 4,
            mark: format!("{label}: "),
            shown: false,
            bare: rest.is_empty(),
        }
    }
}

impl Container {
    /// Returns what is left of a line for the blocks within, if the line goes on with
    /// this one.
    pub(super) fn continued<'t>(&self, line: &'t str) -> Option<&'t str> {
        let (indent, text) = indented(line);
        match self {
            Self::Quote => {
                let rest = text.strip_prefix('>').filter(|_| indent <= 3)?;
                Some(rest.strip_prefix(' ').unwrap_or(rest))
            }
            Self::Item(item) if text.is_empty() => {
                (!item.bare).then(|| &line[indent.min(item.offset)..])
            }
            Self::Item(item) => (indent >= item.offset).then(|| &line[item.offset..]),
        }
    }

    /// Returns how many columns stand before what is within.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Quote => 2,
            Self::Item(item) => crate::text::width(&item.mark),
        }
    }
}
