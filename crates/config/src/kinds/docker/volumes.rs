//! What of the host is mounted into containers, as `-v` takes it.

use std::path::Path;

use serde_json::json;

use super::paths::{self, HostPath, Propagation};
use super::weakens;
use crate::input::{Input, Refusal};
use crate::kinds::{Setting, items};
use crate::value::Value;

const FORM: &str = "SOURCE:TARGET[:OPTIONS]";

/// What a volume mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// A file or a directory of the host.
    Host(HostPath),
    /// A volume of the engine, by name.
    Named(String),
}

/// How the labels of `SELinux` are changed so that the container may use the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relabel {
    /// `z`: for several containers.
    Shared,
    /// `Z`: for this one alone.
    Private,
}

/// One mount: `SOURCE:TARGET[:OPTIONS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// What is mounted.
    pub source: VolumeSource,
    /// Where, in the container: an absolute path without `.`, `..` and needless slashes.
    pub target: String,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Whether and how it is relabelled.
    pub relabel: Option<Relabel>,
    /// How later mounts propagate; only for the host's files.
    pub propagation: Option<Propagation>,
    /// Whether a new volume is left empty instead of getting the image's files; only for named ones.
    pub no_copy: bool,
}

impl Volume {
    /// Reads a specification, or says what is wrong with it, to be read after "which".
    pub fn parse(spec: &str) -> Result<Self, String> {
        let mut parts = spec.split(':');
        let (Some(source), Some(target)) = (parts.next(), parts.next()) else {
            return Err("has no target".to_owned());
        };
        let options = parts.next();
        if parts.next().is_some() {
            return Err("has more than three parts".to_owned());
        }
        let mut volume = Self {
            source: read_source(source, target)?,
            target: paths::target(target)?,
            read_only: false,
            relabel: None,
            propagation: None,
            no_copy: false,
        };
        let mut access = None;
        for option in options.map(|all| all.split(',')).into_iter().flatten() {
            volume.apply(option, &mut access)?;
        }
        Ok(volume)
    }

    fn apply(&mut self, option: &str, access: &mut Option<bool>) -> Result<(), String> {
        let named = matches!(self.source, VolumeSource::Named(_));
        match option {
            "ro" | "rw" => {
                let read_only = option == "ro";
                if access.replace(read_only).is_some_and(|before| before != read_only) {
                    return Err("has both ro and rw".to_owned());
                }
                self.read_only = read_only;
            }
            "z" | "Z" => {
                let relabel = if option == "z" { Relabel::Shared } else { Relabel::Private };
                if self.relabel.replace(relabel).is_some_and(|before| before != relabel) {
                    return Err("has both z and Z".to_owned());
                }
            }
            "nocopy" if named => self.no_copy = true,
            "nocopy" => return Err("has nocopy, which is for named volumes only".to_owned()),
            _ => match Propagation::from_word(option) {
                Some(_) if named => {
                    return Err(format!("has {option}, which is for paths of the host only"));
                }
                Some(propagation) => {
                    if self.propagation.replace(propagation).is_some_and(|p| p != propagation) {
                        return Err("has two words for propagation".to_owned());
                    }
                }
                None => return Err(format!("has the unknown option {option:?}")),
            },
        }
        Ok(())
    }

    /// Returns the source as engines take it: an absolute path or a name. None
    /// when it is below the user's home and that is unknown.
    pub fn source(&self, user_home: Option<&Path>) -> Option<String> {
        match &self.source {
            VolumeSource::Host(path) => path.resolve(user_home),
            VolumeSource::Named(name) => Some(name.clone()),
        }
    }

