//! Unpacking an archive below a directory that nothing leads out of.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, Uid,
};
use rustix::io::Errno;
use tar::{Entry, EntryType};

use super::{Compression, check_shell, refused};
use crate::backend::BackendError;
use crate::backends::native::cache::{self, Kind};
use crate::backends::native::settings::RootfsSetting;
use crate::key::random_hex;
use crate::{Progress, ProgressSink};

/// How often somebody is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// An archive to unpack.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// Who named it.
    pub(super) setting: &'a RootfsSetting,
    /// The archive.
    pub(super) path: &'a Path,
    /// How it is compressed.
    pub(super) compression: Compression,
    /// Where what is unpacked is kept.
    pub(super) dir: &'a Path,
    /// Whom to tell.
    pub(super) progress: &'a ProgressSink,
    /// Whether nobody waits any more.
    pub(super) given_up: &'a AtomicBool,
}

/// Unpacks an archive and gives it its name once it is whole. Returns what users
/// should hear about.
pub(super) fn unpack(job: &Job<'_>, name: &Path) -> Result<Vec<String>, BackendError> {
    let failed = |error| BackendError::io(format!("unpack {}", job.path.display()))(error);
    cache::make_private(job.dir).map_err(failed)?;
    // What a process that was killed has left would fill the disk.
    cache::prune_leftovers(job.dir, Kind::Rootfs).map_err(failed)?;
    let random = random_hex::<8>().map_err(failed)?;
    let temporary = job.dir.join(Kind::Rootfs.temporary(&random));
    let done = into(job, &temporary).and_then(|remarks| {
        cache::settle(&temporary, name).map_err(failed)?;
        Ok(remarks)
    });
    if done.is_err() {
        cache::remove(&temporary).ok();
    }
    done
}

fn into(job: &Job<'_>, temporary: &Path) -> Result<Vec<String>, BackendError> {
    let failed = |error| BackendError::io(format!("unpack {}", job.path.display()))(error);
    let _held = cache::begin(temporary).map_err(failed)?;
    let file = File::open(job.path).map_err(failed)?;
    let total = file.metadata().map_err(failed)?.len();
    let read = Cell::new(0);
    let counted = BufReader::with_capacity(256 << 10, Counted { inner: file, read: &read });
    let reader: Box<dyn Read + '_> = match job.compression {
        Compression::None => Box::new(counted),
        Compression::Gzip => Box::new(MultiGzDecoder::new(counted)),
    };
    let mut unpacked = Unpacked::new(temporary).map_err(failed)?;
    let mut told = Telling { job, total, last: None };
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries().map_err(failed)? {
        if job.given_up.load(Ordering::Relaxed) {
            return Err(failed(io::ErrorKind::Interrupted.into()));
        }
        let mut entry = entry.map_err(|error| broken(job, &error))?;
        unpacked.add(&mut entry).map_err(|bad| match bad {
            Bad::Entry { name, problem } => refused(
                job.setting,
                &format!("it holds {name}, {problem}"),
                "use an archive from a source you trust, or unpack it yourself and name the \
                 directory",
            ),
            Bad::Archive(error) => broken(job, &error),
            Bad::Io(error) => failed(error),
        })?;
        told.tell(unpacked.files, read.get());
    }
    let remarks = unpacked.finish().map_err(failed)?;
    check_shell(job.setting, temporary)?;
    Ok(remarks)
}

/// Returns the error for an archive that ends early or makes no sense.
fn broken(job: &Job<'_>, error: &io::Error) -> BackendError {
    refused(job.setting, &format!("it cannot be unpacked: {error}"), "make the archive anew")
}

struct Counted<'a, R> {
    inner: R,
    read: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

struct Telling<'a> {
    job: &'a Job<'a>,
    total: u64,
    last: Option<Instant>,
}

impl Telling<'_> {
    fn tell(&mut self, files: u64, bytes: u64) {
        if self.last.is_some_and(|last| last.elapsed() < TELL_EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        self.job.progress.tell(Progress::Copying {
            what: format!("the root filesystem {}", self.job.path.display()),
            files,
            bytes,
            total: Some(self.total),
        });
    }
}

