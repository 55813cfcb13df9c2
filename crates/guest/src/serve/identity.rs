//! Who this guest is, in memory and on disk.

use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::rand::GetRandomFlags;
use vestal_wire::GuestSettings;

use crate::json::quoted;
use crate::process::tree;

/// Name of the socket in the socket directory.
pub(crate) const SOCKET_NAME: &str = "guest.sock";

/// Name of the file that says who listens there.
const IDENTITY_NAME: &str = "guest.json";

/// What names this process for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) pid: u32,
    pub(super) pid_start: u64,
    pub(super) boot: String,
    /// Random, new at each start.
    pub(super) incarnation: String,
}

impl Identity {
    /// Finds out who this process is.
    pub(super) fn new() -> io::Result<Self> {
        let pid = std::process::id();
        let pid_start = tree::start_time(pid)
            .ok_or_else(|| io::Error::other("/proc does not tell of this process"))?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let mut random = [0; 16];
        rustix::rand::getrandom(&mut random, GetRandomFlags::empty())?;
        let incarnation = random.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").ok();
            text
        });
        Ok(Self { pid, pid_start, boot: boot.trim().to_owned(), incarnation })
    }

    /// Returns the line for whoever started the guest.
    pub(super) fn ready_line(&self) -> String {
        format!("{{{}}}\n", self.fields())
    }

    fn file_content(&self, settings: &GuestSettings) -> String {
        format!(
            "{{{},\"instance\":{},\"generation\":{}}}\n",
            self.fields(),
            quoted(&settings.instance),
            settings.generation,
        )
    }

    fn fields(&self) -> String {
        format!(
            "\"pid\":{},\"pid_start\":{},\"boot\":{},\"incarnation\":{}",
            self.pid,
            self.pid_start,
            quoted(&self.boot),
            quoted(&self.incarnation),
        )
    }
}

/// A name in a directory that this guest made, told by its inode.
#[derive(Debug, Clone)]
pub(super) struct Made {
    name: &'static str,
    inode: u64,
}

impl Made {
    /// Remembers the file of this name.
    pub(super) fn at(dir: impl AsFd, name: &'static str) -> io::Result<Self> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Self { name, inode: stat.st_ino })
    }

    /// Returns whether it is still there, and not another guest's.
    pub(super) fn is_there(&self, dir: impl AsFd) -> bool {
        let current = rustix::fs::statat(dir, self.name, AtFlags::SYMLINK_NOFOLLOW);
        current.is_ok_and(|stat| stat.st_ino == self.inode)
    }

    /// Removes it, unless another guest has put its own there.
    pub(super) fn remove(&self, dir: impl AsFd) {
        let dir = dir.as_fd();
        if self.is_there(dir) {
            // If it cannot be removed, the next guest there replaces it.
            rustix::fs::unlinkat(dir, self.name, AtFlags::empty()).ok();
        }
    }
}

/// The socket by which hosts find a guest.
#[derive(Debug)]
pub(super) struct Door {
    dir: OwnedFd,
    socket: Made,
}

impl Door {
    pub(super) fn new(dir: OwnedFd, socket: Made) -> Self {
        Self { dir, socket }
    }

    /// Returns whether a host can find the guest: not when somebody deleted the
    /// sandbox's files, or another guest has taken the place.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_there(&self.dir)
    }
}

/// Writes the file that says who this guest is.
pub(super) fn publish(
    dir: impl AsFd,
    identity: &Identity,
    settings: &GuestSettings,
) -> io::Result<Made> {
    const FRESH: &str = "guest.json.new";
    let dir = dir.as_fd();
    // Where others may write to the directory too, what is there may be a trap.
    make_way(dir, FRESH, identity)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let file = rustix::fs::openat(dir, FRESH, flags, mode)?;
    io::Write::write_all(
        &mut std::fs::File::from(file),
        identity.file_content(settings).as_bytes(),
    )?;
    move_directory_aside(dir, IDENTITY_NAME, identity)?;
    rustix::fs::renameat(dir, FRESH, dir, IDENTITY_NAME)?;
    Made::at(dir, IDENTITY_NAME)
}

/// Frees a name that this guest needs in the directory of its socket.
pub(super) fn make_way(dir: impl AsFd, name: &str, identity: &Identity) -> io::Result<()> {
    let dir = dir.as_fd();
    move_directory_aside(dir, name, identity)?;
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Gives a directory that has a name of ours another one. Nobody but a job can
/// have put it there. It is not deleted: that may take as long as a job likes,
/// while whoever starts the guest waits; it goes with the instance.
fn move_directory_aside(dir: impl AsFd, name: &str, identity: &Identity) -> io::Result<()> {
    let dir = dir.as_fd();
    let found = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    if found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory) {
        let aside = format!("{name}.aside-{}", identity.incarnation);
        rustix::fs::renameat(dir, name, dir, aside)?;
    }
    Ok(())
}

/// Opens a directory to work below it, whatever becomes of its path.
pub(super) fn open_dir(path: &Path) -> io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_guest_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(IDENTITY_NAME);
        std::fs::write(&path, "mine").unwrap();
        let fd = open_dir(dir.path()).unwrap();
        let made = Made::at(&fd, IDENTITY_NAME).unwrap();
        std::fs::write(dir.path().join("other"), "theirs").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        made.remove(&fd);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        Made::at(&fd, IDENTITY_NAME).unwrap().remove(&fd);
        assert!(!path.exists());
    }

    #[test]
    fn directories_at_the_names_of_a_guest_make_way_and_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for name in [SOCKET_NAME, IDENTITY_NAME, "guest.json.new"] {
            std::fs::create_dir_all(dir.path().join(name).join("deeper")).unwrap();
        }
        let (fd, identity) = (open_dir(dir.path()).unwrap(), Identity::new().unwrap());
        for name in [SOCKET_NAME, "guest.json.new"] {
            make_way(&fd, name, &identity).unwrap();
            assert!(!dir.path().join(name).exists());
        }
        move_directory_aside(&fd, IDENTITY_NAME, &identity).unwrap();
        assert!(!dir.path().join(IDENTITY_NAME).exists());
        let kept = std::fs::read_dir(dir.path()).unwrap().flatten();
        let kept = kept.filter(|entry| entry.path().join("deeper").is_dir());
        assert_eq!(kept.count(), 3);
    }

    #[test]
    fn every_start_is_another_incarnation() {
        let (a, b) = (Identity::new().unwrap(), Identity::new().unwrap());
        assert_ne!(a.incarnation, b.incarnation);
        assert_eq!((a.pid, a.pid_start, &a.boot), (b.pid, b.pid_start, &b.boot));
    }
}
