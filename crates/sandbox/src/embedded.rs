//! The programs that are embedded in this one.

use std::borrow::Cow;
use std::env::consts::ARCH;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use vestal_config::Home;

use crate::backend::BackendError;
use crate::key::random_hex;

// Statics, because the compiler may copy a constant, bytes and all, into each unit of
// code that uses it: the program carried each of these files five times.

/// The guest, as the build made it.
pub static GUEST: &[u8] = GUEST_PROGRAM.bytes;

/// The first process of every sandbox.
pub(crate) static GUEST_PROGRAM: EmbeddedProgram = EmbeddedProgram {
    name: "guest",
    id: env!("VESTAL_EMBEDDED_GUEST_ID"),
    bytes: include_bytes!(env!("VESTAL_EMBEDDED_GUEST")),
};

/// What builds sandboxes of namespaces and copies files.
pub(crate) static STAGE_PROGRAM: EmbeddedProgram = EmbeddedProgram {
    name: "stage",
    id: env!("VESTAL_EMBEDDED_STAGE_ID"),
    bytes: include_bytes!(env!("VESTAL_EMBEDDED_STAGE")),
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct EmbeddedProgram {
    name: &'static str,
    /// Distinguishes builds of it.
    id: &'static str,
    pub(crate) bytes: &'static [u8],
}

impl EmbeddedProgram {
    /// Puts the program into `dir` and returns its path.
    ///
    /// The name carries the build's id, so that a newer program never replaces
    /// the file under a running one. What is there is compared byte for byte.
    pub(crate) fn install(&self, dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join(format!("{}-{}", self.name, self.id));
        if let Some(problem) = why_nothing_starts_in(dir) {
            return Err(io::Error::other(format!("{problem}; {ELSEWHERE}")));
        }
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

/// What to do about a home in which no program can be started.
pub(crate) const ELSEWHERE: &str = "set VESTAL_HOME to a directory on another filesystem, or mount \
                                    this one without noexec";

/// Says why no program can be started in a directory, if that is known.
pub(crate) fn why_nothing_starts_in(dir: &Path) -> Option<String> {
    let there = dir.ancestors().find(|dir| dir.exists())?;
    let flags = rustix::fs::statvfs(there).ok()?.f_flag;
    flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC).then(|| {
        format!(
            "the filesystem of {} is mounted noexec, so no program can be started there",
            there.display()
        )
    })
}

/// Returns the guest for machines of an architecture, by Rust's name for it or an
/// engine's: the embedded one for this machine's, a file in `dir` for others.
pub(crate) fn guest_for(
    architecture: &str,
    dir: &Path,
) -> Result<Cow<'static, [u8]>, BackendError> {
    let architecture = match architecture {
        // One that is not told is taken to be this one.
        "" => ARCH,
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    if architecture == ARCH {
        return Ok(Cow::Borrowed(GUEST));
    }
    // The word is somebody else's, and part of a path.
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let path = dir.join(format!("vestal-guest-{architecture}"));
    match fs::read(&path) {
        Ok(bytes) if architecture.chars().all(is_name) => Ok(Cow::Owned(bytes)),
        _ => Err(BackendError::Advised {
            problem: format!("there is no guest for machines of the architecture {architecture}"),
            advice: format!(
                "build vestal-guest for it (profile `guest`, target \
                 {architecture}-unknown-linux-gnu, linked statically) and put the program at {}",
                path.display()
            ),
        }),
    }
}

/// Returns the directory with guests for other architectures than this one's.
pub(crate) fn guests_dir(home: &Home) -> PathBuf {
    home.root().join("guests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_for_another_architecture_is_a_file_and_its_lack_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        for own in ["", ARCH] {
            assert_eq!(guest_for(own, dir.path()).unwrap(), GUEST);
        }
        let other = if ARCH == "aarch64" { ("x86_64", "amd64") } else { ("aarch64", "arm64") };
        let path = dir.path().join(format!("vestal-guest-{}", other.0));
        let lack = guest_for(other.1, dir.path()).unwrap_err();
        assert!(lack.to_string().ends_with(&format!("architecture {}", other.0)), "{lack}");
        assert!(lack.advice().unwrap().contains(path.to_str().unwrap()), "{lack:?}");
        fs::write(&path, "a program").unwrap();
        assert_eq!(guest_for(other.1, dir.path()).unwrap(), b"a program".as_slice());
        assert!(guest_for("../evil", dir.path()).is_err());
    }

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
