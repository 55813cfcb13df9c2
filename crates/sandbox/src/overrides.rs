//! What is asked for one sandbox alone, and directories of the host that are in it at the
//! same path.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::settings::Volume;

/// Settings of one task's sandbox. They are recorded with it: later callers
/// that ask for nothing get the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// The image, in place of `terminal.docker_image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Where commands start, in place of `terminal.cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The backend, in place of `terminal.backend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// A directory of the host that is the sandbox's workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<PathBuf>,
    /// Directories of the host that are in the sandbox at the same path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binds: Vec<PathBuf>,
    /// What else of the host is mounted, `SOURCE:TARGET[:ro]` as in `terminal.docker_volumes`,
    /// on top of what the settings mount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
}

impl Overrides {
    /// Returns whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these with what they leave open taken from `recorded`.
    #[must_use]
    pub(crate) fn or(self, recorded: &Self) -> Self {
        Self {
            image: self.image.or_else(|| recorded.image.clone()),
            cwd: self.cwd.or_else(|| recorded.cwd.clone()),
            backend: self.backend.or_else(|| recorded.backend.clone()),
            mount: self.mount.or_else(|| recorded.mount.clone()),
            binds: if self.binds.is_empty() { recorded.binds.clone() } else { self.binds },
            volumes: if self.volumes.is_empty() { recorded.volumes.clone() } else { self.volumes },
        }
    }
}

/// Under what name they are among the settings that shape an instance.
pub(crate) const BINDS: &str = "binds";

/// Returns the directories in one fixed form: sorted, each once, and none that
/// is below another one, which has it already.
pub(crate) fn resolve_binds(asked: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut binds = asked.iter().map(|path| checked_bind(path)).collect::<Result<Vec<_>, _>>()?;
    binds.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for bind in binds {
        // By parts of the path, a directory is sorted right before what is in it.
        if kept.last().is_none_or(|above| !bind.starts_with(above)) {
            kept.push(bind);
        }
    }
    Ok(kept)
}

/// Refuses volumes that cannot be mounted as they are written.
pub(crate) fn check_volumes(asked: &[String]) -> Result<(), Error> {
    for spec in asked {
        Volume::parse(spec).map_err(|reason| Error::Bind {
            path: PathBuf::from(spec),
            reason: format!("as a volume it {reason}"),
        })?;
    }
    Ok(())
}

/// Returns the path without needless slashes and dots. The name stays: what is
/// asked for is to be there by that name.
fn checked_bind(path: &Path) -> Result<PathBuf, Error> {
    let refuse = |reason: &str| Error::Bind { path: path.to_owned(), reason: reason.to_owned() };
    if !path.is_absolute() {
        return Err(refuse("it is not an absolute path"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(refuse("it goes up with .."));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(path.components().collect()),
        Ok(_) => Err(refuse("it is not a directory")),
        Err(error) => Err(refuse(&error.to_string())),
    }
}

/// Writes directories as they are among the settings that shape an instance;
/// nothing for none.
pub(crate) fn binds_to_spec(binds: &[PathBuf]) -> Option<String> {
    let names = binds.iter().map(|bind| bind.to_string_lossy().into_owned());
    (!binds.is_empty()).then(|| names.collect::<serde_json::Value>().to_string())
}

/// Reads what [`binds_to_spec`] wrote.
pub(crate) fn binds_from_spec(text: Option<&String>) -> Option<Vec<PathBuf>> {
    text.map_or_else(|| Some(Vec::new()), |text| serde_json::from_str(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_in_one_form_and_none_twice() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for name in ["a", "a/b", "a-b", "c"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let asked =
            [root.join("c/."), root.join("a//b"), root.join("a-b"), root.join("a"), root.join("c")];
        let expected = [root.join("a"), root.join("a-b"), root.join("c")];
        assert_eq!(resolve_binds(&asked).unwrap(), expected);
        let spec = binds_to_spec(&expected);
        assert_eq!(binds_from_spec(spec.as_ref()).unwrap(), expected);
        assert_eq!(binds_from_spec(None), Some(Vec::new()));
        assert_eq!((binds_to_spec(&[]), binds_from_spec(Some(&"x".into()))), (None, None));
    }

    #[test]
    fn what_is_no_directory_by_its_whole_name_is_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (up, missing) = (root.path().join("x/../y"), root.path().join("missing"));
        for path in [Path::new("relative"), Path::new(""), &file, &up, &missing] {
            let refused = resolve_binds(&[path.to_owned()]).unwrap_err();
            assert!(matches!(&refused, Error::Bind { path: named, .. } if named == path));
        }
    }

    #[test]
    fn a_directory_keeps_the_name_it_is_asked_by() {
        let root = tempfile::tempdir().unwrap();
        let (real, link) = (root.path().join("real"), root.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(resolve_binds(std::slice::from_ref(&link)).unwrap(), [link]);
    }
}
