//! What a task changed: `kanban diff`.

use serde::{Deserialize, Serialize};
use vestal_dispatcher::{
    Change, ChangedFile, ExportedPatch, MergeObstacle, MergePlan, Merged, TaskDiff,
};

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

/// What a merge would do: `kanban merge --dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergePlanView {
    /// The task.
    pub task: String,
    /// The repository.
    pub repository: String,
    /// The branch of the task.
    pub branch: String,
    /// The branch that it is merged into.
    pub into: String,
    /// The working tree that has that branch checked out.
    pub checked_out: Option<String>,
    /// How: `squash`, `merge` or `fast-forward`.
    pub method: String,
    /// Commits of the task that the branch does not have.
    pub commits: u64,
    /// Whether there is something that the task has not committed.
    pub uncommitted: bool,
    /// The files that change on the branch.
    pub files: Vec<String>,
    /// What stands in the way; empty: it can be merged.
    pub obstacles: Vec<MergeObstacleView>,
}

/// Something that stands in the way of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeObstacleView {
    /// What it is: `running`, `conflicts`, `in_the_way`, `left_out`, `uncommitted`, `diverged`,
    /// `nothing` or `no_identity`.
    pub kind: String,
    /// In words, with what to do.
    pub detail: String,
    /// The files that it is about.
    pub files: Vec<String>,
}

/// What was merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedView {
    /// As it was planned.
    #[serde(flatten)]
    pub plan: MergePlanView,
    /// The commit that the branch is at now.
    pub commit: String,
    /// Whether the task was approved with it.
    pub approved: bool,
}

/// A patch that was written: `kanban export`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedPatchView {
    /// The task.
    pub task: String,
    /// The attempt, if only its changes are meant.
    pub attempt: Option<i64>,
    /// The file.
    pub path: String,
    /// What the patch applies to.
    pub base: String,
    /// How many files it changes.
    pub files: u64,
    /// How large it is.
    pub bytes: u64,
    /// Changed files that are not in it, because they are large or no files.
    pub left_out: Vec<String>,
}

impl MergePlanView {
    /// Returns the view of what a merge of a task would do.
    pub fn new(task: &str, plan: &MergePlan) -> Self {
        Self {
            task: task.to_owned(),
            repository: plan.repository.display().to_string(),
            branch: plan.branch.clone(),
            into: plan.into.clone(),
            checked_out: plan.checked_out.as_ref().map(|tree| tree.display().to_string()),
            method: plan.method.to_string(),
            commits: plan.commits,
            uncommitted: plan.uncommitted,
            files: plan.files.iter().map(|path| path.display().to_string()).collect(),
            obstacles: plan.obstacles.iter().map(Into::into).collect(),
        }
    }
}

impl From<&MergeObstacle> for MergeObstacleView {
    fn from(obstacle: &MergeObstacle) -> Self {
        let (kind, files) = match obstacle {
            MergeObstacle::Running => ("running", None),
            MergeObstacle::Conflicts(files) => ("conflicts", Some(files)),
            MergeObstacle::InTheWay { files, .. } => ("in_the_way", Some(files)),
            MergeObstacle::LeftOut(files) => ("left_out", Some(files)),
            MergeObstacle::Uncommitted => ("uncommitted", None),
            MergeObstacle::Diverged { .. } => ("diverged", None),
            MergeObstacle::Nothing => ("nothing", None),
            MergeObstacle::NoIdentity(_) => ("no_identity", None),
        };
        let files = files.map(|files| files.iter().map(|path| path.display().to_string()));
        Self {
            kind: kind.to_owned(),
            detail: obstacle.to_string(),
            files: files.into_iter().flatten().collect(),
        }
    }
}

impl MergedView {
    /// Returns the view of a merge of a task.
    pub fn new(task: &str, merged: &Merged, approved: bool) -> Self {
        let plan = MergePlanView::new(task, &merged.plan);
        Self { plan, commit: merged.commit.clone(), approved }
    }
}

impl ExportedPatchView {
    /// Returns the view of a patch of a task, or of one attempt at it.
    pub fn new(task: &str, attempt: Option<i64>, patch: &ExportedPatch) -> Self {
        Self {
            task: task.to_owned(),
            attempt,
            path: patch.path.display().to_string(),
            base: patch.base.clone(),
            files: patch.files,
            bytes: patch.bytes,
            left_out: patch.left_out.iter().map(|path| path.display().to_string()).collect(),
        }
    }
}
