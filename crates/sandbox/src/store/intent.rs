//! What a process is about to do to a sandbox, on disk before it does it.
//!
//! An intent that is still there when the key's lock is free was left by a
//! process that died; the next holder of the lock finishes or undoes it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{SandboxDir, SandboxRecord};

/// Newest version of the intent file that is known here.
pub(super) const VERSION: u64 = 2;

/// A change of a sandbox's instance that has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "intent", rename_all = "kebab-case")]
pub(crate) enum Intent {
    /// A new instance is being made. Undone: nothing can have run in it.
    Create {
        /// Its id.
        instance: String,
        generation: u64,
        /// The backend that makes it.
        backend: String,
    },
    /// A stopped instance is being started. Looked at again.
    Start {
        /// Its id.
        instance: String,
    },
    /// An instance is being stopped. Finished.
    Stop {
        /// Its id.
        instance: String,
        /// Whether only an idle one may be stopped: then it is for the guest to
        /// have ended, and one that still answers was in use.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        if_idle: bool,
    },
    /// An instance is being removed. Finished.
    Remove {
        /// Its id; absent when only files are left.
        instance: Option<String>,
        /// Whether the sandbox's files go too.
        files: bool,
        /// Why the attempt before could not be finished.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// A snapshot is being made. Undone unless it is whole.
    Snapshot {
        name: String,
        /// The backend that makes it.
        backend: String,
    },
    /// A snapshot is being removed. Finished.
    RemoveSnapshot {
        name: String,
        /// The backend that made it.
        backend: String,
    },
    /// The sandbox is being copied to another. Nothing of it changes.
    Lend {
        /// The task of the other.
        to: String,
    },
    /// The sandbox is being made as a copy of another. Undone, with all that is
    /// there, unless its record is written.
    Fork {
        /// The task of the other.
        from: String,
        /// The backend of both.
        backend: String,
        /// Its first instance; absent: it begins without one.
        instance: Option<String>,
    },
    /// The sandbox's files and instance are being replaced by a snapshot's.
    Restore(Box<SandboxChange>),
    /// The sandbox's instance is being replaced by a new one.
    Rebuild(Box<SandboxChange>),
}

/// A sandbox that is being changed as a whole. Undone as long as it is not
/// settled its outcome, finished from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxChange {
    /// The record from before.
    pub(crate) was: SandboxRecord,
    /// The new instance; absent: there will be none.
    pub(crate) instance: Option<NewInstance>,
    /// The trees that are replaced, once that begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trees: Vec<ReplacedTree>,
    /// The instance of the backend before that shows the files while they are carried to the
    /// new one. Whatever becomes of the change, it goes, and so do the files where they are not
    /// the sandbox's in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shown_by: Option<NewInstance>,
    /// The record from now on, once that is settled.
    pub(crate) now: Option<SandboxRecord>,
}

/// An instance that is to take the place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewInstance {
    pub(crate) id: String,
    pub(crate) backend: String,
}

/// A tree of the sandbox's files that is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplacedTree {
    /// Its name in the sandbox's directory.
    pub(crate) name: String,
    /// Whether there was one before.
    pub(crate) was_there: bool,
    /// The name by which that one stays in the sandbox's directory; absent: it
    /// goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stays_as: Option<String>,
}

impl Intent {
    /// Returns the oldest version of the file that knows this intent: a program
    /// that does not must leave the sandbox alone, and one that does need not.
    pub(super) fn version(&self) -> u64 {
        match self {
            Self::Create { .. } | Self::Start { .. } | Self::Stop { .. } | Self::Remove { .. } => 1,
            _ => 2,
        }
    }

    /// Returns the instance that is being started.
    pub(crate) fn starting(&self) -> Option<&str> {
        match self {
            Self::Create { instance, .. } | Self::Start { instance } => Some(instance),
            Self::Fork { instance, .. } => instance.as_deref(),
            Self::Restore(change) | Self::Rebuild(change) => {
                change.instance.as_ref().map(|new| &*new.id)
            }
            Self::Stop { .. }
            | Self::Remove { .. }
            | Self::Snapshot { .. }
            | Self::RemoveSnapshot { .. }
            | Self::Lend { .. } => None,
        }
    }

