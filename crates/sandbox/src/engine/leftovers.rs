//! What processes that died have left beside the sandboxes.

use std::path::Path;

use super::Inner;
use super::reap::{ReapReason, Reaped};
use crate::store::{KeyLock, SandboxDir, list_dirs, list_rubbish};
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
            match self.reap_bare(&dir, dry_run).await {
                Ok(bare) => reaped.extend(bare),
                Err(error) => tracing::debug!(dir = %dir.path().display(), %error, "left alone"),
            }
        }
        Ok(reaped)
    }

    /// Removes the directory of a sandbox that was never made, or of which
    /// nothing is left that anybody could want.
    async fn reap_bare(&self, dir: &SandboxDir, dry_run: bool) -> Result<Option<Reaped>, Error> {
        if !dir.is_bare()? {
            return Ok(None);
        }
        let Some(_lock) = KeyLock::try_acquire(&dir.lock_file())? else {
            return Ok(None);
        };
        if !dir.is_bare()? {
            return Ok(None);
        }
        if !dry_run && let Some(aside) = dir.move_aside()? {
            self.delete_anyhow(&aside).await?;
        }
        Ok(Some(leftover(dir.path())))
    }
}

/// Returns what is said of a directory that no sandbox belongs to.
fn leftover(path: &Path) -> Reaped {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Reaped { task: name.unwrap_or_default(), instance: None, reason: ReapReason::Unfinished }
}
