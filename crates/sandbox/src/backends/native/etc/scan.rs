//! Looking at the host's `/etc`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::allowed::{NAMES, PREFIXES, TAKEN_ALONG};
use crate::backends::native::accounts::Accounts;
use crate::backends::native::facts::is_shown;
use crate::backends::native::plan::HOSTNAME;
use crate::backends::native::resolve;
use crate::key::hex;

/// Tells apt not to become another user for what it fetches. It is where apt
/// does not look: only systems whose users are one are given it.
pub(in crate::backends::native) const APT_ALONE: &str = "vestal/apt-alone.conf";

/// Changes whenever a picture of the same host would be another one.
const VERSION: u32 = 1;

/// Directories within one another that are followed.
const MAX_DEPTH: usize = 8;

/// Files and directories that a picture may have.
const MAX_ENTRIES: usize = 20_000;

/// Largest file of a picture.
const MAX_FILE: u64 = 16 << 20;

/// Permissions of files that only root reads in a system.
const FOR_ROOT: u32 = 0o600;

/// What a picture is to be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Survey {
    /// By name below `/etc`.
    pub(super) entries: BTreeMap<PathBuf, Entry>,
}

/// Something in a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A directory.
    Directory,
    /// A link.
    Link(PathBuf),
    /// A file of the host.
    File {
        /// Where it is.
        source: PathBuf,
        /// Its permissions.
        mode: u32,
        /// What tells it from what it was before.
        state: FileState,
    },
    /// A file that is made up.
    Text {
        /// What is in it.
        content: Vec<u8>,
        /// Its permissions.
        mode: u32,
    },
}

/// What changes with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    size: u64,
    inode: u64,
    modified: (i64, i64),
}

impl Survey {
    /// Looks at a host whose `/` is at `root`.
    pub(super) fn of(root: &Path) -> Self {
        let mut walk = Walk { root, survey: Self { entries: BTreeMap::new() } };
        for name in NAMES {
            walk.listed(Path::new(name));
        }
        for name in walk.versioned() {
            walk.listed(&name);
        }
        walk.accounts();
        walk.names();
        walk.link("mtab", "../proc/self/mounts");
        walk.survey.entries.insert("vestal".into(), Entry::Directory);
        walk.made_up(APT_ALONE, "APT::Sandbox::User \"root\";\n", 0o644);
        walk.survey
    }

    /// Returns what tells this state of the host from others.
    pub(super) fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(VERSION.to_le_bytes());
        let mut part = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        for (name, entry) in &self.entries {
            part(name.as_os_str().as_bytes());
            match entry {
                Entry::Directory => part(b"directory"),
                Entry::Link(text) => {
                    part(b"link");
                    part(text.as_os_str().as_bytes());
                }
                Entry::File { mode, state, .. } => {
                    part(b"file");
                    part(&mode.to_le_bytes());
                    part(&state.size.to_le_bytes());
                    part(&state.inode.to_le_bytes());
                    part(&state.modified.0.to_le_bytes());
                    part(&state.modified.1.to_le_bytes());
                }
                Entry::Text { content, mode } => {
                    part(b"text");
                    part(&mode.to_le_bytes());
                    part(content);
                }
            }
        }
        hex(&hasher.finalize()[..16])
    }
}

struct Walk<'a> {
    root: &'a Path,
    survey: Survey,
}

