//! Delete a profile.

use super::{ProfileError, Profiles};
use crate::home::{Home, ProfileName};

impl Profiles {
    /// Deletes a profile's files, and goes back to `default` where it was chosen.
    ///
    /// Its sandboxes are not known here: whoever calls this has removed them.
    pub fn delete(&self, name: &ProfileName) -> Result<(), ProfileError> {
        let site = self.lock()?;
        let home = self.check_delete(name)?;
        self.rechoose(name, &ProfileName::default_profile())?;
        site.discard(&home.dir())
    }

    /// Returns the home of a profile that may be deleted.
    pub fn check_delete(&self, name: &ProfileName) -> Result<Home, ProfileError> {
        if name.is_default() {
            return Err(ProfileError::Default { done: "deleted" });
        }
        self.existing(name)
    }
}
