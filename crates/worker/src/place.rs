//! Where a task is worked on.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use vestal_board::{Board, Outcome, Run, Task, TaskId, Workspace};
use vestal_config::{ConfigError, Isolation, Settings, is_within, keys};
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::{Depth, FileError, Files, Links, Overwrite, Parents};
use vestal_sandbox::{Engine, Error, InvalidTask, Overrides, Sandbox, Task as SandboxTask};

/// The directory of scratch places below a sandbox's workspace.
const KANBAN: &str = "kanban";
/// What the place of an attempt that failed is called, behind the task's name.
const FAILED: &str = ".failed";
/// Bytes of a line that names a directory.
const LONGEST_LINE: u64 = 8 * 1024;
/// The variable that names the directory a worker was given.
pub(crate) const WORKSPACE_VARIABLE: &str = "VESTAL_KANBAN_WORKSPACE";
/// The variable that names its branch.
const BRANCH_VARIABLE: &str = "VESTAL_KANBAN_BRANCH";

/// Why there is no place to work in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// The directory is not there.
    #[error("{} is not a directory of this host", path.display())]
    NoDirectory {
        /// Which.
        path: PathBuf,
    },
    /// Whoever works there could change what Vestal itself goes by.
    #[error("{} is in Vestal's own home, where no task is worked on", path.display())]
    Home {
        /// Which.
        path: PathBuf,
    },
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The task's name is none for a sandbox.
    #[error(transparent)]
    Task(#[from] InvalidTask),
    /// There is no sandbox to be had.
    #[error(transparent)]
    Sandbox(#[from] Error),
    /// A directory or a file in it could not be made.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: FileError,
    },
}

/// The sandbox that a task is worked on in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    /// The task whose sandbox it is.
    pub(crate) task: SandboxTask,
    /// What is asked of it.
    pub(crate) overrides: Overrides,
    /// Whether it is for this task alone, and goes with it.
    pub(crate) is_own: bool,
    /// The directory of the host that is worked in; none: a scratch place.
    mounted: Option<PathBuf>,
    branch: Option<String>,
}

/// A place to work in, which is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directory that is worked in, as the sandbox sees it.
    pub(crate) dir: PathBuf,
    /// The branch of a working tree.
    pub(crate) branch: Option<String>,
    /// The directory of the sandbox's own for what is only there for the task.
    pub(crate) side: PathBuf,
    /// What an attempt left that failed.
    pub(crate) before: Option<PathBuf>,
}

impl Ground {
    /// Finds out which sandbox a task is worked on in.
    pub(crate) fn find(settings: &Settings, task: &Task, run: &Run) -> Result<Self, PlaceError> {
        let environment = settings.environment();
        let given = || {
            let given = environment.non_empty(WORKSPACE_VARIABLE).map(PathBuf::from);
            let known = run.workspace.as_deref().filter(|path| path.starts_with('/'));
            given.or_else(|| known.map(PathBuf::from))
        };
        let own = || own_sandbox(&task.id).parse::<SandboxTask>();
        let Some(path) = task.workspace.path() else {
            let is_own = settings.get(&keys::ISOLATION)?.value != Isolation::Shared;
            let task = if is_own { own()? } else { SandboxTask::default_task() };
            let overrides = Overrides::default();
            return Ok(Self { task, overrides, is_own, mounted: None, branch: None });
        };
        if is_within(path, settings.home().root()) {
            return Err(PlaceError::Home { path: path.to_owned() });
        }
        let path = given().unwrap_or_else(|| path.to_owned());
        if !path.is_dir() {
            return Err(PlaceError::NoDirectory { path });
        }
        let mut binds = vec![path.clone()];
        let mut branch = None;
        if let Workspace::Worktree { branch: asked, .. } = &task.workspace {
            binds.extend(common_git_dir(&path));
            let given = environment.non_empty(BRANCH_VARIABLE);
            branch =
                given.map(|name| name.to_string_lossy().into_owned()).or_else(|| asked.clone());
        }
        let overrides = Overrides { cwd: Some(path.clone()), binds, ..Overrides::default() };
        Ok(Self { task: own()?, overrides, is_own: true, mounted: Some(path), branch })
    }

    /// Makes the sandbox, or attaches to it.
    pub(crate) async fn attach(&self, engine: &Engine) -> Result<Sandbox, PlaceError> {
        Ok(Box::pin(engine.sandbox_with(&self.task, &self.overrides)).await?)
    }

