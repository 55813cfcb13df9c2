//! Removing what users of a sandbox have written.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use super::backend::{Native, widest_users};
use super::stage::run_within;
use crate::backend::BackendError;
use crate::store::{StoreError, remove_tree};

impl Native {
    /// Removes a tree; absent is fine. What this user may not remove is removed
    /// by the sandbox's root, to whom all of the sandbox's files belong, and who
    /// may open what the kernel has closed: a directory that layers are worked
    /// on in has no permissions at all.
    pub(super) async fn remove_all(&self, dir: &Path) -> Result<(), BackendError> {
        let failed = |error: StoreError| BackendError::Io {
            action: format!("remove {}", dir.display()),
            source: std::io::Error::other(error),
        };
        match remove_tree(dir) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
                self.empty(dir).await?;
                remove_tree(dir).map_err(failed)
            }
            other => other.map_err(failed),
        }
    }

    /// Empties a directory as the sandbox's root.
    pub(super) async fn empty(&self, dir: &Path) -> Result<(), BackendError> {
        let action = format!("empty {}", dir.display());
        let words = [OsStr::new("erase"), dir.as_os_str()];
        let (stage, guest) = (self.stage()?, self.guest()?);
        run_within(&stage, &widest_users(), &guest, &words, &action).await
    }
}
