//! The settings of sandboxes on Apptainer, and all that shape one.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, expand};
use vestal_config::{
    AnyKey as _, ConfigError, Group, InvalidValue, Protection, Setting, SettingValue, Settings,
    ValueSource,
};

use crate::backends::docker::settings::DockerBinary;
use crate::backends::own_system::{self, ResourceLimits, Shaping, start_dir};
use crate::backends::user_mounts::UserMounts;
use crate::mounts::OwnDirs;
use crate::settings::{Volumes, keys};
use crate::spec::Tightening;
use crate::{Overrides, Spec};

vestal_config::keys! {
    /// Image of sandboxes on Apptainer: a SIF file, a directory with a root filesystem, or an
    /// address that Apptainer takes, such as `docker://debian:12`, which is fetched once.
    SINGULARITY_IMAGE: ApptainerImage = "terminal.singularity_image" {
        default: ApptainerImage::declared("docker://nikolaik/python-nodejs:python3.11-nodejs20"),
        limits: (),
        env: ["TERMINAL_SINGULARITY_IMAGE"],
        aliases: ["terminal.apptainer_image"],
        protection: Protection::Guards,
    }

    /// Program that builds containers: `apptainer`, `singularity` or a path of one.
    SINGULARITY_BINARY: ApptainerBinary = "terminal.singularity_binary" {
        default: ApptainerBinary(DockerBinary::Found),
        limits: (),
        env: ["TERMINAL_SINGULARITY_BINARY"],
        aliases: ["terminal.apptainer_binary"],
        travels: false,
    }
}

/// The settings of this owner.
pub(crate) static GROUP: Group =
    Group { prefixes: &["singularity_", "apptainer_"], ..Group::of(KEYS) };

/// An image as the settings name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApptainerImage(Cow<'static, str>);

/// How addresses begin of what is converted, and not fetched.
const ARCHIVES: [&str; 4] = ["docker-archive", "docker-daemon", "oci", "oci-archive"];

/// Longest name of an image.
const MAX_NAME: usize = 4096;

impl ApptainerImage {
    const fn declared(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Reads an image, or says what is wrong with it, to be read after "which".
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        if text.len() > MAX_NAME || text.chars().any(char::is_control) {
            return Err("is no name of an image".to_owned());
        }
        if text.starts_with("instance:") {
            return Err("names an instance of Apptainer, which is no image".to_owned());
        }
        let image = Self(Cow::Owned(text.to_owned()));
        if !image.is_address() && !text.starts_with('/') && !text.starts_with("~/") {
            return Err(
                "is a relative path, which would mean another file in every directory; an image \
                 of a registry begins with docker://"
                    .to_owned(),
            );
        }
        Ok(image)
    }

    /// Returns the name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is an address rather than a path.
    fn is_address(&self) -> bool {
        let Some((scheme, rest)) = self.0.split_once(':') else {
            return false;
        };
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        is_scheme && (rest.starts_with("//") || ARCHIVES.contains(&scheme))
    }

    /// Returns the file or directory; nothing for an address.
    pub fn path(&self, user_home: Option<&Path>) -> Option<PathBuf> {
        (!self.is_address()).then(|| expand(Path::new(self.as_str()), user_home))
    }
}

impl Setting for ApptainerImage {
    type Limits = ();

    const TILDE_IS_HOME: bool = true;

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        Self::parse(input.scalar()?.trim()).map_err(ValueRefusal::new)
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.as_str().to_owned())
    }

    fn allowed((): &()) -> String {
        "an absolute path or one that starts with ~/, of a SIF file or a directory, or an address \
         such as docker://NAME:TAG"
            .to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["/srv/images/debian.sif".to_owned(), "docker://debian:12".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "minLength": 1})
    }
}

/// The program that builds containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApptainerBinary(DockerBinary);

impl ApptainerBinary {
    /// Returns the name or the file; nothing when it is to be found.
    pub fn resolve(&self, user_home: Option<&Path>) -> Option<PathBuf> {
        self.0.resolve(user_home)
    }
}

impl Setting for ApptainerBinary {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        DockerBinary::read(input, &()).map(Self)
    }

    fn to_value(&self) -> SettingValue {
        self.0.to_value()
    }

    fn in_words(&self) -> Option<String> {
        self.0.in_words()
    }

    fn allowed((): &()) -> String {
        DockerBinary::allowed(&())
    }

    fn examples((): &()) -> Vec<String> {
        vec!["singularity".to_owned(), "/opt/apptainer/bin/apptainer".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        DockerBinary::schema(&())
    }
}

