//! Skills in tar archives.

use std::io::{self, Read};

use tar::EntryType;

use super::Package;
use super::unpacking::{Kind, MAX_ENTRIES, Unpacking};

/// Bytes that an archive may unpack to, with what is left out of it.
pub(super) const MAX_UNPACKED: u64 = 256 << 20;

/// Reads an archive from its beginning to its end.
pub(super) fn read(archive: impl Read) -> Result<Package, String> {
    let mut unpacking = Unpacking::default();
    let mut limited = archive.take(MAX_UNPACKED);
    let done = all(&mut unpacking, tar::Archive::new(&mut limited));
    // An end that was reached too soon looks like damage.
    if limited.limit() == 0 {
        return Err(format!("it unpacks to more than {} MiB", MAX_UNPACKED >> 20));
    }
    done?;
    unpacking.package()
}

fn all(unpacking: &mut Unpacking, mut archive: tar::Archive<impl Read>) -> Result<(), String> {
    let damaged = |error: io::Error| format!("it is damaged: {error}");
    for (looked, entry) in archive.entries().map_err(damaged)?.enumerate() {
        if looked >= MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
        one(unpacking, entry.map_err(damaged)?)?;
    }
    Ok(())
}

fn one(unpacking: &mut Unpacking, entry: tar::Entry<'_, impl Read>) -> Result<(), String> {
    let kind = match entry.header().entry_type() {
        EntryType::XGlobalHeader => return Ok(()),
        EntryType::Regular => Kind::File,
        EntryType::Directory => Kind::Folder,
        EntryType::Link | EntryType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    let path = entry.path_bytes().into_owned();
    let path = String::from_utf8(path).map_err(|_| "it has a name that is no text".to_owned())?;
    let Some(inner) = unpacking.admit(path, kind)? else { return Ok(()) };
    let executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
    unpacking.take(inner, entry, |_| executable)
}
