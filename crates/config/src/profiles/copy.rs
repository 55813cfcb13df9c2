//! Copying what a profile begins with.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::ProfileError;
use super::site::{make_private, write_new};

/// Nobody nests deeper than this on purpose.
pub(super) const MAX_DEPTH: usize = 32;

/// Copies a file of the top level, following a link to where it is kept. A file
/// that is not there is left out.
pub(super) fn file(from: &Path, to: &Path, mode: u32) -> Result<bool, ProfileError> {
    match fs::metadata(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(ProfileError::io("read", from)(error)),
        Ok(metadata) if !metadata.is_file() => {
            let reason = "it is no file".to_owned();
            return Err(ProfileError::Damaged { path: from.to_owned(), reason });
        }
        Ok(_) => {}
    }
    let bytes = fs::read(from).map_err(ProfileError::io("read", from))?;
    write_new(to, mode, &bytes).map_err(ProfileError::io("write", to))?;
    Ok(true)
}

/// Copies a tree of files and directories, and notes what is neither: a link
/// could lead back into the profile that was copied, or anywhere.
pub(super) fn tree(
    from: &Path,
    to: &Path,
    depth: usize,
    left_out: &mut Vec<PathBuf>,
) -> Result<(), ProfileError> {
    match fs::symlink_metadata(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ProfileError::io("read", from)(error)),
        Ok(metadata) if metadata.is_dir() && depth < MAX_DEPTH => {}
        Ok(metadata) if metadata.is_file() => {
            let executable = metadata.permissions().mode() & 0o100 != 0;
            return file(from, to, if executable { 0o700 } else { 0o600 }).map(drop);
        }
        Ok(_) => {
            left_out.push(from.to_owned());
            return Ok(());
        }
    }
    make_private(to).map_err(ProfileError::io("make", to))?;
    for entry in fs::read_dir(from).map_err(ProfileError::io("read", from))? {
        let entry = entry.map_err(ProfileError::io("read", from))?;
        tree(&entry.path(), &to.join(entry.file_name()), depth + 1, left_out)?;
    }
    Ok(())
}
