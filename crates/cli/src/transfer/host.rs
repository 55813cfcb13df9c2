//! Directories of this machine, reached step by step.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT,
    fchmod, flock, futimens, linkat, mkdirat, openat, readlinkat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::MODE_BITS;

/// The age from which a temporary file that nobody has locked was left by a process
/// that died: it is made and locked in two steps.
const CLAIMED_WITHIN: Duration = Duration::from_mins(1);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An open directory. Nothing below it is reached through a symbolic link.
#[derive(Debug)]
pub(super) struct HostDir {
    fd: OwnedFd,
    /// Set once leftovers of copies that were killed have been looked for.
    swept: OnceLock<()>,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostKind {
    File,
    Directory,
    Symlink,
    Other,
}

/// Whether a directory was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existence {
    Absent,
    There,
}

impl HostDir {
    fn of(fd: OwnedFd) -> Self {
        Self { fd, swept: OnceLock::new() }
    }

    /// Opens the directory the user named, through links if need be.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self::of(rustix::fs::open(path, DIRECTORY, Mode::empty())?))
    }

    /// Opens a directory in this one.
    pub(super) fn child(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self::of(openat(&self.fd, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?))
    }

    /// Opens a directory in this one, made if there is none.
    pub(super) fn make_child(&self, name: &OsStr) -> io::Result<(Self, Existence)> {
        let before = match mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => Existence::Absent,
            Err(Errno::EXIST) => Existence::There,
            Err(error) => return Err(error.into()),
        };
        Ok((self.child(name)?, before))
    }

    /// Returns the names in the directory, in order.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns what a name stands for and its permission bits.
    pub(super) fn look(&self, name: &OsStr) -> io::Result<(HostKind, u32)> {
        let stat = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => HostKind::File,
            FileType::Directory => HostKind::Directory,
            FileType::Symlink => HostKind::Symlink,
            _ => HostKind::Other,
        };
        Ok((kind, stat.st_mode & MODE_BITS))
    }

    /// Opens a regular file for reading; a pipe put in its place does not hang.
    pub(super) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.fd, name, flags, Mode::empty())?))
    }

    /// Returns where a symbolic link points.
    pub(super) fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(OsString::from_vec(readlinkat(&self.fd, name, Vec::new())?.into_bytes()))
    }

    /// Begins a file that takes its place when it is complete. Until then it has no
    /// name where the filesystem can do that, so that nothing stays if this process is
    /// killed.
    pub(super) fn new_file(&self, name: &OsStr) -> io::Result<UnfinishedFile<'_>> {
        self.swept.get_or_init(|| self.sweep());
        let name = name.to_owned();
        if let Some(file) = self.nameless_file() {
            return Ok(UnfinishedFile { aside: StagedFile { dir: self, name: None }, name, file });
        }
        self.named_file(name)
    }

    /// Returns a new file without a name, if it can be given one later.
    fn nameless_file(&self) -> Option<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, c".", flags, Mode::RUSR | Mode::WUSR).ok()?);
        claim(&file);
        statat(CWD, magic_link(&file), AtFlags::empty()).is_ok().then_some(file)
    }

    fn named_file(&self, name: OsString) -> io::Result<UnfinishedFile<'_>> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (aside, fd) =
            make_aside(|aside| openat(&self.fd, aside, flags, Mode::RUSR | Mode::WUSR))?;
        let file = File::from(fd);
        claim(&file);
        Ok(UnfinishedFile { aside: StagedFile { dir: self, name: Some(aside) }, name, file })
    }

    /// Removes what copies left here that were killed. What cannot be removed stays:
    /// the copy that is to be made does not need it.
    fn sweep(&self) {
        let names = self.names().unwrap_or_default();
        for name in names.iter().filter(|name| is_aside(name)) {
            if self.is_abandoned(name).unwrap_or(false) {
                unlinkat(&self.fd, name, AtFlags::empty()).ok();
            }
        }
    }

    /// Returns whether the writer of a temporary file is dead: it has the file locked
    /// as long as it lives.
    fn is_abandoned(&self, name: &OsStr) -> io::Result<bool> {
        let file = self.open_file(name)?;
        let found = file.metadata()?;
        let age = SystemTime::now().duration_since(found.modified()?).unwrap_or_default();
        Ok(found.is_file()
            && found.uid() == rustix::process::geteuid().as_raw()
            && age > CLAIMED_WITHIN
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
    }

    /// Makes a symbolic link, in the place of a file or link that is there.
    pub(super) fn make_link(&self, name: &OsStr, target: &OsStr) -> io::Result<()> {
        let (aside, ()) = make_aside(|aside| symlinkat(target, &self.fd, aside))?;
        StagedFile { dir: self, name: Some(aside) }.take_place(name)
    }

    /// Sets the time of the last change.
    pub(super) fn set_mtime(&self, mtime_ns: i64) -> io::Result<()> {
        set_mtime(&self.fd, mtime_ns)
    }

    pub(super) fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(fchmod(&self.fd, Mode::from_raw_mode(mode & MODE_BITS))?)
    }
}

fn set_mtime(file: impl AsFd, mtime_ns: i64) -> io::Result<()> {
    let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec {
        tv_sec: mtime_ns.div_euclid(1_000_000_000),
        tv_nsec: mtime_ns.rem_euclid(1_000_000_000),
    };
    Ok(futimens(file, &Timestamps { last_access: unchanged, last_modification })?)
}

/// Locks a temporary file for as long as it is written. A filesystem without locks
/// never lets it be taken for abandoned.
fn claim(file: &File) {
    flock(file, FlockOperation::NonBlockingLockExclusive).ok();
}

