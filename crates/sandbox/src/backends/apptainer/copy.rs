//! Copies of the container's own filesystem: the changes to its image.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::backend::Apptainer;
use super::records::system_of;
use super::settings::SINGULARITY_IMAGE;
use crate::ProgressSink;
use crate::backend::{BackendError, Base, CopyTotals, Instance, InstanceRequest, SavedSystem};
use crate::backends::copying::{CopyingUser, copy};
use crate::backends::native::{HostDirs, all_possible_users};
use crate::store::make_private_dir;
use vestal_config::AnyKey as _;

/// Directory of the changes in an instance and in a copy.
const LAYERS: &str = "layers";

/// What of them is copied: the rest is the kernel's.
const UPPER: &str = "upper";

/// The image that changes were made to. They cannot be used on another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OverlayBase {
    pub(super) uid: u32,
    pub(super) image: String,
    pub(super) image_id: String,
}

impl Apptainer {
    /// Copies the changes of a stopped instance.
    pub(super) async fn save_overlay(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        let base = base_of(instance)?;
        self.copy_overlay(&instance.dir, into, progress).await?;
        serde_json::to_value(base).map_err(|error| BackendError::Io {
            action: "record the image of the copy".to_owned(),
            source: std::io::Error::other(error),
        })
    }

    /// Copies the changes of [`InstanceRequest::base`], if there is one, into a new
    /// instance.
    pub(super) async fn restore_overlay(
        &self,
        request: &InstanceRequest,
        new: &OverlayBase,
    ) -> Result<(), BackendError> {
        let (from, base) = match &request.base {
            None => return Ok(()),
            Some(Base::Instance(source)) => (source.dir.clone(), base_of(source)?),
            Some(Base::Saved { dir, saved }) => (dir.clone(), parse_saved(saved)?),
        };
        base.check(new)?;
        self.copy_overlay(&from, &request.instance.dir, &request.progress).await
    }

    async fn copy_overlay(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<(), BackendError> {
        let (from, layers) = (from.join(LAYERS).join(UPPER), to.join(LAYERS));
        make_private_dir(&layers).map_err(|error| BackendError::Io {
            action: format!("make {}", layers.display()),
            source: std::io::Error::other(error),
        })?;
        let to = layers.join(UPPER);
        self.copy_files(&from, &to, "the sandbox's system", progress).await.map(drop)
    }

    /// Copies a tree of a sandbox's files.
    pub(super) async fn copy_files(
        &self,
        from: &Path,
        to: &Path,
        what: &str,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let how = if rustix::process::geteuid().is_root() {
            CopyingUser::AsSelf
        } else {
            // Root of a user namespace reads also what the user has closed to itself.
            CopyingUser::Among(all_possible_users())
        };
        copy(&self.stage()?, &how, from, to, what, progress).await
    }
}

/// Makes the directories of the changes, as far as they are missing.
pub(super) fn make_layers(dirs: &HostDirs) -> std::io::Result<()> {
    use crate::backends::boot::make_open_dir;
    make_open_dir(&dirs.layers, 0o700)?;
    make_open_dir(&dirs.layers.join(UPPER), 0o755)?;
    let work = dirs.layers.join("work");
    make_open_dir(&work, 0o700)?;
    fs::metadata(&work).map(drop)
}

impl OverlayBase {
    /// Checks that changes to this image can be used on `new`.
    fn check(&self, new: &Self) -> Result<(), BackendError> {
        if self.image_id == new.image_id && self.uid == new.uid {
            return Ok(());
        }
        let (problem, advice) = if self.uid == new.uid {
            (
                format!(
                    "the original was made of the image {}, and the copy would be of {}: its \
                     files do not fit",
                    self.image, new.image
                ),
                format!(
                    "set {} to what it was when the original was made",
                    SINGULARITY_IMAGE.name()
                ),
            )
        } else {
            (
                "the original was made by another user: its files do not fit".to_owned(),
                "make the copy as the user who made the original".to_owned(),
            )
        };
        Err(BackendError::Advised { problem, advice })
    }
}

fn base_of(instance: &Instance) -> Result<OverlayBase, BackendError> {
    match system_of(instance) {
        Some(made) => Ok(OverlayBase { uid: made.uid, image: made.image, image_id: made.image_id }),
        None => Err(BackendError::Advised {
            problem: "it is not recorded how the original was made".to_owned(),
            advice: "start it once, or make a new one with `vestal rebuild`".to_owned(),
        }),
    }
}

fn parse_saved(saved: &SavedSystem) -> Result<OverlayBase, BackendError> {
    serde_json::from_value(saved.clone()).map_err(|error| BackendError::Advised {
        problem: format!("cannot read the record of the copy: {error}"),
        advice: "use another snapshot, or the version of Vestal that made this one".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_only_used_on_the_image_they_were_made_to() {
        let base = |uid: u32, id: &str| OverlayBase {
            uid,
            image: format!("/{id}.sif"),
            image_id: id.to_owned(),
        };
        base(7, "a").check(&base(7, "a")).unwrap();
        let refused = base(7, "a").check(&base(7, "b")).unwrap_err();
        assert!(refused.advice().unwrap().contains("terminal.singularity_image"), "{refused}");
        base(7, "a").check(&base(8, "a")).unwrap_err();
        let saved = serde_json::to_value(base(7, "a")).unwrap();
        assert_eq!(parse_saved(&saved).unwrap(), base(7, "a"));
        assert!(parse_saved(&SavedSystem::Null).unwrap_err().is_final());
    }
}
