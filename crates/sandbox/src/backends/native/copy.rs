//! Copies of what instances are made of.

use std::path::Path;

use serde::{Deserialize, Serialize};
use vestal_config::AnyKey as _;

use super::backend::{Native, widest_users};
use super::launch::made_of;
use super::tier::Tier;
use crate::ProgressSink;
use crate::backend::{BackendError, Base, CopyTotals, Instance, InstanceRequest, SavedSystem};
use crate::backends::copying::{How, copy};
use crate::settings::keys;

/// Name of the layers in the directory of an instance, or of a copy.
const LAYERS: &str = "layers";

/// What layers are changes to: they fit nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ground {
    pub(super) tier: Tier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rootfs: Option<String>,
}

impl Native {
    /// Copies the layers of an instance that does not run.
    pub(super) async fn save_layers(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        let ground = ground_of(instance)?;
        let (from, to) = (instance.dir.join(LAYERS), into.join(LAYERS));
        self.copy_as(&from, &to, "the sandbox's system", progress).await?;
        serde_json::to_value(ground).map_err(|error| BackendError::Io {
            action: "note what was copied".to_owned(),
            source: std::io::Error::other(error),
        })
    }

    /// Copies a tree of a sandbox's files.
    pub(super) async fn copy_tree(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let name = from.file_name().map(|name| name.to_string_lossy().into_owned());
        let what = format!("the sandbox's {}", name.as_deref().unwrap_or("files"));
        self.copy_as(from, to, &what, progress).await
    }

    /// Fills a new instance with a copy, if one is asked for.
    pub(super) async fn fill(
        &self,
        request: &InstanceRequest,
        new: &Ground,
    ) -> Result<(), BackendError> {
        let (from, ground) = match &request.base {
            None => return Ok(()),
            Some(Base::Instance(source)) => (source.dir.join(LAYERS), ground_of(source)?),
            Some(Base::Saved { dir, saved }) => (dir.join(LAYERS), read_saved(saved)?),
        };
        ground.check(new)?;
        let to = request.instance.dir.join(LAYERS);
        self.copy_as(&from, &to, "the sandbox's system", &request.progress).await.map(drop)
    }

    async fn copy_as(
        &self,
        from: &Path,
        to: &Path,
        what: &str,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let how = if rustix::process::geteuid().is_root() {
            How::AsSelf
        } else {
            How::Among(widest_users())
        };
        copy(&self.stage()?, &how, from, to, what, progress).await
    }
}

impl Ground {
    /// Checks that what was copied fits what is made of it.
    fn check(&self, new: &Self) -> Result<(), BackendError> {
        if self == new {
            return Ok(());
        }
        let rootfs = keys::NATIVE_ROOTFS.name();
        let advice = match (self.tier, new.tier) {
            (Tier::Rootfs, _) | (_, Tier::Rootfs) => {
                format!("set {rootfs} to what it was when the original was made")
            }
            _ => "make the copy as the user who made the original".to_owned(),
        };
        Err(BackendError::Advised {
            problem: format!(
                "the original was made on {}, and a copy would be on {}: its files do not fit",
                self.tier.meaning(),
                new.tier.meaning()
            ),
            advice,
        })
    }
}

fn ground_of(instance: &Instance) -> Result<Ground, BackendError> {
    match made_of(instance) {
        Some(made) => Ok(Ground { tier: made.tier, rootfs: made.rootfs }),
        None => Err(BackendError::Advised {
            problem: "nothing is known of how the original was made".to_owned(),
            advice: "start it once, or make it anew with `vestal rebuild`".to_owned(),
        }),
    }
}

fn read_saved(saved: &SavedSystem) -> Result<Ground, BackendError> {
    serde_json::from_value(saved.clone()).map_err(|error| BackendError::Advised {
        problem: format!("what was noted of the copy cannot be read: {error}"),
        advice: "use another snapshot, or the Vestal that made this one".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(tier: Tier, rootfs: Option<&str>) -> Ground {
        Ground { tier, rootfs: rootfs.map(str::to_owned) }
    }

    #[test]
    fn a_copy_is_only_laid_over_what_it_was_taken_from() {
        let overlay = ground(Tier::Overlay, None);
        overlay.check(&overlay).unwrap();
        for (was, now) in [
            (overlay.clone(), ground(Tier::ReadOnly, None)),
            (ground(Tier::Rootfs, Some("a")), ground(Tier::Rootfs, Some("b"))),
            (ground(Tier::Rootfs, Some("a")), overlay),
        ] {
            let refused = was.check(&now).unwrap_err();
            assert!(refused.is_final());
            let about_rootfs = refused.advice().unwrap().contains("terminal.native_rootfs");
            assert_eq!(about_rootfs, was.tier == Tier::Rootfs, "{refused}");
        }
    }

    #[test]
    fn what_is_noted_of_a_copy_is_read_again() {
        for ground in [ground(Tier::Overlay, None), ground(Tier::Rootfs, Some("a"))] {
            let saved = serde_json::to_value(&ground).unwrap();
            assert_eq!(read_saved(&saved).unwrap(), ground);
        }
        assert!(read_saved(&SavedSystem::Null).unwrap_err().is_final());
    }
}
