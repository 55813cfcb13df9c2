//! What a task changed in its working tree: as a whole, and attempt by attempt.
//!
//! Before each attempt the state of the tree is kept as a git tree object below `refs/vestal/`. What an attempt
//! changed is the difference between what it found and what the next one found, or what is there
//! now. So nothing has to be done when a worker ends, which it may do by being killed.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use tempfile::TempDir;
use vestal_board::{Board, RunId, Task, TaskId, TaskWorkspace};
use vestal_config::Environment;

use crate::git::{GIT_TIMEOUT, Git, GitAt, printed_path};
use crate::workspace::{WorkspaceError, Workspaces, WorktreeRecord, check_path};
use crate::worktree::is_linked_to;

/// A file that is larger is named and left out: somebody's core dump is not a diff.
const MAX_FILE: u64 = 8 << 20;

/// How much of changed files is looked at altogether.
const MAX_CHANGED: u64 = 64 << 20;

/// The most bytes of a patch.
pub(crate) const MAX_PATCH: u64 = 32 << 20;

/// Which changes are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffRange {
    /// All since the tree was made.
    Whole,
    /// Those of one attempt.
    Attempt(RunId),
}

/// What a task changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDiff {
    /// The working tree.
    pub tree: PathBuf,
    /// Its branch.
    pub branch: String,
    /// The commit, or kept state, that it is compared with.
    pub base: String,
    /// The files that differ, in the order of the patch.
    pub files: Vec<ChangedFile>,
    /// The differences as git prints them; nothing if they are too large.
    pub patch: Option<Vec<u8>>,
    /// Changed files that were not looked at, because they are large or no files.
    pub left_out: Vec<PathBuf>,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path in the tree.
    pub path: PathBuf,
    /// Where it was before it was renamed or copied.
    pub from: Option<PathBuf>,
    /// What happened to it.
    pub change: Change,
    /// Lines that were added and removed; nothing for a binary file.
    pub lines: Option<(u64, u64)>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It is another.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another name.
    Renamed,
    /// It is a copy of another.
    Copied,
    /// It is of another kind, such as a link.
    TypeChanged,
}

/// Why there is no difference available.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The task has no working tree here.
    #[error(
        "task {task} has no git working tree on this machine; one is made when a task with --workspace worktree is first started, and goes a week after it is done"
    )]
    NoTree {
        /// The task.
        task: TaskId,
    },
    /// The task works in a scratch directory.
    #[error(
        "task {task} works in a scratch directory of its sandbox, which begins empty: its files are looked at there, all together"
    )]
    Scratch {
        /// The task.
        task: TaskId,
    },
    /// The task works in a directory of somebody.
    #[error(
        "task {task} works in {} as it is; of what was there before no state is kept, so there is nothing to compare with",
        path.display()
    )]
    Directory {
        /// The task.
        task: TaskId,
        /// The directory.
        path: PathBuf,
    },
    /// Nothing was kept of the attempt.
    #[error(
        "nothing is known of attempt {run} of task {task}; `vestal kanban runs {task}` lists its attempts"
    )]
    NoAttempt {
        /// The task.
        task: TaskId,
        /// The attempt.
        run: RunId,
    },
    /// The working tree cannot be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// Returns what a task changed in its working tree, committed or not. Neither the tree nor its
/// repository is changed by looking.
#[boxed]
pub async fn diff(
    board: &Board,
    task: &TaskId,
    range: DiffRange,
    environment: &Environment,
) -> Result<TaskDiff, DiffError> {
    let git = Git::new(environment, GIT_TIMEOUT);
    let workspaces = Workspaces { board: board.dir(), default_workdir: None, git: &git };
    match workspaces.diff(task, range).await {
        Err(DiffError::NoTree { task }) => Err(why_no_tree(board, task).await),
        found => found,
    }
}

