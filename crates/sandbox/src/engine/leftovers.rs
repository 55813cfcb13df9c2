//! What processes that died have left beside the sandboxes.

use std::fs;
use std::path::{Path, PathBuf};

use super::Inner;
use super::reap::{ReapReason, Reaped};
use super::remove::kept_files;
use crate::store::{KeyLock, SandboxDir, StoreError, list_dirs, list_rubbish};
use crate::{Error, Key};

impl Inner {
    /// Removes what processes that died have left beside the sandboxes: places
    /// of trials, half of what was being removed, and directories of sandboxes
    /// that were never made.
    pub(super) async fn reap_leftovers(
        &self,
        spare: Option<&Key>,
        dry_run: bool,
    ) -> Result<Vec<Reaped>, Error> {
        let spared = spare.map(|key| self.dir(key));
        let mut reaped = Vec::new();
        for path in list_rubbish(&self.sandboxes) {
            if !dry_run && let Err(error) = self.delete_anyhow(&path).await {
                tracing::warn!(path = %path.display(), %error, "cannot be removed");
                continue;
            }
            reaped.push(leftover(&path));
        }
        for dir in list_dirs(&self.sandboxes)? {
            if spared.as_ref() == Some(&dir) {
                continue;
            }
            match self.reap_hollow(&dir, dry_run).await {
                Ok(hollow) => reaped.extend(hollow),
                Err(error) => tracing::debug!(dir = %dir.path().display(), %error, "left alone"),
            }
        }
        Ok(reaped)
    }

    /// Removes the directory of a sandbox that was never made, or of which
    /// nothing is left that anybody could want.
    async fn reap_hollow(&self, dir: &SandboxDir, dry_run: bool) -> Result<Option<Reaped>, Error> {
        if !dir.is_hollow()? {
            return Ok(None);
        }
        let Some(_lock) = KeyLock::try_acquire(&dir.lock_file())? else {
            return Ok(None);
        };
        if !dir.is_hollow()? {
            return Ok(None);
        }
        if !dry_run && let Some(aside) = dir.move_aside()? {
            self.delete_anyhow(&aside).await?;
        }
        Ok(Some(leftover(dir.path())))
    }
}

impl Inner {
    /// Returns directories that have files and belong to no sandbox that is known,
    /// because it was never quite made or its record is gone. They may be
    /// somebody's work, so that removing them is a person's word.
    pub(super) fn unrecorded(&self) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        for dir in list_dirs(&self.sandboxes)? {
            // One whose record cannot be read is told of by whoever uses it.
            if dir.is_unrecorded().unwrap_or(false) && !dir.is_hollow().unwrap_or(true) {
                found.push(dir.path().to_owned());
            }
        }
        Ok(found)
    }
}

impl SandboxDir {
    /// Returns whether nothing says whose it is.
    fn is_unrecorded(&self) -> Result<bool, StoreError> {
        Ok(!self.has_intent() && self.read_record()?.is_none() && self.instance_ids()?.is_empty())
    }

    /// Returns whether there is nothing in it that anybody could want: a creation
    /// that failed may leave the directories of files that never were.
    fn is_hollow(&self) -> Result<bool, StoreError> {
        let is_empty =
            |path: &PathBuf| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        Ok(self.is_unrecorded()? && kept_files(self).iter().all(is_empty))
    }
}

/// Returns what is said of a directory that no sandbox belongs to.
fn leftover(path: &Path) -> Reaped {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Reaped { task: name.unwrap_or_default(), instance: None, reason: ReapReason::Unfinished }
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home, Settings};

    use crate::Engine;

    #[tokio::test]
    async fn what_a_failed_creation_left_goes_and_files_without_a_record_are_named() {
        let home = tempfile::tempdir().unwrap();
        let env = Environment::from_pairs([("HOME", home.path())]);
        let settings =
            Settings::load(&vestal_config::schema(), Home::at(home.path()), env, Vec::new());
        let engine = Engine::with_backends(settings, Vec::new()).unwrap();
        let (failed, files) =
            (engine.sandboxes_dir().join("failed"), engine.sandboxes_dir().join("files"));
        for dir in [&failed, &files] {
            for name in ["workspace", "home", "state", "instances"] {
                std::fs::create_dir_all(dir.join(name)).unwrap();
            }
        }
        std::fs::write(files.join("home/.profile"), "").unwrap();
        for dry_run in [true, false] {
            let pruned = engine.prune_telling(dry_run).await.unwrap();
            let tasks: Vec<&str> = pruned.reaped.iter().map(|reaped| &*reaped.task).collect();
            assert_eq!(tasks, ["failed"]);
            assert_eq!(pruned.unrecorded, std::slice::from_ref(&files));
            assert_eq!(failed.exists(), dry_run);
        }
        assert!(files.join("home/.profile").exists());
    }
}
