//! Where a task is worked on: which sandbox, and which directory in it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use vestal_board::{Board, Outcome, Run, Task, TaskId, TaskWorkspace};
use vestal_config::{ConfigError, Settings, is_within};
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::{Depth, FileError, Files, Links, Overwrite, Parents};
use vestal_sandbox::{Engine, Error, InvalidTask, Isolation, Overrides, Sandbox, TaskName, keys};

/// The directory of scratch directories below a sandbox's workspace.
const KANBAN: &str = "kanban";
/// Suffix of the directory that a failed attempt left.
const FAILED: &str = ".failed";
/// The longest line read from a git file, in bytes.
const LONGEST_LINE: u64 = 8 * 1024;
/// The variable that names the directory a worker was given.
pub(crate) const WORKSPACE_VARIABLE: &str = "VESTAL_KANBAN_WORKSPACE";
/// The variable that names its branch.
const BRANCH_VARIABLE: &str = "VESTAL_KANBAN_BRANCH";

/// Why a task has no working directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkDirError {
    /// The directory is not there.
    #[error("{} is not a directory on this host; create it or change the task's workspace", path.display())]
    NoDirectory { path: PathBuf },
    /// A task there could change Vestal's own settings and records.
    #[error("{} is inside Vestal's home, where no task may work; choose another directory", path.display())]
    Home { path: PathBuf },
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The task's id is not valid as the name of a sandbox.
    #[error(transparent)]
    Task(#[from] InvalidTask),
    /// The sandbox could not be created or attached to.
    #[error(transparent)]
    Sandbox(#[from] Error),
    /// A directory or a file in it could not be made.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: FileError,
    },
}

/// The sandbox in which a task is worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskSandbox {
    /// The sandbox's name.
    pub(crate) task: TaskName,
    /// Settings of the sandbox for this task.
    pub(crate) overrides: Overrides,
    /// Whether it is for this task alone, and is removed with it.
    pub(crate) is_own: bool,
    /// The working directory on the host; `None` for a scratch directory.
    mounted: Option<PathBuf>,
    branch: Option<String>,
}

/// The working directory of a task, once it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkDir {
    /// The working directory, as the sandbox sees it.
    pub(crate) dir: PathBuf,
    /// The branch of a working tree.
    pub(crate) branch: Option<String>,
    /// The task's own directory in the sandbox; the working directory of a scratch task.
    pub(crate) task_dir: PathBuf,
    /// The directory of an earlier attempt that failed.
    pub(crate) failed_attempt: Option<PathBuf>,
}

impl TaskSandbox {
    /// Decides in which sandbox a task is worked on.
    pub(crate) fn for_task(
        settings: &Settings,
        task: &Task,
        run: &Run,
    ) -> Result<Self, WorkDirError> {
        let environment = settings.environment();
        let given = || {
            let given = environment.non_empty(WORKSPACE_VARIABLE).map(PathBuf::from);
            let known = run.workspace.as_deref().filter(|path| path.starts_with('/'));
            given.or_else(|| known.map(PathBuf::from))
        };
        let own = || own_sandbox(&task.id).parse::<TaskName>();
        let Some(path) = task.workspace.path() else {
            let is_own = settings.get(&keys::ISOLATION)?.value != Isolation::Shared;
            let task = if is_own { own()? } else { TaskName::default_task() };
            let overrides = Overrides::default();
            return Ok(Self { task, overrides, is_own, mounted: None, branch: None });
        };
        if is_within(path, settings.home().root()) {
            return Err(WorkDirError::Home { path: path.to_owned() });
        }
        let path = given().unwrap_or_else(|| path.to_owned());
        if !path.is_dir() {
            return Err(WorkDirError::NoDirectory { path });
        }
        let binds = vec![path.clone()];
        let (mut branch, mut volumes) = (None, Vec::new());
        if let TaskWorkspace::Worktree { branch: asked, .. } = &task.workspace {
            volumes = common_git_dir(&path).map_or_else(Vec::new, |dir| git_dirs(&dir, &task.id));
            let given = environment.non_empty(BRANCH_VARIABLE);
            branch =
                given.map(|name| name.to_string_lossy().into_owned()).or_else(|| asked.clone());
        }
        let overrides =
            Overrides { cwd: Some(path.clone()), binds, volumes, ..Overrides::default() };
        Ok(Self { task: own()?, overrides, is_own: true, mounted: Some(path), branch })
    }

