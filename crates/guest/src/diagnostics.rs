//! Words for whoever looks after the guest: standard error, which is a file.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::state_file;

/// The most the file may hold when a guest starts, and that a guest adds to it.
const MAX_LOG: usize = 1 << 20;

static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Writes a line to standard error, until too much has been written.
pub(crate) fn note(line: &str) {
    let line = format!("vestal-guest: {line}\n");
    if WRITTEN.fetch_add(line.len(), Ordering::Relaxed) < MAX_LOG {
        // There is nowhere to say that this failed.
        rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
    }
}

/// Parts with the standard streams that the process was started with: input and
/// output become nothing, errors go to `log`.
pub(crate) fn detach(log: &Path) -> io::Result<()> {
    let file = state_file::make(log, OpenOptions::new().append(true))?;
    if file.metadata()?.len() > MAX_LOG as u64 {
        file.set_len(0)?;
    }
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&file)?;
    // It fails for the leader of a process group, which needs it less.
    rustix::process::setsid().ok();
    Ok(())
}

/// Returns the path that these bytes are.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}