/// Returns the path by which a file without a name can be given one.
fn magic_link(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Returns whether this is a name that [`make_aside`] gives.
fn is_aside(name: &OsStr) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let name = name.to_str().and_then(|name| name.strip_prefix(".vestal-")?.strip_suffix(".tmp"));
    let numbers = name.and_then(|name| name.split_once('-'));
    numbers.is_some_and(|(pid, count)| is_number(pid) && is_number(count))
}

/// Creates something under an unused name.
fn make_aside<T>(make: impl Fn(&OsStr) -> rustix::io::Result<T>) -> io::Result<(OsString, T)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".vestal-{}-{count}.tmp", std::process::id()));
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Something under a name of its own, removed unless it takes its place.
#[derive(Debug)]
struct StagedFile<'a> {
    dir: &'a HostDir,
    name: Option<OsString>,
}

impl StagedFile<'_> {
    fn take_place(mut self, name: &OsStr) -> io::Result<()> {
        if let Some(aside) = &self.name {
            renameat(&self.dir.fd, aside, &self.dir.fd, name)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The copy has failed already, and that error is reported.
            unlinkat(&self.dir.fd, name, AtFlags::empty()).ok();
        }
    }
}

/// A file that is being written. It is there when it is complete, or not at all.
#[derive(Debug)]
pub(super) struct UnfinishedFile<'a> {
    aside: StagedFile<'a>,
    name: OsString,
    file: File,
}

impl UnfinishedFile<'_> {
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file into its place.
    pub(super) fn commit(self, mode: u32, mtime_ns: i64) -> io::Result<()> {
        let Self { mut aside, name, file } = self;
        set_mtime(&file, mtime_ns)?;
        fchmod(&file, Mode::from_raw_mode(mode & MODE_BITS))?;
        if aside.name.is_none() {
            let (from, dir) = (magic_link(&file), &aside.dir.fd);
            let link = |to: &OsStr| linkat(CWD, &from, dir, to, AtFlags::SYMLINK_FOLLOW);
            match link(&name) {
                // Only a rename replaces what is there, and that needs a name.
                Err(Errno::EXIST) => aside.name = Some(make_aside(link)?.0),
                done => return Ok(done?),
            }
        }
        aside.take_place(&name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_planted_link_is_replaced_and_never_written_through() {
        let root = tempfile::tempdir().unwrap();
        let secret = root.path().join("secret");
        fs::write(&secret, "untouched").unwrap();
        let target = root.path().join("target");
        fs::create_dir(&target).unwrap();
        symlink(&secret, target.join("file")).unwrap();
        let dir = HostDir::open(&target).unwrap();

        let new = dir.new_file(OsStr::new("file")).unwrap();
        new.file().write_all(b"new").unwrap();
        new.commit(0o4755, 0).unwrap();

        assert_eq!(fs::read_to_string(&secret).unwrap(), "untouched");
        let written = fs::symlink_metadata(target.join("file")).unwrap();
        assert!(written.is_file());
        assert_eq!(written.permissions().mode() & 0o7777, 0o755, "no set-uid bit is kept");
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_or_a_file_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("elsewhere")).unwrap();
        fs::write(root.path().join("file"), "x").unwrap();
        symlink("elsewhere", root.path().join("dir")).unwrap();
        symlink("file", root.path().join("link")).unwrap();
        let dir = HostDir::open(root.path()).unwrap();
        assert!(dir.make_child(OsStr::new("dir")).is_err());
        assert!(dir.open_file(OsStr::new("link")).is_err());
        let mut text = String::new();
        dir.open_file(OsStr::new("file")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn what_a_killed_copy_left_goes_and_what_one_writes_stays() {
        let root = tempfile::tempdir().unwrap();
        let dir = HostDir::open(root.path()).unwrap();
        let then = SystemTime::now() - CLAIMED_WITHIN * 2;
        for name in [".vestal-1-0.tmp", ".vestal-1-x.tmp"] {
            File::create(root.path().join(name)).unwrap().set_modified(then).unwrap();
        }
        let written = dir.named_file(OsString::from("other")).unwrap();
        written.file().set_modified(then).unwrap();
        let aside = written.aside.name.clone().unwrap();
        dir.new_file(OsStr::new("file")).unwrap().commit(0o600, 0).unwrap();
        let mut expected = vec![aside, OsString::from(".vestal-1-x.tmp"), OsString::from("file")];
        expected.sort();
        assert_eq!(dir.names().unwrap(), expected);
        written.commit(0o600, 0).unwrap();
        assert_eq!(dir.names().unwrap(), [".vestal-1-x.tmp", "file", "other"]);
    }

    #[test]
    fn a_file_has_no_name_before_it_is_complete() {
        let root = tempfile::tempdir().unwrap();
        let dir = HostDir::open(root.path()).unwrap();
        if dir.nameless_file().is_none() {
            return;
        }
        for text in ["new", "newer"] {
            let new = dir.new_file(OsStr::new("file")).unwrap();
            new.file().write_all(text.as_bytes()).unwrap();
            let before: &[&str] = if text == "new" { &[] } else { &["file"] };
            assert_eq!(dir.names().unwrap(), before);
            new.commit(0o600, 0).unwrap();
            assert_eq!(fs::read_to_string(root.path().join("file")).unwrap(), text);
            assert_eq!(dir.names().unwrap(), ["file"]);
        }
    }

    #[test]
    fn a_copy_that_fails_leaves_the_old_file_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "old").unwrap();
        let dir = HostDir::open(root.path()).unwrap();
        let new = dir.new_file(OsStr::new("file")).unwrap();
        new.file().write_all(b"half").unwrap();
        drop(new);
        assert_eq!(dir.names().unwrap(), ["file"]);
        assert_eq!(fs::read_to_string(root.path().join("file")).unwrap(), "old");
    }
}
