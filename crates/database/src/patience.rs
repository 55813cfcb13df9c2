//! Waiting for others.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How long others are waited for.
const PATIENCE: Duration = Duration::from_mins(1);

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
        if waited >= PATIENCE {
            return Err(Error::Contended { path: self.path.clone(), waited });
        }
        // Without randomness the pauses are even, which is slower and not wrong.
        let spread = getrandom::u32().map_or(0, |random| random % 20_000);
        tokio::time::sleep(Duration::from_micros(1_000 + u64::from(spread))).await;
        Ok(())
    }
}
