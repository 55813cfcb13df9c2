//! Unpacking an archive.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;

use super::archive::Compression;
use super::check::{check_shell, refused};
use super::entry::{Bad, Unpacked};
use crate::backend::BackendError;
use crate::backends::native::keep::{self, Kind};
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
    keep::make_private(job.dir).map_err(failed)?;
    // What a process that was killed has left would fill the disk.
    keep::prune_leftovers(job.dir, Kind::Rootfs).map_err(failed)?;
    let random = random_hex::<8>().map_err(failed)?;
    let temporary = job.dir.join(Kind::Rootfs.temporary(&random));
    let done = into(job, &temporary).and_then(|remarks| {
        keep::settle(&temporary, name).map_err(failed)?;
        Ok(remarks)
    });
    if done.is_err() {
        keep::remove(&temporary).ok();
    }
    done
}

fn into(job: &Job<'_>, temporary: &Path) -> Result<Vec<String>, BackendError> {
    let failed = |error| BackendError::io(format!("unpack {}", job.path.display()))(error);
    let _held = keep::begin(temporary).map_err(failed)?;
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
