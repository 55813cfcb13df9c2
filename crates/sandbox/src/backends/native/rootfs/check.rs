//! What `terminal.native_rootfs` names, and whether a sandbox can be made of it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::archive::{self, Compression};
use crate::backend::BackendError;
use crate::backends::native::inside;
use crate::backends::native::settings::{NativeSettings, RootfsSetting};

/// What a root filesystem is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A directory, by its real name.
    Directory(PathBuf),
    /// An archive.
    Archive {
        /// The file, by its real name.
        path: PathBuf,
        /// How it is compressed.
        compression: Compression,
    },
}

/// Checks that what the settings name is there and can be a root filesystem, as
/// far as that can be told without unpacking it.
pub(in crate::backends::native) fn check(settings: &NativeSettings) -> Result<(), BackendError> {
    match &settings.rootfs {
        Some(rootfs) => find(rootfs, settings).map(drop),
        None => Ok(()),
    }
}

/// Looks at what the setting names.
pub(super) fn find(
    setting: &RootfsSetting,
    settings: &NativeSettings,
) -> Result<Found, BackendError> {
    let path = &setting.path;
    let real = fs::canonicalize(path)
        .map_err(|error| refused(setting, &format!("it cannot be opened: {error}"), MAKE_ONE))?;
    let metadata = fs::metadata(&real)
        .map_err(|error| refused(setting, &format!("it cannot be opened: {error}"), MAKE_ONE))?;
    if metadata.is_file() {
        let compression = File::open(&real).and_then(archive::recognise).map_err(|error| {
            refused(setting, &format!("it cannot be read: {error}"), "make it readable for you")
        })?;
        return match compression {
            Ok(compression) => Ok(Found::Archive { path: real, compression }),
            Err(unknown) => Err(refused(setting, unknown.problem, unknown.advice)),
        };
    }
    if !metadata.is_dir() {
        return Err(refused(setting, "it is neither a directory nor a file", MAKE_ONE));
    }
    if real == Path::new("/") {
        let advice = "leave terminal.native_rootfs out: sandboxes see this machine's programs \
                      anyway, and nothing else of it";
        return Err(refused(setting, "it is the root of this machine", advice));
    }
    let known = |dir: &PathBuf| fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
    // What is in it is seen by sandboxes, and what we remove would be gone there.
    let shows_ours = settings.own_dirs.iter().any(|dir| known(dir).starts_with(&real));
    let is_ours = settings.busy_dirs.iter().any(|dir| real.starts_with(known(dir)));
    if shows_ours || is_ours {
        let advice = "keep the root filesystem in a directory of its own";
        return Err(refused(setting, "Vestal keeps its own files there", advice));
    }
    check_shell(setting, &real)?;
    Ok(Found::Directory(real))
}

/// Checks that a root filesystem has a shell, without looking outside of it.
pub(super) fn check_shell(setting: &RootfsSetting, root: &Path) -> Result<(), BackendError> {
    let shell = inside::real_path(root, Path::new("/bin/sh")).ok();
    let shell = shell.and_then(|path| {
        let place = root.join(path.strip_prefix("/").unwrap_or(&path));
        fs::symlink_metadata(place).ok()
    });
    if shell.is_some_and(|found| found.is_file() && found.mode() & 0o111 != 0) {
        return Ok(());
    }
    // What `docker save` writes is a box of archives, not a system.
    if root.join("manifest.json").is_file() || root.join("oci-layout").is_file() {
        return Err(refused(
            setting,
            "it is a saved image, not a root filesystem",
            "write one with `docker export` of a container of that image",
        ));
    }
    Err(refused(setting, "there is no shell in it: no program /bin/sh", MAKE_ONE))
}

const MAKE_ONE: &str = "name a directory or a tar archive that holds a whole system, such as \
                        `debootstrap stable DIRECTORY` or `docker export CONTAINER` makes";

/// Returns the error for a root filesystem that cannot be used.
pub(super) fn refused(setting: &RootfsSetting, problem: &str, advice: &str) -> BackendError {
    BackendError::Advised {
        problem: format!(
            "terminal.native_rootfs (from {}) is {}: {problem}",
            setting.source,
            setting.path.display()
        ),
        advice: advice.to_owned(),
    }
}
