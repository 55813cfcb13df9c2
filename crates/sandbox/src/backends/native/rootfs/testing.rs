//! Archives for tests.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use vestal_config::{Environment, Home, Settings, ValueSource};

use super::{Rootfs, provide_blocking};
use crate::backend::BackendError;
use crate::backends::native::settings::{NativeSettings, RootfsSetting};
use crate::{Overrides, ProgressSink};

/// An archive that is made header by header, because usual archivers refuse to make
/// such entries.
pub(super) struct Archive(Vec<u8>);

impl Archive {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns an archive of a small system.
    pub(super) fn of_a_system() -> Self {
        Self::new()
            .entry(b'5', "usr/", "", "", 0o755)
            .entry(b'5', "usr/bin/", "", "", 0o755)
            .entry(b'0', "usr/bin/dash", "", "program", 0o755)
            .entry(b'2', "usr/bin/sh", "dash", "", 0o777)
            .entry(b'2', "bin", "usr/bin", "", 0o777)
    }

    pub(super) fn file(self, name: &str, content: &str, mode: u32) -> Self {
        self.entry(b'0', name, "", content, mode)
    }

    pub(super) fn link(self, name: &str, text: &str) -> Self {
        self.entry(b'2', name, text, "", 0o777)
    }

    pub(super) fn entry(self, kind: u8, name: &str, link: &str, content: &str, mode: u32) -> Self {
        self.owned(kind, name, link, content, mode, (0, 0))
    }

    pub(super) fn owned(
        mut self,
        kind: u8,
        name: &str,
        link: &str,
        content: &str,
        mode: u32,
        (uid, gid): (u32, u32),
    ) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_uid(uid.into());
        header.set_gid(gid.into());
        header.set_mtime(1_000_000_000);
        if matches!(kind, b'3' | b'4') {
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
        }
        let bytes = header.as_mut_bytes();
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content.as_bytes());
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(super) fn bytes(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    pub(super) fn gzip(self) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&self.bytes()).unwrap();
        encoder.finish().unwrap()
    }
}

/// A directory for archives and the cache.
pub(super) struct RootfsFixture {
    dir: tempfile::TempDir,
    pub(super) cancelled: AtomicBool,
}

impl RootfsFixture {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("cache")).unwrap();
        Self { dir, cancelled: AtomicBool::new(false) }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        // By its real path, as in messages.
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    pub(super) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(super) fn provide(&self, path: &Path) -> Result<Rootfs, BackendError> {
        self.provide_reporting(path, &ProgressSink::default())
    }

    pub(super) fn provide_reporting(
        &self,
        path: &Path,
        progress: &ProgressSink,
    ) -> Result<Rootfs, BackendError> {
        let source = ValueSource::Environment { name: "TERMINAL_NATIVE_ROOTFS".into() };
        let setting = RootfsSetting { path: path.to_owned(), source };
        let home = Home::at(self.path("home"));
        let settings = Settings::load(
            &crate::schema(),
            home,
            Environment::from_pairs([("HOME", "/")]),
            Vec::new(),
        );
        let settings = NativeSettings::read(&settings, &Overrides::default()).unwrap();
        provide_blocking(&setting, &settings, &self.path("cache"), progress, &self.cancelled)
    }

    /// Unpacks an archive.
    pub(super) fn unpack(&self, archive: Archive) -> Result<PathBuf, BackendError> {
        let path = self.file("root.tar", &archive.bytes());
        self.provide(&path).map(|rootfs| rootfs.dir)
    }

    /// Returns why something is refused.
    pub(super) fn refused(&self, path: &Path) -> String {
        match self.provide(path) {
            Err(BackendError::Advised { problem, .. }) => problem,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn cached_names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}