    /// Returns the words after the second colon, in one fixed order.
    pub fn options(&self) -> Vec<&'static str> {
        let mut words = Vec::new();
        if self.read_only {
            words.push("ro");
        }
        match self.relabel {
            Some(Relabel::Shared) => words.push("z"),
            Some(Relabel::Private) => words.push("Z"),
            None => {}
        }
        words.extend(self.propagation.map(Propagation::as_str));
        if self.no_copy {
            words.push("nocopy");
        }
        words
    }

    /// Returns the specification as the engine's API takes it, or none as
    /// [`Volume::source`] does.
    pub fn bind(&self, user_home: Option<&Path>) -> Option<String> {
        self.source(user_home).map(|source| self.written(&source))
    }

    /// Returns the specification in one fixed form.
    pub fn spec(&self) -> String {
        match &self.source {
            VolumeSource::Host(path) => self.written(path.as_str()),
            VolumeSource::Named(name) => self.written(name),
        }
    }

    fn written(&self, source: &str) -> String {
        let options = self.options().join(",");
        let colon = if options.is_empty() { "" } else { ":" };
        format!("{source}:{}{colon}{options}", self.target)
    }

    /// Says how the volume weakens isolation, if it does: the engine's socket
    /// or the whole host in a container makes it a master of the host.
    pub fn weakens(&self) -> Option<String> {
        let VolumeSource::Host(path) = &self.source else {
            return None;
        };
        weakens::mounted(path).map(|what| format!("{} mounts {what}", self.spec()))
    }
}

fn read_source(source: &str, target: &str) -> Result<VolumeSource, String> {
    if source.is_empty() {
        return Err("has no source".to_owned());
    }
    if source.starts_with(['/', '~']) {
        return HostPath::new(source)
            .map(VolumeSource::Host)
            .map_err(|reason| format!("has the source {source:?}, which {reason}"));
    }
    if source.contains('/') || matches!(source, "." | "..") {
        let example = source.trim_start_matches("./").trim_start_matches("../");
        return Err(format!(
            "has a relative path for its source, which would mean another place in every directory \
             (write the whole path, such as /home/me/{example}:{target})"
        ));
    }
    if is_volume_name(source) {
        Ok(VolumeSource::Named(source.to_owned()))
    } else {
        Err(format!(
            "has the source {source:?}, which is neither an absolute path nor the name of a volume \
             (two or more letters, digits, _, . and -, the first a letter or a digit)"
        ))
    }
}

pub(super) fn is_volume_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    first
        && name.len() > 1
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

/// Mounts of containers, each with a target of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volumes(Vec<Volume>);

impl Volumes {
    /// No mounts.
    pub const EMPTY: Self = Self(Vec::new());

    /// Returns the mounts in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Volume> {
        self.0.iter()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names what of it weakens isolation.
    pub fn weakens(&self) -> Vec<String> {
        self.0.iter().filter_map(Volume::weakens).collect()
    }
}

impl Setting for Volumes {
    type Limits = ();

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let specs = items::texts(input, "write it as [\"/host/path:/container/path\"]")?;
        let mut volumes: Vec<Volume> = Vec::new();
        for spec in &specs {
            let volume = Volume::parse(spec)
                .map_err(|reason| Refusal::new(format!("holds {spec:?}, which {reason}")))?;
            if volumes.iter().any(|other| other.target == volume.target) {
                let target = &volume.target;
                return Err(Refusal::new(format!("mounts two things at {target}")));
            }
            volumes.push(volume);
        }
        Ok(Self(volumes))
    }

    fn to_value(&self) -> Value {
        Value::List(self.0.iter().map(|volume| Value::Text(volume.spec())).collect())
    }

    fn allowed((): &()) -> String {
        format!(
            "a list of {FORM}: an absolute path of the host, ~/… or the name of a volume; an absolute \
             path in the container; options ro, rw, z, Z, a word for propagation, nocopy"
        )
    }

    fn examples((): &()) -> Vec<String> {
        vec![r#"["/srv/data:/data:ro"]"#.to_owned(), r#"["~/src:/src", "cache:/cache"]"#.to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "pattern": "^[^:]+:/[^:]*(:[^:]+)?$"}})
    }
}
