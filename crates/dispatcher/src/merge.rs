//! Merging what a task changed into a branch of its repository.
//!
//! All that can stand in the way is found out first, and the result is made as git objects that
//! nobody sees. Then one step takes effect: the branch is moved forward to the result. Where it is
//! checked out, git does that itself and refuses to touch a file with changes of its own; elsewhere
//! the branch moves only if it is still what it was.

mod plan;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use vestal_board::{Authority, Board, Task, TaskId};
use vestal_config::Environment;

pub use self::plan::{MergeError, MergeMethod, MergeObstacle, MergePlan, MergeRequest, Merged};
use crate::diff::{DiffError, Objects, Scratch, kept_states};
use crate::git::{GIT_TIMEOUT, Git, GitAt, printed_path};
use crate::own_git::OwnGit;
use crate::workspace::{WorkspaceError, Workspaces, WorktreeRecord};
use crate::worktree::is_linked_to;

/// The most bytes of a list of files.
const MAX_LIST: u64 = 32 << 20;

/// Returns what a merge would do. Neither a tree nor a repository is changed by asking.
#[boxed]
pub async fn plan_merge(
    board: &Board,
    task: &TaskId,
    request: &MergeRequest,
    environment: &Environment,
) -> Result<MergePlan, MergeError> {
    let git = Git::new(environment, GIT_TIMEOUT);
    let workspaces = Workspaces { board: board.dir(), default_workdir: None, git: &git };
    let task = board.get(task).await?;
    Ok(workspaces.prepare_merge(&task, request, Objects::Scratch).await?.plan)
}

/// Merges what a task changed into a branch, and says so in a comment on the task. Either all of it
/// takes effect or nothing does.
#[boxed]
pub async fn merge(
    board: &Board,
    by: &Authority,
    task: &TaskId,
    request: &MergeRequest,
    environment: &Environment,
) -> Result<Merged, MergeError> {
    let git = Git::new(environment, GIT_TIMEOUT);
    let workspaces = Workspaces { board: board.dir(), default_workdir: None, git: &git };
    let found = board.get(task).await?;
    let merged = workspaces.merge(&found, request).await?;
    let Merged { plan, commit } = &merged;
    let short = commit.get(..12).unwrap_or(commit);
    let words = format!("Merged into {} as {short} ({}).", plan.into, plan.method);
    if let Err(error) = board.comment(by, task, &words).await {
        // It is merged, whatever the board says.
        tracing::warn!(%error, %task, "the merge is not noted on the task");
    }
    Ok(merged)
}

/// A merge that is about to take effect.
#[derive(Debug)]
struct PreparedMerge {
    plan: MergePlan,
    /// The commit that the branch is at.
    before: String,
    /// The commit that it is to be at; none: there are obstacles.
    after: Option<String>,
}

