//! Git working trees of tasks: created, found again and removed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use vestal_board::TaskId;

use crate::git::{GitAt, printed_path};
use crate::own_git::OwnGit;
use crate::workspace::{
    WorkspaceDir, WorkspaceError, Workspaces, WorktreeRecord, check_path, make_dir,
};

/// The directory of working trees below a repository.
const TREES: &str = ".worktrees";

/// What happened to the working tree of a finished task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Removed {
    /// This host made none.
    Nothing,
    /// It is gone.
    Gone(PathBuf),
    /// It was kept.
    Kept(PathBuf, KeepReason),
}

/// Why a working tree was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeepReason {
    /// It has uncommitted changes.
    Dirty,
    /// It is not what this program made.
    Strange(String),
}

/// What to do with a working tree.
enum WorktreeRemoval {
    /// There is none; its record is outdated.
    Forget,
    /// There is none, and no record.
    Nothing,
    /// Keep it.
    Keep(PathBuf, KeepReason),
    /// Remove it.
    Remove(WorktreeRecord),
}

impl Workspaces<'_> {
    /// Creates the working tree of a task, or finds the one of an earlier run.
    pub(crate) async fn make_tree(
        &self,
        task: &TaskId,
        wanted: &Path,
        branch: Option<&str>,
    ) -> Result<WorkspaceDir, WorkspaceError> {
        check_path(wanted)?;
        let Repository { root, tree } = find(self, task, wanted).await?;
        check_path(&tree)?;
        let git = self.git.at(&root).await?;

        let registered = is_registered(&git, &tree).await?;
        if registered && tree.exists() {
            let branch = branch_of(self, &tree).await?;
            return Ok(WorkspaceDir { path: Some(tree), branch });
        }
        if registered {
            // The directory was removed; git still lists it.
            git.run([os("worktree"), os("remove"), os("--force"), tree.as_os_str()]).await?;
        }
        if !is_empty(&tree)? {
            let reason = format!("it is not empty and not a working tree of {}", root.display());
            return Err(WorkspaceError::path(&tree, reason));
        }

        let branch = branch.map_or_else(|| format!("wt/{task}"), str::to_owned);
        if branch.starts_with('-') || !git.test(["check-ref-format", "--branch", &branch]).await? {
            return Err(WorkspaceError::path(
                &tree,
                format!("{branch:?} is not a valid branch name"),
            ));
        }
        let reference = format!("refs/heads/{branch}");
        let exists = git.test(["show-ref", "--verify", "--quiet", &reference]).await?;
        // The record of an earlier, unfinished attempt says whether it created the branch.
        let before =
            WorktreeRecord::read(self.board, task)?.filter(|record| record.branch == branch);
        let made_before = before.as_ref().is_some_and(|record| record.made_branch);
        // What the task changes is compared with this commit.
        let base = match before.and_then(|record| record.base) {
            Some(base) => Some(base),
            None if exists => printed_name(git.run(["merge-base", "HEAD", &reference]).await),
            None => printed_name(git.run(["rev-parse", "--verify", "HEAD"]).await),
        };
        let made_branch = !exists || made_before;
        WorktreeRecord::new(root.clone(), tree.clone(), branch.clone(), made_branch, base)
            .write(self.board, task)?;
        prepare_parent(&root, &tree)?;
        if exists {
            git.run([os("worktree"), os("add"), tree.as_os_str(), os(&branch)]).await?;
        } else {
            let new = [os("worktree"), os("add"), os("--no-track"), os("-b"), os(&branch)];
            git.run(new.into_iter().chain([tree.as_os_str(), os("HEAD")])).await?;
        }
        Ok(WorkspaceDir { path: Some(tree), branch: Some(branch) })
    }

    /// Removes the working tree of a task, unless something in it would be lost.
    pub(crate) async fn remove(&self, task: &TaskId) -> Result<Removed, WorkspaceError> {
        match self.check_removal(task).await? {
            WorktreeRemoval::Nothing => Ok(Removed::Nothing),
            WorktreeRemoval::Keep(tree, why) => Ok(Removed::Kept(tree, why)),
            WorktreeRemoval::Forget => {
                WorktreeRecord::forget(self.board, task)?;
                Ok(Removed::Nothing)
            }
            WorktreeRemoval::Remove(record) => {
                let own = OwnGit::of(&record, task, self.git).await?;
                let WorktreeRecord { repository, tree, branch, made_branch, .. } = record;
                let git = self.git.at(&repository).await?;
                git.run([os("worktree"), os("remove"), tree.as_os_str()]).await?;
                own.forget()?;
                self.forget_states(&git, task).await?;
                // Commits are never lost: git deletes the branch only if it is merged.
                if made_branch && !git.test(["branch", "--delete", "--quiet", &branch]).await? {
                    tracing::debug!(%branch, "the branch has unmerged commits; kept");
                }
                WorktreeRecord::forget(self.board, task)?;
                Ok(Removed::Gone(tree))
            }
        }
    }

    /// Returns what [`Self::remove`] would do.
    pub(crate) async fn would_remove(&self, task: &TaskId) -> Result<Removed, WorkspaceError> {
        Ok(match self.check_removal(task).await? {
            WorktreeRemoval::Nothing | WorktreeRemoval::Forget => Removed::Nothing,
            WorktreeRemoval::Keep(tree, why) => Removed::Kept(tree, why),
            WorktreeRemoval::Remove(record) => Removed::Gone(record.tree),
        })
    }

    async fn check_removal(&self, task: &TaskId) -> Result<WorktreeRemoval, WorkspaceError> {
        let Some(record) = WorktreeRecord::read(self.board, task)? else {
            return Ok(WorktreeRemoval::Nothing);
        };
        let WorktreeRecord { repository, tree, branch, .. } = &record;
        let strange = |why: &str| {
            Ok(WorktreeRemoval::Keep(tree.clone(), KeepReason::Strange(why.to_owned())))
        };
        if !repository.is_dir() {
            // The repository is gone, and its trees with it.
            return Ok(WorktreeRemoval::Forget);
        }
        // A directory that a person chose is not removed.
        if *tree != tree_of(repository, task) {
            return Ok(WorktreeRemoval::Forget);
        }
        if let Err(error) = check_path(tree) {
            return strange(&error.to_string());
        }
        let git = self.git.at(repository).await?;
        if !is_registered(&git, tree).await? {
            if tree.exists() {
                return strange("its repository does not list it as a working tree any more");
            }
            return Ok(WorktreeRemoval::Forget);
        }
        if tree.exists() {
            // The worker could write the tree's .git file.
            if !is_linked_to(&git, tree).await? {
                return strange("its .git file does not point to its repository");
            }
            if let Err(error) = OwnGit::of(&record, task, self.git).await?.collect().await {
                return strange(&format!(
                    "what its worker committed cannot be taken over: {error}"
                ));
            }
            let inside = self.git.at(tree).await?;
            let status =
                ["status", "--porcelain", "--untracked-files=normal", "--ignore-submodules"];
            if !inside.run(status).await?.is_empty() {
                return Ok(WorktreeRemoval::Keep(tree.clone(), KeepReason::Dirty));
            }
            let ours = inside.run(["symbolic-ref", "--quiet", "HEAD"]).await;
            if ours.ok().as_deref() != Some(format!("refs/heads/{branch}\n").as_bytes()) {
                return strange("another branch is checked out in it");
            }
        }
        Ok(WorktreeRemoval::Remove(record))
    }
}

