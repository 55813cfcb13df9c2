//! Publishing files to instances that see their directory on the host.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::backend::{BackendError, Instance};
use crate::publish::{Bundle, PublishedName, lay_out};

/// Writes a bundle to a directory of the instance, and returns its path on the host.
pub(super) async fn show(
    instance: &Instance,
    dir: &'static str,
    name: &PublishedName,
    bundle: &Bundle,
) -> Result<PathBuf, BackendError> {
    let action = format!("publish {name} to the sandbox");
    let (home, name, bundle) = (instance.dir.clone(), name.clone(), bundle.clone());
    let shown = tokio::task::spawn_blocking(move || {
        let _lock = lock(&home)?;
        let root = home.join(dir);
        match fs::create_dir(&root) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        lay_out(&root, &name, &bundle)?;
        Ok(root.join(name.shelf()).join(name.name()))
    });
    let shown = shown.await.map_err(|error| io::Error::other(error.to_string()));
    shown.flatten().map_err(BackendError::io(action))
}

/// Waits for the lock on publishing to an instance. The lock file is outside of what
/// the instance sees.
pub(super) fn lock(instance_dir: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(instance_dir.join("publish.lock"))?;
    file.lock()?;
    Ok(file)
}
