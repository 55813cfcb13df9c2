//! Unpacking an archive. No entry can be written outside of the target directory.

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

use super::{ArchiveCompression, check_shell, refused};
use crate::backend::BackendError;
use crate::backends::native::cache::{self, CacheKind};
use crate::backends::native::settings::RootfsSetting;
use crate::key::random_hex;
use crate::{Progress, ProgressSink};

/// Time between two progress reports.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// An archive to unpack.
#[derive(Debug)]
pub(super) struct UnpackJob<'a> {
    pub(super) setting: &'a RootfsSetting,
    pub(super) path: &'a Path,
    pub(super) compression: ArchiveCompression,
    /// The cache directory.
    pub(super) dir: &'a Path,
    pub(super) progress: &'a ProgressSink,
    /// Set when the caller was dropped.
    pub(super) cancelled: &'a AtomicBool,
}

/// Unpacks an archive and renames it to `name` when it is complete. Returns notices
/// for the user.
pub(super) fn unpack(job: &UnpackJob<'_>, name: &Path) -> Result<Vec<String>, BackendError> {
    let failed = |error| BackendError::io(format!("unpack {}", job.path.display()))(error);
    cache::make_cache_dir(job.dir).map_err(failed)?;
    // Leftovers of killed processes would fill the disk.
    cache::prune_leftovers(job.dir, CacheKind::Rootfs).map_err(failed)?;
    let random = random_hex::<8>().map_err(failed)?;
    let temporary = job.dir.join(CacheKind::Rootfs.temporary(&random));
    let done = unpack_into(job, &temporary).and_then(|remarks| {
        cache::publish(&temporary, name).map_err(failed)?;
        Ok(remarks)
    });
    if done.is_err() {
        cache::remove(&temporary).ok();
    }
    done
}

fn unpack_into(job: &UnpackJob<'_>, temporary: &Path) -> Result<Vec<String>, BackendError> {
    let failed = |error| BackendError::io(format!("unpack {}", job.path.display()))(error);
    let _lock = cache::start_entry(temporary).map_err(failed)?;
    let file = File::open(job.path).map_err(failed)?;
    let total = file.metadata().map_err(failed)?.len();
    let read = Cell::new(0);
    let counting = BufReader::with_capacity(256 << 10, CountingReader { inner: file, read: &read });
    let reader: Box<dyn Read + '_> = match job.compression {
        ArchiveCompression::None => Box::new(counting),
        ArchiveCompression::Gzip => Box::new(MultiGzDecoder::new(counting)),
    };
    let mut writer = EntryWriter::new(temporary).map_err(failed)?;
    let mut reporter = ProgressReporter { job, total, last: None };
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries().map_err(failed)? {
        if job.cancelled.load(Ordering::Relaxed) {
            return Err(failed(io::ErrorKind::Interrupted.into()));
        }
        let mut entry = entry.map_err(|error| damaged(job, &error))?;
        writer.add(&mut entry).map_err(|bad| match bad {
            EntryError::Entry { name, problem } => refused(
                job.setting,
                &format!("it contains {name}, {problem}"),
                "use an archive from a trusted source, or unpack it yourself and name the \
                 directory",
            ),
            EntryError::Archive(error) => damaged(job, &error),
            EntryError::Io(error) => failed(error),
        })?;
        reporter.report(writer.files, read.get());
    }
    let remarks = writer.finish().map_err(failed)?;
    check_shell(job.setting, temporary)?;
    Ok(remarks)
}

/// Returns the error for an archive that is truncated or damaged.
fn damaged(job: &UnpackJob<'_>, error: &io::Error) -> BackendError {
    refused(job.setting, &format!("it cannot be unpacked: {error}"), "make the archive again")
}

struct CountingReader<'a, R> {
    inner: R,
    read: &'a Cell<u64>,
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

struct ProgressReporter<'a> {
    job: &'a UnpackJob<'a>,
    total: u64,
    last: Option<Instant>,
}

impl ProgressReporter<'_> {
    fn report(&mut self, files: u64, bytes: u64) {
        if self.last.is_some_and(|last| last.elapsed() < REPORT_EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        self.job.progress.report(Progress::Copying {
            what: format!("the root filesystem {}", self.job.path.display()),
            files,
            bytes,
            total: Some(self.total),
        });
    }
}

/// Number of users and groups in a sandbox.
const USERS: u64 = 65_536;

/// Owner of files whose owner is outside of that range.
const NOBODY: u32 = 65_534;

/// Why an entry was not unpacked.
#[derive(Debug)]
enum EntryError {
    /// The entry is not allowed.
    Entry {
        name: String,
        /// Reads after the name.
        problem: &'static str,
    },
    /// The archive cannot be read.
    Archive(io::Error),
    /// The entry cannot be written.
    Io(io::Error),
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for EntryError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Writes the entries of an archive below a directory.
#[derive(Debug)]
struct EntryWriter {
    root: OwnedFd,
    /// Whether owners can be set.
    is_root: bool,
    /// Modes and times of directories, which are set at the end: writing entries
    /// changes the times, and a mode can forbid it.
    directories: Vec<(PathBuf, Mode, Timestamps)>,
    left_out: u64,
    files: u64,
}

impl EntryWriter {
    /// Writes into an empty directory.
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

