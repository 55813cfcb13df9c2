//! One change at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::Trouble;

/// How long somebody else may take to change notes.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The right to change notes, until it is dropped. The kernel takes it back when
/// the process dies, however it does. The file stays: removing it would let two
/// processes hold locks on two files of the same name.
#[must_use = "the lock ends when it is dropped"]
pub(super) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    /// Waits for the lock, but not for ever.
    pub(super) fn take(path: &Path, patience: Duration) -> Result<Self, Trouble> {
        let file = open(path).map_err(|source| failed(path, source))?;
        Self::wait(file, path, patience)
    }

    /// Waits for the directory a file is in. Profiles may share one by a link, and
    /// know nothing of each other's locks. One that is not there is nobody else's.
    pub(super) fn take_dir(dir: &Path, patience: Duration) -> Result<Option<Self>, Trouble> {
        match File::open(dir) {
            Ok(file) => Self::wait(file, dir, patience).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed(dir, source)),
        }
    }

    fn wait(file: File, path: &Path, patience: Duration) -> Result<Self, Trouble> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < patience => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(Trouble::Busy { lock: path.to_owned(), waited: patience });
                }
                Err(error) => return Err(failed(path, error.into())),
            }
        }
    }
}

fn failed(lock: &Path, source: io::Error) -> Trouble {
    Trouble::Lock { lock: lock.to_owned(), source }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}
