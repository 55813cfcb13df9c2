//! What the host has that a sandbox can be made of.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::accounts;
use super::tier::Lack;

/// The directories of a host that hold its programs, by their name below `/`.
/// Nothing else of `/` is shown to a sandbox.
const SYSTEM: [&str; 8] = ["usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Where package managers write down what is installed in the directories
/// above, without which none of them works.
const PACKAGES: [(&str, &str); 3] =
    [("dpkg", "/var/lib/dpkg"), ("rpm", "/var/lib/rpm"), ("pacman", "/var/lib/pacman")];

/// Directories whose entries are often not for everyone. Those that are not are
/// not for sandboxes either: where root has made one, its users could read
/// what only root can on the host.
const LOOKED_INTO: [&str; 3] = ["/opt", "/usr/local", "/usr/local/etc"];

/// Where people have their homes below the directories that are shown.
const OF_PEOPLE: [&str; 4] = ["/opt", "/usr/home", "/usr/local/home", "/usr/users"];

/// Where the helpers are that give users their subordinate numbers.
const HELPER_DIRS: [&str; 4] = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"];

/// Numbers of users or groups that belong to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::native) struct Subordinates {
    /// The first.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// What is known of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct Facts {
    /// Number of the user.
    pub uid: u32,
    /// Number of the user's group.
    pub gid: u32,
    /// The user's name; the number where there is none.
    pub user: String,
    /// The directories that hold programs.
    pub system: Vec<SystemDir>,
    /// What is written down of installed packages.
    pub packages: Vec<PackageList>,
    /// Directories below those that are not for everyone, as the sandbox would
    /// see them.
    pub private: Vec<PathBuf>,
    /// Whether a shell is among what is shown.
    pub has_shell: bool,
    /// What the kernel counts by user.
    pub counted: Counted,
    /// The helpers that map subordinate numbers.
    pub helpers: Option<Helpers>,
    /// The user's subordinate users.
    pub sub_uids: Vec<Subordinates>,
    /// The user's subordinate groups.
    pub sub_gids: Vec<Subordinates>,
}

/// A directory of programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct SystemDir {
    /// Its name below `/`.
    pub name: &'static str,
    /// What it is.
    pub kind: SystemDirKind,
}

/// What a directory of programs is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) enum SystemDirKind {
    /// A directory, with its permissions.
    Directory {
        /// Where it really is on the host.
        source: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A link into another one.
    Link(OsString),
}

/// How much of what the kernel counts by user this user may use, as far as there
/// is an end to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::backends::native) struct Counted {
    /// Instances of inotify.
    pub inotify_instances: Option<u64>,
    /// What those watch.
    pub inotify_watches: Option<u64>,
    /// Signals that wait, and timers.
    pub pending_signals: Option<u64>,
    /// Bytes of message queues.
    pub message_queues: Option<u64>,
}

/// A list of installed packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct PackageList {
    /// Name of its layers.
    pub name: &'static str,
    /// Where it is.
    pub target: &'static str,
    /// What it is.
    pub kind: SystemDirKind,
}

/// The programs `newuidmap` and `newgidmap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct Helpers {
    /// The one for users.
    pub newuidmap: PathBuf,
    /// The one for groups.
    pub newgidmap: PathBuf,
}

/// Whose facts they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::native) struct Who {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

impl Who {
    /// Returns the user of this process.
    pub(in crate::backends::native) fn current() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

impl Facts {
    /// Looks at this host.
    pub(in crate::backends::native) fn gather() -> Self {
        let mut facts = Self::of(Path::new("/"), Who::current());
        // A process that can gain no rights gains none by the helpers either.
        if rustix::thread::no_new_privs().unwrap_or(false) {
            facts.helpers = None;
        }
        facts
    }

    /// Looks at a host whose `/` is at `root`. What cannot be read is taken for
    /// absent: the trial shows whether it was needed.
    pub(in crate::backends::native) fn of(root: &Path, who: Who) -> Self {
        let host = Host { root };
        let passwd = host.text("/etc/passwd");
        let user = accounts::name_of(&passwd, who.uid).unwrap_or_else(|| who.uid.to_string());
        let sub = |file: &str| subordinates(&host.text(file), &user, who.uid);
        Self {
            uid: who.uid,
            gid: who.gid,
            system: host.system(),
            packages: host.packages(),
            private: host.private(&passwd),
            has_shell: host.has_shell(),
            counted: host.counted(),
            helpers: host.helpers(),
            sub_uids: sub("/etc/subuid"),
            sub_gids: sub("/etc/subgid"),
            user,
        }
    }

    /// Returns whether this is root.
    pub(in crate::backends::native) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Returns why an ordinary user's sandboxes can only have files of one user.
    pub(in crate::backends::native) fn lack(&self) -> Option<Lack> {
        if self.is_root() {
            None
        } else if self.sub_uids.is_empty() || self.sub_gids.is_empty() {
            Some(Lack::Subordinates)
        } else if self.helpers.is_none() {
            Some(Lack::Helpers)
        } else {
            None
        }
    }
}

/// A host, by where its `/` is.
struct Host<'a> {
    root: &'a Path,
}

