//! Credential files that the settings declare, brought to sandboxes that do not see the user's
//! home.
//!
//! Each is a copy in the sandbox's home, under the name it has here, for the user of its commands
//! alone. Which those are is written down beside them, so that a copy that is not declared any
//! more is removed whoever brought it, also from a fork. Nothing ever comes back.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use vestal_config::Settings;
use vestal_wire::{FaultCode, FileKind, Metadata};

use super::Sandbox;
use crate::backend::Confinement;
use crate::client::{CallError, Connection};
use crate::files::{Depth, FileError, Files, Links, Parents, WriteOptions};
use crate::key::hex;
use crate::mounts::{OwnDirs, planted_link};
use crate::settings::keys;
use crate::store::{SandboxDir, StoreError, replace};
use crate::{CredentialError, Error};

/// Largest file that is taken.
const MAX_FILE: u64 = 1 << 20;

/// Largest list of what was brought that is read: a sandbox can write to it.
const MAX_LIST: u64 = 256 << 10;

/// Where in a sandbox it is written down what was brought.
const LIST: &str = "~/.vestal/credential-files";

/// The file beside a sandbox's record that says that something was brought once: without it and
/// without a declared file nobody asks.
const MARK: &str = "credential-files";

/// Mode of the copies.
const PRIVATE: u32 = 0o600;

/// Mode of directories that are made for them.
const PRIVATE_DIR: u32 = 0o700;

/// What was brought to a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BroughtCredentials {
    /// Which life of the guest it was: files in memory go with it.
    incarnation: String,
    files: Vec<(PathBuf, CredentialStamp)>,
}

/// What tells that a file is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CredentialStamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// A declared file.
struct DeclaredCredential {
    /// Where it is below the home, here and there.
    below: PathBuf,
    /// Its name for people.
    shown: String,
    file: File,
    stamp: CredentialStamp,
}

impl Sandbox {
    /// Brings the declared files up to date, unless the sandbox sees the user's home itself.
    pub(super) async fn bring_credentials(&self) -> Result<(), Error> {
        let engine = &self.handle.engine;
        let declared = engine.settings.get(&keys::CREDENTIAL_FILES)?.value;
        let dir = engine.dir(self.key());
        let mut brought = self.handle.credentials.lock().await;
        if declared.is_empty() && brought.is_none() && !mark_of(&dir).exists() {
            return Ok(());
        }
        let (backend, ..) = self.handle.made().await;
        if backend.confinement() == Confinement::None {
            return Ok(());
        }
        let (files, notes) = {
            let engine = std::sync::Arc::clone(engine);
            let opened = tokio::task::spawn_blocking(move || open_declared(&engine.settings));
            match opened.await {
                Ok(opened) => opened?,
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            }
        };
        self.push_notes(notes);
        let connection = self.connection().await?;
        let now = BroughtCredentials {
            incarnation: connection.welcome().incarnation.clone(),
            files: files.iter().map(|file| (file.below.clone(), file.stamp)).collect(),
        };
        if brought.as_ref() == Some(&now) {
            return Ok(());
        }
        // Before anything is brought: who dies now has told the next one to look.
        if !files.is_empty() {
            mark(&dir)?;
        }
        carry(&connection, files).await?;
        *brought = Some(now);
        Ok(())
    }
}

fn mark_of(dir: &SandboxDir) -> PathBuf {
    dir.path().join(MARK)
}

fn mark(dir: &SandboxDir) -> Result<(), StoreError> {
    let path = mark_of(dir);
    if path.exists() {
        return Ok(());
    }
    replace(&path, b"").map_err(|error| StoreError::io("write", path, error))
}

/// Notes that a sandbox begins with the files of another.
pub(crate) fn inherit_mark(from: &SandboxDir, to: &SandboxDir) -> Result<(), StoreError> {
    if mark_of(from).exists() { mark(to) } else { Ok(()) }
}

