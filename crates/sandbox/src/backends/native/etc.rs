//! The picture of `/etc`: what of the host's sandboxes see.
//!
//! An allow-list of files that everyone on the host can read, with accounts that
//! name no people. A picture is made once per state of the host, by rename, and
//! shared by the sandboxes of a home; nothing is ever changed in one.

mod allowed;
mod scan;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

pub(super) use self::scan::APT_ALONE;
use self::scan::{Entry, Survey, is_for_everyone};
use super::cache::{self, Kind};
use crate::backend::BackendError;
use crate::key::random_hex;

/// What marks a private key, in whatever file it is.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

/// A picture of `/etc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture {
    /// Where it is.
    pub dir: PathBuf,
    /// What tells it from others; instances that use it carry this.
    pub digest: String,
}

/// Returns the picture of the host as it is now, making it in `dir` if there is
/// none yet.
pub(super) fn provide(dir: &Path) -> Result<Picture, BackendError> {
    provide_of(Path::new("/"), dir)
        .map_err(BackendError::io(format!("make the picture of /etc in {}", dir.display())))
}

/// Does the same for a host whose `/` is at `root`.
fn provide_of(root: &Path, dir: &Path) -> io::Result<Picture> {
    let survey = Survey::of(root);
    let digest = survey.digest();
    let picture = Picture { dir: dir.join(Kind::Etc.name(&digest)), digest };
    if cache::use_now(&picture.dir)? {
        return Ok(picture);
    }
    cache::make_private(dir)?;
    let temporary = dir.join(Kind::Etc.temporary(&random_hex::<8>()?));
    let made = draw(&survey, &temporary).and_then(|()| cache::settle(&temporary, &picture.dir));
    if made.is_err() {
        fs::remove_dir_all(&temporary).ok();
    }
    made.map(|()| picture)
}

fn draw(survey: &Survey, into: &Path) -> io::Result<()> {
    let _held = cache::begin(into)?;
    // By name, what is in a directory comes after it.
    for (name, entry) in &survey.entries {
        let target = into.join(name);
        match entry {
            Entry::Directory => make_directory(&target)?,
            Entry::Link(text) => symlink(text, &target)?,
            Entry::Text { content, mode } => write(&target, content, *mode)?,
            Entry::File { source, mode, .. } => {
                if let Some(content) = public_content(source)? {
                    write(&target, &content, *mode)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns what is in a file; nothing if it is gone, is no longer for everyone,
/// or should never have been.
fn public_content(source: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(source);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() || !is_for_everyone(&found) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let private = content.windows(PRIVATE_KEY.len()).any(|window| window == PRIVATE_KEY);
    Ok((!private).then_some(content))
}

/// Returns whether a file is not what it was a moment ago.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(libc::ELOOP)
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    // The user's umask may have taken bits away.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Removes pictures in `dir` that no instance uses, by the digests in `used`,
/// and that nobody has asked for in a day.
pub(super) fn prune(dir: &Path, used: &BTreeSet<String>) -> io::Result<()> {
    cache::prune(dir, Kind::Etc, used)
}