/// The settings that shape a sandbox on Apptainer, read once for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApptainerSettings {
    pub(super) image: ApptainerImage,
    /// What the user mounts.
    pub(super) volumes: Volumes,
    /// Whether there is a network.
    pub(super) network: bool,
    /// What it may use.
    pub(super) limits: ResourceLimits,
    /// Whether workspace and home are kept on disk.
    pub(super) persistent: bool,
    /// The directory of the host that is the workspace.
    pub(super) mount: Option<PathBuf>,
    /// Directories of the host that are in the sandbox at the same path.
    pub(super) binds: Vec<PathBuf>,
    /// Where commands start, unless that is the workspace.
    pub(super) cwd: Option<PathBuf>,
    /// The user's home on this machine, for sources that begin with `~`.
    pub(super) user_home: Option<PathBuf>,
    /// Our own directories, and what else there is to know about what may be mounted.
    pub(super) protected: OwnDirs,
}

impl ApptainerSettings {
    /// Reads the settings, with what is asked for one sandbox alone on top.
    pub(super) fn read(settings: &Settings, overrides: &Overrides) -> Result<Self, ConfigError> {
        Ok(Self {
            image: image(settings, overrides)?,
            volumes: settings.get(&keys::DOCKER_VOLUMES)?.value.and(&overrides.volumes),
            network: settings.get(&keys::DOCKER_NETWORK)?.value,
            limits: ResourceLimits::read(settings)?,
            persistent: settings.get(&keys::CONTAINER_PERSISTENT)?.value,
            mount: overrides.mount.clone(),
            binds: overrides.binds.clone(),
            cwd: start_dir(settings, overrides)?,
            user_home: settings.environment().user_home(),
            protected: OwnDirs::of(settings)?,
        })
    }

    /// Returns what the user mounts.
    pub(super) fn user_mounts(&self) -> UserMounts<'_> {
        UserMounts {
            volumes: &self.volumes,
            binds: &self.binds,
            mount: self.mount.as_deref(),
            user_home: self.user_home.as_deref(),
            sandboxes: "sandboxes on apptainer",
        }
    }

    /// Returns what shapes such a sandbox and is not the default.
    pub(super) fn spec(&self) -> Spec {
        let image = (self.image != *SINGULARITY_IMAGE.default_value())
            .then(|| (SINGULARITY_IMAGE.name(), self.image.as_str().to_owned()));
        let shaping = Shaping {
            volumes: &self.volumes,
            network: self.network,
            mount: self.mount.as_deref(),
            binds: &self.binds,
            persistent: self.persistent,
            limits: self.limits,
        };
        image
            .into_iter()
            .chain(shaping.to_spec())
            .fold(Spec::default(), |spec, (key, value)| spec.with(key, &value, tightening(key)))
    }
}

/// Returns the rule for a setting that shapes such sandboxes.
pub(super) fn tightening(key: &str) -> Tightening {
    // Another image isolates neither more nor less.
    own_system::tightening(key)
}

fn image(settings: &Settings, overrides: &Overrides) -> Result<ApptainerImage, ConfigError> {
    let Some(image) = &overrides.image else {
        return Ok(settings.get(&SINGULARITY_IMAGE)?.value);
    };
    ApptainerImage::parse(image).map_err(|reason| {
        ConfigError::from(Box::new(InvalidValue {
            key: SINGULARITY_IMAGE.name(),
            value: image.chars().take(80).collect(),
            from: ValueSource::Option { name: "--image".to_owned() },
            reason,
            allowed: SINGULARITY_IMAGE.allowed(),
            suggestion: None,
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_paths_or_addresses() {
        let path = |text: &str| ApptainerImage::parse(text).unwrap().path(Some(Path::new("/h")));
        assert_eq!(path("/srv/a.sif"), Some("/srv/a.sif".into()));
        assert_eq!(path("~/a:b.sif"), Some("/h/a:b.sif".into()));
        for address in ["docker://debian:12", "docker-archive:/srv/a.tar", "oras://host/a:1"] {
            assert_eq!(path(address), None, "{address}");
        }
        for wrong in ["", "debian:12", "a.sif", "instance://x", "./x", "x\n", "--x"] {
            ApptainerImage::parse(wrong).unwrap_err();
        }
    }
}
