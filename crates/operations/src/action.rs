//! What can be done to a sandbox that takes long.

use std::fmt;
use std::path::Path;

use async_recursion::async_recursion as boxed;
use jiff::Zoned;
use serde::{Deserialize, Serialize};
use vestal_sandbox::{
    CopyError, Engine, Error, FilesOnRemoval, Forked, Rebuild, Rebuilt, Removal, Restored,
    SandboxSummary, Snapshot, SnapshotName, TaskName, WhileBusy,
};

/// The kind of an action, as records and pages have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// A copy is kept under a name.
    Snapshot,
    /// A snapshot is deleted.
    RemoveSnapshot,
    /// The sandbox becomes what it was in a snapshot.
    Restore,
    /// A new sandbox is made as a copy.
    Fork,
    /// The sandbox is made anew with the settings of now.
    Rebuild,
    /// The sandbox is removed.
    Remove,
    /// The sandbox is stopped.
    Stop,
    /// The sandbox is started, and made anew where its instance is gone.
    Start,
}

impl Verb {
    /// Returns the word for it, as JSON has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::RemoveSnapshot => "remove_snapshot",
            Self::Restore => "restore",
            Self::Fork => "fork",
            Self::Rebuild => "rebuild",
            Self::Remove => "remove",
            Self::Stop => "stop",
            Self::Start => "start",
        }
    }
}

/// An action with what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Keeps a copy.
    Snapshot {
        /// The name of the snapshot.
        name: SnapshotName,
        /// A line to remember it by.
        note: Option<String>,
        /// What to do while jobs run.
        busy: WhileBusy,
    },
    /// Deletes a snapshot.
    RemoveSnapshot {
        /// The name of the snapshot.
        name: SnapshotName,
    },
    /// Goes back to a snapshot.
    Restore {
        /// The name of the snapshot.
        name: SnapshotName,
        /// What to do while jobs run.
        busy: WhileBusy,
    },
    /// Makes a new sandbox as a copy.
    Fork {
        /// The task of the new one.
        to: TaskName,
        /// The snapshot that is copied; nothing: the sandbox as it is.
        snapshot: Option<SnapshotName>,
        /// What to do while jobs run.
        busy: WhileBusy,
    },
    /// Makes the sandbox anew.
    Rebuild {
        /// The backend it moves to; nothing: it stays on the one it is on.
        backend: Option<String>,
        /// What to do while jobs run.
        busy: WhileBusy,
    },
    /// Removes the sandbox.
    Remove {
        /// Whether workspace, home and snapshots go too.
        files: FilesOnRemoval,
    },
    /// Stops the sandbox.
    Stop,
    /// Starts the sandbox. Its image may have to be fetched first.
    Start,
}

/// What came of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// In a sentence.
    pub words: String,
    /// What else is to be known, a sentence each.
    pub remarks: Vec<String>,
}

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct ActionError {
    error: Error,
}

impl ActionError {
    /// Reports whether running jobs were in the way, so that it may be tried again with them ended.
    pub fn is_busy(&self) -> bool {
        matches!(self.error, Error::Busy { .. })
    }

    /// Returns the engine's error.
    pub fn into_error(self) -> Error {
        self.error
    }
}

impl From<Error> for ActionError {
    fn from(error: Error) -> Self {
        Self { error }
    }
}