    /// Attaches to the sandbox, creating it if needed.
    pub(crate) async fn attach(&self, engine: &Engine) -> Result<Sandbox, WorkDirError> {
        Ok(Box::pin(engine.sandbox_with(&self.task, &self.overrides)).await?)
    }

    /// Creates the working directory. What a failed attempt left is moved aside, so that this one
    /// starts empty and can still look at it.
    pub(crate) async fn prepare(
        &self,
        sandbox: &Sandbox,
        task: &Task,
        last: Option<Outcome>,
    ) -> Result<WorkDir, WorkDirError> {
        let task_dir = task_dir(sandbox, &task.id).await;
        let files = sandbox.files(None).await?;
        let mut failed_attempt = None;
        if self.mounted.is_none()
            && last.is_some_and(leaves_unfinished_work)
            && is_there(&files, &task_dir).await
        {
            let aside = failed_dir(&task_dir);
            let put_aside = async {
                if is_there(&files, &aside).await {
                    files.delete(&aside, Depth::Recursive).await?;
                }
                files.rename(&task_dir, &aside, Overwrite::Never).await
            };
            put_aside.await.map_err(failed("put aside", &task_dir))?;
            failed_attempt = Some(aside);
        }
        files.mkdir(&task_dir, Parents::Make, None).await.map_err(failed("make", &task_dir))?;
        Ok(WorkDir {
            dir: self.mounted.clone().unwrap_or_else(|| task_dir.clone()),
            branch: self.branch.clone(),
            task_dir,
            failed_attempt,
        })
    }
}

impl WorkDir {
    /// Returns the environment variables that describe the task.
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

/// Returns the name of a task's own sandbox.
pub(crate) fn own_sandbox(task: &TaskId) -> String {
    format!("kanban-{task}")
}

/// Returns a task's directory below the sandbox's workspace.
pub(crate) async fn task_dir(sandbox: &Sandbox, task: &TaskId) -> PathBuf {
    sandbox.workspace().await.join(KANBAN).join(task.as_str())
}

/// Returns where the files of a failed attempt are moved.
pub(crate) fn failed_dir(task_dir: &Path) -> PathBuf {
    let mut name = task_dir.as_os_str().to_owned();
    name.push(FAILED);
    PathBuf::from(name)
}

/// Reports whether a run with this outcome may have left unfinished work.
fn leaves_unfinished_work(outcome: Outcome) -> bool {
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

pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(FileError) -> WorkDirError {
    move |source| {
        // The guest's message alone says enough.
        let source = match source {
            FileError::Call(CallError::Fault(fault)) => {
                FileError::Io(std::io::Error::other(fault.message))
            }
            other => other,
        };
        WorkDirError::File { action, path: path.to_owned(), source }
    }
}

/// Returns what is mounted so that git works inside the sandbox: in place of the repository's own
/// directory the one that was made for the task, and the objects of the repository, read-only.
/// Nothing that the worker writes there is the user's: settings and hooks that it plants and
/// branches that it moves stay where they are, but for the commits of its own branch.
fn git_dirs(common: &Path, task: &TaskId) -> Vec<String> {
    let own = vestal_dispatcher::own_git_dir(common, task);
    if !is_git_dir(&own) {
        tracing::warn!(dir = %own.display(), "git does not work in the sandbox: its directory was not made");
        return Vec::new();
    }
    let objects = common.join("objects");
    let shown = common.join(vestal_dispatcher::SHARED_OBJECTS);
    let mut volumes = vec![
        format!("{}:{}", own.display(), common.display()),
        format!("{}:{}:ro", objects.display(), shown.display()),
    ];
    // Where the repository itself borrows objects of others.
    let borrowed = fs::read_to_string(objects.join("info/alternates")).unwrap_or_default();
    let borrowed = borrowed.lines().map(|line| objects.join(line)).filter(|dir| dir.is_dir());
    volumes.extend(borrowed.map(|dir| format!("{}:{}:ro", dir.display(), dir.display())));
    volumes
}

/// Returns the git directory that a working tree shares with its repository.
///
/// The tree's `.git` file is writable by the worker, and the directory it names gets mounted. So it
/// is trusted only if the repository it points to lists this tree among its worktrees, which the
/// worker of another tree cannot arrange. The directory must be outside the tree and must look like
/// a git directory.
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

/// Reports whether a directory is a git directory, by the same test as git.
fn is_git_dir(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
}

/// Reads a file of one line. The worker may have replaced it by a pipe or a link to an endless
/// file; neither blocks.
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
#[path = "workspace_tests.rs"]
mod tests;
