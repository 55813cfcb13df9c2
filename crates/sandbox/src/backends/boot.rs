//! The boot directory: the guest's program and settings, and files that are published to
//! the sandbox. A sandbox cannot write to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::backend::{BackendError, Instance};
use crate::embedded::GUEST;
use crate::key::random_hex;
use crate::publish::{self, Bundle, PublishedName};

/// Name of the guest's program.
pub(super) const PROGRAM: &str = "guest";

/// Name of the guest's settings.
pub(super) const SETTINGS: &str = "settings";

/// Creates the boot directory and its files. Called before every start: a newer
/// program brings its own guest, and a deleted directory is created again.
///
/// Everyone may read it: the user in the container can be any, it holds no secret,
/// and the directories above are private.
pub(super) fn lay_out(dir: &Path, settings: &[u8]) -> io::Result<()> {
    make_open_dir(dir, 0o755)?;
    lay_out_program(dir)?;
    replace(dir, SETTINGS, settings, 0o644)?;
    lay_out_failpoint(dir)
}

/// Does the same with a hard link to a program that all sandboxes share, so that it
/// is in memory once.
pub(super) fn lay_out_shared(dir: &Path, program: &Path, settings: &[u8]) -> io::Result<()> {
    make_open_dir(dir, 0o755)?;
    if !is_same(&dir.join(PROGRAM), program) && link(program, dir).is_err() {
        // Another filesystem, or one without hard links.
        lay_out_program(dir)?;
    }
    replace(dir, SETTINGS, settings, 0o644)?;
    lay_out_failpoint(dir)
}

fn lay_out_program(dir: &Path) -> io::Result<()> {
    if fs::read(dir.join(PROGRAM)).is_ok_and(|there| there == GUEST) {
        return Ok(());
    }
    replace(dir, PROGRAM, GUEST, 0o755)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let metadata = fs::symlink_metadata(path)?;
        Ok::<_, io::Error>((metadata.dev(), metadata.ino()))
    };
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

fn link(program: &Path, dir: &Path) -> io::Result<()> {
    // The user in the sandbox is not the owner of the file.
    let mode = fs::metadata(program)?.permissions().mode() & 0o7777;
    if mode != 0o755 {
        fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
    }
    let temporary = dir.join(format!(".{PROGRAM}-{}.tmp", random_hex::<6>()?));
    let linked =
        fs::hard_link(program, &temporary).and_then(|()| fs::rename(&temporary, dir.join(PROGRAM)));
    if linked.is_err() {
        fs::remove_file(&temporary).ok();
    }
    linked
}

/// Passes a test's failpoint on to the guest. A file, because a container keeps its
/// environment, and the failpoint is for this start only.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a switch of tests is not a setting")]
fn lay_out_failpoint(dir: &Path) -> io::Result<()> {
    match std::env::var("VESTAL_GUEST_FAILPOINT") {
        Ok(name) => replace(dir, "failpoint", name.as_bytes(), 0o644),
        Err(_) => match fs::remove_file(dir.join("failpoint")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
}

#[cfg(not(feature = "failpoints"))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail in test builds")]
fn lay_out_failpoint(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a directory with exactly this mode, unless it exists.
pub(super) fn make_open_dir(dir: &Path, mode: u32) -> io::Result<()> {
    match fs::create_dir(dir) {
        Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn replace(dir: &Path, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = dir.join(format!(".{name}-{}.tmp", random_hex::<6>()?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| file.write_all(content))
        // The umask may have removed bits.
        .and_then(|()| fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&temporary, dir.join(name)));
    if written.is_err() {
        fs::remove_file(&temporary).ok();
    }
    written
}

/// Returns the files of a boot directory as an archive, for an engine that does not
/// see the files of this machine.
pub(super) fn archive(program: &[u8], settings: &[u8]) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::with_capacity(program.len() + (16 << 10)));
    for (name, content, mode) in [(PROGRAM, program, 0o755), (SETTINGS, settings, 0o644)] {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        builder.append_data(&mut header, name, content)?;
    }
    builder.into_inner()
}

/// Writes a bundle to a directory of the instance, and returns its path on the host.
pub(super) async fn publish_bundle(
    instance: &Instance,
    dir: &'static str,
    name: &PublishedName,
    bundle: &Bundle,
) -> Result<PathBuf, BackendError> {
    let action = format!("publish {name} to the sandbox");
    let (home, name, bundle) = (instance.dir.clone(), name.clone(), bundle.clone());
    let shown = tokio::task::spawn_blocking(move || {
        let _lock = lock_publishing(&home)?;
        let root = home.join(dir);
        match fs::create_dir(&root) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        publish::lay_out(&root, &name, &bundle)?;
        Ok(root.join(name.shelf()).join(name.name()))
    });
    let shown = shown.await.map_err(|error| io::Error::other(error.to_string()));
    shown.flatten().map_err(BackendError::io(action))
}

/// Waits for the lock on publishing to an instance. The lock file is outside of what
/// the instance sees.
pub(super) fn lock_publishing(instance_dir: &Path) -> io::Result<File> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_directory_can_be_laid_out_again_and_is_readable_by_everyone() {
        let dir = tempfile::tempdir().unwrap();
        let boot = dir.path().join("boot");
        lay_out(&boot, b"one").unwrap();
        fs::write(boot.join(PROGRAM), b"damaged").unwrap();
        lay_out(&boot, b"two").unwrap();
        assert_eq!(fs::read(boot.join(PROGRAM)).unwrap(), GUEST);
        assert_eq!(fs::read(boot.join(SETTINGS)).unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&boot), 0o755);
        assert_eq!(mode(&boot.join(PROGRAM)), 0o755);
        assert_eq!(mode(&boot.join(SETTINGS)), 0o644);
        assert_eq!(fs::read_dir(&boot).unwrap().count(), 2);
    }

    #[test]
    fn sandboxes_share_one_file_of_the_program_and_replace_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let program = crate::embedded::GUEST_PROGRAM.install(dir.path()).unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        lay_out(&two, b"").unwrap();
        for boot in [&one, &two, &two] {
            lay_out_shared(boot, &program, b"settings").unwrap();
            assert!(is_same(&boot.join(PROGRAM), &program));
            assert_eq!(fs::read_dir(boot).unwrap().count(), 2);
        }
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