/// Says why a task has no working tree: it may be of a kind that has none.
async fn why_no_tree(board: &Board, id: TaskId) -> DiffError {
    let found = async { board.read().await?.task(&id).await };
    match found.await {
        Ok(Some(task)) => DiffError::no_tree(&task),
        Ok(None) | Err(_) => DiffError::NoTree { task: id },
    }
}

impl DiffError {
    /// Returns why a task has no working tree.
    pub(crate) fn no_tree(task: &Task) -> Self {
        let id = task.id.clone();
        match &task.workspace {
            TaskWorkspace::Scratch => Self::Scratch { task: id },
            TaskWorkspace::Dir { path } => Self::Directory { task: id, path: path.clone() },
            TaskWorkspace::Worktree { .. } => Self::NoTree { task: id },
        }
    }
}

/// Where git puts what it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Objects {
    /// Into the repository, to be found later.
    Repository,
    /// Into a directory that goes.
    Scratch,
}

/// A directory for an index and objects that nobody else sees.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Result<Self, WorkspaceError> {
        let dir = tempfile::Builder::new().prefix("vestal-diff-").tempdir();
        let dir = dir.map_err(WorkspaceError::io("make a directory in", &std::env::temp_dir()))?;
        let scratch = Self(dir);
        let objects = scratch.objects();
        fs::create_dir(&objects).map_err(WorkspaceError::io("make", &objects))?;
        Ok(scratch)
    }

    fn objects(&self) -> PathBuf {
        self.0.path().join("objects")
    }

    fn index(&self) -> PathBuf {
        self.0.path().join("index")
    }

    fn paths(&self) -> PathBuf {
        self.0.path().join("paths")
    }

    /// Returns git of a repository, which finds what was put here and puts what it makes where it is
    /// told to.
    pub(crate) async fn writing<'g>(
        &self,
        repository: &GitAt<'g>,
        objects: Objects,
    ) -> Result<GitAt<'g>, WorkspaceError> {
        Ok(match objects {
            Objects::Repository => repository.clone(),
            Objects::Scratch => repository
                .clone()
                .with("GIT_OBJECT_DIRECTORY", self.objects())
                .with("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects_of(repository).await?),
        })
    }
}

