//! Copies of instances: their overlay layers and their files.

use std::path::Path;

use serde::{Deserialize, Serialize};
use vestal_config::AnyKey as _;

use super::backend::{Native, all_possible_users};
use super::launch::system_of;
use super::tier::Tier;
use crate::ProgressSink;
use crate::backend::{BackendError, Base, CopyTotals, Instance, InstanceRequest, SavedSystem};
use crate::backends::copying::{CopyingUser, copy};
use crate::settings::keys;

/// Directory of the overlay layers in an instance and in a copy.
const LAYERS: &str = "layers";

/// The system that layers were made on. They cannot be used on another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerBase {
    pub(super) tier: Tier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rootfs: Option<String>,
}

impl Native {
    /// Copies the layers of a stopped instance.
    pub(super) async fn save_layers(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        let base = layer_base(instance)?;
        let (from, to) = (instance.dir.join(LAYERS), into.join(LAYERS));
        self.copy_files(&from, &to, "the sandbox's system", progress).await?;
        serde_json::to_value(base).map_err(|error| BackendError::Io {
            action: "record the system of the copy".to_owned(),
            source: std::io::Error::other(error),
        })
    }

    /// Copies a directory of a sandbox's files.
    pub(super) async fn copy_tree(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let name = from.file_name().map(|name| name.to_string_lossy().into_owned());
        let what = format!("the sandbox's {}", name.as_deref().unwrap_or("files"));
        self.copy_files(from, to, &what, progress).await
    }

    /// Copies the layers of [`InstanceRequest::base`], if there is one, into a new
    /// instance.
    pub(super) async fn restore_layers(
        &self,
        request: &InstanceRequest,
        new: &LayerBase,
    ) -> Result<(), BackendError> {
        let (from, base) = match &request.base {
            None => return Ok(()),
            Some(Base::Instance(source)) => (source.dir.join(LAYERS), layer_base(source)?),
            Some(Base::Saved { dir, saved }) => (dir.join(LAYERS), parse_saved(saved)?),
        };
        base.check(new)?;
        let to = request.instance.dir.join(LAYERS);
        self.copy_files(&from, &to, "the sandbox's system", &request.progress).await.map(drop)
    }

    async fn copy_files(
        &self,
        from: &Path,
        to: &Path,
        what: &str,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let how = if rustix::process::geteuid().is_root() {
            CopyingUser::AsSelf
        } else {
            CopyingUser::Among(all_possible_users())
        };
        copy(&self.stage()?, &how, from, to, what, progress).await
    }
}

impl LayerBase {
    /// Checks that layers made on this system can be used on `new`.
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
                "the original was made on {}, but the copy would be on {}: its files do not fit",
                self.tier.meaning(),
                new.tier.meaning()
            ),
            advice,
        })
    }
}

fn layer_base(instance: &Instance) -> Result<LayerBase, BackendError> {
    match system_of(instance) {
        Some(made) => Ok(LayerBase { tier: made.tier, rootfs: made.rootfs }),
        None => Err(BackendError::Advised {
            problem: "it is not recorded how the original was made".to_owned(),
            advice: "start it once, or make a new one with `vestal rebuild`".to_owned(),
        }),
    }
}

fn parse_saved(saved: &SavedSystem) -> Result<LayerBase, BackendError> {
    serde_json::from_value(saved.clone()).map_err(|error| BackendError::Advised {
        problem: format!("cannot read the record of the copy: {error}"),
        advice: "use another snapshot, or the version of Vestal that made this one".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(tier: Tier, rootfs: Option<&str>) -> LayerBase {
        LayerBase { tier, rootfs: rootfs.map(str::to_owned) }
    }

    #[test]
    fn layers_are_only_used_on_the_system_they_were_made_on() {
        let overlay = base(Tier::Overlay, None);
        overlay.check(&overlay).unwrap();
        for (was, now) in [
            (overlay.clone(), base(Tier::ReadOnly, None)),
            (base(Tier::Rootfs, Some("a")), base(Tier::Rootfs, Some("b"))),
            (base(Tier::Rootfs, Some("a")), overlay),
        ] {
            let refused = was.check(&now).unwrap_err();
            assert!(refused.is_final());
            let about_rootfs = refused.advice().unwrap().contains("terminal.native_rootfs");
            assert_eq!(about_rootfs, was.tier == Tier::Rootfs, "{refused}");
        }
    }

    #[test]
    fn the_record_of_a_copy_is_read_back() {
        for base in [base(Tier::Overlay, None), base(Tier::Rootfs, Some("a"))] {
            let saved = serde_json::to_value(&base).unwrap();
            assert_eq!(parse_saved(&saved).unwrap(), base);
        }
        assert!(parse_saved(&SavedSystem::Null).unwrap_err().is_final());
    }
}