/// Opens the declared files. What is not there is said, and not a reason to run nothing.
fn open_declared(settings: &Settings) -> Result<(Vec<DeclaredCredential>, Vec<String>), Error> {
    let declared = settings.get(&keys::CREDENTIAL_FILES)?.value;
    let (mut files, mut notes) = (Vec::new(), Vec::new());
    if declared.is_empty() {
        return Ok((files, notes));
    }
    let refused = |shown: &str, reason: &str| CredentialError::Refused {
        file: shown.to_owned(),
        reason: reason.to_owned(),
    };
    let home = settings.environment().user_home().ok_or(CredentialError::NoHome)?;
    let real_home = home.canonicalize().unwrap_or_else(|_| home.clone());
    let own_dirs = OwnDirs::of(settings)?;
    for wanted in declared.iter() {
        let shown = wanted.to_string();
        let below =
            wanted.below(&home).ok_or_else(|| refused(&shown, "it is not below your home"))?;
        let path = home.join(&below);
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                notes.push(format!(
                    "terminal.credential_files: {shown} is not there, and not in the sandbox"
                ));
                continue;
            }
            Err(source) => return Err(CredentialError::Unreadable { file: shown, source }.into()),
        };
        if !real.starts_with(&real_home) {
            return Err(refused(&shown, "it is a link that leads out of your home").into());
        }
        if own_dirs.hidden.iter().any(|dir| real.starts_with(dir)) {
            return Err(refused(&shown, "it is in the Vestal home, which no sandbox sees").into());
        }
        // What a sandbox can write to must not choose which file is read.
        if let Some(reason) = planted_link(settings, &path)? {
            return Err(refused(&shown, &reason).into());
        }
        let unreadable = |source| CredentialError::Unreadable { file: shown.clone(), source };
        let file = open_without_links(&real).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(refused(&shown, "it is not a file").into());
        }
        if metadata.len() > MAX_FILE {
            return Err(refused(&shown, "it is larger than 1 MiB").into());
        }
        let stamp = CredentialStamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        files.push(DeclaredCredential { below, shown, file, stamp });
    }
    Ok((files, notes))
}

/// Opens a file by its real path. A link that takes the place of a part of it is not followed.
fn open_without_links(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened: Result<OwnedFd, Errno> =
        openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    match opened {
        Ok(file) => Ok(file.into()),
        // An old kernel, or a filter that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => Ok(rustix::fs::open(path, flags, Mode::empty())?.into()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the copies in a sandbox what the files are here, and removes those of others.
async fn carry(connection: &Connection, declared: Vec<DeclaredCredential>) -> Result<(), Error> {
    let there = Files::new(connection.clone());
    let known = match there.read(LIST, MAX_LIST).await {
        Ok(bytes) => parse_list(&bytes),
        Err(error) if is_absent(&error) => Vec::new(),
        // It can be anything by now: what it may have named is brought again.
        Err(FileError::TooLarge { .. }) => Vec::new(),
        Err(error) => return Err(uncarried(LIST, error)),
    };
    let mut list = Vec::new();
    let mut changed = false;
    for DeclaredCredential { below, shown, file, .. } in declared {
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| CredentialError::Unreadable { file: shown.clone(), source })?;
        let digest = hex(&Sha256::digest(&bytes));
        let place = Path::new("~").join(&below);
        let is_as_brought = |found: Metadata| {
            found.kind == FileKind::File
                && found.mode & 0o7777 == PRIVATE
                && found.version.size == bytes.len() as u64
        };
        let is_there = known.iter().any(|(name, was)| *name == below && *was == digest)
            && there.stat(&place, Links::Keep).await.is_ok_and(is_as_brought);
        if !is_there {
            if let Some(parent) = below.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                make_dirs(&there, parent).await.map_err(|error| uncarried(&shown, error))?;
            }
            let options = WriteOptions { mode: Some(PRIVATE), ..WriteOptions::default() };
            there.write(&place, &bytes, options).await.map_err(|error| uncarried(&shown, error))?;
            changed = true;
        }
        list.push((below, digest));
    }
    for (below, _) in known.iter().filter(|(known, _)| list.iter().all(|(name, _)| name != known)) {
        match there.delete(Path::new("~").join(below), Depth::One).await {
            Err(error) if !is_absent(&error) => {
                return Err(uncarried(&below.to_string_lossy(), error));
            }
            _ => changed = true,
        }
    }
    if changed || (list.is_empty() && !known.is_empty()) {
        let options =
            WriteOptions { mode: Some(PRIVATE), parents: Parents::Make, ..WriteOptions::default() };
        let written = there.write(LIST, written_list(&list).as_bytes(), options).await;
        written.map_err(|error| uncarried(LIST, error))?;
    }
    Ok(())
}

