//! Put what may travel of a profile into an archive. What may is a list of what goes, never of what
//! stays.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use vestal_config::{Home, PortableSettings, ProfileName, Schema};

use crate::create::{DESCRIPTION_FILE, MAX_DEPTH, description_text, read_description};
use crate::error::ProfileError;
use crate::profiles::Profiles;
use crate::site;

/// Files of the top level that travel.
const FILES: &[&str] = &[DESCRIPTION_FILE, "config.yaml", "SOUL.md"];
/// Directories that travel, with the files in them.
const TREES: &[&str] = &["skills", "memories"];

/// Files and directories in one archive.
pub(crate) const MAX_ENTRIES: usize = 20_000;
/// Bytes of one file.
pub(crate) const MAX_FILE: u64 = 32 << 20;
/// Bytes of all files.
pub(crate) const MAX_TOTAL: u64 = 128 << 20;
/// The largest file that an archive can be: what is in it, and what an archive adds to each entry.
pub const MAX_ARCHIVE: u64 = 160 << 20;

/// Where something in an archive belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExportPlace {
    /// A file of the top level.
    File,
    /// A directory that travels, or something in it.
    Tree,
}

/// Returns where a path below the archive's root belongs; none when it does not travel.
pub(crate) fn place(path: &[&str]) -> Option<ExportPlace> {
    match path {
        [file] if FILES.contains(file) => Some(ExportPlace::File),
        [tree, rest @ ..] if TREES.contains(tree) => {
            (!rest.iter().any(|name| holds_secrets(name))).then_some(ExportPlace::Tree)
        }
        _ => None,
    }
}

/// Endings of files that hold keys.
const ENDINGS: &[&str] = &[
    ".env",
    ".key",
    ".pem",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".gpg",
    ".asc",
    ".netrc",
];
/// Names, without what follows a dot, of files and directories that hold keys.
const NAMES: &[&str] = &[
    "auth",
    "credential",
    "credentials",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "mcp-tokens",
    "oauth",
    "secret",
    "secrets",
    "token",
    "tokens",
];

/// Reports whether something by its name holds keys, or is hidden as what holds them often is.
pub(crate) fn holds_secrets(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let stem = lower.split('.').next().unwrap_or_default();
    lower.starts_with('.')
        || ENDINGS
            .iter()
            .any(|ending| lower.ends_with(ending) || lower.contains(&format!("{ending}.")))
        || NAMES.contains(&stem)
}

/// A profile that was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The archive.
    pub path: PathBuf,
    /// Files in it.
    pub files: usize,
    /// What was left out of directories that travel: what holds secrets by its
    /// name, and what is neither a file nor a directory.
    pub left_out: Vec<PathBuf>,
    /// Settings that were left out.
    pub settings_left_out: Vec<String>,
}

/// What goes into an archive: a path below its root, a mode and the bytes.
struct ArchiveItem {
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

impl Profiles {
    /// Writes an archive of a profile to a file that must not be there yet:
    /// settings without secrets, description, persona, skills and memories.
    pub fn export(&self, name: &ProfileName, to: &Path) -> Result<Exported, ProfileError> {
        let home = self.existing(name)?;
        if to.symlink_metadata().is_ok() {
            return Err(ProfileError::FileExists { path: to.to_owned() });
        }
        let mut pack =
            Pack { name: name.clone(), items: Vec::new(), total: 0, left_out: Vec::new() };
        let settings_left_out = pack.collect(&self.schema, &home)?;
        write(to, name, &pack.items)?;
        Ok(Exported {
            path: to.to_owned(),
            files: pack.items.len(),
            left_out: pack.left_out,
            settings_left_out,
        })
    }
}

struct Pack {
    name: ProfileName,
    items: Vec<ArchiveItem>,
    total: u64,
    left_out: Vec<PathBuf>,
}

impl Pack {
    fn collect(&mut self, schema: &Schema, home: &Home) -> Result<Vec<String>, ProfileError> {
        let dir = home.dir();
        let about = description_text(&read_description(&dir)?);
        self.add(DESCRIPTION_FILE.to_owned(), 0o644, about.into_bytes())?;
        let PortableSettings { text, left_out } =
            PortableSettings::of(schema, home).map_err(|error| ProfileError::Damaged {
                path: error.path.clone(),
                reason: error.problem.to_string(),
            })?;
        self.add("config.yaml".to_owned(), 0o644, text.into_bytes())?;
        let soul = dir.join("SOUL.md");
        match fs::symlink_metadata(&soul) {
            Ok(metadata) if metadata.is_file() => self.add_file("SOUL.md".to_owned(), &soul)?,
            Ok(_) => self.left_out.push(soul),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(ProfileError::io("read", &soul)(error)),
        }
        for tree in TREES {
            self.add_tree((*tree).to_owned(), &dir.join(tree), 0)?;
        }
        Ok(left_out)
    }

