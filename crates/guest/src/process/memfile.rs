//! Files that live in memory only.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;

/// Makes an anonymous file with `content`, its offset at the start.
pub(crate) fn with_content(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    if !content.is_empty() {
        file.write_all(content)?;
        file.rewind()?;
    }
    Ok(file.into())
}

/// Reads an anonymous file from start to end.
pub(crate) fn content(file: OwnedFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(file);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