/// Makes the directories of a path below the home that are missing.
async fn make_dirs(there: &Files, below: &Path) -> Result<(), FileError> {
    let mut dir = PathBuf::from("~");
    for part in below.components() {
        dir.push(part);
        match there.stat(&dir, Links::Follow).await {
            Ok(_) => {}
            Err(error) if is_absent(&error) => {
                there.mkdir(&dir, Parents::Make, Some(PRIVATE_DIR)).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_absent(error: &FileError) -> bool {
    matches!(error, FileError::Call(CallError::Fault(fault)) if fault.code == FaultCode::NotFound)
}

fn uncarried(file: &str, error: FileError) -> Error {
    CredentialError::NotBrought { file: file.to_owned(), source: Box::new(error) }.into()
}

/// Returns the list as it is written: a digest and a path on each line.
fn written_list(list: &[(PathBuf, String)]) -> String {
    let line = |(below, digest): &(PathBuf, String)| format!("{digest} {}", below.display());
    let lines: Vec<String> = list.iter().map(line).chain([String::new()]).collect();
    lines.join("\n")
}

/// Reads a list that the sandbox may have written itself. What it names is in its own home.
fn parse_list(bytes: &[u8]) -> Vec<(PathBuf, String)> {
    let text = String::from_utf8_lossy(bytes);
    let parse = |line: &str| {
        let (digest, path) = line.split_once(' ')?;
        let path = PathBuf::from(path);
        let is_plain =
            path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        (is_plain && !path.as_os_str().is_empty()).then(|| (path, digest.to_owned()))
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use vestal_config::{Environment, Home, Override};

    use super::*;

    /// A home with a declared file.
    struct Declared {
        dir: tempfile::TempDir,
    }

    impl Declared {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(dir.path().join("me/.vestal")).unwrap();
            std::fs::write(dir.path().join("outside"), "secret").unwrap();
            Self { dir }
        }

        fn home(&self) -> PathBuf {
            self.dir.path().join("me")
        }

        fn open(&self, file: &str) -> Result<(Vec<DeclaredCredential>, Vec<String>), Error> {
            let set = format!("terminal.credential_files=[\"{file}\"]");
            let settings = Settings::load(
                &crate::schema(),
                Home::at(self.home().join(".vestal")),
                Environment::from_pairs([("HOME", self.home())]),
                vec![Override::parse(&crate::schema(), &set).unwrap()],
            );
            open_declared(&settings)
        }

        fn refusal(&self, file: &str) -> String {
            self.open(file).err().unwrap().to_string()
        }
    }

    #[test]
    fn a_file_is_taken_from_the_home_and_from_nowhere_else() {
        let declared = Declared::new();
        let home = declared.home();
        std::fs::write(home.join(".netrc"), "machine x").unwrap();
        let (files, notes) = declared.open("~/.netrc").unwrap();
        assert_eq!((files[0].below.clone(), notes), (".netrc".into(), Vec::new()));
        // As people who keep their dotfiles in a repository have it.
        std::fs::create_dir(home.join("dotfiles")).unwrap();
        std::fs::rename(home.join(".netrc"), home.join("dotfiles/netrc")).unwrap();
        symlink("dotfiles/netrc", home.join(".netrc")).unwrap();
        assert_eq!(declared.open("~/.netrc").unwrap().0.len(), 1);

        symlink(declared.dir.path().join("outside"), home.join("way")).unwrap();
        let outside = format!("{}/outside", declared.dir.path().display());
        assert!(declared.refusal("~/way").contains("leads out of your home"));
        assert!(declared.refusal(&outside).contains("not below your home"));
        std::fs::write(home.join(".vestal/.env"), "KEY=1").unwrap();
        assert!(declared.refusal("~/.vestal/.env").contains("Vestal home"));
        symlink(".vestal/.env", home.join("env")).unwrap();
        assert!(declared.refusal("~/env").contains("Vestal home"));
        assert!(declared.refusal("~/dotfiles").contains("not a file"));
        std::fs::write(home.join("large"), vec![0; (1 << 20) + 1]).unwrap();
        assert!(declared.refusal("~/large").contains("larger than 1 MiB"));
        let (files, notes) = declared.open("~/.gone").unwrap();
        assert!(files.is_empty() && notes[0].contains("~/.gone is not there"), "{notes:?}");
    }

    #[test]
    fn a_list_that_a_sandbox_wrote_names_nothing_outside_its_home() {
        let list = [(PathBuf::from(".aws/credentials"), "ab12".to_owned())];
        assert_eq!(parse_list(written_list(&list).as_bytes()), list);
        let hostile = b"ab /etc/passwd\nab ../x\nab \n\xff\xff\nab a/../../b\nfine b";
        assert_eq!(parse_list(hostile), [(PathBuf::from("b"), "fine".to_owned())]);
    }
}