/// Numbers of users and groups that a sandbox has.
const USERS: u64 = 65_536;

/// Whom files belong to whose owner a sandbox does not have.
const NOBODY: u32 = 65_534;

/// What is wrong with an entry.
#[derive(Debug)]
enum Bad {
    /// It must not be in an archive.
    Entry {
        /// Its name.
        name: String,
        /// What is wrong with it, to be read after the name.
        problem: &'static str,
    },
    /// It cannot be read.
    Archive(io::Error),
    /// It cannot be written.
    Io(io::Error),
}

impl From<io::Error> for Bad {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for Bad {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// What has been unpacked so far.
#[derive(Debug)]
struct Unpacked {
    root: OwnedFd,
    /// Whether files can be given to others.
    is_root: bool,
    /// Permissions and times of directories, set once nothing is put into them
    /// any more.
    directories: Vec<(PathBuf, Mode, Timestamps)>,
    left_out: u64,
    files: u64,
}

impl Unpacked {
    /// Unpacks into an empty directory.
    fn new(root: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self {
            root: rustix::fs::openat(CWD, root, flags, Mode::empty())?,
            is_root: rustix::process::geteuid().is_root(),
            directories: Vec::new(),
            left_out: 0,
            files: 0,
        })
    }

    /// Adds an entry.
    fn add<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), Bad> {
        let bytes = entry.path_bytes().into_owned();
        let bad = |problem| Bad::Entry {
            name: String::from_utf8_lossy(&bytes).chars().take(200).collect(),
            problem,
        };
        let path = clean(&bytes).ok_or_else(|| bad("whose name leads out of it"))?;
        self.files += 1;
        let header = entry.header();
        let kind = header.entry_type();
        let times = times(header.mtime().map_err(Bad::Archive)?);
        // Nothing in a sandbox gets rights by being started, and out here nothing
        // shall either.
        let mode = Mode::from_raw_mode(header.mode().map_err(Bad::Archive)? & 0o1777);
        let owner = (header.uid().map_err(Bad::Archive)?, header.gid().map_err(Bad::Archive)?);
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            // The root itself, as `tar c .` has it.
            self.directories.push((PathBuf::new(), mode, times));
            return Ok(());
        };
        let parent = self.directory(parent)?;
        match kind {
            EntryType::Directory => {
                make_directory(&parent, name)?;
                self.directories.push((path.clone(), mode, times.clone()));
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                clear(&parent, name)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&parent, name, flags, Mode::RUSR | Mode::WUSR)?;
                let mut file = File::from(file);
                copy(entry, &mut file)?;
                self.give(&parent, name, owner)?;
                rustix::fs::fchmod(&file, mode)?;
                rustix::fs::futimens(&file, &times)?;
                return Ok(());
            }
            EntryType::Symlink => {
                let text = entry.link_name_bytes().ok_or_else(|| bad("a link to nothing"))?;
                clear(&parent, name)?;
                rustix::fs::symlinkat(OsStr::from_bytes(&text), &parent, name)?;
            }
            EntryType::Link => {
                let text = entry.link_name_bytes().ok_or_else(|| bad("a link to nothing"))?;
                let target = clean(&text).ok_or_else(|| bad("a link that leads out of it"))?;
                return self.link(&target, &parent, name).map_err(|error| match error {
                    Errno::NOENT => bad("a link to something that is not before it"),
                    error => error.into(),
                });
            }
            EntryType::Fifo => {
                clear(&parent, name)?;
                let fifo = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(&parent, name, fifo, mode, 0)?;
            }
            // A sandbox has devices of its own, and gets no others.
            EntryType::Char | EntryType::Block => {
                self.left_out += 1;
                return Ok(());
            }
            // What an archive says about itself.
            _ => return Ok(()),
        }
        self.give(&parent, name, owner)?;
        if kind == EntryType::Symlink {
            rustix::fs::utimensat(&parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Sets what had to wait, and returns what users should hear about.
    fn finish(self) -> io::Result<Vec<String>> {
        // What is below comes after what is above: the other way round, its
        // permissions could be in the way.
        for (path, mode, times) in self.directories.iter().rev() {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            let dir = match openat2(&self.root, path, flags) {
                Ok(dir) => dir,
                // A later entry has put something else there.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(error) => return Err(error.into()),
            };
            // Its owner must be able to look into it and to remove it.
            let mode = if self.is_root { *mode } else { *mode | Mode::RWXU };
            rustix::fs::fchmod(&dir, mode)?;
            rustix::fs::futimens(&dir, times)?;
        }
        Ok(match self.left_out {
            0 => Vec::new(),
            1 => vec!["a device of the root filesystem was left out".to_owned()],
            count => vec![format!("{count} devices of the root filesystem were left out")],
        })
    }

    /// Opens a directory below the root, making what is missing on the way. Links
    /// on the way are followed as somebody inside would follow them.
    fn directory(&self, path: &Path) -> Result<OwnedFd, Bad> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let here = Path::new(".");
        let mut dir = openat2(&self.root, here, flags)?;
        let mut so_far = PathBuf::new();
        for part in path.components() {
            so_far.push(part);
            dir = match openat2(&self.root, &so_far, flags) {
                Ok(dir) => dir,
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    make_directory(&dir, part.as_os_str())?;
                    openat2(&self.root, &so_far, flags)?
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(dir)
    }

    fn link(&self, target: &Path, parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        let (Some(old), Some(above)) = (target.file_name(), target.parent()) else {
            return Err(Errno::NOENT);
        };
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let above = openat2(&self.root, above, flags)?;
        // It is looked at first: nothing must be cleared away for a link to
        // nothing, nor for one to itself.
        let found = rustix::fs::statat(&above, old, AtFlags::SYMLINK_NOFOLLOW)?;
        if let Ok(there) = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            && (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
        {
            return Ok(());
        }
        clear(parent, name)?;
        rustix::fs::linkat(&above, old, parent, name, AtFlags::empty())
    }

    /// Gives something to its owner in the archive, where that can be done; else
    /// it stays whoever's who unpacks.
    fn give(&self, parent: &OwnedFd, name: &OsStr, owner: (u64, u64)) -> Result<(), Errno> {
        if !self.is_root {
            return Ok(());
        }
        let known = |number: u64| match u32::try_from(number) {
            Ok(small) if number < USERS => small,
            _ => NOBODY,
        };
        let (uid, gid) = (Uid::from_raw(known(owner.0)), Gid::from_raw(known(owner.1)));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(parent, name, Some(uid), Some(gid), flags)
    }
}

/// Makes a directory, unless there is one.
fn make_directory(parent: &OwnedFd, name: &OsStr) -> Result<(), Bad> {
    // One that is there stays, with what is in it.
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    if rustix::fs::openat(parent, name, flags | OFlags::NOFOLLOW, Mode::empty()).is_ok() {
        return Ok(());
    }
    clear(parent, name)?;
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    // The user's umask may have taken bits away.
    rustix::fs::chmodat(parent, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
    Ok(())
}

/// Opens something below a root as somebody whose `/` it is would.
fn openat2(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    loop {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            // The kernel was not sure, because something else was renamed.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// Removes what an earlier entry has put somewhere. A directory with something
/// in it is in the way.
fn clear(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR),
        Err(error) => Err(error),
    }
}

/// Copies what is in an entry, telling failures to read from failures to write.
fn copy(from: &mut impl Read, to: &mut File) -> Result<(), Bad> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => io::Write::write_all(to, &buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Bad::Archive(error)),
        }
    }
}

/// Returns a name below the root; nothing if it leads out. Archives that begin
/// names with `/` mean the root.
fn clean(bytes: &[u8]) -> Option<PathBuf> {
    if bytes.contains(&0) {
        return None;
    }
    let mut path = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(bytes)).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

fn times(seconds: u64) -> Timestamps {
    let modified = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 };
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: modified,
    }
}
