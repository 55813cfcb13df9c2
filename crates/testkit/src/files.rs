//! Files and directories.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::wait::TEST_TIMEOUT;

/// Returns the regular files of a directory with their bytes.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    entries(dir)
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| (name(&path), std::fs::read(&path).unwrap()))
        .collect()
}

/// Returns the permission bits of everything in a directory.
pub fn modes(dir: &Path) -> BTreeMap<String, u32> {
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
    entries(dir).into_iter().map(|path| (name(&path), mode(&path))).collect()
}

/// Returns the names of everything in a directory, sorted; of a directory that is not there, none.
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = entries(dir).iter().map(|path| name(path)).collect();
    names.sort();
    names
}

/// Returns the paths of everything in a directory; of what is not there or is not a directory, none.
pub fn entries(dir: &Path) -> Vec<PathBuf> {
    match std::fs::read_dir(dir) {
        Ok(found) => found.map(|entry| entry.unwrap().path()).collect(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Vec::new()
        }
        Err(error) => panic!("{}: {error}", dir.display()),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A named pipe, at which a test and a command meet: who comes first waits for the other.
#[derive(Debug)]
pub struct Fifo(PathBuf);

impl Fifo {
    /// Makes a pipe that everyone can use.
    pub fn create(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        mknodat(CWD, &path, FileType::Fifo, Mode::empty(), 0).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        Self(path)
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns where it is, for a command line.
    pub fn display(&self) -> std::path::Display<'_> {
        self.0.display()
    }

    /// Waits for somebody who writes, and returns all they write.
    #[track_caller]
    pub fn read(&self) -> String {
        let path = self.0.clone();
        met(&self.0, move || std::fs::read_to_string(path).unwrap())
    }

    /// Waits for somebody who reads, and writes a text.
    #[track_caller]
    pub fn write(&self, text: &str) {
        let (path, text) = (self.0.clone(), text.to_owned());
        met(&self.0, move || std::fs::write(path, text).unwrap());
    }
}

/// Opening a pipe waits for the other side without an end, so another thread does it.
#[track_caller]
fn met<T: Send + 'static>(path: &Path, meet: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || done.send(meet()).ok());
    let met = waiting.recv_timeout(TEST_TIMEOUT);
    met.unwrap_or_else(|_| panic!("nobody came to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_listed_by_name_and_a_missing_one_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("b")).unwrap();
        std::fs::write(dir.path().join("a"), "x").unwrap();
        assert_eq!(names(dir.path()), ["a", "b"]);
        assert_eq!(files(dir.path()), BTreeMap::from([("a".to_owned(), b"x".to_vec())]));
        assert_eq!(names(&dir.path().join("none")), [""; 0]);
    }

    #[test]
    fn two_meet_at_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = Fifo::create(dir.path().join("fifo"));
        std::thread::scope(|scope| {
            scope.spawn(|| fifo.write("word"));
            assert_eq!(fifo.read(), "word");
        });
    }
}