    /// Makes the place in it. What an attempt left that failed is put aside:
    /// the next one begins with nothing, and can look at it.
    pub(crate) async fn settle(
        &self,
        sandbox: &Sandbox,
        task: &Task,
        last: Option<Outcome>,
    ) -> Result<Place, PlaceError> {
        let side = side(sandbox, &task.id).await;
        let files = sandbox.files(None).await?;
        let mut before = None;
        if self.mounted.is_none()
            && last.is_some_and(leaves_a_mess)
            && is_there(&files, &side).await
        {
            let aside = failed_side(&side);
            let put_aside = async {
                if is_there(&files, &aside).await {
                    files.delete(&aside, Depth::Recursive).await?;
                }
                files.rename(&side, &aside, Overwrite::Never).await
            };
            put_aside.await.map_err(failed("put aside", &side))?;
            before = Some(aside);
        }
        files.mkdir(&side, Parents::Make, None).await.map_err(failed("make", &side))?;
        Ok(Place {
            dir: self.mounted.clone().unwrap_or_else(|| side.clone()),
            branch: self.branch.clone(),
            side,
            before,
        })
    }
}

impl Place {
    /// Returns what commands know the task by.
    pub(crate) fn variables(&self, board: &Board, task: &Task) -> BTreeMap<&'static str, String> {
        let mut variables = BTreeMap::from([
            ("VESTAL_KANBAN_TASK", task.id.to_string()),
            ("VESTAL_KANBAN_BOARD", board.slug().to_owned()),
            (WORKSPACE_VARIABLE, self.dir.to_string_lossy().into_owned()),
        ]);
        variables.extend(self.branch.clone().map(|branch| (BRANCH_VARIABLE, branch)));
        variables.extend(task.tenant.clone().map(|tenant| ("VESTAL_TENANT", tenant)));
        variables
    }
}

/// Returns the name of the sandbox that is a task's own.
pub(crate) fn own_sandbox(task: &TaskId) -> String {
    format!("kanban-{task}")
}

/// Returns the directory of the sandbox's own that is a task's.
pub(crate) async fn side(sandbox: &Sandbox, task: &TaskId) -> PathBuf {
    sandbox.workspace().await.join(KANBAN).join(task.as_str())
}

/// Returns where what an attempt left that failed is put.
pub(crate) fn failed_side(side: &Path) -> PathBuf {
    let mut name = side.as_os_str().to_owned();
    name.push(FAILED);
    PathBuf::from(name)
}

/// Reports whether a run may have left things half done.
fn leaves_a_mess(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Crashed
        | Outcome::TimedOut
        | Outcome::SpawnFailed
        | Outcome::Stale
        | Outcome::Reclaimed
        | Outcome::NoReport => true,
        Outcome::Completed
        | Outcome::Submitted
        | Outcome::ChangesRequested
        | Outcome::Blocked
        | Outcome::Scheduled
        | Outcome::RateLimited
        | Outcome::Terminated => false,
    }
}

pub(crate) async fn is_there(files: &Files, path: &Path) -> bool {
    files.stat(path, Links::Keep).await.is_ok()
}

pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(FileError) -> PlaceError {
    move |source| {
        // The guest's own words say it without the wrapping.
        let source = match source {
            FileError::Call(CallError::Fault(fault)) => {
                FileError::Io(std::io::Error::other(fault.message))
            }
            other => other,
        };
        PlaceError::File { action, path: path.to_owned(), source }
    }
}

/// Returns the directory that a working tree shares with its repository, so
/// that git works in it.
///
/// The tree's `.git` can be written by whoever works in it, and what it names is
/// mounted. So it is believed only where the repository it leads to says itself
/// that this is one of its trees; nobody can say that of somebody else's. What is
/// in the tree says nothing, and what is no git directory is none whatever the
/// directories on the way to it are called.
fn common_git_dir(tree: &Path) -> Option<PathBuf> {
    let link = tree.join(".git");
    if fs::symlink_metadata(&link).ok()?.file_type().is_dir() {
        return None;
    }
    let named = read_line(&link)?;
    let named = tree.join(named.strip_prefix("gitdir:")?.trim());
    let own = fs::canonicalize(named).ok()?;
    let back = read_line(&own.join("gitdir"))?;
    let back = fs::canonicalize(own.join(back.trim())).ok()?;
    if back != fs::canonicalize(&link).ok()? {
        return None;
    }
    let tree = fs::canonicalize(tree).ok()?;
    let common = fs::canonicalize(own.join(read_line(&own.join("commondir"))?.trim())).ok()?;
    let is_its_own = own.parent() == Some(&*common.join("worktrees"));
    let is_outside = !own.starts_with(&tree) && !common.starts_with(&tree);
    (is_its_own && is_outside && is_git_dir(&common)).then_some(common)
}

/// Reports whether a directory is git's, by what git itself looks for.
fn is_git_dir(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
}

/// Reads a file of one line. Whoever works in a tree may have put something else
/// there, a pipe that nobody writes to or a link to what has no end.
fn read_line(path: &Path) -> Option<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(LONGEST_LINE).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
