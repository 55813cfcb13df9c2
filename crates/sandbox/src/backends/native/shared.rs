//! What the sandboxes of a home share: pictures of `/etc` and root filesystems.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::backend::Native;
use super::etc::{self, Picture};
use super::facts::Facts;
use super::label::Label;
use super::private::{self, Private};
use super::rootfs::{self, Rootfs};
use super::settings::NativeSettings;
use super::tier::Tier;
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::settings::SandboxSettings as _;

impl Native {
    /// Returns the picture of this machine's `/etc` as it is now.
    pub(super) fn picture(&self) -> Result<Picture, BackendError> {
        etc::provide(&self.cache_dir())
    }

    /// Returns what of this machine's system directories is not for everyone,
    /// where a sandbox shows them and permissions do not keep it out.
    pub(super) async fn private(&self, tier: Tier, facts: &Facts) -> Result<Private, BackendError> {
        if tier != Tier::Overlay {
            return Ok(Private::default());
        }
        let (facts, dir) = (facts.clone(), self.cache_dir());
        let looked = tokio::task::spawn_blocking(move || private::look(&facts, &dir)).await;
        looked
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(BackendError::io("look for what is not for everyone below /usr and /opt"))
    }

    /// Returns the root filesystem that the settings name, if they name one.
    pub(super) async fn rootfs(
        &self,
        settings: &NativeSettings,
        progress: &ProgressSink,
    ) -> Result<Option<Rootfs>, BackendError> {
        rootfs::provide(settings, &self.cache_dir(), progress).await
    }

    /// Removes what no instance of the home uses any more, once in the life of
    /// this process. Nobody waits for it, and nobody is told when it fails: the
    /// next process meets the same.
    pub(super) fn tidy_once(&self) {
        if self.tidied.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(sandboxes) = self.settings.sandboxes_dir() else {
            return;
        };
        let dir = self.cache_dir();
        tokio::task::spawn_blocking(move || {
            let used = Used::of(&sandboxes.value);
            let pruned =
                etc::prune(&dir, &used.pictures).and_then(|()| rootfs::prune(&dir, &used.rootfs));
            if let Err(error) = pruned {
                tracing::debug!(%error, "not tidied up");
            }
        });
    }
}

/// What instances are made of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Used {
    pictures: BTreeSet<String>,
    rootfs: BTreeSet<String>,
}

impl Used {
    fn of(sandboxes: &Path) -> Self {
        let mut used = Self::default();
        let instances = below(sandboxes).into_iter().flat_map(|dir| below(&dir.join("instances")));
        for made in instances.filter_map(|dir| Label::read(&dir)).map(|label| label.made) {
            used.pictures.extend(made.picture);
            used.rootfs.extend(made.rootfs);
        }
        used
    }
}

fn below(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
