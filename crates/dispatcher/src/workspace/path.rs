//! Paths that may be worked in.

use std::path::{Component, Path};
use std::{fs, io};

use super::WorkspaceError;

/// Refuses a path that could mean another place than it says: one that is not
/// absolute, that goes up, or that leads through a symbolic link. Two tasks with
/// the same directory would not be seen to have it, and whoever can plant a link
/// could have a worker let loose on any directory.
pub(super) fn check(path: &Path) -> Result<(), WorkspaceError> {
    if !path.is_absolute() {
        return Err(WorkspaceError::path(path, "the path is not absolute"));
    }
    let plain = path
        .components()
        .all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    if !plain || path.as_os_str().as_encoded_bytes().windows(3).any(|part| part == b"/./") {
        return Err(WorkspaceError::path(path, "the path has . or .. in it"));
    }
    if path.parent().is_none() {
        return Err(WorkspaceError::path(path, "it is the root of all files"));
    }
    let mut existing = path;
    let real = loop {
        match fs::canonicalize(existing) {
            Ok(real) => break real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A link that leads nowhere is there all the same.
                if fs::symlink_metadata(existing).is_ok() {
                    return Err(WorkspaceError::path(
                        path,
                        format!("{} is a symbolic link that leads nowhere", existing.display()),
                    ));
                }
                existing = existing
                    .parent()
                    .ok_or_else(|| WorkspaceError::path(path, "no part of it exists"))?;
            }
            Err(error) => return Err(WorkspaceError::io("look at", existing)(error)),
        }
    };
    if real != existing {
        return Err(WorkspaceError::path(
            path,
            format!(
                "{} leads through a symbolic link to {}; give that path",
                existing.display(),
                real.display()
            ),
        ));
    }
    Ok(())
}

/// Makes a directory to work in, unless it is there.
pub(super) fn make_dir(path: &Path) -> Result<(), WorkspaceError> {
    check(path)?;
    fs::create_dir_all(path).map_err(WorkspaceError::io("make", path))?;
    // Once more: somebody may have put a link there in the meantime.
    check(path)?;
    if path.is_dir() { Ok(()) } else { Err(WorkspaceError::path(path, "it is not a directory")) }
}
