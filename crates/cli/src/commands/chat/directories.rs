//! Which of the user's directories a chat may work on: asked once for each.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The format of the file.
const VERSION: u32 = 1;

/// What a directory has at its root that somebody works on.
const MARKS: &[&str] = &[
    ".git",
    ".hg",
    ".jj",
    "AGENTS.md",
    "CLAUDE.md",
    "Cargo.toml",
    "CMakeLists.txt",
    "Gemfile",
    "Makefile",
    "build.gradle",
    "composer.json",
    "deno.json",
    "go.mod",
    "mix.exs",
    "package.json",
    "pom.xml",
    "pyproject.toml",
    "requirements.txt",
    "setup.py",
];

/// The answers that were given, in a file of the profile.
#[derive(Debug)]
pub(super) struct Directories {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct DirectoryConsents {
    version: u32,
    directories: BTreeMap<String, DirectoryConsent>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct DirectoryConsent {
    mount: bool,
}

impl Directories {
    pub(super) fn of(home: &Path) -> Self {
        Self { path: home.join("directories.json") }
    }

    /// Returns what was answered for a directory. A file that cannot be read
    /// knows of no answers, and the question is asked again.
    pub(super) fn answer(&self, dir: &Path) -> Option<bool> {
        Some(self.read().ok()??.directories.get(dir.to_str()?)?.mount)
    }

    /// Keeps an answer.
    pub(super) fn keep(&self, dir: &Path, mount: bool) -> io::Result<()> {
        let Some(name) = dir.to_str() else { return Ok(()) };
        let parent = self.path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        // It may be the first thing in the profile's home, which is nobody else's.
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        // The lock of the directory: one on the file would not outlive its replacement.
        let directory = File::open(parent)?;
        directory.lock()?;
        let mut answers = self.read()?.unwrap_or_else(|| DirectoryConsents {
            version: VERSION,
            directories: BTreeMap::new(),
        });
        answers.directories.insert(name.to_owned(), DirectoryConsent { mount });
        let new = parent.join(".directories.json.new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(serde_json::to_string_pretty(&answers)?.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }

    /// Reads the file; nothing where there is none. One that says something else
    /// is an error, so that it is not written over.
    fn read(&self) -> io::Result<Option<DirectoryConsents>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let answers: DirectoryConsents = serde_json::from_str(&text)?;
        if answers.version != VERSION {
            let problem = format!("{} is of a newer version", self.path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(Some(answers))
    }
}

/// Reports whether somebody works on a directory. A person's home and the root
/// of everything are not projects, whatever lies in them.
pub(super) fn is_project(dir: &Path, home: Option<&Path>) -> bool {
    let is_too_much = dir.parent().is_none() || home.is_some_and(|home| home.starts_with(dir));
    !is_too_much && MARKS.iter().any(|mark| dir.join(mark).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_remembered_for_its_directory_alone() {
        let dir = tempfile::tempdir().unwrap();
        let directories = Directories::of(&dir.path().join("home"));
        assert_eq!(directories.answer(Path::new("/a")), None);
        directories.keep(Path::new("/a"), true).unwrap();
        directories.keep(Path::new("/b"), false).unwrap();
        directories.keep(Path::new("/b"), true).unwrap();
        directories.keep(Path::new("/c"), false).unwrap();
        let answers = ["/a", "/b", "/c", "/d"].map(|dir| directories.answer(Path::new(dir)));
        assert_eq!(answers, [Some(true), Some(true), Some(false), None]);
    }

    #[test]
    fn the_home_that_an_answer_makes_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        Directories::of(&home).keep(Path::new("/a"), true).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&home), 0o700);
        assert_eq!(mode(&home.join("directories.json")), 0o600);
    }

    #[test]
    fn a_file_that_says_something_else_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("directories.json");
        for text in ["nonsense", "[]", "{\"version\": 2, \"directories\": {}}"] {
            fs::write(&path, text).unwrap();
            let directories = Directories::of(dir.path());
            assert_eq!(directories.answer(Path::new("/a")), None);
            directories.keep(Path::new("/a"), true).unwrap_err();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_home_is_no_project() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        fs::create_dir(&project).unwrap();
        assert!(!is_project(&project, None));
        fs::write(project.join("Cargo.toml"), "").unwrap();
        assert!(is_project(&project, Some(dir.path())));
        assert!(!is_project(&project, Some(&project)));
        assert!(!is_project(&project, Some(&project.join("ada"))));
        assert!(!is_project(Path::new("/"), None));
    }
}
