//! Holds the new content of a file until it takes the file's name, and the locks
//! that keep writes of one guest from interleaving.
//!
//! A check and the rename that follows it are two calls; so are the pieces of a
//! write in place. The locks make them one step for all callers of this guest. They
//! are hashed into a fixed number, which costs a rare needless wait and no memory
//! per file.

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use vestal_wire::limits::MAX_DATA;
use vestal_wire::{Fault, FaultCode};

use super::metadata::FileId;
use super::perform::{OrFault, check, refused};

const OPENING: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const SHARDS: usize = 64;
static NAMES: [Mutex<()>; SHARDS] = [const { Mutex::new(()) }; SHARDS];
static FILES: [Mutex<()>; SHARDS] = [const { Mutex::new(()) }; SHARDS];

/// A file that is being filled. Unless it gets its final name, it disappears when
/// it is dropped and, on filesystems that support nameless files, also when the
/// guest is killed.
#[derive(Debug)]
pub(super) struct Spool<'d> {
    file: File,
    dir: BorrowedFd<'d>,
    /// The temporary name.
    temporary: Option<CString>,
}

impl<'d> Spool<'d> {
    /// Creates an empty spool in a directory. The umask is applied to `mode`.
    pub(super) fn new(dir: BorrowedFd<'d>, mode: Mode) -> Result<Self, Errno> {
        match openat(dir, c".", OPENING | OFlags::TMPFILE, mode) {
            Ok(file) => Ok(Self { file: file.into(), dir, temporary: None }),
            // Filesystems and kernels without nameless files report different
            // errors.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {
                Self::named(dir, mode)
            }
            Err(errno) => Err(errno),
        }
    }

    fn named(dir: BorrowedFd<'d>, mode: Mode) -> Result<Self, Errno> {
        with_fresh_name(|name| {
            let flags = OPENING | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = openat(dir, &name, flags, mode)?.into();
            Ok(Self { file, dir, temporary: Some(name) })
        })
    }

    /// Returns the file itself.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Stores all of `content`, which is meant for `path`.
    pub(super) fn fill(
        &mut self,
        content: &mut dyn Read,
        path: &Path,
        cancelled: &AtomicBool,
    ) -> Result<(), Fault> {
        let mut piece = vec![0; MAX_DATA];
        loop {
            check(cancelled)?;
            let got = match content.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    check(cancelled)?;
                    let why = format!("its content did not arrive: {error}");
                    return Err(refused(FaultCode::System, "write", path, &why));
                }
            };
            self.file.write_all(&piece[..got]).or_fault("write", path)?;
        }
    }

    /// Gives the file its final name, if nothing has that name.
    pub(super) fn appear_as(&mut self, name: &CString) -> Result<(), Errno> {
        let Some(temporary) = &self.temporary else {
            return self.link(name);
        };
        match renameat_with(self.dir, temporary, self.dir, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.temporary = None;
                Ok(())
            }
            Err(Errno::INVAL | Errno::NOSYS) => {
                // The temporary name is removed when the spool is dropped.
                linkat(self.dir, temporary, self.dir, name, AtFlags::empty())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Gives the file its final name, replacing what has that name.
    pub(super) fn replace(&mut self, name: &CString) -> Result<(), Errno> {
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => with_fresh_name(|fresh| self.link(&fresh).map(|()| fresh))?,
        };
        let renamed = renameat(self.dir, &temporary, self.dir, name);
        if renamed.is_err() {
            self.temporary = Some(temporary);
        }
        renamed
    }

    fn link(&self, name: &CString) -> Result<(), Errno> {
        let handle = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match linkat(CWD, handle, self.dir, name, AtFlags::SYMLINK_FOLLOW) {
            // Without `/proc` the descriptor itself is linked, where that is
            // permitted.
            Err(Errno::NOENT | Errno::NOTDIR) => {
                linkat(self.file.as_fd(), c"", self.dir, name, AtFlags::EMPTY_PATH)
            }
            done => done,
        }
    }
}

impl Drop for Spool<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // A failure cannot be reported, and the name may be gone already.
            unlinkat(self.dir, temporary, AtFlags::empty()).ok();
        }
    }
}

/// Calls `make` with hidden random names until one is free.
pub(super) fn with_fresh_name<T>(
    mut make: impl FnMut(CString) -> Result<T, Errno>,
) -> Result<T, Errno> {
    loop {
        match make(fresh_name()?) {
            Err(Errno::EXIST) => {}
            done => return done,
        }
    }
}

fn fresh_name() -> Result<CString, Errno> {
    let mut random = [0_u8; 12];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let mut name = String::from(".vestal-");
    for byte in random {
        // Writing to a string cannot fail.
        write!(name, "{byte:02x}").ok();
    }
    name.push_str(".tmp");
    CString::new(name).map_err(|_| Errno::INVAL)
}

/// Locks a name in a directory. Must be taken before [`lock_file`].
pub(super) fn lock_name(directory: FileId, name: &[u8]) -> MutexGuard<'static, ()> {
    lock(&NAMES, &(directory, name))
}

/// Locks a file under all of its names.
pub(super) fn lock_file(file: FileId) -> MutexGuard<'static, ()> {
    lock(&FILES, &file)
}

fn lock(shards: &'static [Mutex<()>; SHARDS], key: &impl Hash) -> MutexGuard<'static, ()> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let shard = usize::try_from(hasher.finish() % SHARDS as u64).unwrap_or(0);
    shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::testing::{NEVER, TestDir};

    type Make = for<'d> fn(BorrowedFd<'d>, Mode) -> Result<Spool<'d>, Errno>;

    /// Both kinds of spool: nameless where possible, and named.
    const KINDS: [Make; 2] =
        [|dir, mode| Spool::new(dir, mode), |dir, mode| Spool::named(dir, mode)];

    fn filled(dir: BorrowedFd<'_>, make: Make) -> Spool<'_> {
        let mut spool = make(dir, Mode::from_raw_mode(0o600)).unwrap();
        spool.fill(&mut &b"new"[..], Path::new("x"), &NEVER).unwrap();
        spool
    }

    #[test]
    fn either_kind_appears_only_where_nothing_is_and_replaces_what_is() {
        for make in KINDS {
            let test_dir = TestDir::new();
            let dir = File::open(test_dir.path("")).unwrap();
            filled(dir.as_fd(), make).appear_as(&c"file".into()).unwrap();
            assert_eq!(
                (test_dir.get("file"), test_dir.names()),
                (b"new".to_vec(), vec!["file".into()])
            );
            let mut spool = filled(dir.as_fd(), make);
            assert_eq!(spool.appear_as(&c"file".into()), Err(Errno::EXIST));
            test_dir.put("file", b"old");
            spool.replace(&c"file".into()).unwrap();
            drop(spool);
            assert_eq!(
                (test_dir.get("file"), test_dir.names()),
                (b"new".to_vec(), vec!["file".into()])
            );
        }
    }

    #[test]
    fn either_kind_leaves_nothing_behind_when_it_is_dropped() {
        for make in KINDS {
            let test_dir = TestDir::new();
            std::fs::create_dir(test_dir.path("dir")).unwrap();
            let dir = File::open(test_dir.path("")).unwrap();
            drop(filled(dir.as_fd(), make));
            assert_eq!(filled(dir.as_fd(), make).replace(&c"dir".into()), Err(Errno::ISDIR));
            assert_eq!(test_dir.names(), ["dir"]);
        }
    }
}
