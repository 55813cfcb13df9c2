//! Homes for tests.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::{Environment, Home, Override, Settings};

/// A home in a temporary directory, removed when dropped.
pub(crate) struct TestHome {
    dir: TempDir,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn with_config(text: impl AsRef<[u8]>) -> Self {
        Self::new().config(text)
    }

    pub(crate) fn config(self, text: impl AsRef<[u8]>) -> Self {
        fs::write(self.home().config_file(), text).expect("config.yaml written");
        self
    }

    pub(crate) fn dotenv(self, text: impl AsRef<[u8]>) -> Self {
        use std::os::unix::fs::PermissionsExt;
        fs::write(self.home().env_file(), text).expect(".env written");
        fs::set_permissions(self.home().env_file(), fs::Permissions::from_mode(0o600))
            .expect("mode set");
        self
    }

    pub(crate) fn home(&self) -> Home {
        Home::at(self.dir.path())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read_config(&self) -> String {
        fs::read_to_string(self.home().config_file()).expect("config.yaml read")
    }

    pub(crate) fn settings(&self, env: &[(&str, &str)], sets: &[&str]) -> Settings {
        let overrides =
            sets.iter().map(|text| Override::parse(&crate::schema(), text).expect("an assignment"));
        let env = Environment::from_pairs(env.iter().copied());
        Settings::load(&crate::schema(), self.home(), env, overrides.collect())
    }
}
