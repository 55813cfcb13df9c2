//! Small files: written by rename, read with a limit.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Far more than any file here needs; a larger one is damaged.
const MAX_BYTES: u64 = 1 << 20;

/// Replaces a file with these bytes: after a crash it is the old one or the new one. Each file has
/// one writer at a time, so that the name of the new one is always the same.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or_else(|| io::Error::other("not in a directory"))?;
    make_dir(dir)?;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let new = dir.join(name);
    let mut file = private().write(true).create(true).truncate(true).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(dir)?.sync_all()
}

/// Reads a file, or nothing if there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // A pipe or a device in place of the file must not keep the reader waiting.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(nonblocking).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(Some(bytes))
}

/// Removes a file that may be gone.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a directory that only its owner can look into, with those above it.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Returns options for a file that only its owner can read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}
