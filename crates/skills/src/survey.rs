//! What a skill consists of.

use std::path::{Path, PathBuf};

use vestal_sandbox::{Bundle, BundleContent, BundleError};

use crate::skill::INSTRUCTIONS;

/// Endings of files that are programs whatever their permissions say.
const SCRIPTS: [&str; 9] = [".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php"];

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Where it is in the skill's folder.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is a program.
    pub is_script: bool,
}

/// What a skill consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Its files, by path.
    pub files: Vec<FileInfo>,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Survey {
    /// Looks at a folder, as a sandbox would be shown it.
    pub fn of(dir: &Path) -> Result<Self, BundleError> {
        Ok(Self::of_bundle(&Bundle::read(dir)?))
    }

    pub(crate) fn of_bundle(bundle: &Bundle) -> Self {
        let mut survey = Self::default();
        for item in bundle.items() {
            let (bytes, executable) = match &item.content {
                BundleContent::Dir => continue,
                BundleContent::Link(_) => (0, false),
                BundleContent::File { bytes, executable } => (bytes.len() as u64, *executable),
            };
            survey.add(&item.path, bytes, executable);
        }
        survey
    }

    pub(crate) fn add(&mut self, path: &Path, bytes: u64, executable: bool) {
        let name = path.to_string_lossy().to_lowercase();
        let is_script = executable || SCRIPTS.iter().any(|ending| name.ends_with(ending));
        self.files.push(FileInfo { path: path.to_owned(), bytes, is_script });
        self.bytes += bytes;
    }

    /// Returns the programs in it.
    pub fn scripts(&self) -> impl Iterator<Item = &FileInfo> {
        self.files.iter().filter(|file| file.is_script)
    }

    /// Reports whether there is more than the instructions.
    pub fn has_more_than_instructions(&self) -> bool {
        self.files.iter().any(|file| file.path != Path::new(INSTRUCTIONS))
    }
}
