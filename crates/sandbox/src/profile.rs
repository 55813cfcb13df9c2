//! All sandboxes of a profile: what deleting and renaming a profile does to them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use vestal_config::Home;

use crate::{Engine, Error, FilesOnRemoval, SandboxSummary, SummaryState, TaskName};

/// The sandboxes of a profile.
#[derive(Debug)]
pub struct ProfileSandboxes {
    engine: Engine,
    dir: PathBuf,
    summaries: Vec<SandboxSummary>,
}

/// Why the sandboxes of a profile cannot be removed or renamed.
#[derive(Debug, thiserror::Error)]
pub enum ProfileSandboxesError {
    /// Sandboxes are in the home, and the settings name another directory.
    #[error("there are sandboxes left in {}: {}; the profile stays", dir.display(), names.join(", "))]
    Hidden {
        /// The directory in the home.
        dir: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// Sandboxes are left after the removal.
    #[error("there are sandboxes left in {}: {}; the profile stays", dir.display(), names.join(", "))]
    Left {
        /// The directory in the home.
        dir: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// Some sandboxes cannot be reached, so they cannot be removed either.
    #[error("{} of profile {profile} cannot be reached; nothing was changed", count(sandboxes.len()))]
    Unreachable {
        /// The profile.
        profile: String,
        /// Each sandbox with its backend and the reason.
        sandboxes: Vec<String>,
    },
    /// Files are in volumes of a container engine, which are found by the name of the profile.
    #[error(
        "the files of sandbox {task} are in volumes of the container engine, which are found by the name of the profile; nothing was changed"
    )]
    InVolumes {
        /// The task of the sandbox.
        task: String,
    },
    /// A record could not be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Io {
        /// The record.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The engine failed with one sandbox.
    #[error("{task}: {source}")]
    Sandbox {
        /// The task of the sandbox.
        task: String,
        /// Why.
        source: Box<Error>,
    },
}

fn count(number: usize) -> String {
    format!("{number} sandbox{}", if number == 1 { "" } else { "es" })
}

impl ProfileSandboxes {
    /// Reports whether a home may have sandboxes: one without an id never had any.
    pub fn may_exist(home: &Home) -> bool {
        home.dir().join("home.json").exists()
    }

    /// Finds the sandboxes of a profile with the engine of its home. All of them must be within reach.
    #[boxed]
    pub async fn find(engine: Engine, home: &Home) -> Result<Self, ProfileSandboxesError> {
        let dir = home.sandboxes_dir();
        let names = recorded(&dir);
        if engine.sandboxes_dir() != dir && !names.is_empty() {
            return Err(ProfileSandboxesError::Hidden { dir, names });
        }
        let mut summaries = engine.list().await?;
        summaries.retain(|summary| summary.profile == home.profile().as_str());
        let unknown = summaries.iter().filter(|own| own.state == SummaryState::Unknown);
        let sandboxes: Vec<String> = unknown
            .map(|own| {
                let reason = own.trouble.as_deref().unwrap_or("it cannot be asked");
                format!("{} on {}: {reason}", own.task, own.backend)
            })
            .collect();
        if !sandboxes.is_empty() {
            let profile = home.profile().to_string();
            return Err(ProfileSandboxesError::Unreachable { profile, sandboxes });
        }
        Ok(Self { engine, dir, summaries })
    }

    /// Returns the sandboxes that have an instance.
    pub fn instances(&self) -> impl Iterator<Item = &SandboxSummary> {
        self.summaries.iter().filter(|own| own.state != SummaryState::Absent)
    }

    fn tasks(&self) -> BTreeSet<TaskName> {
        self.summaries.iter().filter_map(|own| own.task.parse().ok()).collect()
    }

    /// Removes every sandbox with its files, including files whose sandbox is gone, and returns the tasks.
    #[boxed]
    pub async fn remove(self) -> Result<Vec<String>, ProfileSandboxesError> {
        let mut removed = Vec::new();
        for task in self.tasks() {
            self.remove_one(&task, FilesOnRemoval::Remove).await?;
            removed.push(task.to_string());
        }
        // A directory outside the home may be shared, and hold files of others.
        let own = self.engine.sandboxes_dir() == self.dir;
        for name in directories(&self.dir).into_iter().filter(|_| own) {
            // Files that a sandbox left may belong to another user; only its backend can delete them.
            if let Ok(task) = name.parse::<TaskName>() {
                self.remove_one(&task, FilesOnRemoval::Remove).await?;
            }
        }
        let names = recorded(&self.dir);
        if names.is_empty() {
            Ok(removed)
        } else {
            Err(ProfileSandboxesError::Left { dir: self.dir, names })
        }
    }

    /// Removes every instance, so that the profile can be renamed, and returns how many there were. Workspaces, homes
    /// and snapshots stay for new ones.
    #[boxed]
    pub async fn release(self) -> Result<usize, ProfileSandboxesError> {
        let mut instances = 0;
        for task in self.tasks() {
            instances += self.remove_one(&task, FilesOnRemoval::Keep).await?;
        }
        for own in &self.summaries {
            // The record names the profile, and would be taken for one that was copied from another home. Without it
            // the directory holds files that wait for a sandbox.
            let path = own.dir.join("sandbox.json");
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(ProfileSandboxesError::Io { path, source });
                }
                _ => {}
            }
        }
        Ok(instances)
    }

    /// Refuses sandboxes whose files a backend keeps under the name of the profile.
    #[boxed]
    pub async fn refuse_volumes(&self) -> Result<(), ProfileSandboxesError> {
        for own in &self.summaries {
            let in_volumes = match own.state {
                // Nothing is removed where there is no instance; the result names what is kept.
                SummaryState::Absent => match own.task.parse() {
                    Ok(task) => {
                        let removal = self.engine.remove(&task, FilesOnRemoval::Keep).await?;
                        !removal.kept_volumes.is_empty()
                    }
                    Err(_) => false,
                },
                _ => own.description.transport.as_deref() == Some("exec"),
            };
            if in_volumes {
                return Err(ProfileSandboxesError::InVolumes { task: own.task.clone() });
            }
        }
        Ok(())
    }

    async fn remove_one(
        &self,
        task: &TaskName,
        files: FilesOnRemoval,
    ) -> Result<usize, ProfileSandboxesError> {
        match self.engine.remove(task, files).await {
            Ok(removal) => Ok(removal.instances),
            // Another process has removed it.
            Err(Error::NoSandbox { .. }) => Ok(0),
            Err(source) => {
                let (task, source) = (task.to_string(), Box::new(source));
                Err(ProfileSandboxesError::Sandbox { task, source })
            }
        }
    }
}

/// Returns the names of the directories that have the record of a sandbox.
fn recorded(dir: &Path) -> Vec<String> {
    let mut names = directories(dir);
    names.retain(|name| dir.join(name).join("sandbox.json").exists());
    names
}

/// Returns the names of the directories that are not hidden.
fn directories(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}