/// A repository and where a task's tree is to be.
struct Repository {
    root: PathBuf,
    tree: PathBuf,
}

async fn find(
    workspaces: &Workspaces<'_>,
    task: &TaskId,
    wanted: &Path,
) -> Result<Repository, WorkspaceError> {
    let root = root_for(workspaces, wanted).await?;
    let tree = if *wanted == root { tree_of(&root, task) } else { wanted.to_owned() };
    if tree.starts_with(root.join(".git")) {
        return Err(WorkspaceError::path(&tree, "it is inside the repository's own directory"));
    }
    Ok(Repository { root, tree })
}

/// Returns the main working tree of the repository that a tree is wanted of.
pub(crate) async fn root_for(
    workspaces: &Workspaces<'_>,
    wanted: &Path,
) -> Result<PathBuf, WorkspaceError> {
    // A directory that is still to be made belongs to the repository around it,
    // or to the board's.
    let around = wanted.ancestors().find(|dir| dir.is_dir());
    let mut root = match around {
        Some(dir) => root_at(workspaces, dir).await?,
        None => None,
    };
    if root.is_none()
        && let Some(default) = workspaces.default_workdir
    {
        check_path(default)?;
        root = root_at(workspaces, default).await?;
    }
    root.ok_or_else(|| WorkspaceError::path(wanted, "it is in no git repository"))
}