impl Action {
    /// Returns its kind.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Snapshot { .. } => Verb::Snapshot,
            Self::RemoveSnapshot { .. } => Verb::RemoveSnapshot,
            Self::Restore { .. } => Verb::Restore,
            Self::Fork { .. } => Verb::Fork,
            Self::Rebuild { .. } => Verb::Rebuild,
            Self::Remove { .. } => Verb::Remove,
            Self::Stop => Verb::Stop,
            Self::Start => Verb::Start,
        }
    }

    /// Does it, by the call of the engine that the command line makes. Dropped half-way it undoes
    /// what it has begun; [`Engine::close`] waits for that.
    #[boxed]
    pub async fn perform(&self, engine: &Engine, task: &TaskName) -> Result<Done, ActionError> {
        match self {
            Self::Snapshot { name, note, busy } => {
                Ok(Done::saved(task, &engine.snapshot(task, name, note.as_deref(), *busy).await?))
            }
            Self::RemoveSnapshot { name } => {
                engine.remove_snapshot(task, name).await?;
                Ok(Done::removed_snapshot(task, name))
            }
            Self::Restore { name, busy } => {
                Ok(Done::restored(task, &engine.restore(task, name, *busy).await?))
            }
            Self::Fork { to, snapshot, busy } => {
                let to = fork_target(engine, task, to).await?;
                let forked = engine.fork(task, snapshot.as_ref(), &to, *busy).await?;
                Ok(Done::forked(task, &forked))
            }
            Self::Rebuild { backend, busy } => {
                let rebuild = Rebuild { backend: backend.clone(), ..Rebuild::default() };
                Ok(Done::rebuilt(task, &engine.rebuild(task, &rebuild, *busy).await?))
            }
            Self::Remove { files } => Ok(Done::removed(task, &engine.remove(task, *files).await?)),
            Self::Stop => {
                let found = engine.inspect(task).await?;
                let in_memory = found.iter().any(SandboxSummary::has_files_in_memory);
                let words = match (engine.stop(task).await?, in_memory) {
                    (false, _) => format!("{task} was not running"),
                    (true, false) => format!("stopped {task}; its files are kept"),
                    (true, true) => {
                        format!(
                            "stopped {task}; its workspace and home were in memory and are gone"
                        )
                    }
                };
                Ok(Done::new(words))
            }
            Self::Start => {
                // What was never there is not made by a slip of the name.
                engine.inspect(task).await?;
                let sandbox = engine.sandbox(task).await?;
                Ok(Done { words: format!("started {task}"), remarks: sandbox.notice_texts() })
            }
        }
    }
}

/// Returns the task of a fork. A directory that is mounted in the first sandbox is in the new one
/// too, and so is part of its task.
#[boxed]
pub async fn fork_target(
    engine: &Engine,
    from: &TaskName,
    new: &TaskName,
) -> Result<TaskName, Error> {
    let summaries = engine.inspect(from).await.unwrap_or_default();
    let mounted = summaries.into_iter().find_map(|summary| summary.overrides.mount);
    match mounted {
        Some(dir) if !new.as_str().contains("@/") => engine.task_with_mount(new, &dir),
        Some(_) | None => Ok(new.clone()),
    }
}

impl Done {
    fn new(words: String) -> Self {
        Self { words, remarks: Vec::new() }
    }

    /// Returns what to say of a snapshot that was made.
    pub fn saved(task: &TaskName, kept: &Snapshot) -> Self {
        Self::new(format!("saved {task} as {} ({})", kept.name, size(kept.files, kept.bytes)))
    }

    /// Returns what to say of a snapshot that was deleted.
    pub fn removed_snapshot(task: &TaskName, name: &SnapshotName) -> Self {
        Self::new(format!("removed snapshot {name} of {task}"))
    }

    /// Returns what to say of a sandbox that went back to a snapshot.
    pub fn restored(task: &TaskName, restored: &Restored) -> Self {
        let Snapshot { name, created_at, .. } = &restored.snapshot;
        let words = format!("restored {task} to {name} of {created_at}");
        Self { words, remarks: restored.remarks.clone() }
    }

    /// Returns what to say of a copy that was made.
    pub fn forked(task: &TaskName, forked: &Forked) -> Self {
        let Forked { task: to, backend, files, bytes, remarks } = forked;
        let words = format!("forked {task} to {to} on {backend} ({})", size(*files, *bytes));
        Self { words, remarks: remarks.clone() }
    }

    /// Returns what to say of a sandbox that was made anew.
    pub fn rebuilt(task: &TaskName, rebuilt: &Rebuilt) -> Self {
        let on = if rebuilt.was == rebuilt.now {
            format!("on {}", rebuilt.now)
        } else {
            format!("on {} (was on {})", rebuilt.now, rebuilt.was)
        };
        let kept = kept(rebuilt.kept.iter().map(|path| shown(path)));
        Self { words: format!("rebuilt {task} {on}{kept}"), remarks: rebuilt.remarks.clone() }
    }

    /// Returns what to say of a sandbox that was removed.
    pub fn removed(task: &TaskName, removal: &Removal) -> Self {
        let dirs = removal.kept.iter().map(|path| shown(path));
        let volumes = removal.kept_volumes.iter().map(|name| format!("volume {name}"));
        Self::new(format!("removed {task}{}", kept(dirs.chain(volumes))))
    }
}

