//! Homes for tests of settings.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use vestal_config::{Environment, Home, Override, SettingFinding, Settings};

/// A home in a temporary directory, removed when dropped.
pub(crate) struct TestHome {
    dir: TempDir,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn with_config(text: &str) -> Self {
        let home = Self::new();
        fs::write(home.path("config.yaml"), text).unwrap();
        home
    }

    pub(crate) fn dotenv(self, text: &str) -> Self {
        fs::write(self.path(".env"), text).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn settings(&self, env: &[(&str, &str)], sets: &[&str]) -> Settings {
        let overrides = sets.iter().map(|text| Override::parse(&crate::schema(), text).unwrap());
        let env = Environment::from_pairs(env.iter().copied());
        Settings::load(&crate::schema(), Home::at(self.dir.path()), env, overrides.collect())
    }

    /// Returns what is wrong with the settings as text, with the path of the home taken out.
    pub(crate) fn findings(&self, env: &[(&str, &str)]) -> Vec<String> {
        let root = format!("{}/", self.dir.path().display());
        let text = |finding: SettingFinding| {
            format!("{:?}: {}", finding.severity, finding.message.replace(&root, ""))
        };
        self.settings(env, &[]).check().into_iter().map(text).collect()
    }
}
