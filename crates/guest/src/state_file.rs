//! Files in the guest's state directory.
//!
//! If jobs run as the guest's own user, they can put anything there. Opening one of
//! these files never blocks, follows no link, and returns a regular file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens an existing file.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // A pipe would block until its other end is opened, a leased file until its
    // holder releases it.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a file")) }
}

/// Opens an existing file for reading.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Opens a file, and creates it if it is missing. Removes whatever is not a
/// regular file.
pub(crate) fn make(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let options = options.create(true).mode(0o600);
    open(path, options).or_else(|error| {
        if !clear(path)? {
            return Err(error);
        }
        open(path, options)
    })
}

/// Removes whatever is not a regular file. Returns whether something was removed.
pub(crate) fn clear(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(false),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).map(|()| true),
        Ok(_) => fs::remove_file(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether something other than a regular file is at this path.
pub(crate) fn is_foreign(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn plant(kind: &str, path: &Path) {
        match kind {
            "pipe" => {
                let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
                rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
            }
            "link" => symlink("/dev/zero", path).unwrap(),
            "link to nothing" => symlink(path.with_extension("elsewhere"), path).unwrap(),
            "directory" => fs::create_dir_all(path.join("deeper")).unwrap(),
            "socket" => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
            other => unreachable!("{other}"),
        }
    }

    #[test]
    fn nothing_that_is_put_in_a_files_place_is_waited_for_or_followed() {
        let dir = tempfile::tempdir().unwrap();
        for kind in ["pipe", "link", "link to nothing", "directory", "socket"] {
            let path = dir.path().join("file");
            plant(kind, &path);
            open_to_read(&path).unwrap_err();
            open(&path, OpenOptions::new().append(true)).unwrap_err();
            assert!(is_foreign(&path), "{kind}");
            let made = make(&path, OpenOptions::new().append(true)).unwrap();
            assert!(made.metadata().unwrap().is_file(), "{kind}");
            assert!(!is_foreign(&path) && !clear(&path).unwrap(), "{kind}");
            fs::remove_file(&path).unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{kind}");
        }
    }
}