/// Returns the main working tree of the repository that a directory is in.
async fn root_at(
    workspaces: &Workspaces<'_>,
    dir: &Path,
) -> Result<Option<PathBuf>, WorkspaceError> {
    let git = workspaces.git.at(dir).await?;
    let asked = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let Ok(common) = git.run(asked).await else { return Ok(None) };
    let common = printed_path(&common);
    // Of a bare repository there is no tree to put others below.
    let root = common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git"));
    Ok(root.map(Path::to_owned))
}

fn tree_of(root: &Path, task: &TaskId) -> PathBuf {
    root.join(TREES).join(task.as_str())
}

/// Makes the directory that the tree is to be in. Trees inside a repository do
/// not show up as something new in it.
fn prepare_parent(root: &Path, tree: &Path) -> Result<(), WorkspaceError> {
    let Some(parent) = tree.parent() else { return Ok(()) };
    make_dir(parent)?;
    let ignore = parent.join(".gitignore");
    if parent == root.join(TREES) && fs::symlink_metadata(&ignore).is_err() {
        fs::write(&ignore, "*\n").map_err(WorkspaceError::io("write", &ignore))?;
    }
    Ok(())
}

pub(crate) async fn is_registered(git: &GitAt<'_>, tree: &Path) -> Result<bool, WorkspaceError> {
    let listed = git.run(["worktree", "list", "--porcelain", "-z"]).await?;
    let mut entry = b"worktree ".to_vec();
    entry.extend_from_slice(tree.as_os_str().as_encoded_bytes());
    Ok(listed.split(|byte| *byte == 0).any(|line| line == entry))
}

async fn branch_of(
    workspaces: &Workspaces<'_>,
    tree: &Path,
) -> Result<Option<String>, WorkspaceError> {
    let git = workspaces.git.at(tree).await?;
    let head = git.run(["symbolic-ref", "--quiet", "--short", "HEAD"]).await.ok();
    Ok(head.map(|head| String::from_utf8_lossy(&head).trim_end().to_owned()))
}

/// Reports whether a tree's file `.git` names a directory of the repository.
pub(crate) async fn is_linked_to(git: &GitAt<'_>, tree: &Path) -> Result<bool, WorkspaceError> {
    let link = tree.join(".git");
    let found = fs::symlink_metadata(&link).map_err(WorkspaceError::io("look at", &link))?;
    if !found.is_file() || found.len() > 8192 {
        return Ok(false);
    }
    let text = fs::read(&link).map_err(WorkspaceError::io("read", &link))?;
    let Some(named) = text.strip_prefix(b"gitdir: ") else { return Ok(false) };
    let asked = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let trees = printed_path(&git.run(asked).await?).join("worktrees");
    let named = printed_path(named);
    Ok(named.parent() == Some(trees.as_path())
        && fs::canonicalize(&named).is_ok_and(|n| n == named))
}

/// Returns the name of an object that git printed, if it did.
fn printed_name(printed: Result<Vec<u8>, WorkspaceError>) -> Option<String> {
    let name = String::from_utf8(printed.ok()?).ok()?.trim_end().to_owned();
    (!name.is_empty()).then_some(name)
}

fn is_empty(dir: &Path) -> Result<bool, WorkspaceError> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(WorkspaceError::io("read", dir)(error)),
    }
}

fn os(text: &str) -> &std::ffi::OsStr {
    text.as_ref()
}
