//! Test trees and the program that copies them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};
use tempfile::TempDir;
use vestal_testkit::namespaces::{ORDINARY_USER, in_mount_namespace, is_root};

/// The program.
pub(crate) const STAGE: &str = env!("CARGO_BIN_EXE_vestal-stage");

/// A directory with a tree to copy and the target.
pub(crate) struct TestTrees {
    dir: TempDir,
}

impl TestTrees {
    pub(crate) fn new() -> Self {
        let trees = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(trees.from()).unwrap();
        trees
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The tree.
    pub(crate) fn from(&self) -> PathBuf {
        self.dir.path().join("from")
    }

    /// Where the copy goes.
    pub(crate) fn to(&self) -> PathBuf {
        self.dir.path().join("to")
    }

    /// Writes a file of the tree and returns its path.
    pub(crate) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.from().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(STAGE);
        command.arg("copy").arg(self.from()).arg(self.to());
        command
    }

    /// Returns the command as an ordinary user, who gets the tree.
    pub(crate) fn command_of_ordinary_user(&self) -> Command {
        let mut command = self.command();
        if is_root() {
            fs::set_permissions(self.path(), Permissions::from_mode(0o777)).unwrap();
            for path in tree(&self.from()).keys() {
                lchown(self.from().join(path), Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
            }
            command.uid(ORDINARY_USER).gid(ORDINARY_USER);
        }
        command
    }

    /// Copies, and returns the last line.
    pub(crate) fn copy(&self) -> String {
        let output = self.command().output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        last_line(&output)
    }

    /// Copies, expects a failure that leaves nothing, and returns its message.
    pub(crate) fn fail(&self) -> String {
        let output = self.command().output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(!exists(&self.to()), "the target is left");
        last_line(&output)
    }
}

pub(crate) fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

pub(crate) fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// Runs a shell script in a mount namespace of its own, as its root. `$1` is
/// the program, `$2` a directory.
pub(crate) fn in_namespace(dir: &Path, script: &str) -> Output {
    in_mount_namespace(script, &[STAGE.as_ref(), dir.as_os_str()])
}

/// Everything that a copy of a file has in common with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Likeness {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    accessed: Option<(i64, i64)>,
    links: u64,
    device: u64,
    attributes: BTreeMap<String, Vec<u8>>,
    content: Option<Vec<u8>>,
}

/// Returns all files of a tree with its top, by path.
pub(crate) fn tree(top: &Path) -> BTreeMap<PathBuf, Likeness> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        let whole = top.join(&path);
        let likeness = Likeness::of(&whole);
        if likeness.kind == "directory" {
            let entries = fs::read_dir(&whole).unwrap();
            waiting.extend(entries.map(|entry| path.join(entry.unwrap().file_name())));
        }
        found.insert(path, likeness);
    }
    found
}

impl Likeness {
    pub(crate) fn of(path: &Path) -> Self {
        let metadata = fs::symlink_metadata(path).unwrap();
        let kind = metadata.file_type();
        let kind = if kind.is_dir() {
            "directory"
        } else if kind.is_file() {
            "file"
        } else if kind.is_symlink() {
            "link"
        } else if kind.is_fifo() {
            "pipe"
        } else if kind.is_char_device() {
            "character device"
        } else if kind.is_block_device() {
            "block device"
        } else {
            "socket"
        };
        let content = match kind {
            "file" => Some(fs::read(path).unwrap()),
            "link" => Some(fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()),
            _ => None,
        };
        let is_directory = kind == "directory";
        Self {
            kind,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            // Looking at a file, a link or a directory may change it.
            accessed: (!matches!(kind, "file" | "link" | "directory"))
                .then(|| (metadata.atime(), metadata.atime_nsec())),
            links: if is_directory { 0 } else { metadata.nlink() },
            device: metadata.rdev(),
            attributes: attributes(path),
            content,
        }
    }
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let length = llistxattr(path, names.as_mut_slice()).unwrap();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .filter(|name| !name.starts_with(b"security.selinux"))
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let length = lgetxattr(path, OsStr::from_bytes(name), value.as_mut_slice()).unwrap();
            value.truncate(length);
            (String::from_utf8_lossy(name).into_owned(), value)
        })
        .collect()
}
