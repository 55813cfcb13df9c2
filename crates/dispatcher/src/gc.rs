//! Removing what is not needed any more.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fmt, fs, io};

use serde::Serialize;
use vestal_board::log::log_dir;
use vestal_board::store::Retention;
use vestal_board::{Board, Error, Result, Status, TaskId};
use vestal_config::Environment;

use crate::GIT_TIMEOUT;
use crate::launch::Launcher;
use crate::places::sweep_finished;
use crate::workspace::{Git, Kept, Removed, WorkspaceError, Workspaces};

/// How long a file that belongs to no task is left alone: whoever attaches one
/// writes it before the board knows of it.
const ORPHAN_AGE: Duration = Duration::from_hours(1);

/// What is kept.
#[derive(Debug, Clone)]
pub struct GcPolicy {
    /// Of events and runs.
    pub retention: Retention,
    /// How long logs are kept after they were last written to; none: for ever.
    pub logs: Option<Duration>,
    /// How long the working tree of a finished task is kept.
    pub trees: Duration,
    /// The environment that git is run with.
    pub environment: Environment,
    /// Whether it is only to be found out what would go.
    pub dry_run: bool,
}

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Events.
    pub events: u64,
    /// Runs.
    pub runs: u64,
    /// Logs of workers.
    pub logs: u64,
    /// Files that belonged to no task.
    pub attachments: u64,
    /// Working trees of finished tasks.
    pub worktrees: u64,
    /// Finished tasks that had left something in sandboxes.
    pub places: u64,
    /// Working trees that were left alone.
    pub kept: Vec<KeptTree>,
}

/// A working tree that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptTree {
    /// The task.
    pub task_id: TaskId,
    /// The tree.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl Collected {
    /// Reports whether there was nothing to remove.
    pub const fn is_nothing(&self) -> bool {
        self.events == 0
            && self.runs == 0
            && self.logs == 0
            && self.attachments == 0
            && self.worktrees == 0
            && self.places == 0
    }
}

impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.events, "events"),
            (self.runs, "runs"),
            (self.logs, "logs"),
            (self.attachments, "files of no task"),
            (self.worktrees, "worktrees"),
            (self.places, "places in sandboxes"),
        ];
        let some: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        f.write_str(&if some.is_empty() { "nothing".to_owned() } else { some.join(", ") })
    }
}

/// Removes what is not needed any more of a board, on this host; in sandboxes
/// where there is somebody to do it. A dry run does not look into them.
pub async fn gc(
    board: &Board,
    policy: &GcPolicy,
    launcher: Option<&dyn Launcher>,
) -> Result<Collected> {
    let mut write = board.write().await?;
    let (events, runs) = write.prune(&policy.retention).await?;
    if policy.dry_run {
        // What is not committed did not happen.
        drop(write);
    } else {
        write.commit().await?;
    }
    let mut collected = Collected { events, runs, ..Collected::default() };
    if let Some(age) = policy.logs {
        collected.logs = logs(board, age, policy).await?;
    }
    collected.attachments = attachments(board, policy).await?;
    trees(board, policy, &mut collected).await?;
    if let Some(launcher) = launcher.filter(|_| !policy.dry_run) {
        collected.places = sweep_finished(board, launcher).await?;
    }
    Ok(collected)
}

async fn logs(board: &Board, age: Duration, policy: &GcPolicy) -> Result<u64> {
    let dir = log_dir(board.dir());
    let mut removed = 0;
    let old = files(&dir, age)?;
    if old.is_empty() {
        return Ok(0);
    }
    // A worker that has had nothing to say for so long still writes there.
    let mut read = board.read().await?;
    let live: HashSet<TaskId> =
        read.live_runs().await?.into_iter().map(|run| run.task_id).collect();
    drop(read);
    for path in old {
        let name = path.file_name().and_then(|name| name.to_str());
        let task = name.and_then(|name| name.split_once(".log")?.0.parse::<TaskId>().ok());
        if task.is_some_and(|task| !live.contains(&task)) {
            removed += u64::from(policy.dry_run || remove(&path)?);
        }
    }
    Ok(removed)
}

