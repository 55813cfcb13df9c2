//! Which container belongs to an instance: the record of it, and the proof of
//! ownership.
//!
//! Labels alone prove nothing: an image committed from a sandbox's container passes
//! them on to every container made of it. A container is a sandbox's own if its
//! labels, name and mounts agree, or its labels, mounts and the id on record. A
//! container that merely carries labels is the user's: it is reported and never
//! touched.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bollard::models::{ContainerInspectResponse, ContainerSummary, MountPoint};
use serde::{Deserialize, Serialize};

use super::plan::{BOOT_DIR, ContainerLabels, name_from_labels};
use crate::backend::{Description, Instance, Locator};

/// What is recorded of a container: how it is found and reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DockerLocator {
    /// Id of the engine that has it.
    #[serde(default)]
    pub(super) engine: String,
    /// Address of that engine.
    #[serde(default)]
    pub(super) address: String,
    /// Id of the container.
    pub(super) container: String,
    /// Name of the container.
    pub(super) name: String,
    /// Name of its image.
    pub(super) image: String,
    /// Id of its image at creation.
    pub(super) image_id: String,
    /// How its guest is reached.
    pub(super) transport: GuestTransport,
    /// Keys of limits that are not enforced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    /// What weakens its isolation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) weakened: Vec<String>,
    /// Whether its system is a copy of another container's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_copy: bool,
}

/// How a guest is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub(super) enum GuestTransport {
    /// Through its socket in a directory that host and container share.
    Socket {
        /// The listening process, where it is visible from this host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// Through `guest connect`, run in the container by the engine.
    Exec,
}

impl DockerLocator {
    /// Parses a locator; `None` if there is none or it is not a container's.
    pub(super) fn of(locator: &Locator) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    /// Returns the id of the listening process, where it is visible.
    pub(super) fn pid(&self) -> Option<u32> {
        match self.transport {
            GuestTransport::Socket { pid } => pid,
            GuestTransport::Exec => None,
        }
    }

    pub(super) fn of_instance(instance: &Instance) -> Option<Self> {
        Self::of(&instance.locator)
    }

    pub(super) fn to_locator(&self) -> Locator {
        // A struct of strings and numbers always serializes.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn describe(self) -> Description {
        Description {
            image: Some(self.image),
            image_id: Some(self.image_id),
            name: Some(self.name),
            transport: Some(
                match self.transport {
                    GuestTransport::Socket { .. } => "socket",
                    GuestTransport::Exec => "exec",
                }
                .to_owned(),
            ),
            unenforced: self.unenforced,
            weakened: self.weakened,
            is_copy: self.is_copy,
            ..Description::default()
        }
    }
}

/// The properties of a container that prove whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContainerIdentity<'a> {
    name: &'a str,
    labels: &'a HashMap<String, String>,
    /// Its mounts; `None` where the engine does not list them.
    mounts: Option<&'a [MountPoint]>,
}

impl<'a> ContainerIdentity<'a> {
    /// Returns the identity of an inspected container.
    pub(super) fn of(inspected: &'a ContainerInspectResponse) -> Option<Self> {
        Some(Self {
            name: inspected.name.as_deref().unwrap_or_default().trim_start_matches('/'),
            labels: inspected.config.as_ref()?.labels.as_ref()?,
            mounts: Some(inspected.mounts.as_deref().unwrap_or_default()),
        })
    }

    /// Returns the identity of a listed container. Not every engine lists mounts.
    pub(super) fn listed(summary: &'a ContainerSummary) -> Option<Self> {
        let name = summary.names.iter().flatten().next().map_or("", String::as_str);
        Some(Self {
            name: name.trim_start_matches('/'),
            labels: summary.labels.as_ref()?,
            mounts: summary.mounts.as_deref().filter(|mounts| !mounts.is_empty()),
        })
    }

    /// Returns the labels if name and mounts agree with them.
    pub(super) fn owned_labels(self) -> Option<ContainerLabels> {
        self.recorded_labels().filter(|labels| has_name(self.name, labels))
    }

    /// Returns the labels of a container whose id is on record, if the mounts agree
    /// with them. The user may have renamed it.
    pub(super) fn recorded_labels(self) -> Option<ContainerLabels> {
        ContainerLabels::parse(self.labels).filter(|labels| has_mounts(self.mounts, labels))
    }
}

