//! Removing what is not needed any more: old events, logs, attachments, working trees, and what finished tasks
//! left in sandboxes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fmt, fs, io};

use async_recursion::async_recursion as boxed;
use vestal_board::dispatch::Liveness;
use vestal_board::leftovers::{self, CleanupCursor, RUNS};
use vestal_board::log::log_dir;
use vestal_board::store::{Read, Retention};
use vestal_board::{
    Board, Error, Outcome, Result, Run, RunId, Status, TaskId, TaskWorkspace, Time, log_path,
    settings,
};
use vestal_config::{ConfigError, Environment, ProfileName, Settings};

use crate::git::{GIT_TIMEOUT, Git};
use crate::launcher::Launcher;
use crate::liveness::{ChildState, liveness};
use crate::stop::{bare_spec, sweep, sweep_as};
use crate::workspace::{WorkspaceError, Workspaces};
use crate::worktree::{KeepReason, Removed};

/// How old an unknown attachment must be. A new one is written before the board knows of it.
const ORPHAN_AGE: Duration = Duration::from_hours(1);

/// How long the working tree of a finished task is kept.
const TREES: Duration = Duration::from_hours(7 * 24);

/// What is kept, and for how long.
#[derive(Debug, Clone)]
pub struct GcPolicy {
    /// Retention of events and runs.
    pub retention: Retention,
    /// How long logs are kept after the last write; `None` for ever.
    pub logs: Option<Duration>,
    /// How long the working tree of a finished task is kept.
    pub trees: Duration,
    /// The environment that git is run with.
    pub environment: Environment,
    /// Whether to report only, and remove nothing.
    pub dry_run: bool,
}

impl GcPolicy {
    /// Returns the policy that the settings ask for.
    pub fn from_settings(settings: &Settings) -> std::result::Result<Self, ConfigError> {
        Ok(Self {
            retention: settings::retention(settings)?,
            logs: settings::log_retention(settings)?,
            trees: TREES,
            environment: settings.environment().clone(),
            dry_run: false,
        })
    }
}

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectedLeftovers {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTree {
    /// The task.
    pub task_id: TaskId,
    /// The tree.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl CollectedLeftovers {
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

impl fmt::Display for CollectedLeftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.events, "events"),
            (self.runs, "runs"),
            (self.logs, "logs"),
            (self.attachments, "attachments without a task"),
            (self.worktrees, "worktrees"),
            (self.places, "scratch directories in sandboxes"),
        ];
        let some: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        f.write_str(&if some.is_empty() { "nothing".to_owned() } else { some.join(", ") })
    }
}

/// Removes what a board does not need any more on this host. Sandboxes are swept if there is a
/// launcher, and not in a dry run.
#[boxed]
pub async fn gc(
    board: &Board,
    policy: &GcPolicy,
    launcher: Option<&dyn Launcher>,
) -> Result<CollectedLeftovers> {
    let mut write = board.write().await?;
    let (events, runs) = write.prune(&policy.retention).await?;
    if policy.dry_run {
        // Dropped without a commit: nothing is changed.
        drop(write);
    } else {
        write.commit().await?;
    }
    let mut collected = CollectedLeftovers { events, runs, ..CollectedLeftovers::default() };
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
    // Read after listing the files, so that files attached since are known.
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
        // The directory of a task is removed with its last file.
        if let Some(dir) = path.parent().filter(|dir| *dir != root)
            && let Err(error) = fs::remove_dir(dir)
            && !matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound)
        {
            tracing::warn!(%error, dir = %dir.display(), "cannot remove an empty directory");
        }
    }
    Ok(removed)
}

async fn trees(board: &Board, policy: &GcPolicy, collected: &mut CollectedLeftovers) -> Result<()> {
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
            Ok(Removed::Kept(path, KeepReason::Dirty)) => {
                keep(path, "it has uncommitted changes".to_owned());
            }
            Ok(Removed::Kept(path, KeepReason::Strange(why))) => keep(path, why),
            // One broken repository does not stop the others.
            Err(error) => keep(PathBuf::new(), error.to_string()),
        }
    }
    Ok(())
}

/// Reports whether a task is finished for this long and no run holds it.
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

/// Returns the regular files of a directory that are at least this old.
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
        // It was removed meanwhile.
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

/// How far back finished tasks are searched. Sandboxes unused for longer are collected anyway.
const WINDOW: Duration = Duration::from_hours(7 * 24);
/// The most tasks per call; the rest follows next time.
const AT_ONCE: u32 = 100;

