//! The guest program that is embedded in this one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::key::random_hex;

/// The guest, as the build made it.
pub const GUEST: &[u8] = include_bytes!(env!("VESTAL_EMBEDDED_GUEST"));

/// Tells one build of the guest from another.
const GUEST_ID: &str = env!("VESTAL_EMBEDDED_GUEST_ID");

/// Puts the guest into `dir` and returns its path.
///
/// The name carries the build's id, so that a newer program never replaces the
/// file under a running guest. What is there is compared byte for byte.
pub(crate) fn install(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(format!("guest-{GUEST_ID}"));
    if fs::read(&path).is_ok_and(|there| there == GUEST) {
        return Ok(path);
    }
    fs::create_dir_all(dir)?;
    let temporary = dir.join(format!(".guest-{}.tmp", random_hex::<6>()?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&temporary)
        .and_then(|mut file| file.write_all(GUEST))
        .and_then(|()| fs::rename(&temporary, &path));
    if let Err(error) = written {
        fs::remove_file(&temporary).ok();
        return Err(error);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_is_installed_once_and_mended_when_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = install(dir.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), GUEST);
        fs::write(&path, b"damaged").unwrap();
        assert_eq!(install(dir.path()).unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), GUEST);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_guest_is_a_static_file_of_at_most_two_mebibytes() {
        assert_eq!(&GUEST[..4], b"\x7fELF");
        assert!(GUEST.len() <= 2 << 20, "{} bytes", GUEST.len());
        // A dynamically linked program names its loader.
        assert!(!GUEST.windows(10).any(|window| window == b"/ld-linux-"));
    }
}
