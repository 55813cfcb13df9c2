//! Where things are, and which machine this is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use vestal_wire::machine::{InstancePlaces, MachineName};

use crate::state_file;
use crate::user;

/// Longest name of an instance or hash of a key.
const MAX_NAME: usize = 128;

/// Longest id of a machine that is read.
const MAX_ID: u64 = 256;

/// How long the mark of a removed instance is kept: longer than any request is under way.
const MARK_KEPT: Duration = Duration::from_hours(24);

/// What the mark of a removed instance says.
const REMOVED: &[u8; 8] = b"removed\n";

/// The directory of all sandboxes.
#[derive(Debug)]
pub(super) struct Places {
    root: PathBuf,
}

impl Places {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of an instance.
    pub(super) fn instance(&self, id: &str) -> io::Result<PathBuf> {
        Ok(self.root.join("instances").join(checked(id)?))
    }

    /// Returns the names in the directory of all instances.
    pub(super) fn instances(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("instances")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| checked(name).is_ok()).collect()
    }

    /// Returns the directory of a sandbox that is built only to see whether it can be.
    pub(super) fn rehearsal(&self, name: &str) -> io::Result<PathBuf> {
        Ok(self.root.join("rehearsals").join(checked(name)?))
    }

    /// Returns the directory of a sandbox's files.
    pub(super) fn sandbox(&self, key: &str) -> io::Result<PathBuf> {
        Ok(self.root.join("sandboxes").join(checked(key)?))
    }

    /// Returns what a host has to know of the places of a sandbox.
    pub(super) fn describe(&self, key: &str) -> io::Result<InstancePlaces> {
        let sandbox = self.sandbox(key)?;
        let bytes = |path: PathBuf| path.as_os_str().as_bytes().to_vec().into();
        Ok(InstancePlaces {
            workspace: bytes(sandbox.join("workspace")),
            home: bytes(sandbox.join("home")),
            machine: machine_name(),
            user: user_name(),
        })
    }

    /// Waits for the lock on an instance.
    pub(super) fn lock(&self, id: &str) -> io::Result<InstanceLock> {
        let marks = self.root.join("marks");
        make_private_dir(&marks)?;
        let path = marks.join(checked(id)?);
        let file = state_file::make(&path, OpenOptions::new().read(true).write(true))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(InstanceLock { file })
    }

    /// Removes the marks of instances that were removed long ago.
    pub(super) fn sweep_marks(&self) {
        let entries = fs::read_dir(self.root.join("marks")).into_iter().flatten().flatten();
        for entry in entries {
            let old = entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|at| {
                SystemTime::now().duration_since(at).is_ok_and(|age| age > MARK_KEPT)
            });
            let id = entry.file_name();
            let is_there = self.root.join("instances").join(&id).exists();
            if old && !is_there {
                // Another request may do the same.
                fs::remove_file(entry.path()).ok();
            }
        }
    }
}

/// The lock on an instance; it ends with this process.
#[derive(Debug)]
pub(super) struct InstanceLock {
    file: File,
}

impl InstanceLock {
    /// Returns whether the instance was removed, and is never to be started again.
    pub(super) fn is_removed(&self) -> io::Result<bool> {
        let mut text = [0; REMOVED.len()];
        Ok(self.file.read_at(&mut text, 0)? == text.len() && text == *REMOVED)
    }

    /// Says that the instance is removed. A request to start it may still be on its way.
    pub(super) fn mark_removed(&self) -> io::Result<()> {
        self.file.write_all_at(REMOVED, 0)
    }
}

/// Returns a name that is a single component of a path and nothing else.
pub(super) fn checked(name: &str) -> io::Result<&str> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME;
    if fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        Ok(name)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a name has other characters than a-z, 0-9",
        ))
    }
}

/// Makes a directory, and those above it, for this user only.
pub(super) fn make_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Returns what the kernel says of itself by this name.
pub(super) fn kernel_value(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    text.trim().to_owned()
}

/// Returns which machine this is. A home that several share does not tell.
pub(super) fn machine_name() -> MachineName {
    let host = kernel_value("hostname");
    let id = ["/etc/machine-id", "/var/lib/dbus/machine-id"].into_iter().find_map(|path| {
        let mut text = String::new();
        File::open(path).ok()?.take(MAX_ID).read_to_string(&mut text).ok()?;
        let id = text.trim().to_owned();
        (!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(id)
    });
    MachineName { id: id.unwrap_or_else(|| host.clone()), host }
}

/// Returns the name of the user, else the number.
pub(super) fn user_name() -> String {
    let number = rustix::process::geteuid().as_raw();
    let name = user::resolve(None).ok().and_then(|user| user.name);
    name.map_or_else(|| number.to_string(), |name| String::from_utf8_lossy(&name).into_owned())
}

/// Returns a time in milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns for how many milliseconds something has been as it is; nothing where the clock was
/// set back since.
pub(super) fn age_ms(since: SystemTime) -> Option<u64> {
    let age = SystemTime::now().duration_since(since).ok()?;
    u64::try_from(age.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_its_directory() {
        let places = Places::new("/root".into());
        for wrong in ["", ".", "..", "../x", "a/b", "a.b", "-x", &"a".repeat(129)] {
            assert!(places.instance(wrong).is_err(), "{wrong}");
            assert!(places.sandbox(wrong).is_err(), "{wrong}");
        }
        assert_eq!(places.instance("0af").unwrap(), Path::new("/root/instances/0af"));
    }

    #[test]
    fn a_removed_instance_stays_removed_until_nobody_can_ask_for_it_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::new(dir.path().to_owned());
        let lock = places.lock("a1").unwrap();
        assert!(!lock.is_removed().unwrap());
        lock.mark_removed().unwrap();
        drop(lock);
        places.sweep_marks();
        let lock = places.lock("a1").unwrap();
        assert!(lock.is_removed().unwrap());
        let long_ago = SystemTime::now() - 2 * MARK_KEPT;
        lock.file.set_modified(long_ago).unwrap();
        drop(lock);
        places.sweep_marks();
        assert!(!places.lock("a1").unwrap().is_removed().unwrap());
    }
}
