//! Which file a name stands for.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use rustix::fs::Access;

use crate::session::ShellKind;

/// What `PATH` is taken to be where there is none.
pub(crate) const DEFAULT_PATH: &[u8] =
    b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A shell of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shell {
    /// Which one it is.
    pub(super) kind: ShellKind,
    /// Its file.
    pub(super) path: Vec<u8>,
}

impl Shell {
    /// Takes a file for a shell: one of any name but `bash` for a POSIX one.
    pub(super) fn at(path: OsString) -> Self {
        let is_bash = Path::new(&path).file_name() == Some(OsStr::new("bash"));
        let kind = if is_bash { ShellKind::Bash } else { ShellKind::Posix };
        Self { kind, path: path.into_vec() }
    }

    /// Returns whether its file can be executed.
    pub(super) fn is_there(&self) -> bool {
        is_program(&self.path)
    }

    /// Returns the name it is called by.
    pub(super) fn name(&self) -> &'static [u8] {
        match self.kind {
            ShellKind::Bash => b"bash",
            ShellKind::Posix => b"sh",
        }
    }
}

/// Returns the shell to use: the one that was chosen, or the one there is.
pub(super) fn shell(chosen: Option<&Shell>, path: Option<&[u8]>) -> Shell {
    chosen.cloned().unwrap_or_else(|| find_shell(path))
}

/// Finds bash, or else sh: along `PATH`, then where shells usually are. A few
/// system calls, which is less than a cache would need to be right about
/// shells that are installed or removed meanwhile.
fn find_shell(path: Option<&[u8]>) -> Shell {
    let directories = || {
        let along = path.unwrap_or_default().split(|byte| *byte == b':');
        let usual = DEFAULT_PATH.split(|byte| *byte == b':');
        // A relative entry depends on where the command runs.
        along.chain(usual).filter(|directory| directory.first() == Some(&b'/'))
    };
    for (kind, name) in [(ShellKind::Bash, &b"bash"[..]), (ShellKind::Posix, b"sh")] {
        let mut files = directories().map(|directory| join(directory, name));
        if let Some(path) = files.find(|file| is_program(file)) {
            return Shell { kind, path };
        }
    }
    // Its absence becomes an error that says so.
    Shell { kind: ShellKind::Posix, path: b"/bin/sh".to_vec() }
}

/// Returns the files to try for a program's name, in order.
pub(super) fn candidates(path: Option<&[u8]>, name: &[u8]) -> Vec<Vec<u8>> {
    if name.contains(&b'/') || name.is_empty() {
        return vec![name.to_vec()];
    }
    let directories = path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':');
    let directories = directories.map(|entry| if entry.is_empty() { &b"."[..] } else { entry });
    directories.map(|directory| join(directory, name)).collect()
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    [directory, name].join(&b'/')
}

fn is_program(path: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    rustix::fs::access(path, Access::EXEC_OK).is_ok() && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_is_taken_as_it_is() {
        assert_eq!(candidates(Some(b"/bin"), b"./run"), vec![b"./run".to_vec()]);
    }

    #[test]
    fn an_empty_entry_means_the_current_directory() {
        let wanted = vec![b"/a/x".to_vec(), b"./x".to_vec(), b"/b/x".to_vec()];
        assert_eq!(candidates(Some(b"/a::/b"), b"x"), wanted);
    }

    #[test]
    fn a_shell_is_found_without_a_path() {
        assert!(is_program(&shell(None, None).path));
        assert!(is_program(&shell(None, Some(b"relative:/nowhere")).path));
    }
}
