//! Patches of several files: how they are written, and what they do to a text.

mod apply;
mod parse;
mod scan;
mod unified;

#[cfg(test)]
#[path = "apply_tests.rs"]
mod apply_tests;
#[cfg(test)]
#[path = "parse_tests.rs"]
mod parse_tests;

pub(super) use apply::apply;
pub(super) use parse::parse;

/// What a patch does to one file, in the order it says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// The file, as the patch names it.
    pub(super) path: String,
    /// What is done to it.
    pub(super) action: Action,
}

/// What is done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// It is made, with this content.
    Add(String),
    /// It is deleted.
    Delete,
    /// It is changed, and may get another name.
    Update {
        /// The new name.
        move_to: Option<String>,
        /// The changes.
        hunks: Vec<Hunk>,
    },
}

/// One place of a file with its changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines to pass on the way to the place, such as the class and the function.
    pub(super) anchors: Vec<String>,
    /// Where it was when the patch was made, as a line from 1.
    pub(super) old_start: Option<usize>,
    /// The lines.
    pub(super) lines: Vec<HunkLine>,
    /// Whether the old lines are the last of the file.
    pub(super) at_end: bool,
    /// Whether the last old line has no end.
    pub(super) old_unended: bool,
    /// Whether the last new line has no end.
    pub(super) new_unended: bool,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HunkLine {
    /// It is there and stays.
    Kept(String),
    /// It is there and goes.
    Removed(String),
    /// It is new.
    Added(String),
}

impl HunkLine {
    /// Returns the line if the file has it before.
    fn old(&self) -> Option<&str> {
        match self {
            Self::Kept(line) | Self::Removed(line) => Some(line),
            Self::Added(_) => None,
        }
    }
}

impl Hunk {
    /// Returns the lines that the file has before.
    fn old(&self) -> Vec<&str> {
        self.lines.iter().filter_map(HunkLine::old).collect()
    }
}

/// A patch that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {problem}")]
pub(super) struct ParseError {
    /// Which line, from 1.
    pub(super) line: usize,
    /// What is wrong with it.
    pub(super) problem: String,
}
