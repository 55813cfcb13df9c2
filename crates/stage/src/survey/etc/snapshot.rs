//! Writing a snapshot.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use super::scan::{EtcEntry, EtcScan, is_world_readable};

/// A line that marks a private key in any file.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

impl EtcScan {
    /// Writes the snapshot into an empty directory.
    pub fn write(&self, into: &Path) -> io::Result<()> {
        // In the order of names, a directory comes before its content.
        for (name, entry) in &self.entries {
            let target = into.join(name);
            match entry {
                EtcEntry::Directory => make_directory(&target)?,
                EtcEntry::Link(text) => symlink(text, &target)?,
                EtcEntry::Generated { content, mode } => write(&target, content, *mode)?,
                EtcEntry::File { source, mode, .. } => {
                    if let Some(content) = public_content(source)? {
                        write(&target, &content, *mode)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the content of a file; `None` if it is gone, is no longer
/// world-readable, or holds a private key.
fn public_content(source: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(source);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if was_replaced(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() || !is_world_readable(&found) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let has_key = content.windows(PRIVATE_KEY.len()).any(|window| window == PRIVATE_KEY);
    Ok((!has_key).then_some(content))
}

/// Returns whether a file was removed or replaced since the scan.
fn was_replaced(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(libc::ELOOP)
}

/// Makes a directory that everyone may enter.
pub(in crate::survey) fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    // The umask may have cleared bits.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
