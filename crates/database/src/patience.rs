//! Waiting for others.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vestal_process::{Lock, lock_holder};

use crate::{Error, Result};

/// How long others are waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// The byte of the file of shared memory that whoever writes has locked, in files
/// with a write-ahead log.
const WRITER: Lock = Lock::Byte(120);

/// Waits for others by uneven pauses, so that those who wait do not all come
/// back at the same moment.
#[derive(Debug)]
pub struct Patience {
    path: PathBuf,
    since: Instant,
}

impl Patience {
    /// Begins to wait for those who use a file.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), since: Instant::now() }
    }

    /// Pauses, or gives up.
    pub async fn pause(&mut self) -> Result<()> {
        let waited = self.since.elapsed();
        // The database has waited by itself before it comes to this.
        if let Some(pid) = writer(&self.path).filter(|pid| vestal_process::is_stopped(*pid)) {
            return Err(Error::Stopped { path: self.path.clone(), pid });
        }
        if waited >= PATIENCE {
            return Err(Error::Contended { path: self.path.clone(), waited });
        }
        // Without randomness the pauses are even, which is slower and not wrong.
        let spread = getrandom::u32().map_or(0, |random| random % 20_000);
        tokio::time::sleep(Duration::from_micros(1_000 + u64::from(spread))).await;
        Ok(())
    }
}

/// Returns the process that writes to a database, where the system says so.
fn writer(path: &Path) -> Option<u32> {
    let mut shared = path.as_os_str().to_owned();
    shared.push("-shm");
    lock_holder(Path::new(&shared), WRITER).ok().flatten()
}