async fn attachments(board: &Board, policy: &GcPolicy) -> Result<u64> {
    let root = board.dir().join("attachments");
    let mut found = Vec::new();
    let dirs = match fs::read_dir(&root) {
        Ok(dirs) => dirs,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(source) => return Err(Error::Io { action: "read", path: root, source }),
    };
    found.extend(files(&root, ORPHAN_AGE)?);
    for dir in dirs.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        found.extend(files(&dir.path(), ORPHAN_AGE)?);
    }
    if found.is_empty() {
        return Ok(0);
    }
    // Read after the files were listed: what was attached since is known.
    let mut read = board.read().await?;
    let known: HashSet<PathBuf> =
        read.stored_files().await?.into_iter().map(|name| root.join(name)).collect();
    drop(read);
    let mut removed = 0;
    for path in found.iter().filter(|path| !known.contains(*path)) {
        if policy.dry_run {
            removed += 1;
            continue;
        }
        removed += u64::from(remove(path)?);
        // The directory of a task goes with its last file.
        if let Some(dir) = path.parent().filter(|dir| *dir != root)
            && let Err(error) = fs::remove_dir(dir)
            && !matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound)
        {
            tracing::warn!(%error, dir = %dir.display(), "cannot remove an empty directory");
        }
    }
    Ok(removed)
}

async fn trees(board: &Board, policy: &GcPolicy, collected: &mut Collected) -> Result<()> {
    let git = Git::new(&policy.environment, GIT_TIMEOUT);
    let workspaces = Workspaces { board: board.dir(), default_workdir: None, git: &git };
    for id in workspaces.tasks_with_trees().map_err(|error| refused(&error))? {
        if !is_finished(board, &id, policy.trees).await? {
            continue;
        }
        let mut keep = |path: PathBuf, reason: String| {
            collected.kept.push(KeptTree { task_id: id.clone(), path, reason });
        };
        let removed = if policy.dry_run {
            workspaces.would_remove(&id).await
        } else {
            workspaces.remove(&id).await
        };
        match removed {
            Ok(Removed::Nothing) => {}
            Ok(Removed::Gone(_)) => collected.worktrees += 1,
            Ok(Removed::Kept(path, Kept::Dirty)) => {
                keep(path, "there is something in it that is not committed".to_owned());
            }
            Ok(Removed::Kept(path, Kept::Strange(why))) => keep(path, why),
            // One repository that is in disorder keeps no other from being tidied.
            Err(error) => keep(PathBuf::new(), error.to_string()),
        }
    }
    Ok(())
}

/// Reports whether nobody works on a task any more, and has not for a while.
async fn is_finished(board: &Board, id: &TaskId, age: Duration) -> Result<bool> {
    let mut read = board.read().await?;
    let now = read.now();
    let Some(task) = read.task(id).await? else { return Ok(true) };
    let finished =
        matches!(task.status, Status::Done | Status::Archived) && task.updated_at.after(age) <= now;
    let live = finished && read.live_runs().await?.iter().any(|run| run.task_id == *id);
    Ok(finished && !live)
}

fn refused(error: &WorkspaceError) -> Error {
    Error::Unreadable { what: "the list of working trees".to_owned(), reason: error.to_string() }
}

/// Returns the regular files of a directory that were not written to for so long.
fn files(dir: &Path, age: Duration) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::Io { action: "read", path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // What went in the meantime is no concern.
        let Ok(about) = entry.metadata() else { continue };
        let modified = about.modified().map_err(failed)?;
        let old = SystemTime::now().duration_since(modified).is_ok_and(|is| is >= age);
        if about.is_file() && old {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::Io { action: "remove", path: path.to_owned(), source }),
    }
}