impl Host<'_> {
    /// Returns where a path of the host is.
    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the path of the host that is at a place.
    fn name_of(&self, place: &Path) -> Option<PathBuf> {
        place.strip_prefix(self.root).ok().map(|rest| Path::new("/").join(rest))
    }

    fn text(&self, path: &str) -> String {
        let bytes = fs::read(self.at(path)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn system(&self) -> Vec<SystemDir> {
        let found = |name: &'static str| {
            self.kind(&format!("/{name}")).map(|kind| SystemDir { name, kind })
        };
        SYSTEM.into_iter().filter_map(found).collect()
    }

    fn packages(&self) -> Vec<PackageList> {
        let found = |(name, target): (&'static str, &'static str)| {
            self.kind(target).map(|kind| PackageList { name, target, kind })
        };
        PACKAGES.into_iter().filter_map(found).collect()
    }

    /// Returns what a directory is: a link where that leads to what is shown
    /// anyway, else the directory behind it.
    fn kind(&self, path: &str) -> Option<SystemDirKind> {
        let place = self.at(path);
        let itself = fs::symlink_metadata(&place).ok()?;
        if itself.is_dir() {
            return Some(SystemDirKind::Directory {
                source: place,
                mode: itself.permissions().mode() & 0o777,
            });
        }
        if !itself.is_symlink() {
            return None;
        }
        let text = fs::read_link(&place).ok()?;
        let real = self.follow(path)?;
        let metadata = fs::metadata(self.at(&real)).ok()?;
        if !metadata.is_dir() {
            return None;
        }
        if is_shown(&real) {
            return Some(SystemDirKind::Link(text.into_os_string()));
        }
        let source = self.at(&real);
        Some(SystemDirKind::Directory { source, mode: metadata.permissions().mode() & 0o777 })
    }

    /// Returns the path of the host that a path leads to in the end.
    fn follow(&self, path: &str) -> Option<PathBuf> {
        super::resolve::real_path(self.root, Path::new(path)).ok()
    }

    fn counted(&self) -> Counted {
        let setting = |name: &str| self.text(&format!("/proc/sys/user/{name}")).trim().parse().ok();
        Counted {
            inotify_instances: setting("max_inotify_instances"),
            inotify_watches: setting("max_inotify_watches"),
            pending_signals: getrlimit(Resource::Sigpending).current,
            message_queues: getrlimit(Resource::Msgqueue).current,
        }
    }

    fn has_shell(&self) -> bool {
        let Some(shell) = self.follow("/bin/sh") else {
            return false;
        };
        let metadata = fs::metadata(self.at(&shell));
        is_shown(&shell) && metadata.is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    }

    /// Returns directories among what is shown that are not for everyone.
    fn private(&self, passwd: &str) -> Vec<PathBuf> {
        let mut private = Vec::new();
        for dir in LOOKED_INTO {
            let Ok(entries) = fs::read_dir(self.at(dir)) else {
                continue;
            };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.path().symlink_metadata() else {
                    continue;
                };
                if metadata.is_dir() && metadata.mode() & 0o005 != 0o005 {
                    private.extend(self.name_of(&entry.path()));
                }
            }
        }
        let below = |home: &Path| {
            OF_PEOPLE.iter().any(|dir| home.starts_with(dir) && home != Path::new(dir))
        };
        let homes = accounts::homes_of_people(passwd).into_iter().filter(|home| below(home));
        // By its real name: a link would be put out of the way for it.
        let homes = homes.filter(|home| {
            let place = self.at(home);
            place.symlink_metadata().is_ok_and(|found| found.is_dir())
        });
        private.extend(homes);
        private.sort();
        private.dedup();
        private
    }

    fn helpers(&self) -> Option<Helpers> {
        let find = |name: &str| {
            HELPER_DIRS
                .iter()
                .map(|dir| self.at(dir).join(name))
                .find(|path| fs::metadata(path).is_ok_and(|found| is_privileged(&found, path)))
        };
        Some(Helpers { newuidmap: find("newuidmap")?, newgidmap: find("newgidmap")? })
    }
}

/// Returns whether a program runs with more rights than whoever starts it.
fn is_privileged(found: &fs::Metadata, path: &Path) -> bool {
    let mode = found.mode();
    let setuid = mode & 0o4000 != 0 && found.uid() == 0;
    let capable = || {
        let mut value = [0_u8; 64];
        rustix::fs::getxattr(path, "security.capability", &mut value).is_ok_and(|size| size > 0)
    };
    found.is_file() && mode & 0o111 != 0 && (setuid || capable())
}

/// Returns whether a path of the host is below a directory that is shown.
pub(in crate::backends::native) fn is_shown(path: &Path) -> bool {
    SYSTEM.iter().any(|name| path.starts_with(Path::new("/").join(name)))
}

/// Returns the numbers that a file of subordinate ones gives a user, by name or
/// number.
fn subordinates(text: &str, user: &str, uid: u32) -> Vec<Subordinates> {
    let uid = uid.to_string();
    let range = |line: &str| {
        let mut parts = line.trim().split(':');
        let owner = parts.next().filter(|owner| *owner == user || *owner == uid)?;
        let first: u32 = parts.next()?.parse().ok()?;
        let count: u32 = parts.next()?.parse().ok()?;
        let sound = !owner.is_empty()
            && parts.next().is_none()
            // Nobody is given root, nor more numbers than there are.
            && first != 0
            && count != 0
            && first.checked_add(count).is_some();
        sound.then_some(Subordinates { first, count })
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
