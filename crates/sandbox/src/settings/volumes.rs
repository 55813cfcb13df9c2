//! What of the host is mounted into sandboxes with a system of their own, as `docker run -v` takes it.

use std::path::Path;

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, expand, texts};
use vestal_config::{Setting, SettingValue};

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
            target: mount_target(target)?,
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
        exposes(path).map(|what| format!("{} mounts {what}", self.spec()))
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

pub(crate) fn is_volume_name(name: &str) -> bool {
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

    /// Returns these with what one sandbox alone mounts. What the settings mount at a target
    /// stays there.
    #[must_use]
    pub(crate) fn and(mut self, specs: &[String]) -> Self {
        for volume in specs.iter().filter_map(|spec| Volume::parse(spec).ok()) {
            if self.0.iter().all(|other| other.target != volume.target) {
                self.0.push(volume);
            }
        }
        self
    }

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

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let specs = texts(input, "write it as [\"/host/path:/container/path\"]")?;
        let mut volumes: Vec<Volume> = Vec::new();
        for spec in &specs {
            let volume = Volume::parse(spec)
                .map_err(|reason| ValueRefusal::new(format!("holds {spec:?}, which {reason}")))?;
            if volumes.iter().any(|other| other.target == volume.target) {
                let target = &volume.target;
                return Err(ValueRefusal::new(format!("mounts two things at {target}")));
            }
            volumes.push(volume);
        }
        Ok(Self(volumes))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::List(self.0.iter().map(|volume| SettingValue::Text(volume.spec())).collect())
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

/// Where the guest and what belongs to it are in a container; nobody else's.
const OWN_DIR: &str = "/.vestal";

/// A path on the host: absolute, or below the user's home as `~` or `~/…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPath(String);

impl HostPath {
    /// Makes a path, unless it is relative or cannot be one.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.contains('\0') {
            return Err("contains a NUL character".to_owned());
        }
        if text.starts_with('/') || text == "~" || text.starts_with("~/") {
            return Ok(Self(text.to_owned()));
        }
        if text.starts_with('~') {
            return Err("is in another user's home, which is not looked up".to_owned());
        }
        Err("is a relative path".to_owned())
    }

    /// Returns the path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the absolute path; none when it is below the user's home and
    /// that is unknown.
    pub fn resolve(&self, user_home: Option<&Path>) -> Option<String> {
        let path = expand(Path::new(&self.0), user_home);
        path.is_absolute().then(|| path.to_string_lossy().into_owned())
    }
}

/// How mounts made later on one side of a bind mount are seen on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Not at all.
    Private,
    /// Not at all, nor for mounts below it.
    Rprivate,
    /// On both sides.
    Shared,
    /// On both sides, also for mounts below it.
    Rshared,
    /// The host's in the container.
    Slave,
    /// The host's in the container, also for mounts below it.
    Rslave,
}

impl Propagation {
    const WORDS: [(&'static str, Self); 6] = [
        ("private", Self::Private),
        ("rprivate", Self::Rprivate),
        ("shared", Self::Shared),
        ("rshared", Self::Rshared),
        ("slave", Self::Slave),
        ("rslave", Self::Rslave),
    ];

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(own, _)| *own == word).map(|(_, value)| *value)
    }

    /// Returns the word that engines take.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Rprivate => "rprivate",
            Self::Shared => "shared",
            Self::Rshared => "rshared",
            Self::Slave => "slave",
            Self::Rslave => "rslave",
        }
    }
}

/// Reads the place of a mount in a container: an absolute path, which is
/// returned without needless slashes and dots.
pub(crate) fn mount_target(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("has the target {text:?}, which is not an absolute path"));
    }
    if text.contains('\0') {
        return Err("has a target with a NUL character".to_owned());
    }
    let mut path = String::new();
    for part in text.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            return Err(format!("has the target {text:?}, which goes up with .."));
        }
        path.push('/');
        path.push_str(part);
    }
    if path.is_empty() {
        return Err("has the target /, which would hide the image".to_owned());
    }
    if path == OWN_DIR || path.starts_with("/.vestal/") {
        return Err(format!("has the target {text:?}, where Vestal's own files are"));
    }
    Ok(path)
}

/// Resolves `.` and `..` by name, as far as that is possible without looking.
fn lexical(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}

/// Names that sockets of engines have, wherever they are.
const SOCKETS: [&str; 3] = ["docker.sock", "podman.sock", "containerd.sock"];

/// Directories that hold such a socket.
const SOCKET_DIRS: [&str; 5] =
    ["/run", "/run/user", "/run/docker", "/run/podman", "/run/containerd"];

/// Says what a path of the host gives away when it is mounted, if that is the
/// host itself or the means to control it.
pub(crate) fn exposes(path: &HostPath) -> Option<String> {
    let resolved = lexical(path.as_str());
    if resolved == "/" {
        return Some("the whole filesystem of the host".to_owned());
    }
    let name = resolved.rsplit('/').next().unwrap_or_default();
    if SOCKETS.contains(&name) {
        return Some("the socket of a container engine".to_owned());
    }
    // `/var/run` is a link to `/run` everywhere.
    let below_run =
        resolved.strip_prefix("/var").filter(|rest| *rest == "/run" || rest.starts_with("/run/"));
    let place = below_run.unwrap_or(&resolved);
    let users = place.strip_prefix("/run/user/").is_some_and(|rest| {
        let rest = rest.strip_suffix("/podman").unwrap_or(rest);
        rest.bytes().all(|b| b.is_ascii_digit())
    });
    (users || SOCKET_DIRS.contains(&place))
        .then(|| "a directory that holds the sockets of container engines".to_owned())
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
