//! Make a profile.

use std::path::{Path, PathBuf};

use super::site::write_new;
use super::{ProfileError, Profiles, copy, description};
use crate::home::{Home, ProfileName};

/// What a new profile's `.env` says.
pub(super) const ENV_HEADER: &str =
    "# Secrets of this profile, as NAME=value. Keep it readable by you alone.\n";

/// Files of a profile that another may begin with, and the mode they get.
const FILES: &[(&str, u32)] = &[("config.yaml", 0o600), (".env", 0o600), ("SOUL.md", 0o600)];
/// Directories of a profile that another may begin with.
const TREES: &[&str] = &["skills", "memories"];

/// What a new profile begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Nothing.
    Empty,
    /// Settings, secrets, persona, skills and memories of another profile; none
    /// of its conversations and sandboxes.
    CloneOf(ProfileName),
}

/// A profile that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its home.
    pub home: Home,
    /// What was not copied because it is neither a file nor a directory.
    pub left_out: Vec<PathBuf>,
}

impl Profiles {
    /// Makes a profile. It is there as a whole or not at all; of several
    /// processes that make one of the same name one succeeds.
    pub fn create(
        &self,
        name: &ProfileName,
        start: &Start,
        description: &str,
    ) -> Result<Created, ProfileError> {
        let description = description::checked(description)?;
        // Asked before anything is made, and again under the lock.
        self.vacant(name)?;
        let site = self.lock()?;
        let home = self.vacant(name)?;
        let source = match start {
            Start::Empty => None,
            Start::CloneOf(source) => Some(self.existing(source)?),
        };
        let left_out = site.build(&home.dir(), |new| {
            let left_out = match &source {
                Some(source) => begin_with(&source.dir(), new)?,
                None => Vec::new(),
            };
            finish(new, &description)?;
            Ok(left_out)
        })?;
        Ok(Created { home, left_out })
    }
}

fn begin_with(source: &Path, new: &Path) -> Result<Vec<PathBuf>, ProfileError> {
    let mut left_out = Vec::new();
    for (name, mode) in FILES {
        copy::file(&source.join(name), &new.join(name), *mode)?;
    }
    for name in TREES {
        copy::tree(&source.join(name), &new.join(name), 0, &mut left_out)?;
    }
    Ok(left_out)
}

/// Adds what every profile has.
pub(super) fn finish(new: &Path, description: &str) -> Result<(), ProfileError> {
    let env = new.join(".env");
    if !env.exists() {
        write_new(&env, 0o600, ENV_HEADER.as_bytes()).map_err(ProfileError::io("write", &env))?;
    }
    description::write(new, description)
}
