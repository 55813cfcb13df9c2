//! The profiles of a root that each test has to itself.

use std::path::PathBuf;

use vestal_config::{Environment, Home, HomeNotFound, ProfileName};

use crate::{ProfileStart, Profiles};

/// A root, and its profiles.
pub(crate) struct ProfilesFixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) profiles: Profiles,
}

pub(crate) fn name(text: &str) -> ProfileName {
    ProfileName::new(text).expect("a name")
}

impl ProfilesFixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let profiles = Profiles::at(&vestal_api::schema(), dir.path().join("root"));
        Self { dir, profiles }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub(crate) fn create(&self, text: &str) -> Home {
        let made = self.profiles.create(&name(text), &ProfileStart::Empty, "").expect("made");
        made.home
    }

    pub(crate) fn locate(
        &self,
        pairs: &[(&str, &str)],
        flag: Option<&str>,
    ) -> Result<Home, HomeNotFound> {
        Home::locate(&self.env(pairs), flag)
    }

    pub(crate) fn env(&self, pairs: &[(&str, &str)]) -> Environment {
        let root = self.root().to_string_lossy().into_owned();
        let own = [("VESTAL_HOME".to_owned(), root)];
        let more = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::from_pairs(own.into_iter().chain(more))
    }
}
