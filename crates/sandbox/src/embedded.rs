//! The programs that are embedded in this one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::key::random_hex;

/// The guest, as the build made it.
pub const GUEST: &[u8] = GUEST_PROGRAM.bytes;

/// The first process of every sandbox.
pub(crate) const GUEST_PROGRAM: Program = Program {
    name: "guest",
    id: env!("VESTAL_EMBEDDED_GUEST_ID"),
    bytes: include_bytes!(env!("VESTAL_EMBEDDED_GUEST")),
};

/// What builds sandboxes of namespaces and copies files.
pub(crate) const STAGE_PROGRAM: Program = Program {
    name: "stage",
    id: env!("VESTAL_EMBEDDED_STAGE_ID"),
    bytes: include_bytes!(env!("VESTAL_EMBEDDED_STAGE")),
};

/// An embedded program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    name: &'static str,
    /// Tells one build of it from another.
    id: &'static str,
    pub(crate) bytes: &'static [u8],
}

impl Program {
    /// Puts the program into `dir` and returns its path.
    ///
    /// The name carries the build's id, so that a newer program never replaces
    /// the file under a running one. What is there is compared byte for byte.
    pub(crate) fn install(&self, dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join(format!("{}-{}", self.name, self.id));
        if fs::read(&path).is_ok_and(|there| there == self.bytes) {
            return Ok(path);
        }
        fs::create_dir_all(dir)?;
        let temporary = dir.join(format!(".{}-{}.tmp", self.name, random_hex::<6>()?));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&temporary)
            .and_then(|mut file| file.write_all(self.bytes))
            .and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = written {
            fs::remove_file(&temporary).ok();
            return Err(error);
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_installed_once_and_mended_when_damaged() {
        for program in [GUEST_PROGRAM, STAGE_PROGRAM] {
            let dir = tempfile::tempdir().unwrap();
            let path = program.install(dir.path()).unwrap();
            assert_eq!(fs::read(&path).unwrap(), program.bytes);
            fs::write(&path, b"damaged").unwrap();
            assert_eq!(program.install(dir.path()).unwrap(), path);
            assert_eq!(fs::read(&path).unwrap(), program.bytes);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn embedded_programs_are_static_files_of_at_most_two_mebibytes() {
        for program in [GUEST_PROGRAM, STAGE_PROGRAM] {
            assert_eq!(&program.bytes[..4], b"\x7fELF");
            assert!(program.bytes.len() <= 2 << 20, "{} bytes", program.bytes.len());
            // A dynamically linked program names its loader.
            assert!(!program.bytes.windows(10).any(|window| window == b"/ld-linux-"));
        }
    }
}