impl Workspaces<'_> {
    async fn merge(&self, task: &Task, request: &MergeRequest) -> Result<Merged, MergeError> {
        let prepared = self.prepare_merge(task, request, Objects::Repository).await?;
        let PreparedMerge { plan, before, after } = prepared;
        let Some(commit) = after.filter(|_| plan.obstacles.is_empty()) else {
            return Err(MergeError::Refused { task: task.id.clone(), plan: Box::new(plan) });
        };
        match &plan.checked_out {
            Some(tree) => {
                let git = self.git.at(tree).await?;
                let careful = [
                    "merge",
                    "--ff-only",
                    "--no-autostash",
                    "--no-overwrite-ignore",
                    "--no-verify-signatures",
                    "--no-stat",
                    "--quiet",
                    &commit,
                ];
                git.run(careful).await?;
            }
            None => {
                let reference = format!("refs/heads/{}", plan.into);
                let reason = format!("vestal: merge task {}", task.id);
                let git = self.git.at(&plan.repository).await?;
                git.run(["update-ref", "-m", &reason, &reference, &commit, &before]).await?;
            }
        }
        Ok(Merged { plan, commit })
    }

    async fn prepare_merge(
        &self,
        task: &Task,
        request: &MergeRequest,
        objects: Objects,
    ) -> Result<PreparedMerge, MergeError> {
        let no_tree = || DiffError::no_tree(task);
        let record = WorktreeRecord::read(self.board, &task.id)?.ok_or_else(no_tree)?;
        if !record.tree.is_dir() {
            return Err(no_tree().into());
        }
        // What its worker committed comes along, if it was killed before that was done.
        OwnGit::of(&record, &task.id, self.git).await?.collect().await?;
        let repository = self.git.at(&record.repository).await?;
        let into = target(&repository, request.into.as_deref(), &record.branch).await?;
        let scratch = Scratch::new()?;
        let found = self.state(&record, &repository, &scratch, objects).await?;
        let writing = scratch.writing(&repository, objects).await?.printing_at_most(MAX_LIST);

        let mut obstacles = Vec::new();
        if task.current_run.is_some() {
            obstacles.push(MergeObstacle::Running);
        }
        let tip = name_of(&self.git.at(&record.tree).await?, "HEAD^{commit}").await?;
        let (now, mut left_out) = found;
        let (state, parent, method) = match request.attempt {
            None => (now, tip.clone(), request.method),
            // Its commits are not known apart from those of other attempts.
            Some(run) => {
                let kept = kept_states(&repository, &task.id).await?;
                let place = kept.iter().position(|(one, _)| *one == run);
                let absent = || DiffError::NoAttempt { task: task.id.clone(), run };
                let place = place.ok_or_else(absent)?;
                let state = match kept.get(place + 1) {
                    Some((_, tree)) => {
                        left_out.clear();
                        tree.clone()
                    }
                    None => now,
                };
                (state, record.base.clone().unwrap_or_else(|| tip.clone()), MergeMethod::Squash)
            }
        };
        if !left_out.is_empty() {
            obstacles.push(MergeObstacle::LeftOut(left_out));
        }
        let uncommitted = state != name_of(&writing, &format!("{parent}^{{tree}}")).await?;
        let range = format!("refs/heads/{}..{tip}", into.name);
        let commits = writing.run(["rev-list", "--count", &range]).await?;
        let mut plan = MergePlan {
            checked_out: checked_out(&repository, &into.name).await?,
            repository: record.repository.clone(),
            branch: record.branch.clone(),
            into: into.name,
            method,
            commits: printed(&commits).parse().unwrap_or_default(),
            uncommitted,
            files: Vec::new(),
            obstacles,
        };
        let sides = Sides { before: into.commit, parent, state };
        let message = request.message.clone().unwrap_or_else(|| default_message(self, task));
        let after = result(&writing, &sides, &mut plan, &message).await?;
        if let Some(after) = &after {
            plan.files = changed_files(&writing, "ACDMT", &sides.before, after).await?;
            if plan.files.is_empty() {
                plan.obstacles.push(MergeObstacle::Nothing);
            }
            if let Some(tree) = plan.checked_out.clone() {
                let new = changed_files(&writing, "A", &sides.before, after).await?;
                let files = self.in_the_way(&tree, &plan.files, new).await?;
                if !files.is_empty() {
                    plan.obstacles.push(MergeObstacle::InTheWay { tree, files });
                }
            }
        }
        Ok(PreparedMerge { plan, before: sides.before, after })
    }

    /// Returns which of these files have changes of their own in a tree, or are there though they are
    /// new: git would overwrite those that are ignored.
    async fn in_the_way(
        &self,
        tree: &Path,
        files: &[PathBuf],
        new: Vec<PathBuf>,
    ) -> Result<Vec<PathBuf>, WorkspaceError> {
        let git = self.git.at(tree).await?.printing_at_most(MAX_LIST);
        let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"];
        let found = git.run(status).await?;
        let own = found.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
        let mut own: BTreeSet<PathBuf> = own.map(printed_path).collect();
        own.extend(new.into_iter().filter(|path| tree.join(path).symlink_metadata().is_ok()));
        Ok(files.iter().filter(|path| own.contains(*path)).cloned().collect())
    }
}

/// A branch and the commit that it is at.
struct TargetBranch {
    name: String,
    commit: String,
}

/// What is merged with what.
struct Sides {
    /// The commit that the branch is at.
    before: String,
    /// The commit that the task's state stands on.
    parent: String,
    /// The task's state: a git tree.
    state: String,
}

async fn target(
    repository: &GitAt<'_>,
    wanted: Option<&str>,
    own: &str,
) -> Result<TargetBranch, MergeError> {
    let name = match wanted.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => {
            let head = repository.run(["symbolic-ref", "--quiet", "--short", "HEAD"]).await;
            head.map(|head| printed(&head)).unwrap_or_default()
        }
    };
    let refuse = |reason| MergeError::Branch { into: name.clone(), reason };
    if name.is_empty() {
        return Err(refuse("the repository has no branch checked out; name one"));
    }
    if name == own {
        return Err(refuse("it is the branch of the task; name another"));
    }
    if name.starts_with('-') || !repository.test(["check-ref-format", "--branch", &name]).await? {
        return Err(refuse("it is not a valid name of a branch"));
    }
    let commit = format!("refs/heads/{name}^{{commit}}");
    let commit = repository.run(["rev-parse", "--verify", "--quiet", &commit]).await;
    let commit = commit.map_err(|_| refuse("the repository has no such branch"))?;
    Ok(TargetBranch { name, commit: printed(&commit) })
}

