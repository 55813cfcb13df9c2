//! Helpers for the tests of file operations.

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use vestal_wire::{Fault, FileOp, FileReply, Metadata};

use super::{ContentSink, PathRoots, perform};

/// A directory for one test, with a home and a base in it.
pub(super) struct TestDir {
    directory: tempfile::TempDir,
}

impl TestDir {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["home", "base"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    pub(super) fn roots(&self) -> PathRoots {
        PathRoots { home: self.root().join("home"), base: self.root().join("base") }
    }

    pub(super) fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a path in the base.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root().join("base").join(name)
    }

    /// Makes a file in the base, with its directories.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(super) fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Returns the names in the base, sorted: what is left over shows here.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Performs an operation with `input`; returns the reply and what was sent.
    pub(super) fn perform(&self, op: FileOp, input: &[u8]) -> Result<(FileReply, Vec<u8>), Fault> {
        let mut sink = Received::default();
        let reply = perform(op, &self.roots(), &mut &*input, &mut sink, &NEVER)?;
        Ok((reply, sink.bytes))
    }
}

/// Nobody cancels.
pub(super) static NEVER: AtomicBool = AtomicBool::new(false);

/// Keeps what is sent.
#[derive(Default)]
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    pub(super) pieces: RefCell<Vec<usize>>,
}

impl ContentSink for Received {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.bytes.extend_from_slice(bytes);
        self.pieces.borrow_mut().push(bytes.len());
        Ok(())
    }
}

/// Gives some content and then fails, as a lost connection does.
pub(super) struct DisconnectedReader<'a>(pub(super) &'a [u8]);

impl Read for DisconnectedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::ErrorKind::ConnectionReset.into()),
            got => Ok(got),
        }
    }
}

pub(super) fn metadata_of(reply: FileReply) -> Metadata {
    match reply {
        FileReply::Stat(metadata)
        | FileReply::Read { metadata, .. }
        | FileReply::Written { metadata, .. } => metadata,
        other => panic!("no metadata in {other:?}"),
    }
}

/// Reports whether the tests run with the powers of root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
