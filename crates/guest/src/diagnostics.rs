//! The guest's log, which is its standard error, and the JSON it writes.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::state_file;

/// Limit for the size of the log at the start of a guest, and for what one guest
/// adds.
const MAX_LOG: usize = 1 << 20;

static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Writes a line to the log, unless the limit is reached.
pub(crate) fn note(line: &str) {
    let line = format!("vestal-guest: {line}\n");
    if WRITTEN.fetch_add(line.len(), Ordering::Relaxed) < MAX_LOG {
        // There is nowhere to report a failure.
        rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
    }
}

/// Detaches from the inherited standard streams: input and output become
/// `/dev/null`, errors go to `log`.
pub(crate) fn detach(log: &Path) -> io::Result<()> {
    let file = state_file::make(log, OpenOptions::new().append(true))?;
    if file.metadata()?.len() > MAX_LOG as u64 {
        file.set_len(0)?;
    }
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&file)?;
    // It fails for the leader of a process group, which does not need it.
    rustix::process::setsid().ok();
    Ok(())
}

/// Returns bytes as a path.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Returns text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c.is_control() => {
                write!(json, "\\u{:04x}", u32::from(c)).ok();
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_json() {
        assert_eq!(quoted("a\"b\\c\n\u{e4}"), "\"a\\\"b\\\\c\\u000a\u{e4}\"");
    }
}