impl Workspaces<'_> {
    async fn diff(&self, task: &TaskId, range: DiffRange) -> Result<TaskDiff, DiffError> {
        let Some(record) = WorktreeRecord::read(self.board, task)? else {
            return Err(DiffError::NoTree { task: task.clone() });
        };
        if !record.tree.is_dir() {
            return Err(DiffError::NoTree { task: task.clone() });
        }
        let repository = self.git.at(&record.repository).await?;
        let states = kept_states(&repository, task).await?;
        let (from, to) = match range {
            DiffRange::Whole => (base(&record, &repository).await?, None),
            DiffRange::Attempt(run) => {
                let place = states.iter().position(|(kept, _)| *kept == run);
                let Some(place) = place else {
                    return Err(DiffError::NoAttempt { task: task.clone(), run });
                };
                let next = states.get(place + 1).map(|(_, tree)| tree.clone());
                (states.get(place).map(|(_, tree)| tree.clone()).unwrap_or_default(), next)
            }
        };
        let scratch = Scratch::new()?;
        let (to, left_out) = match to {
            Some(to) => (to, Vec::new()),
            None => self.state(&record, &repository, &scratch, Objects::Scratch).await?,
        };
        let compare = repository
            .with("GIT_ALTERNATE_OBJECT_DIRECTORIES", scratch.objects())
            .printing_at_most(MAX_PATCH);
        let (files, patch) = between(&compare, &from, &to).await?;
        let WorktreeRecord { tree, branch, .. } = record;
        Ok(TaskDiff { tree, branch, base: from, files, patch, left_out })
    }

    /// Keeps the state of a task's tree as the one that an attempt found.
    pub(crate) async fn keep_state(&self, task: &TaskId, run: RunId) -> Result<(), WorkspaceError> {
        let Some(record) = WorktreeRecord::read(self.board, task)? else { return Ok(()) };
        let repository = self.git.at(&record.repository).await?;
        let scratch = Scratch::new()?;
        let (tree, _) = self.state(&record, &repository, &scratch, Objects::Repository).await?;
        repository.run(["update-ref", &reference(task, run), &tree]).await?;
        Ok(())
    }

    /// Forgets the states of a task's tree.
    pub(crate) async fn forget_states(
        &self,
        repository: &GitAt<'_>,
        task: &TaskId,
    ) -> Result<(), WorkspaceError> {
        for (run, _) in kept_states(repository, task).await? {
            repository.run(["update-ref", "-d", &reference(task, run)]).await?;
        }
        Ok(())
    }

    /// Writes the state of a tree, committed or not, as a git tree. Returns its name, and which files
    /// it leaves out.
    pub(crate) async fn state(
        &self,
        record: &WorktreeRecord,
        repository: &GitAt<'_>,
        scratch: &Scratch,
        objects: Objects,
    ) -> Result<(String, Vec<PathBuf>), WorkspaceError> {
        let WorktreeRecord { tree, .. } = record;
        check_path(tree)?;
        // The worker could write the tree's .git file.
        if !is_linked_to(repository, tree).await? {
            let reason = "its .git file does not point to its repository";
            return Err(WorkspaceError::path(tree, reason));
        }
        let inside = self.git.at(tree).await?;
        let asked = ["rev-parse", "--path-format=absolute", "--git-path", "index"];
        let index = printed_path(&inside.run(asked).await?);
        // With what git knows of unchanged files, which it then need not read.
        if index.is_file() {
            copy_index(&index, &scratch.index()).map_err(WorkspaceError::io("copy", &index))?;
        }
        let own = objects_of(repository).await?;
        let mut inside = inside.with("GIT_INDEX_FILE", scratch.index()).printing_at_most(MAX_PATCH);
        if objects == Objects::Scratch {
            inside = inside
                .with("GIT_OBJECT_DIRECTORY", scratch.objects())
                .with("GIT_ALTERNATE_OBJECT_DIRECTORIES", own);
        }
        let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"];
        let changed = changed_paths(&inside.run(status).await?);
        let (changed, left_out) = split_by_size(tree, changed);
        let mut list = Vec::new();
        for path in &changed {
            list.extend_from_slice(path.as_os_str().as_bytes());
            list.push(0);
        }
        if !list.is_empty() {
            let paths = scratch.paths();
            fs::write(&paths, list).map_err(WorkspaceError::io("write", &paths))?;
            let inside = inside.clone().with("GIT_LITERAL_PATHSPECS", "1");
            let from = format!("--pathspec-from-file={}", paths.display());
            inside.run(["add", "--all", "--force", "--pathspec-file-nul", &from]).await?;
        }
        let written = inside.run(["write-tree"]).await?;
        Ok((String::from_utf8_lossy(&written).trim_end().to_owned(), left_out))
    }
}

