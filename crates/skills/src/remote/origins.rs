//! Where installed skills are from: on record beside them, so that they can be updated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SkillSource;
use crate::error::SkillError;
use crate::manage::Staging;
use crate::package::Package;
use crate::skills::Skills;

/// The file, in the folder of skills. Nobody looks at what is hidden there.
const FILE: &str = ".origins.json";

/// The version of the file.
const VERSION: u32 = 1;

/// Where an installed skill is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillOrigin {
    /// The repository, or the archive.
    pub url: String,
    /// The branch or tag that it follows; none: what the repository shows first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Where it is in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The commit that is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What was installed, to be known again.
    #[serde(default)]
    pub(crate) digest: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct OriginsFile {
    version: u32,
    #[serde(default)]
    skills: BTreeMap<String, SkillOrigin>,
}

impl SkillOrigin {
    /// Returns where an update comes from.
    pub fn source(&self) -> SkillSource {
        match &self.commit {
            Some(_) => SkillSource::Git {
                url: self.url.clone(),
                reference: self.reference.clone(),
                path: self.path.clone(),
            },
            None => SkillSource::Archive { url: self.url.clone() },
        }
    }

    /// Returns it in a line.
    pub fn in_words(&self) -> String {
        let path = self.path.as_ref().map(|path| format!(", {path}")).unwrap_or_default();
        let commit = self.commit.as_ref().map(|commit| {
            let short = commit.get(..12).unwrap_or(commit);
            format!(", commit {short}")
        });
        format!("{}{path}{}", self.url, commit.unwrap_or_default())
    }
}

impl Skills {
    /// Returns the skills that are from elsewhere, by name.
    pub fn origins(&self) -> Result<BTreeMap<String, SkillOrigin>, SkillError> {
        Ok(read(self.root())?.skills)
    }

    /// Reports whether the files of a skill are others than those that were installed.
    pub fn is_changed_here(&self, name: &str) -> Result<bool, SkillError> {
        let Some(origin) = self.origins()?.remove(name) else { return Ok(false) };
        let dir = self.located(name)?.dir;
        // What cannot be read any more is not what was installed.
        Ok(Package::open(&dir).map_or(true, |package| digest(&package) != origin.digest))
    }

    /// Notes where a skill is from, or that it is from nowhere else any more.
    pub(crate) fn note_origin(
        &self,
        _: &Staging,
        name: &str,
        origin: Option<SkillOrigin>,
    ) -> Result<(), SkillError> {
        let mut file = read(self.root())?;
        let before = file.skills.remove(name);
        if before.is_none() && origin.is_none() {
            return Ok(());
        }
        if let Some(origin) = origin {
            file.skills.insert(name.to_owned(), origin);
        }
        file.version = VERSION;
        write(self.root(), &file)
    }
}

fn path(root: &Path) -> PathBuf {
    root.join(FILE)
}

fn read(root: &Path) -> Result<OriginsFile, SkillError> {
    let path = path(root);
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(OriginsFile::default());
        }
        read => read.map_err(SkillError::io("read", &path))?,
    };
    let file: OriginsFile = serde_json::from_slice(&text).map_err(|error| {
        SkillError::io("understand", &path)(std::io::Error::other(error.to_string()))
    })?;
    if file.version > VERSION {
        let newer = std::io::Error::other("it is of a newer program");
        return Err(SkillError::io("use", &path)(newer));
    }
    Ok(file)
}

fn write(root: &Path, file: &OriginsFile) -> Result<(), SkillError> {
    let path = path(root);
    let new = root.join(".file-origins");
    let written = serde_json::to_vec_pretty(file)
        .map_err(std::io::Error::from)
        .and_then(|text| std::fs::write(&new, text))
        .and_then(|()| std::fs::rename(&new, &path));
    written.map_err(SkillError::io("write", &path))
}

/// Returns what tells one package from another.
pub(crate) fn digest(package: &Package) -> String {
    let mut hasher = Sha256::new();
    for (path, file) in &package.files {
        let name = path.to_string_lossy();
        // Lengths keep one file from being read as two.
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update([u8::from(file.executable)]);
        hasher.update((file.bytes.len() as u64).to_le_bytes());
        hasher.update(&file.bytes);
    }
    hasher.finalize().iter().fold(String::new(), |mut text, byte| {
        use std::fmt::Write as _;
        // A text always takes more.
        write!(text, "{byte:02x}").ok();
        text
    })
}