/// Sweeps what tasks left in the sandboxes of this host that were finished or deleted since the last
/// time. Returns the number of tasks.
///
/// A worker cleans up after itself when it finishes its task. But other profiles may have worked on
/// the task before, a person may finish it after its worker exited, or its files may be kept for a
/// child that another profile works on. Of a deleted task only a note is left.
pub(crate) async fn sweep_finished(board: &Board, launcher: &dyn Launcher) -> Result<u64> {
    let host = &board.host().name;
    let mut read = board.read().await?;
    let now = read.now();
    let window = i64::try_from(WINDOW.as_millis()).unwrap_or(i64::MAX);
    let oldest =
        CleanupCursor { at: Time::from_millis(now.millis().saturating_sub(window)), seq: 0 };
    let begun = leftovers::cursor(&mut *read, host).await?.map_or(oldest, |seen| seen.max(oldest));
    let mut seen = begun;
    let mut waits = false;
    let mut left = BTreeMap::new();
    for (at, seq, task) in read.finished_after(begun.at, begun.seq, AT_ONCE).await? {
        let runs = read.runs(&task, RUNS).await?;
        if runs.iter().any(|run| may_live(run, board)) {
            // Its worker may still clean up.
            waits = true;
            continue;
        }
        if !waits {
            seen = CleanupCursor { at, seq };
        }
        let tidied = finisher(&runs);
        for run in parents_runs(&mut *read, &task, board, tidied.as_ref()).await? {
            left.entry((run.task_id.clone(), run.profile.clone())).or_insert(run);
        }
        for run in runs_here(runs, board, tidied.as_ref()) {
            left.insert((run.task_id.clone(), run.profile.clone()), run);
        }
    }
    let deleted = leftovers::deleted(&mut *read, host).await?;
    drop(read);
    let tasks: BTreeSet<&TaskId> =
        left.keys().map(|(task, _)| task).chain(deleted.iter().map(|(task, _)| task)).collect();
    let count = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
    // One after the other; nothing waits for it.
    for run in left.values() {
        if let Some(under_way) = sweep(board, run, launcher).await
            && let Err(error) = under_way.await
        {
            tracing::warn!(%error, task = %run.task_id, "a sweep panicked");
        }
    }
    for (task, profile) in &deleted {
        let spec = bare_spec(board, task.clone(), RunId::new(0), profile.clone());
        if let Some(under_way) = sweep_as(&spec, launcher).await
            && let Err(error) = under_way.await
        {
            tracing::warn!(%error, %task, "a sweep panicked");
        }
        // The sweep wrote to the log of a task that does not exist any more.
        if board.read().await?.task(task).await?.is_none()
            && let Err(error) = std::fs::remove_file(log_path(board.dir(), task))
        {
            tracing::debug!(%error, %task, "cannot remove the log of a deleted task");
        }
    }
    if seen == begun && deleted.is_empty() {
        return Ok(count);
    }
    let mut write = board.write().await?;
    leftovers::set_cursor(&mut *write, host, seen).await?;
    let rest: Vec<_> = leftovers::deleted(&mut *write, host)
        .await?
        .into_iter()
        .filter(|entry| !deleted.contains(entry))
        .collect();
    leftovers::set_deleted(&mut *write, host, &rest).await?;
    write.commit().await?;
    Ok(count)
}

/// Reports whether the worker of a run may still be alive on this host.
fn may_live(run: &Run, board: &Board) -> bool {
    let life = liveness(run, board.host(), ChildState::NotOurs);
    matches!(life, Liveness::Alive | Liveness::Unknown) && (run.is_open() || !run.gone)
}

/// Returns the profile whose worker completed a task. That worker has cleaned up its own profile's
/// sandbox.
fn finisher(runs: &[Run]) -> Option<ProfileName> {
    let last = runs.iter().max_by_key(|run| run.id)?;
    last.profile.clone().filter(|_| last.outcome == Some(Outcome::Completed))
}

/// Returns the last run on this host of each profile but one.
fn runs_here(runs: Vec<Run>, board: &Board, but: Option<&ProfileName>) -> Vec<Run> {
    let mut last: BTreeMap<ProfileName, Run> = BTreeMap::new();
    for run in runs {
        let here = run.process.is_some() && run.host_name() == Some(&board.host().name);
        if let Some(profile) = run.profile.clone().filter(|_| here)
            && but != Some(&profile)
        {
            last.insert(profile, run);
        }
    }
    last.into_values().collect()
}

/// Returns the runs on this host of parents whose scratch directories were kept for this task alone.
async fn parents_runs(
    read: &mut (dyn Read + '_),
    task: &TaskId,
    board: &Board,
    but: Option<&ProfileName>,
) -> Result<Vec<Run>> {
    let mut found = Vec::new();
    for parent in read.parents(task).await? {
        let Some(parent) = read.task(&parent.id).await? else { continue };
        if parent.workspace != TaskWorkspace::Scratch || !parent.status.satisfies_children() {
            continue;
        }
        let children = read.children(&parent.id).await?;
        if children.iter().all(|child| child.status.satisfies_children()) {
            found.extend(runs_here(read.runs(&parent.id, RUNS).await?, board, but));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use vestal_config::Home;

    use super::*;

    #[test]
    fn what_is_kept_is_what_the_settings_say() {
        let dir = tempfile::tempdir().unwrap();
        let config = "kanban: {event_retention_days: 3, log_retention_days: 2}";
        fs::write(dir.path().join("config.yaml"), config).unwrap();
        let environment = Environment::default();
        let home = Home::at(dir.path());
        let settings =
            Settings::load(&vestal_board::settings::schema(), home, environment, Vec::new());
        let policy = GcPolicy::from_settings(&settings).unwrap();
        let day = Duration::from_hours(24);
        assert_eq!((policy.retention.events, policy.logs), (day * 3, Some(day * 2)));
        assert_eq!((policy.trees, policy.dry_run), (day * 7, false));
    }
}