/// Returns the files that differ between two trees of git, and the differences unless they are too large.
pub(crate) async fn between(
    git: &GitAt<'_>,
    from: &str,
    to: &str,
) -> Result<(Vec<ChangedFile>, Option<Vec<u8>>), WorkspaceError> {
    let options = ["--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"];
    let ask = |kind: &[&str]| {
        let words = ["diff-tree", "-r"].iter().chain(&options).chain(kind);
        words.copied().chain([from, to]).map(str::to_owned).collect::<Vec<_>>()
    };
    let names = git.run(ask(&["--name-status", "-z"])).await?;
    let counts = git.run(ask(&["--numstat", "-z"])).await?;
    let patch = match git.run(ask(&["--patch", "--full-index", "--binary"])).await {
        Ok(patch) => Some(patch),
        Err(WorkspaceError::TooMuch { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok((changed_files(&names, &counts), patch))
}

/// Copies an index with its time. Git reads a file whose time is not older than that of the
/// index, since it may have changed, without a change of its size, in the instant after it was
/// looked at; a younger index would make git overlook that.
fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    let time = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(time)
}

/// Returns the commit that a tree began with.
async fn base(record: &WorktreeRecord, repository: &GitAt<'_>) -> Result<String, WorkspaceError> {
    if let Some(base) = &record.base {
        return Ok(base.clone());
    }
    // A record of an earlier version does not have it.
    let branch = format!("refs/heads/{}", record.branch);
    let common = repository.run(["merge-base", "HEAD", &branch]).await?;
    Ok(String::from_utf8_lossy(&common).trim_end().to_owned())
}

/// Returns the name of the state that an attempt found.
fn reference(task: &TaskId, run: RunId) -> String {
    format!("refs/vestal/{task}/{run}")
}

/// Returns where a repository keeps its objects.
async fn objects_of(repository: &GitAt<'_>) -> Result<PathBuf, WorkspaceError> {
    let asked = ["rev-parse", "--path-format=absolute", "--git-path", "objects"];
    Ok(printed_path(&repository.run(asked).await?))
}

/// Returns the states that attempts found, the first attempt first.
pub(crate) async fn kept_states(
    repository: &GitAt<'_>,
    task: &TaskId,
) -> Result<Vec<(RunId, String)>, WorkspaceError> {
    let prefix = format!("refs/vestal/{task}/");
    let listed =
        repository.run(["for-each-ref", "--format=%(refname) %(objectname)", &prefix]).await?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let mut states: Vec<(RunId, String)> = listed
        .lines()
        .filter_map(|line| {
            let (name, object) = line.split_once(' ')?;
            let run = name.strip_prefix(&prefix)?.parse().ok().map(RunId::new)?;
            Some((run, object.to_owned()))
        })
        .collect();
    states.sort();
    Ok(states)
}

/// Reads from what `git status --porcelain -z` prints the paths that differ from the index.
fn changed_paths(printed: &[u8]) -> Vec<PathBuf> {
    let entries = printed.split(|byte| *byte == 0);
    let differing = entries.filter(|entry| entry.get(1).is_some_and(|state| *state != b' '));
    differing.filter_map(|entry| Some(printed_path(entry.get(3..)?))).collect()
}

/// Splits off what is too large to be looked at, or is nothing that git keeps.
fn split_by_size(tree: &Path, changed: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut room = MAX_CHANGED;
    changed.into_iter().partition(|path| match fs::symlink_metadata(tree.join(path)) {
        Ok(found) if found.is_symlink() => true,
        Ok(found) if found.is_file() && found.len() <= MAX_FILE.min(room) => {
            room -= found.len();
            true
        }
        Ok(_) => false,
        // It is gone, and that is the change.
        Err(_) => true,
    })
}

/// Puts together what `--name-status -z` and `--numstat -z` print, which are in the same order.
fn changed_files(names: &[u8], counts: &[u8]) -> Vec<ChangedFile> {
    let mut counted = counts.split(|byte| *byte == 0);
    let mut named = names.split(|byte| *byte == 0);
    let mut files = Vec::new();
    while let Some(status) = named.next().filter(|status| !status.is_empty()) {
        let change = match status.first() {
            Some(b'A') => Change::Added,
            Some(b'D') => Change::Deleted,
            Some(b'R') => Change::Renamed,
            Some(b'C') => Change::Copied,
            Some(b'T') => Change::TypeChanged,
            _ => Change::Modified,
        };
        let has_origin = matches!(change, Change::Renamed | Change::Copied);
        let from = if has_origin { named.next().map(printed_path) } else { None };
        let Some(path) = named.next().map(printed_path) else { break };
        let count = counted.next().unwrap_or_default();
        if has_origin {
            // Both names follow.
            counted.next();
            counted.next();
        }
        let number =
            |text: Option<&[u8]>| -> Option<u64> { std::str::from_utf8(text?).ok()?.parse().ok() };
        let mut columns = count.split(|byte| *byte == b'\t');
        let lines = number(columns.next()).zip(number(columns.next()));
        files.push(ChangedFile { path, from, change, lines });
    }
    files
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