impl Walk<'_> {
    fn place(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Takes in what is listed, if everyone can get there.
    fn listed(&mut self, name: &Path) {
        let above = name.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
        let open = above.clone().all(|dir| {
            let found = fs::symlink_metadata(self.place(&Path::new("/etc").join(dir)));
            found.is_ok_and(|found| found.is_dir() && is_open_directory(&found))
        });
        let place = self.place(&Path::new("/etc").join(name));
        if open && self.take(name, &place, 0) {
            let above: Vec<PathBuf> = above.map(Path::to_owned).collect();
            for dir in above {
                self.survey.entries.entry(dir).or_insert(Entry::Directory);
            }
        }
    }

    /// Returns the names that carry a version.
    fn versioned(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.place(Path::new("/etc"))) else {
            return Vec::new();
        };
        let fits = |name: &std::ffi::OsStr| {
            PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter(|name| fits(name)).map(PathBuf::from).collect()
    }

    /// Takes in what is at a place, as far as everyone can read it. Returns
    /// whether there was anything.
    fn take(&mut self, name: &Path, place: &Path, depth: usize) -> bool {
        let Ok(found) = fs::symlink_metadata(place) else {
            return false;
        };
        if self.survey.entries.len() >= MAX_ENTRIES {
            return false;
        }
        if found.is_symlink() {
            return self.take_link(name, place, depth);
        }
        if found.is_dir() {
            return is_open_directory(&found) && self.take_directory(name, place, depth);
        }
        let taken = found.is_file() && is_for_everyone(&found) && found.size() <= MAX_FILE;
        if taken {
            let state = FileState {
                size: found.size(),
                inode: found.ino(),
                modified: (found.mtime(), found.mtime_nsec()),
            };
            let mode = 0o644 | (found.mode() & 0o111);
            let entry = Entry::File { source: place.to_owned(), mode, state };
            self.survey.entries.insert(name.to_owned(), entry);
        }
        taken
    }

    fn take_directory(&mut self, name: &Path, place: &Path, depth: usize) -> bool {
        if depth >= MAX_DEPTH {
            return false;
        }
        let Ok(entries) = fs::read_dir(place) else {
            return false;
        };
        self.survey.entries.insert(name.to_owned(), Entry::Directory);
        for entry in entries.flatten() {
            self.take(&name.join(entry.file_name()), &entry.path(), depth + 1);
        }
        true
    }

    /// Takes in a link that leads to what is shown. Others are left out, but for
    /// a few places whose files are taken in their stead.
    fn take_link(&mut self, name: &Path, place: &Path, depth: usize) -> bool {
        let Ok(text) = fs::read_link(place) else {
            return false;
        };
        let from = Path::new("/etc").join(name);
        let target = resolve::lexical(&from.parent().unwrap_or(Path::new("/etc")).join(&text));
        if is_shown(&target) || target.starts_with("/etc") {
            self.survey.entries.insert(name.to_owned(), Entry::Link(text));
            return true;
        }
        let along = resolve::real_path(self.root, &target)
            .ok()
            .filter(|real| TAKEN_ALONG.iter().any(|dir| real.starts_with(dir)));
        match along {
            Some(real) => {
                let place = self.place(&real);
                self.take(name, &place, depth)
            }
            None => false,
        }
    }

    /// Returns what is in a file that everyone can read, through links.
    fn content(&self, path: &str) -> Option<Vec<u8>> {
        let place = self.place(&resolve::real_path(self.root, Path::new(path)).ok()?);
        let found = fs::symlink_metadata(&place).ok()?;
        let fits = found.is_file() && is_for_everyone(&found) && found.size() <= MAX_FILE;
        fs::read(place).ok().filter(|_| fits)
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&self.content(path).unwrap_or_default()).into_owned()
    }

    fn made_up(&mut self, name: &str, content: impl Into<Vec<u8>>, mode: u32) {
        let entry = Entry::Text { content: content.into(), mode };
        self.survey.entries.insert(name.into(), entry);
    }

    fn link(&mut self, name: &str, text: &str) {
        self.survey.entries.insert(name.into(), Entry::Link(text.into()));
    }

    fn accounts(&mut self) {
        let has_bash = resolve::real_path(self.root, Path::new("/bin/bash")).is_ok();
        let shell = if has_bash { "/bin/bash" } else { "/bin/sh" };
        let [passwd, group, login_defs] =
            ["/etc/passwd", "/etc/group", "/etc/login.defs"].map(|path| self.text(path));
        let made = Accounts::of(&passwd, &group, &login_defs, shell);
        self.made_up("passwd", made.passwd, 0o644);
        self.made_up("group", made.group, 0o644);
        self.made_up("shadow", made.shadow, FOR_ROOT);
        self.made_up("gshadow", made.gshadow, FOR_ROOT);
    }

    /// Takes in how names of machines are found. Both files are always there:
    /// systems of their own are given these, too.
    fn names(&mut self) {
        // It often leads to a file of whoever manages the network.
        let resolv = self.content("/etc/resolv.conf").unwrap_or_default();
        self.made_up("resolv.conf", resolv, 0o644);
        let mut hosts = self.text("/etc/hosts");
        if hosts.is_empty() {
            hosts.push_str("127.0.0.1 localhost\n::1 localhost\n");
        }
        if !hosts.ends_with('\n') {
            hosts.push('\n');
        }
        // Many a program looks its own machine up by name.
        hosts.push_str("127.0.1.1 ");
        hosts.push_str(HOSTNAME);
        hosts.push('\n');
        self.made_up("hosts", hosts, 0o644);
    }
}

/// Returns whether everyone on the host can read a file.
pub(super) fn is_for_everyone(found: &fs::Metadata) -> bool {
    found.mode() & 0o004 != 0
}

/// Returns whether everyone on the host can enter and list a directory.
fn is_open_directory(found: &fs::Metadata) -> bool {
    found.mode() & 0o005 == 0o005
}
