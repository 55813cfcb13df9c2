//! Bundles on a directory of the host.
//!
//! A version is a directory whose name holds its digest, and the name it is
//! shown under a link to it, which is replaced in one step. So a process that
//! opens a file sees one version or the other, and a crash leaves at most rubbish that
//! the next one sweeps.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use super::PublishedName;
use super::bundle::{Bundle, BundleContent, BundleItem};
use crate::key::random_hex;

/// Returns the name of a version's directory. Names have no dots, so that a
/// version is never taken for one of another name.
pub(crate) fn version_name(name: &PublishedName, bundle: &Bundle) -> String {
    format!(".{}.{}", name.name(), bundle.digest())
}

/// Puts a bundle below `root`, a directory that is there, unless it is there
/// already, whole. Versions before it are removed.
///
/// Only for one at a time: the caller holds a lock.
pub(crate) fn lay_out(root: &Path, name: &PublishedName, bundle: &Bundle) -> io::Result<()> {
    let shelf = root.join(name.shelf());
    make_dir(&shelf)?;
    let version = version_name(name, bundle);
    let (place, link) = (shelf.join(&version), shelf.join(name.name()));
    let is_shown = fs::read_link(&link).is_ok_and(|target| target.as_os_str() == &*version);
    // Who is root on the host itself can have changed it.
    let is_whole = Bundle::read(&place).is_ok_and(|there| there.digest() == bundle.digest());
    if !is_whole {
        let made = shelf.join(format!("{version}.{}", random_hex::<4>()?));
        write(&made, bundle)?;
        if place.symlink_metadata().is_ok() {
            fs::rename(&place, shelf.join(format!("{version}.{}", random_hex::<4>()?)))?;
        }
        fs::rename(&made, &place)?;
    }
    if !is_shown {
        let new = shelf.join(format!("{version}.{}", random_hex::<4>()?));
        symlink(&version, &new)?;
        if fs::symlink_metadata(&link).is_ok_and(|found| found.is_dir()) {
            // None of ours: a link cannot take its place.
            fs::rename(&link, shelf.join(format!("{version}.{}", random_hex::<4>()?)))?;
        }
        fs::rename(&new, &link)?;
    }
    sweep(&shelf, name, &version);
    Ok(())
}

fn write(root: &Path, bundle: &Bundle) -> io::Result<()> {
    make_dir(root)?;
    for BundleItem { path, content } in bundle.items() {
        let path = root.join(path);
        match content {
            BundleContent::Dir => make_dir(&path)?,
            BundleContent::Link(target) => symlink(target, &path)?,
            BundleContent::File { bytes, executable } => {
                let mode = if *executable { 0o555 } else { 0o444 };
                let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
                file.write_all(bytes)?;
                // Beside who may write, the user's umask has no say in this.
                file.set_permissions(fs::Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(())
}

/// Makes a directory that everyone may read, unless it is there. Its owner may
/// write to it, or nobody could remove it again.
fn make_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(0o755)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !dir.is_symlink() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes other versions, and what a crash left of one.
fn sweep(shelf: &Path, name: &PublishedName, version: &str) {
    let prefix = format!(".{}.", name.name());
    for entry in fs::read_dir(shelf).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let is_other = found.to_str().is_some_and(|own| own.starts_with(&prefix) && own != version);
        if !is_other {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed =
            if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        if let Err(error) = removed {
            // It is met again next time.
            tracing::debug!(%error, path = %entry.path().display(), "left for later");
        }
    }
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