    /// Returns the directories into which files are copied meanwhile.
    pub(crate) fn copied_into(&self, dir: &SandboxDir) -> Vec<PathBuf> {
        let instance = |id: &String| dir.instance_dir(id);
        match self {
            Self::Create { instance: id, .. } => vec![instance(id)],
            Self::Snapshot { name, .. } => {
                let snapshot = dir.snapshots_dir().join(name);
                vec![snapshot.join("system"), snapshot]
            }
            Self::Fork { instance: id, .. } => {
                id.iter().map(instance).chain([dir.path().to_owned()]).collect()
            }
            Self::Restore(change) | Self::Rebuild(change) => {
                let id = change.instance.as_ref().map(|new| &new.id);
                id.into_iter().map(instance).chain([dir.path().to_owned()]).collect()
            }
            Self::Start { .. }
            | Self::Stop { .. }
            | Self::Remove { .. }
            | Self::RemoveSnapshot { .. }
            | Self::Lend { .. } => Vec::new(),
        }
    }

    /// Returns what takes long, for those who have to wait for it.
    pub(crate) fn takes_long(&self) -> Option<String> {
        Some(match self {
            Self::Snapshot { name, .. } => format!("its snapshot {name} is being made"),
            Self::Lend { to } => format!("it is being copied to {to:?}"),
            Self::Fork { from, .. } => format!("it is being copied from {from:?}"),
            Self::Restore(_) => "it is being restored".to_owned(),
            Self::Rebuild(_) => "it is being rebuilt".to_owned(),
            Self::Create { .. }
            | Self::Start { .. }
            | Self::Stop { .. }
            | Self::Remove { .. }
            | Self::RemoveSnapshot { .. } => return None,
        })
    }
}

/// The file's form.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IntentFile {
    pub(super) version: u64,
    #[serde(flatten)]
    pub(super) intent: Intent,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HomeId, Key, Overrides, TaskName};

    fn record() -> SandboxRecord {
        let key = Key::new(HomeId("h".into()), "p", TaskName::default_task());
        SandboxRecord::new(&key, "native", Overrides::default(), jiff::Timestamp::UNIX_EPOCH)
    }

    fn every_intent() -> Vec<Intent> {
        let text = || "x".to_owned();
        let change = |now| {
            Box::new(SandboxChange {
                was: record(),
                instance: Some(NewInstance { id: text(), backend: text() }),
                trees: vec![ReplacedTree { name: text(), was_there: true, stays_as: None }],
                shown_by: Some(NewInstance { id: text(), backend: text() }),
                now,
            })
        };
        vec![
            Intent::Create { instance: text(), generation: 1, backend: text() },
            Intent::Start { instance: text() },
            Intent::Stop { instance: text(), if_idle: false },
            Intent::Stop { instance: text(), if_idle: true },
            Intent::Remove { instance: None, files: true, problem: None },
            Intent::Remove { instance: None, files: true, problem: Some(text()) },
            Intent::Snapshot { name: text(), backend: text() },
            Intent::RemoveSnapshot { name: text(), backend: text() },
            Intent::Lend { to: text() },
            Intent::Fork { from: text(), backend: text(), instance: None },
            Intent::Restore(change(None)),
            Intent::Rebuild(change(Some(record()))),
        ]
    }

    #[test]
    fn what_was_intended_is_read_again() {
        let root = tempfile::tempdir().unwrap();
        let dir = crate::store::SandboxDir::new(root.path().to_owned());
        for intent in every_intent() {
            dir.write_intent(intent.clone()).unwrap();
            assert_eq!(dir.read_intent().unwrap(), Some(intent));
        }
    }

    #[test]
    fn an_older_program_reads_what_it_knows_and_leaves_the_rest_alone() {
        let root = tempfile::tempdir().unwrap();
        let dir = crate::store::SandboxDir::new(root.path().to_owned());
        for intent in every_intent() {
            let copies =
                intent.takes_long().is_some() || matches!(intent, Intent::RemoveSnapshot { .. });
            dir.write_intent(intent).unwrap();
            let file = std::fs::read(root.path().join("intent.json")).unwrap();
            let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
            assert_eq!(file["version"], if copies { 2 } else { 1 }, "{file}");
        }
    }

    #[test]
    fn a_stop_that_an_older_program_began_is_finished() {
        let text = r#"{"version": 1, "intent": "stop", "instance": "x"}"#;
        let file: IntentFile = serde_json::from_str(text).unwrap();
        assert_eq!(file.intent, Intent::Stop { instance: "x".into(), if_idle: false });
    }
}