/// Returns whether a name is one that an instance gets: the sandbox's name, the
/// name of an instance with an owner, or the name of a container that was set
/// aside.
fn has_name(name: &str, labels: &ContainerLabels) -> bool {
    let own = name_from_labels(labels, None);
    let owned = name_from_labels(labels, Some(&labels.instance));
    let aside = |base: &str| {
        let rest = name.strip_prefix(base).and_then(|rest| rest.strip_prefix("-aside-"));
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    name == own || name == owned || aside(&own) || aside(&owned)
}

/// Returns whether the boot directory of the instance is mounted, or a volume in
/// its place.
fn has_mounts(mounts: Option<&[MountPoint]>, labels: &ContainerLabels) -> bool {
    let Some(mounts) = mounts else {
        return true;
    };
    let boot = mounts.iter().find(|mount| mount.destination.as_deref() == Some(BOOT_DIR));
    boot.is_some_and(|boot| match boot.typ.as_deref() {
        Some("bind") => boot.source.as_deref().is_some_and(|source| {
            Path::new(source).ends_with(Path::new("instances").join(&labels.instance).join("boot"))
        }),
        _ => true,
    })
}

/// Warns, once per process, of a container that carries a sandbox's labels and is
/// not its own.
pub(super) fn warn_unowned(inspected: &ContainerInspectResponse) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let id = inspected.id.clone().unwrap_or_default();
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
        let name = inspected.name.as_deref().unwrap_or_default().trim_start_matches('/');
        tracing::warn!(
            "container {name} carries a sandbox's labels and is not the sandbox's; it may be made \
             of an image that was committed from one. It is left alone"
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::backends::docker::plan::container_name;
    use crate::{HomeId, Key};

    fn key() -> Key {
        Key::new(HomeId("h".into()), "p", "a/task of some length, with more".parse().unwrap())
    }

    /// Returns whether a container is owned by name, and by the id on record.
    fn standing(name: &str, boot: Option<(&str, &str)>) -> (bool, bool) {
        let mut labels: HashMap<String, String> =
            key().labels().map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let more = [
            ("vestal-key", key().hash()),
            ("vestal-home", "h".to_owned()),
            ("vestal-instance", "0123456789abcdef".to_owned()),
            ("vestal-spec", "s".to_owned()),
            ("vestal-persist", "1".to_owned()),
            ("vestal-generation", "1".to_owned()),
        ];
        labels.extend(more.map(|(name, value)| (name.to_owned(), value)));
        let mounts = boot.map(|(kind, source)| {
            json!({ "Type": kind, "Source": source, "Destination": "/.vestal/boot" })
        });
        let inspected = json!({
            "Name": format!("/{name}"), "Config": { "Labels": labels },
            "Mounts": mounts.into_iter().collect::<Vec<_>>(),
        });
        let inspected = serde_json::from_value(inspected).unwrap();
        let identity = ContainerIdentity::of(&inspected).unwrap();
        (identity.owned_labels().is_some(), identity.recorded_labels().is_some())
    }

    #[test]
    fn a_container_is_a_sandboxs_only_if_labels_name_and_mounts_agree() {
        let own = container_name(&key(), None);
        let owned = container_name(&key(), Some("0123456789abcdef"));
        let boot = Some(("bind", "/home/ada/.vestal/sandboxes/x/instances/0123456789abcdef/boot"));
        let volume = Some(("volume", "/var/lib/docker/volumes/1/_data"));
        let aside = format!("{own}-aside-0a1b2c3d");
        let cases = [
            (&*own, boot, (true, true)),
            (&owned, boot, (true, true)),
            (&aside, boot, (true, true)),
            (&own, volume, (true, true)),
            // The user has renamed it: only the id on record identifies it.
            ("mine", boot, (false, true)),
            // Made of a committed image: it has the labels and nothing else.
            ("quirky_babbage", None, (false, false)),
            (&own, None, (false, false)),
            (&own, Some(("bind", "/srv/instances/other/boot")), (false, false)),
            (&format!("{own}-copy"), boot, (false, true)),
            (&format!("{own}-aside-mine"), boot, (false, true)),
        ];
        for (name, boot, expected) in cases {
            assert_eq!(standing(name, boot), expected, "{name} {boot:?}");
        }
    }
}
