//! The profiles of one root: which is chosen, rename, delete.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use vestal_config::{Environment, Home, HomeNotFound, ProfileName, Schema};

use crate::error::ProfileError;
use crate::site::{self, make_private};

/// The profiles of one root.
#[derive(Debug, Clone)]
pub struct Profiles {
    pub(crate) schema: Schema,
    pub(crate) root: Home,
}

impl Profiles {
    /// Finds the root that the environment names.
    pub fn locate(schema: &Schema, env: &Environment) -> Result<Self, HomeNotFound> {
        Home::locate_root(env).map(|root| Self { schema: schema.clone(), root })
    }

    /// Returns the profiles below a root.
    pub fn at(schema: &Schema, root: impl Into<PathBuf>) -> Self {
        Self { schema: schema.clone(), root: Home::at(root) }
    }

    /// Returns the home of the profile `default`.
    pub fn root(&self) -> &Home {
        &self.root
    }

    /// Returns the profile that is chosen, if the choice can be read.
    pub fn chosen(&self) -> Option<ProfileName> {
        let chosen = self.root.chosen_profile().ok()?;
        Some(chosen.unwrap_or_else(ProfileName::default_profile))
    }

    /// Chooses the profile that is used when nobody names one. Whatever the
    /// choice was before, and however broken, `default` can be chosen.
    pub fn choose(&self, name: &ProfileName) -> Result<(), ProfileError> {
        let file = self.root.choice_file();
        if name.is_default() {
            return unset(&file).map_err(ProfileError::io("remove", &file));
        }
        self.existing(name)?;
        remove_leftover(&file).map_err(ProfileError::io("replace", &file))?;
        let root = self.root.dir();
        make_private(&root).map_err(ProfileError::io("make", &root))?;
        let text = format!("{name}\n");
        site::replace(&file, 0o600, text.as_bytes()).map_err(ProfileError::io("write", &file))
    }

    /// Replaces the choice where it is this profile.
    pub(crate) fn rechoose(
        &self,
        was: &ProfileName,
        now: &ProfileName,
    ) -> Result<bool, ProfileError> {
        if self.chosen().as_ref() != Some(was) {
            return Ok(false);
        }
        self.choose(now)?;
        Ok(true)
    }

    /// Gives a profile another name, and follows it with the choice that stays.
    /// The directory moves as a whole; `home.json` and with it the home's id stay.
    ///
    /// Sandboxes know their profile by name: the caller makes sure that the profile
    /// has no instances.
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

    /// Deletes a profile's files, and goes back to `default` where it was chosen.
    ///
    /// Its sandboxes are not known here: the caller has removed them.
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

fn unset(file: &Path) -> std::io::Result<()> {
    remove_leftover(file)?;
    match fs::remove_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Moves a directory out of the way that stands where the file should.
fn remove_leftover(file: &Path) -> std::io::Result<()> {
    if !fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    let mut aside = file.as_os_str().to_owned();
    aside.push(format!(".aside-{}", site::unique()));
    fs::rename(file, aside)
}
