//! What a task changed: `kanban diff`.

use serde::{Deserialize, Serialize};
use vestal_dispatcher::{Change, ChangedFile, TaskDiff};

/// What a task changed in its working tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDiffView {
    /// The task.
    pub task: String,
    /// The attempt, if only its changes are meant.
    pub attempt: Option<i64>,
    /// The working tree.
    pub tree: String,
    /// Its branch.
    pub branch: String,
    /// What it is compared with.
    pub base: String,
    /// The files that differ.
    pub files: Vec<ChangedFileView>,
    /// Changed files that were not looked at, because they are large or no files.
    pub left_out: Vec<String>,
    /// The differences as git prints them; null if they are too large.
    pub patch: Option<String>,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFileView {
    /// Its path in the tree.
    pub path: String,
    /// Where it was before it was renamed or copied.
    pub from: Option<String>,
    /// What happened to it.
    pub change: ChangeView,
    /// Lines that were added; null for a binary file.
    pub added: Option<u64>,
    /// Lines that were removed; null for a binary file.
    pub removed: Option<u64>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeView {
    /// It is new.
    Added,
    /// It is another.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another name.
    Renamed,
    /// It is a copy.
    Copied,
    /// It is of another kind.
    TypeChanged,
}

impl ChangeView {
    /// Returns the letter that git has for it.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Added => "A",
            Self::Modified => "M",
            Self::Deleted => "D",
            Self::Renamed => "R",
            Self::Copied => "C",
            Self::TypeChanged => "T",
        }
    }
}

impl TaskDiffView {
    /// Returns the view of what a task, or one attempt at it, changed.
    pub fn new(task: &str, attempt: Option<i64>, diff: &TaskDiff) -> Self {
        Self {
            task: task.to_owned(),
            attempt,
            tree: diff.tree.display().to_string(),
            branch: diff.branch.clone(),
            base: diff.base.clone(),
            files: diff.files.iter().map(Into::into).collect(),
            left_out: diff.left_out.iter().map(|path| path.display().to_string()).collect(),
            patch: diff.patch.as_ref().map(|patch| String::from_utf8_lossy(patch).into_owned()),
        }
    }
}

impl From<&ChangedFile> for ChangedFileView {
    fn from(file: &ChangedFile) -> Self {
        let (added, removed) = file.lines.unzip();
        Self {
            path: file.path.display().to_string(),
            from: file.from.as_ref().map(|from| from.display().to_string()),
            change: match file.change {
                Change::Added => ChangeView::Added,
                Change::Modified => ChangeView::Modified,
                Change::Deleted => ChangeView::Deleted,
                Change::Renamed => ChangeView::Renamed,
                Change::Copied => ChangeView::Copied,
                Change::TypeChanged => ChangeView::TypeChanged,
            },
            added,
            removed,
        }
    }
}
