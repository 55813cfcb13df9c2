//! `--mount` and `--tmpfs`.

use super::values;
use crate::settings::{HostPath, Propagation, is_volume_name, mount_target};

/// What a `--mount` mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountKind {
    /// A file or a directory of the host.
    Bind {
        /// Which.
        source: HostPath,
        /// How later mounts propagate.
        propagation: Option<Propagation>,
    },
    /// A volume of the engine.
    Volume {
        /// Its name; a new one without a name when there is none.
        name: Option<String>,
        /// Whether a new one is left empty instead of getting the image's files.
        no_copy: bool,
    },
    /// Memory.
    Tmpfs {
        /// Its size in bytes; the engine's default when there is none.
        size: Option<u64>,
        /// Its mode; the engine's default when there is none.
        mode: Option<u32>,
    },
}

/// One `--mount`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountFlag {
    /// What is mounted.
    pub kind: MountKind,
    /// Where, in the container: an absolute path without `.`, `..` and needless slashes.
    pub target: String,
    /// Whether it is mounted read-only.
    pub read_only: bool,
}

/// The parts of a `--mount` as far as they were given.
#[derive(Default)]
struct Given<'a> {
    kind: Option<&'a str>,
    source: Option<&'a str>,
    target: Option<&'a str>,
    read_only: bool,
    propagation: Option<Propagation>,
    no_copy: bool,
    size: Option<u64>,
    mode: Option<u32>,
    /// Keys that belong to one kind only, with that kind.
    special: Vec<(&'a str, &'static str)>,
}

impl MountFlag {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut given = Given::default();
        for part in text.split(',') {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (part, None),
            };
            given.take(key, value)?;
        }
        let kind = given.kind.unwrap_or("volume");
        if let Some((key, of)) = given.special.iter().find(|(_, of)| *of != kind) {
            return Err(format!("has {key}, which is for type={of} only"));
        }
        let target = given.target.ok_or("has no target")?;
        let kind = given.kind(kind)?;
        Ok(Self { kind, target: mount_target(target)?, read_only: given.read_only })
    }
}

impl<'a> Given<'a> {
    fn take(&mut self, key: &'a str, value: Option<&'a str>) -> Result<(), String> {
        let needed =
            || value.filter(|value| !value.is_empty()).ok_or(format!("has {key} without a value"));
        match key {
            "type" => self.kind = Some(needed()?),
            "source" | "src" => self.source = Some(needed()?),
            "target" | "dst" | "destination" => self.target = Some(needed()?),
            "readonly" | "ro" => self.read_only = switch(key, value)?,
            "bind-propagation" => {
                let word = needed()?;
                let propagation = Propagation::from_word(word);
                self.propagation = Some(
                    propagation.ok_or_else(|| format!("has the unknown propagation {word:?}"))?,
                );
                self.special.push((key, "bind"));
            }
            "volume-nocopy" => {
                self.no_copy = switch(key, value)?;
                self.special.push((key, "volume"));
            }
            "tmpfs-size" => {
                self.size =
                    Some(values::bytes(needed()?).ok_or("has a tmpfs-size that is not a size")?);
                self.special.push((key, "tmpfs"));
            }
            "tmpfs-mode" => {
                let mode = u32::from_str_radix(needed()?, 8).ok().filter(|mode| *mode <= 0o7777);
                self.mode = Some(mode.ok_or("has a tmpfs-mode that is not an octal mode")?);
                self.special.push((key, "tmpfs"));
            }
            _ => {
                return Err(format!(
                    "has the unknown part {key:?}; there are type, source, target, readonly, \
                     bind-propagation, volume-nocopy, tmpfs-size, tmpfs-mode"
                ));
            }
        }
        Ok(())
    }

    fn kind(&self, kind: &str) -> Result<MountKind, String> {
        match kind {
            "bind" => {
                let source = self.source.ok_or("has no source")?;
                let source = HostPath::new(source)
                    .map_err(|reason| format!("has the source {source:?}, which {reason}"))?;
                Ok(MountKind::Bind { source, propagation: self.propagation })
            }
            "volume" => {
                if let Some(name) = self.source.filter(|name| !is_volume_name(name)) {
                    return Err(format!(
                        "has the source {name:?}, which is not the name of a volume (type=bind mounts paths)"
                    ));
                }
                let name = self.source.map(str::to_owned);
                Ok(MountKind::Volume { name, no_copy: self.no_copy })
            }
            "tmpfs" if self.source.is_some() => Err("has a source, but type=tmpfs".to_owned()),
            "tmpfs" => Ok(MountKind::Tmpfs { size: self.size, mode: self.mode }),
            other => Err(format!("has the type {other:?}; there are bind, volume and tmpfs")),
        }
    }
}

fn switch(key: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("" | "true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(_) => Err(format!("has {key} with something else than true or false")),
    }
}

/// Reads `TARGET[:OPTIONS]`.
pub(super) fn tmpfs(text: &str) -> Result<(String, String), String> {
    let (target, options) = text.split_once(':').unwrap_or((text, ""));
    if !options.split(',').all(|option| option.is_empty() || values::is_word(option)) {
        return Err("has options that are not words".to_owned());
    }
    Ok((mount_target(target)?, options.to_owned()))
}
