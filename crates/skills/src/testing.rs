//! What the tests stand on: a home with skills.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use vestal_config::{Environment, Home, Override, Settings};

use crate::skills::{Skills, from_settings};

/// A home of a profile.
pub(crate) struct SkillHome {
    dir: TempDir,
}

impl SkillHome {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file below the home.
    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        put(self.dir.path(), path, text);
        self
    }

    /// Installs a skill by hand, with more lines of front matter.
    pub(crate) fn skill(&self, place: &str, more: &str) -> &Self {
        let name = place.rsplit('/').next().unwrap();
        self.put(&format!("skills/{place}/SKILL.md"), text(name, more))
    }

    pub(crate) fn settings(&self, env: &[(&str, &str)], sets: &[&str]) -> Settings {
        let path = Environment::capture();
        let path = path.get("PATH").unwrap_or_default().to_str().unwrap();
        let user = self.dir.path().to_str().unwrap();
        let pairs = [("PATH", path), ("HOME", user)].into_iter().chain(env.iter().copied());
        let sets = sets
            .iter()
            .map(|text| {
                Override::parse(&vestal_agent::schema().with([&crate::keys::GROUP]), text).unwrap()
            })
            .collect();
        Settings::load(
            &vestal_agent::schema().with([&crate::keys::GROUP]),
            Home::at(self.dir.path()),
            Environment::from_pairs(pairs),
            sets,
        )
    }

    pub(crate) fn skills(&self) -> Skills {
        self.skills_with(&[])
    }

    pub(crate) fn skills_with(&self, env: &[(&str, &str)]) -> Skills {
        from_settings(&Arc::new(self.settings(env, &[])))
    }

    /// Returns the names in the folder of skills, hidden ones too.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("skills")).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }
}

/// Returns the text of a `SKILL.md`.
pub(crate) fn text(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}.\n{more}---\nHow {name} is done.\n")
}

/// Writes a file, executable when it begins as scripts do.
pub(crate) fn put(dir: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, &text).unwrap();
    if text.as_ref().starts_with(b"#!") {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}
