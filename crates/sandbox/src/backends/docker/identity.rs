//! Which container is an instance's: what is remembered of it, and whose a container
//! is.
//!
//! Labels alone prove nothing: an image that was committed from a sandbox's
//! container hands them on to every container that is made of it. A container is
//! a sandbox's own if its labels, its name and its mounts agree, or its labels,
//! its mounts and the id on record. What merely carries labels is the user's: it
//! is told of and never touched.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bollard::models::{ContainerInspectResponse, ContainerSummary, MountPoint};
use serde::{Deserialize, Serialize};

use super::plan::{BOOT_DIR, Marks, name_of_marks};
use crate::backend::{Description, Instance, Locator};

/// How a container is found again and reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DockerLocator {
    /// Id of the engine that has it.
    #[serde(default)]
    pub(super) engine: String,
    /// Where that engine was.
    #[serde(default)]
    pub(super) address: String,
    /// Its id.
    pub(super) container: String,
    /// Its name.
    pub(super) name: String,
    /// Name of its image.
    pub(super) image: String,
    /// Id of its image when it was made.
    pub(super) image_id: String,
    /// How its guest is reached.
    pub(super) transport: Transport,
    /// Limits that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    /// What weakens its isolation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) weakened: Vec<String>,
    /// Whether it was made of a copy of another container's system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_copy: bool,
}

/// How a guest is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub(super) enum Transport {
    /// By its socket in a directory that host and container share.
    Socket {
        /// The process that listens; absent where it cannot be seen from here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// By a stream of the engine to a program in the container.
    Exec,
}

impl DockerLocator {
    /// Reads a locator; nothing when it is not known or not one of ours.
    pub(super) fn of(locator: &Locator) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    /// Returns the number of the process that listens, where it can be seen.
    pub(super) fn pid(&self) -> Option<u32> {
        match self.transport {
            Transport::Socket { pid } => pid,
            Transport::Exec => None,
        }
    }

    pub(super) fn of_instance(instance: &Instance) -> Option<Self> {
        Self::of(&instance.locator)
    }

    pub(super) fn to_locator(&self) -> Locator {
        // A struct of texts and numbers always has a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn describe(self) -> Description {
        Description {
            image: Some(self.image),
            image_id: Some(self.image_id),
            name: Some(self.name),
            transport: Some(
                match self.transport {
                    Transport::Socket { .. } => "socket",
                    Transport::Exec => "exec",
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

/// What of a container tells whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits<'a> {
    name: &'a str,
    labels: &'a HashMap<String, String>,
    /// Its mounts; absent where the engine does not say.
    mounts: Option<&'a [MountPoint]>,
}

impl<'a> Traits<'a> {
    /// Returns those of a container that was looked at.
    pub(super) fn of(inspected: &'a ContainerInspectResponse) -> Option<Self> {
        Some(Self {
            name: inspected.name.as_deref().unwrap_or_default().trim_start_matches('/'),
            labels: inspected.config.as_ref()?.labels.as_ref()?,
            mounts: Some(inspected.mounts.as_deref().unwrap_or_default()),
        })
    }

    /// Returns those of a container that was only listed. Not every engine
    /// lists mounts.
    pub(super) fn listed(summary: &'a ContainerSummary) -> Option<Self> {
        let name = summary.names.iter().flatten().next().map_or("", String::as_str);
        Some(Self {
            name: name.trim_start_matches('/'),
            labels: summary.labels.as_ref()?,
            mounts: summary.mounts.as_deref().filter(|mounts| !mounts.is_empty()),
        })
    }

    /// Returns what the labels say, if name and mounts agree with them.
    pub(super) fn own(self) -> Option<Marks> {
        self.recorded().filter(|marks| has_name(self.name, marks))
    }

    /// Returns what the labels of the container whose id is on record say, if
    /// the mounts agree with them. Its name may have been changed by its user.
    pub(super) fn recorded(self) -> Option<Marks> {
        Marks::parse(self.labels).filter(|marks| has_mounts(self.mounts, marks))
    }
}

/// Returns whether a name is one that is given to an instance: the sandbox's
/// own, the one of an instance with an owner, or the one of a container that
/// was moved aside.
fn has_name(name: &str, marks: &Marks) -> bool {
    let own = name_of_marks(marks, None);
    let owned = name_of_marks(marks, Some(&marks.instance));
    let aside = |base: &str| {
        let rest = name.strip_prefix(base).and_then(|rest| rest.strip_prefix("-aside-"));
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    name == own || name == owned || aside(&own) || aside(&owned)
}

/// Returns whether the guest of the instance is what is mounted: the instance's
/// own directory, or for an engine elsewhere a volume.
fn has_mounts(mounts: Option<&[MountPoint]>, marks: &Marks) -> bool {
    let Some(mounts) = mounts else {
        return true;
    };
    let boot = mounts.iter().find(|mount| mount.destination.as_deref() == Some(BOOT_DIR));
    boot.is_some_and(|boot| match boot.typ.as_deref() {
        Some("bind") => boot.source.as_deref().is_some_and(|source| {
            Path::new(source).ends_with(Path::new("instances").join(&marks.instance).join("boot"))
        }),
        _ => true,
    })
}

/// Tells, once per process, of a container that carries a sandbox's labels and
/// is not its own.
pub(super) fn tell_of_bearer(inspected: &ContainerInspectResponse) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let id = inspected.id.clone().unwrap_or_default();
    if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
        let name = inspected.name.as_deref().unwrap_or_default().trim_start_matches('/');
        tracing::warn!(
            "container {name} carries a sandbox's labels and is not the sandbox's, as one made of \
             an image that was committed from it; it is left alone"
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

    /// Returns whether a container is its sandbox's, by its traits and by the id
    /// on record.
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
        let traits = Traits::of(&inspected).unwrap();
        (traits.own().is_some(), traits.recorded().is_some())
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
            // Its user has renamed it: only the record knows it still.
            ("mine", boot, (false, true)),
            // Made of a committed image: the labels, and nothing else.
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
