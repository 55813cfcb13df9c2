//! What the agent did, in a file of the profile.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::OnceLock;

use jiff::Timestamp;
use tracing::Level;

use super::text;

/// Name of the file in the directory of logs.
const NAME: &str = "agent.log";

/// Size from which a new file is begun; one old file is kept.
const LARGE: u64 = 8 << 20;

/// The file of this process. Global, because the libraries' reports are.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    file: File,
    mask: Box<dyn Fn(&str) -> String + Send + Sync>,
}

/// Begins to keep reports in a file, each as `mask` leaves it. Without the
/// file everything else goes on.
pub(crate) fn begin(dir: &Path, mask: impl Fn(&str) -> String + Send + Sync + 'static) {
    match open(dir) {
        Ok(file) => {
            if LOG.set(Log { file, mask: Box::new(mask) }).is_ok() {
                // Reports that nobody wanted until now are wanted from now on.
                tracing::callsite::rebuild_interest_cache();
            }
        }
        Err(error) => tracing::warn!(%error, dir = %dir.display(), "no log is kept"),
    }
}

/// Reports whether there is a file.
pub(super) fn is_kept() -> bool {
    LOG.get().is_some()
}

/// Adds a line. Others add to the same file, so a line is one write.
pub(super) fn write(level: Level, message: &str) {
    let Some(log) = LOG.get() else { return };
    let message = text::printable(&(log.mask)(message));
    let line = format!("{} {level} [{}] {message}\n", Timestamp::now(), std::process::id());
    // A full disk is told of by those whose work it hinders.
    (&log.file).write_all(line.as_bytes()).ok();
}

fn open(dir: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let path = dir.join(NAME);
    if std::fs::metadata(&path).is_ok_and(|found| found.len() > LARGE) {
        std::fs::rename(&path, dir.join(format!("{NAME}.1")))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
