//! Where sockets can be: their paths are short, and not everybody's.

use std::fs::{DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use vestal_config::Environment;

/// Longest path in a socket's address, without the final zero.
const MAX_SOCKET_PATH: usize = 107;

/// A path to a socket that fits into a socket's address.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    /// Keeps a path through this process's descriptors valid.
    _dir: Option<OwnedFd>,
}

impl SocketPath {
    /// Returns a path to the same socket that is short enough.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().as_bytes().len() <= MAX_SOCKET_PATH {
            return Ok(Self { path: path.to_owned(), _dir: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent, flags, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _dir: Some(dir) })
    }

    pub(super) fn as_path(&self) -> &Path {
        &self.path
    }
}

/// Returns a directory for sockets that other programs make, whose names are
/// at most `name` bytes long: `run_dir` if their paths may be that long.
pub(super) fn private_dir(run_dir: &Path, name: usize, environment: &Environment) -> PathBuf {
    let fits = |dir: &Path| dir.as_os_str().as_bytes().len() + 1 + name <= MAX_SOCKET_PATH;
    if fits(run_dir) {
        return run_dir.to_owned();
    }
    let hash = crate::key::hex(&Sha256::digest(run_dir.as_os_str().as_bytes())[..8]);
    let runtime = environment.non_empty("XDG_RUNTIME_DIR").map(Path::new);
    let short = runtime
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(format!("vestal-{hash}")))
        .filter(|dir| fits(dir));
    short.unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        PathBuf::from(format!("/tmp/vestal-{user}-{hash}"))
    })
}

/// Makes a directory for this user alone, or makes sure that it is one.
pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return DirBuilder::new().mode(0o700).recursive(true).create(dir);
        }
        Err(error) => return Err(error),
    }
    // In a place that all may write to, somebody else may have been first.
    let meta = std::fs::symlink_metadata(dir)?;
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to somebody else"));
    }
    // A generous umask may have made it so.
    if meta.mode() & 0o022 != 0 {
        std::fs::set_permissions(dir, Permissions::from_mode(meta.mode() & 0o755))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
