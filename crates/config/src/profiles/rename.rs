//! Give a profile another name.

use std::fs;

use super::{ProfileError, Profiles};
use crate::home::{Home, ProfileName};

impl Profiles {
    /// Gives a profile another name, and follows it with the choice that stays.
    /// The directory moves as a whole; `home.json` and with it the home's id stay.
    ///
    /// Sandboxes know their profile by name: whoever calls this has seen to it
    /// that the profile has no instances.
    pub fn rename(&self, from: &ProfileName, to: &ProfileName) -> Result<Home, ProfileError> {
        let site = self.lock()?;
        let (old, new) = self.check_rename(from, to)?;
        fs::rename(old.dir(), new.dir()).map_err(ProfileError::io("rename", &old.dir()))?;
        site.sync()?;
        self.rechoose(from, to)?;
        Ok(new)
    }

    /// Returns both homes of a renaming that would succeed.
    pub fn check_rename(
        &self,
        from: &ProfileName,
        to: &ProfileName,
    ) -> Result<(Home, Home), ProfileError> {
        if from.is_default() {
            return Err(ProfileError::Default { done: "renamed" });
        }
        Ok((self.existing(from)?, self.vacant(to)?))
    }
}
