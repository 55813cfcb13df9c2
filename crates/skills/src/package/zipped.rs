//! Skills in zip archives, which some call `.skill`.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use rustix::fs::FileType;
use zip::read::{ArchiveOffset, Config, ZipFileEntry};
use zip::result::ZipError;
use zip::{CompressionMethod, System, ZipArchive, ZipReadOptions};

use super::Package;
use super::unpacking::{Kind, MAX_ENTRIES, Unpacking};

/// Bytes that are read to learn what is in an archive: its list of files is
/// kept in memory, and may be as long as the archive itself.
const MAX_LISTING: u64 = 8 << 20;

/// Reads an archive by the list at its end. What is left out is not unpacked,
/// and nothing that it says of its own sizes is believed.
pub(super) fn read(mut file: BufReader<File>) -> Result<Package, String> {
    let damaged = |error: ZipError| format!("it is damaged: {error}");
    // It begins where the file does: nothing is looked for in between.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let listing = Listing { file: &mut file, left: MAX_LISTING };
    let list = ZipArchive::with_config(config, listing).map_err(damaged)?.metadata();
    if list.len() > MAX_ENTRIES {
        return Err(format!("it has more than {MAX_ENTRIES} entries"));
    }
    // The list keeps the last of those that have the same name.
    if list.has_duplicate_names() {
        return Err("it has a file twice".to_owned());
    }
    let mut unpacking = Unpacking::default();
    for index in 0..list.len() {
        one(&mut unpacking, list.entry(index).map_err(damaged)?, &mut file)?;
    }
    unpacking.package()
}

fn one<'a>(
    unpacking: &mut Unpacking,
    entry: ZipFileEntry<'a>,
    file: &'a mut BufReader<File>,
) -> Result<(), String> {
    let name = entry.name().map_err(|_| "it has a name that is no text".to_owned())?.into_owned();
    let Some(inner) = unpacking.admit(name.clone(), kind(&entry))? else { return Ok(()) };
    let advice = "unpack it, and install the folder";
    if entry.encrypted() {
        return Err(format!("it has {name:?}, which is encrypted; {advice}"));
    }
    if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
        let packed = "which is packed in a way that is not read here";
        return Err(format!("it has {name:?}, {packed}; {advice}"));
    }
    // What comes from a system without such modes says it by how it begins.
    let mode = entry.unix_mode().filter(|_| entry.system() != System::Dos);
    let is_program = |bytes: &[u8]| match mode {
        Some(mode) => mode & 0o111 != 0,
        None => bytes.starts_with(b"#!"),
    };
    let packed = entry.with_reader(file, ZipReadOptions::new());
    let packed = packed.map_err(|error| format!("{name:?} cannot be unpacked: {error}"))?;
    unpacking.take(inner, packed, is_program)
}

fn kind(entry: &ZipFileEntry<'_>) -> Kind {
    let said = entry.unix_mode().map(FileType::from_raw_mode);
    match said {
        Some(FileType::Symlink) => Kind::Link,
        _ if entry.is_dir() => Kind::Folder,
        Some(FileType::Directory) => Kind::Folder,
        // Many say only what may be done with it.
        Some(FileType::RegularFile | FileType::Unknown) | None => Kind::File,
        Some(_) => Kind::Other,
    }
}

/// An archive of which only so much is read.
struct Listing<'a> {
    file: &'a mut BufReader<File>,
    left: u64,
}

impl Read for Listing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other("its list of files is too long"))?;
        Ok(read)
    }
}

impl Seek for Listing<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
#[path = "zipped_tests.rs"]
mod tests;