/// Says what is done, before it is.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot { name, .. } => write!(f, "saving it as {name}"),
            Self::RemoveSnapshot { name } => write!(f, "removing its snapshot {name}"),
            Self::Restore { name, .. } => write!(f, "restoring it to {name}"),
            Self::Fork { to, snapshot: None, .. } => write!(f, "forking it to {to}"),
            Self::Fork { to, snapshot: Some(name), .. } => {
                write!(f, "forking its snapshot {name} to {to}")
            }
            Self::Rebuild { backend: None, .. } => f.write_str("rebuilding it"),
            Self::Rebuild { backend: Some(backend), .. } => {
                write!(f, "rebuilding it on {backend}")
            }
            Self::Remove { files: FilesOnRemoval::Keep } => f.write_str("removing it"),
            Self::Remove { files: FilesOnRemoval::Remove } => {
                f.write_str("removing it with its files")
            }
            Self::Stop => f.write_str("stopping it"),
            Self::Start => f.write_str("starting it"),
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn kept(what: impl Iterator<Item = String>) -> String {
    let kept: Vec<String> = what.collect();
    if kept.is_empty() { String::new() } else { format!("; kept {}", kept.join(", ")) }
}

/// Returns how much was copied.
fn size(files: u64, bytes: u64) -> String {
    let word = if files == 1 { "file" } else { "files" };
    format!("{files} {word}, {}", bytes_in_words(bytes))
}

/// Returns a number of bytes as people say it.
pub(crate) fn bytes_in_words(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = (bytes.max(1).ilog2() / 10).min(4) as usize;
    if at == 0 {
        return format!("{bytes} B");
    }
    let unit = 1_u128 << (10 * at);
    let tenths = u128::from(bytes) * 10 / unit;
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[at])
}

/// Snapshots without a chosen name that a sandbox can have of one minute.
const MOST_A_MINUTE: u32 = 1000;

/// Returns the minute as a name that no snapshot of the sandbox has.
#[boxed]
pub async fn free_snapshot_name(
    engine: &Engine,
    task: &TaskName,
    now: &Zoned,
) -> Result<SnapshotName, Error> {
    let taken = engine.snapshots(Some(task)).await?;
    let is_taken = |name: &SnapshotName| taken.iter().any(|snapshot| snapshot.name == *name);
    name_at(now, is_taken).ok_or_else(|| {
        let (task, name) = (task.to_string(), minute(now));
        CopyError::SnapshotExists { task, name }.into()
    })
}

/// Returns the minute as a name, with a number where it is taken.
fn name_at(now: &Zoned, is_taken: impl Fn(&SnapshotName) -> bool) -> Option<SnapshotName> {
    let minute = minute(now);
    let numbered = (2..=MOST_A_MINUTE).map(|number| format!("{minute}-{number}"));
    let names = std::iter::once(minute.clone()).chain(numbered);
    names.filter_map(|name| name.parse().ok()).find(|name| !is_taken(name))
}

fn minute(now: &Zoned) -> String {
    now.strftime("%Y-%m-%d-%H%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_reported_in_the_unit_that_fits() {
        let printed: Vec<String> = [0, 1, 1023, 1024, 1536, 5 << 30].map(bytes_in_words).to_vec();
        assert_eq!(printed, ["0 B", "1 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB"]);
    }

    #[test]
    fn an_action_says_what_it_does_before_it_does_it() {
        let busy = WhileBusy::Refuse;
        let name: SnapshotName = "good".parse().unwrap();
        let to: TaskName = "copy".parse().unwrap();
        let fork = Action::Fork { to, snapshot: Some(name.clone()), busy };
        assert_eq!(fork.to_string(), "forking its snapshot good to copy");
        assert_eq!(Action::Restore { name, busy }.to_string(), "restoring it to good");
        let files = FilesOnRemoval::Remove;
        assert_eq!(Action::Remove { files }.to_string(), "removing it with its files");
    }
}

#[cfg(test)]
mod snapshot_name_tests {
    use super::*;

    #[test]
    fn a_snapshot_without_a_name_is_called_after_the_minute_and_never_twice_the_same() {
        let now = jiff::civil::date(2026, 11, 15).at(18, 30, 59, 0);
        let now = now.to_zoned(jiff::tz::TimeZone::UTC).unwrap();
        let mut taken: Vec<SnapshotName> = Vec::new();
        for expected in ["2026-11-15-1830", "2026-11-15-1830-2", "2026-11-15-1830-3"] {
            let name = name_at(&now, |name| taken.contains(name)).unwrap();
            assert_eq!(name.as_str(), expected);
            taken.push(name);
        }
        assert_eq!(name_at(&now, |_| true), None);
    }
}