    fn add<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), EntryError> {
        let bytes = entry.path_bytes().into_owned();
        let bad = |problem| EntryError::Entry {
            name: String::from_utf8_lossy(&bytes).chars().take(200).collect(),
            problem,
        };
        let path =
            path_below_root(&bytes).ok_or_else(|| bad("whose name leads out of the archive"))?;
        self.files += 1;
        let header = entry.header();
        let kind = header.entry_type();
        let times = times(header.mtime().map_err(EntryError::Archive)?);
        // setuid and setgid have no effect in a sandbox and must have none on the host.
        let mode = Mode::from_raw_mode(header.mode().map_err(EntryError::Archive)? & 0o1777);
        let owner = (
            header.uid().map_err(EntryError::Archive)?,
            header.gid().map_err(EntryError::Archive)?,
        );
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            // The root directory, as in `tar c .`.
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
                remove_existing(&parent, name)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&parent, name, flags, Mode::RUSR | Mode::WUSR)?;
                let mut file = File::from(file);
                copy(entry, &mut file)?;
                self.set_owner(&parent, name, owner)?;
                rustix::fs::fchmod(&file, mode)?;
                rustix::fs::futimens(&file, &times)?;
                return Ok(());
            }
            EntryType::Symlink => {
                let text = entry.link_name_bytes().ok_or_else(|| bad("a link without a target"))?;
                remove_existing(&parent, name)?;
                rustix::fs::symlinkat(OsStr::from_bytes(&text), &parent, name)?;
            }
            EntryType::Link => {
                let text = entry.link_name_bytes().ok_or_else(|| bad("a link without a target"))?;
                let target = path_below_root(&text)
                    .ok_or_else(|| bad("a link that leads out of the archive"))?;
                return self.link(&target, &parent, name).map_err(|error| match error {
                    Errno::NOENT => bad("a link to an entry that does not precede it"),
                    error => error.into(),
                });
            }
            EntryType::Fifo => {
                remove_existing(&parent, name)?;
                let fifo = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(&parent, name, fifo, mode, 0)?;
            }
            // Sandboxes have their own devices.
            EntryType::Char | EntryType::Block => {
                self.left_out += 1;
                return Ok(());
            }
            // Metadata of the archive.
            _ => return Ok(()),
        }
        self.set_owner(&parent, name, owner)?;
        if kind == EntryType::Symlink {
            rustix::fs::utimensat(&parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Sets the modes and times of directories, and returns notices for the user.
    fn finish(self) -> io::Result<Vec<String>> {
        // Children first: the mode of a parent could forbid access.
        for (path, mode, times) in self.directories.iter().rev() {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            let dir = match openat2(&self.root, path, flags) {
                Ok(dir) => dir,
                // A later entry has replaced it.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(error) => return Err(error.into()),
            };
            // This user must be able to list and remove it.
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

    /// Opens a directory below the root and makes missing ones. Links are resolved
    /// inside of the root.
    fn directory(&self, path: &Path) -> Result<OwnedFd, EntryError> {
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
        // Checked before anything is removed: the target may be missing, or the same
        // file.
        let found = rustix::fs::statat(&above, old, AtFlags::SYMLINK_NOFOLLOW)?;
        if let Ok(there) = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            && (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
        {
            return Ok(());
        }
        remove_existing(parent, name)?;
        rustix::fs::linkat(&above, old, parent, name, AtFlags::empty())
    }

    /// Sets the owner from the archive, if this process is root.
    fn set_owner(&self, parent: &OwnedFd, name: &OsStr, owner: (u64, u64)) -> Result<(), Errno> {
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

/// Makes a directory, unless it exists.
fn make_directory(parent: &OwnedFd, name: &OsStr) -> Result<(), EntryError> {
    // An existing one keeps its content.
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    if rustix::fs::openat(parent, name, flags | OFlags::NOFOLLOW, Mode::empty()).is_ok() {
        return Ok(());
    }
    remove_existing(parent, name)?;
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    // The umask may have cleared bits.
    rustix::fs::chmodat(parent, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
    Ok(())
}

/// Opens a path with links resolved inside of a root.
fn openat2(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    loop {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            // A concurrent rename; the kernel asks to try again.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// Removes what an earlier entry has written. A directory must be empty.
fn remove_existing(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR),
        Err(error) => Err(error),
    }
}

/// Copies the content of an entry; failures to read are the archive's.
fn copy(from: &mut impl Read, to: &mut File) -> Result<(), EntryError> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => io::Write::write_all(to, &buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(EntryError::Archive(error)),
        }
    }
}

/// Returns the path of an entry below the root; `None` if it leads out. A leading `/`
/// means the root.
fn path_below_root(bytes: &[u8]) -> Option<PathBuf> {
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