/// Makes the commit that the branch is to be at, as far as nothing stands in the way.
async fn result(
    git: &GitAt<'_>,
    sides: &Sides,
    plan: &mut MergePlan,
    message: &str,
) -> Result<Option<String>, WorkspaceError> {
    let Sides { before, parent, state } = sides;
    if plan.method == MergeMethod::FastForward {
        if plan.uncommitted {
            plan.obstacles.push(MergeObstacle::Uncommitted);
        } else if !git.test(["merge-base", "--is-ancestor", before, parent]).await? {
            plan.obstacles.push(MergeObstacle::Diverged { into: plan.into.clone() });
        } else {
            return Ok(Some(parent.clone()));
        }
        return Ok(None);
    }
    let (known, _, stderr) = git.ask(["var", "GIT_COMMITTER_IDENT"]).await?;
    if known != Some(0) {
        let stderr = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        plan.obstacles.push(MergeObstacle::NoIdentity(stderr.to_owned()));
        return Ok(None);
    }
    let theirs = if plan.uncommitted {
        let words = format!("Changes that were not committed on {}", plan.branch);
        printed(&git.run(["commit-tree", state, "-p", parent, "-m", &words]).await?)
    } else {
        parent.clone()
    };
    let asked =
        ["merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", before, &theirs];
    let (code, merged, stderr) = git.ask(asked).await?;
    let mut parts = merged.split(|byte| *byte == 0);
    let tree = parts.next().map(printed).unwrap_or_default();
    match code {
        Some(0) => {}
        Some(1) => {
            let files: BTreeSet<PathBuf> =
                parts.take_while(|name| !name.is_empty()).map(printed_path).collect();
            plan.obstacles.push(MergeObstacle::Conflicts(files.into_iter().collect()));
            return Ok(None);
        }
        code => return Err(git.failed(stderr.trim(), code)),
    }
    let mut words = vec!["commit-tree", &tree, "-p", before];
    if plan.method == MergeMethod::Merge {
        words.extend(["-p", &theirs]);
    }
    words.extend(["-m", message]);
    Ok(Some(printed(&git.run(words).await?)))
}

async fn changed_files(
    git: &GitAt<'_>,
    kinds: &str,
    before: &str,
    after: &str,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    let kinds = format!("--diff-filter={kinds}");
    let asked = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", &kinds, before, after];
    let found = git.run(asked).await?;
    let names = found.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(printed_path).collect())
}

/// Returns the working tree that has a branch checked out.
async fn checked_out(
    repository: &GitAt<'_>,
    branch: &str,
) -> Result<Option<PathBuf>, WorkspaceError> {
    let listed = repository.run(["worktree", "list", "--porcelain", "-z"]).await?;
    let reference = format!("branch refs/heads/{branch}");
    let mut tree = None;
    let mut is_main = true;
    let mut seen_any = false;
    for line in listed.split(|byte| *byte == 0) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            is_main = !std::mem::replace(&mut seen_any, true);
            tree = Some(printed_path(path));
        } else if line == reference.as_bytes() {
            break;
        } else if line.is_empty() {
            tree = None;
        }
    }
    let Some(tree) = tree.filter(|tree| tree.is_dir()) else { return Ok(None) };
    // A worker could have written the .git file of its tree. The first one has the repository itself.
    if !is_main && !is_linked_to(repository, &tree).await? {
        let reason = "its .git file does not point to its repository";
        return Err(WorkspaceError::path(&tree, reason));
    }
    Ok(Some(tree))
}

/// Returns the name of an object.
async fn name_of(git: &GitAt<'_>, object: &str) -> Result<String, WorkspaceError> {
    Ok(printed(&git.run(["rev-parse", "--verify", object]).await?))
}

fn printed(found: &[u8]) -> String {
    String::from_utf8_lossy(found).trim_end().to_owned()
}

fn default_message(workspaces: &Workspaces<'_>, task: &Task) -> String {
    let board = workspaces.board.file_name().unwrap_or_default().to_string_lossy();
    let title = task.title.replace(['\n', '\r'], " ");
    format!("{title}\n\nTask {} of the board {board}.", task.id)
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