    fn add_tree(&mut self, path: String, from: &Path, depth: usize) -> Result<(), ProfileError> {
        let metadata = match fs::symlink_metadata(from) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map_err(ProfileError::io("read", from))?,
        };
        let parts: Vec<&str> = path.split('/').collect();
        let travels = place(&parts).is_some() && !path.contains(char::is_control);
        if travels && metadata.is_file() {
            return self.add_file(path, from);
        }
        if !travels || !metadata.is_dir() || depth >= MAX_DEPTH {
            self.left_out.push(from.to_owned());
            return Ok(());
        }
        let entries = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(ProfileError::io("read", from))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            match entry.file_name().to_str() {
                Some(name) => self.add_tree(format!("{path}/{name}"), &entry.path(), depth + 1)?,
                None => self.left_out.push(entry.path()),
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: String, from: &Path) -> Result<(), ProfileError> {
        let metadata = fs::metadata(from).map_err(ProfileError::io("read", from))?;
        if metadata.len() > MAX_FILE {
            let reason = format!("{} is larger than {} MiB", from.display(), MAX_FILE >> 20);
            return Err(self.too_much(reason));
        }
        let mode = if metadata.permissions().mode() & 0o100 == 0 { 0o644 } else { 0o755 };
        let bytes = fs::read(from).map_err(ProfileError::io("read", from))?;
        self.add(path, mode, bytes)
    }

    fn add(&mut self, path: String, mode: u32, bytes: Vec<u8>) -> Result<(), ProfileError> {
        self.total += bytes.len() as u64;
        self.items.push(ArchiveItem { path, mode, bytes });
        if self.total > MAX_TOTAL {
            let reason = format!("it is larger than {} MiB", MAX_TOTAL >> 20);
            return Err(self.too_much(reason));
        }
        if self.items.len() > MAX_ENTRIES {
            return Err(self.too_much(format!("it has more than {MAX_ENTRIES} files")));
        }
        Ok(())
    }

    fn too_much(&self, reason: String) -> ProfileError {
        ProfileError::TooMuch { name: self.name.clone(), reason }
    }
}

/// Writes the archive beside its place and puts it there in one step.
fn write(to: &Path, name: &ProfileName, items: &[ArchiveItem]) -> Result<(), ProfileError> {
    let mut own = std::ffi::OsString::from(".");
    own.push(to.file_name().unwrap_or_default());
    own.push(format!(".{}", site::unique()));
    let new = to.with_file_name(own);
    let written = write_archive(&new, name, items).and_then(|()| put(&new, to));
    fs::remove_file(&new).ok();
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => ProfileError::FileExists { path: to.to_owned() },
        _ => ProfileError::io("write", to)(error),
    })
}

/// Puts a file in its place unless something is there.
fn put(new: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(new, to) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        // Not every filesystem has links.
        Err(_) if to.symlink_metadata().is_err() => fs::rename(new, to),
        other => other,
    }
}

fn write_archive(path: &Path, name: &ProfileName, items: &[ArchiveItem]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let gzip = GzEncoder::new(BufWriter::new(file), Compression::default());
    let mut archive = tar::Builder::new(gzip);
    for item in items {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(item.bytes.len() as u64);
        header.set_mode(item.mode);
        archive.append_data(&mut header, format!("{name}/{}", item.path), &*item.bytes)?;
    }
    let mut file = archive.into_inner()?.finish()?;
    file.flush()?;
    file.get_ref().sync_all()
}
