//! The profile that is used when nobody names one: the file `active_profile`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::site::{self, make_private};
use super::{ProfileError, Profiles};
use crate::home::{Home, HomeError, ProfileName};

const FILE: &str = "active_profile";
/// More than any name has.
const MAX_BYTES: u64 = 256;

/// Returns the home of the profile that is chosen below a root, else of `default`.
pub(crate) fn follow(root: PathBuf) -> Result<Home, HomeError> {
    let file = root.join(FILE);
    let home = Home::at(root);
    let unusable = |problem| HomeError::Choice { file: file.clone(), problem };
    let Some(name) = read(&file).map_err(unusable)? else {
        return Ok(home);
    };
    let home = home.sibling(name);
    if home.profile().is_default() {
        return Ok(home);
    }
    match fs::read_dir(home.dir()) {
        Ok(_) => Ok(home),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(unusable(format!("there is no profile {}", home.profile())))
        }
        Err(error) => Err(unusable(format!("{}: {error}", home.dir().display()))),
    }
}

/// Reads the choice; none when there is none.
fn read(file: &Path) -> Result<Option<ProfileName>, String> {
    match fs::metadata(file) {
        // A root that is no directory, or may not be entered, is for those to
        // tell who need it.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
        Ok(metadata) if !metadata.is_file() => return Err("it is no file".to_owned()),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("it is too long for a name".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    match text.trim() {
        "" => Ok(None),
        name => ProfileName::new(name).map(Some).map_err(|_| format!("{name:?} is no name")),
    }
}

impl Profiles {
    /// Returns the profile that is chosen, if the choice can be read.
    pub fn chosen(&self) -> Option<ProfileName> {
        let chosen = read(&self.choice_file()).ok()?;
        Some(chosen.unwrap_or_else(ProfileName::default_profile))
    }

    /// Chooses the profile that is used when nobody names one. Whatever the
    /// choice was before, and however broken, `default` can be chosen.
    pub fn choose(&self, name: &ProfileName) -> Result<(), ProfileError> {
        let file = self.choice_file();
        if name.is_default() {
            return unset(&file).map_err(ProfileError::io("remove", &file));
        }
        self.existing(name)?;
        clear_the_way(&file).map_err(ProfileError::io("replace", &file))?;
        let root = self.root.dir();
        make_private(&root).map_err(ProfileError::io("make", &root))?;
        let text = format!("{name}\n");
        site::replace(&file, 0o600, text.as_bytes()).map_err(ProfileError::io("write", &file))
    }

    /// Replaces the choice where it is this profile.
    pub(super) fn rechoose(
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

    fn choice_file(&self) -> PathBuf {
        self.root.dir().join(FILE)
    }
}

fn unset(file: &Path) -> std::io::Result<()> {
    clear_the_way(file)?;
    match fs::remove_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Moves a directory out of the way that stands where the file should.
fn clear_the_way(file: &Path) -> std::io::Result<()> {
    if !fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    let mut aside = file.as_os_str().to_owned();
    aside.push(format!(".aside-{}", site::unique()));
    fs::rename(file, aside)
}
