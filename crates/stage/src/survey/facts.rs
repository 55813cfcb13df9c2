//! Facts about the host from which sandboxes are planned.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::accounts;

/// The system directories, by their name below `/`. A sandbox sees nothing else of
/// the host's `/`.
pub(super) const SYSTEM_DIRS: [&str; 8] =
    ["usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// The databases of package managers, which describe the system directories.
const PACKAGE_DATABASES: [(&str, &str); 3] =
    [("dpkg", "/var/lib/dpkg"), ("rpm", "/var/lib/rpm"), ("pacman", "/var/lib/pacman")];

/// Directories whose subdirectories are often restricted. Those that not everyone
/// may enter are hidden from sandboxes: users of root's sandboxes could otherwise
/// read what only root may read on the host.
const SCANNED_DIRS: [&str; 3] = ["/opt", "/usr/local", "/usr/local/etc"];

/// Parents of home directories inside of the system directories.
const HOME_PARENTS: [&str; 4] = ["/opt", "/usr/home", "/usr/local/home", "/usr/users"];

/// Where `newuidmap` and `newgidmap` are installed.
const HELPER_DIRS: [&str; 4] = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"];

/// A range of subordinate user or group ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubordinateIds {
    /// The first of them.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// What is known about the host and the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The number of the user.
    pub uid: u32,
    /// The number of the user's group.
    pub gid: u32,
    /// The user's name, or the number if it has none.
    pub user: String,
    /// The system directories that exist.
    pub system: Vec<SystemDir>,
    /// The package databases that exist.
    pub packages: Vec<PackageDatabase>,
    /// Restricted directories inside of the system directories, by their path in the
    /// sandbox.
    pub restricted: Vec<PathBuf>,
    /// Whether the system directories contain `/bin/sh`.
    pub has_shell: bool,
    /// Limits that the kernel counts per user.
    pub quotas: UserQuotas,
    /// The programs that map subordinate ids.
    pub helpers: Option<Helpers>,
    /// The user's subordinate user ids.
    pub sub_uids: Vec<SubordinateIds>,
    /// The user's subordinate group ids.
    pub sub_gids: Vec<SubordinateIds>,
}

/// A system directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemDir {
    /// Its name below `/`.
    pub name: &'static str,
    /// What it is.
    pub kind: SystemDirKind,
}

/// Whether a system directory is a directory or a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemDirKind {
    /// A directory.
    Directory {
        /// Its real path on the host.
        source: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A link into another system directory, with its text.
    Link(OsString),
}

/// Limits of this user for what the kernel counts per user; `None` is unlimited or
/// unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserQuotas {
    /// Instances of inotify.
    pub inotify_instances: Option<u64>,
    /// Watches of inotify.
    pub inotify_watches: Option<u64>,
    /// Queued signals and POSIX timers.
    pub pending_signals: Option<u64>,
    /// Bytes in POSIX message queues.
    pub message_queues: Option<u64>,
}

/// A directory of the package manager, which a sandbox gets layers of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageDatabase {
    /// Name of the directory for its overlay layers.
    pub name: &'static str,
    /// Its path.
    pub target: &'static str,
    /// What it is.
    pub kind: SystemDirKind,
}

/// Why the sandboxes of a user can have a single user only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleUserReason {
    /// The user has no subordinate ids.
    NoSubordinateIds,
    /// `newuidmap` or `newgidmap` is not installed.
    NoHelpers,
}

/// The programs `newuidmap` and `newgidmap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helpers {
    /// The one for users.
    pub newuidmap: PathBuf,
    /// The one for groups.
    pub newgidmap: PathBuf,
}

/// The user and group that a sandbox is built by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserIds {
    /// The number of the user.
    pub uid: u32,
    /// The number of the user's group.
    pub gid: u32,
}

impl UserIds {
    /// Returns those of this process.
    pub fn current() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

impl HostFacts {
    /// Gathers the facts about this host.
    pub fn gather() -> Self {
        let mut facts = Self::gather_from(Path::new("/"), UserIds::current());
        // With no_new_privs, setuid helpers have no effect.
        if rustix::thread::no_new_privs().unwrap_or(false) {
            facts.helpers = None;
        }
        facts
    }

    /// Gathers the facts about a host whose `/` is at `root`. What cannot be read
    /// counts as absent; the probe shows whether it was needed.
    pub fn gather_from(root: &Path, user_ids: UserIds) -> Self {
        let host = HostRoot { root };
        let passwd = host.text("/etc/passwd");
        let user =
            accounts::user_name(&passwd, user_ids.uid).unwrap_or_else(|| user_ids.uid.to_string());
        let sub = |file: &str| subordinates(&host.text(file), &user, user_ids.uid);
        Self {
            uid: user_ids.uid,
            gid: user_ids.gid,
            system: host.system(),
            packages: host.packages(),
            restricted: host.restricted(&passwd),
            has_shell: host.has_shell(),
            quotas: host.user_quotas(),
            helpers: host.helpers(),
            sub_uids: sub("/etc/subuid"),
            sub_gids: sub("/etc/subgid"),
            user,
        }
    }

    /// Returns whether the user is root.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Returns why the sandboxes of this user can have a single user only.
    pub fn single_user_reason(&self) -> Option<SingleUserReason> {
        if self.is_root() {
            None
        } else if self.sub_uids.is_empty() || self.sub_gids.is_empty() {
            Some(SingleUserReason::NoSubordinateIds)
        } else if self.helpers.is_none() {
            Some(SingleUserReason::NoHelpers)
        } else {
            None
        }
    }
}

/// A host whose `/` is at `root`.
struct HostRoot<'a> {
    root: &'a Path,
}

impl HostRoot<'_> {
    /// Returns the location of a path of the host.
    fn locate(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the path of the host at a location.
    fn path_at(&self, path_here: &Path) -> Option<PathBuf> {
        path_here.strip_prefix(self.root).ok().map(|rest| Path::new("/").join(rest))
    }

    fn text(&self, path: &str) -> String {
        let bytes = fs::read(self.locate(path)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn system(&self) -> Vec<SystemDir> {
        let found = |name: &'static str| {
            self.kind(&format!("/{name}")).map(|kind| SystemDir { name, kind })
        };
        SYSTEM_DIRS.into_iter().filter_map(found).collect()
    }

    fn packages(&self) -> Vec<PackageDatabase> {
        let found = |(name, target): (&'static str, &'static str)| {
            self.kind(target).map(|kind| PackageDatabase { name, target, kind })
        };
        PACKAGE_DATABASES.into_iter().filter_map(found).collect()
    }

    /// Returns the kind of a system directory. A link that leads out of the system
    /// directories counts as the directory behind it.
    fn kind(&self, path: &str) -> Option<SystemDirKind> {
        let path_here = self.locate(path);
        let itself = fs::symlink_metadata(&path_here).ok()?;
        if itself.is_dir() {
            return Some(SystemDirKind::Directory {
                source: path_here,
                mode: itself.permissions().mode() & 0o777,
            });
        }
        if !itself.is_symlink() {
            return None;
        }
        let text = fs::read_link(&path_here).ok()?;
        let real = self.follow(path)?;
        let metadata = fs::metadata(self.locate(&real)).ok()?;
        if !metadata.is_dir() {
            return None;
        }
        if is_shown(&real) {
            return Some(SystemDirKind::Link(text.into_os_string()));
        }
        let source = self.locate(&real);
        Some(SystemDirKind::Directory { source, mode: metadata.permissions().mode() & 0o777 })
    }

    /// Resolves all links of a path of the host.
    fn follow(&self, path: &str) -> Option<PathBuf> {
        super::resolve::real_path(self.root, Path::new(path)).ok()
    }

    fn user_quotas(&self) -> UserQuotas {
        let setting = |name: &str| self.text(&format!("/proc/sys/user/{name}")).trim().parse().ok();
        UserQuotas {
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
        let metadata = fs::metadata(self.locate(&shell));
        is_shown(&shell) && metadata.is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    }

    /// Returns the restricted directories inside of the system directories.
    fn restricted(&self, passwd: &str) -> Vec<PathBuf> {
        let mut restricted = Vec::new();
        for dir in SCANNED_DIRS {
            let Ok(entries) = fs::read_dir(self.locate(dir)) else {
                continue;
            };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.path().symlink_metadata() else {
                    continue;
                };
                if metadata.is_dir() && metadata.mode() & 0o005 != 0o005 {
                    restricted.extend(self.path_at(&entry.path()));
                }
            }
        }
        let below = |home: &Path| {
            HOME_PARENTS.iter().any(|dir| home.starts_with(dir) && home != Path::new(dir))
        };
        let homes = accounts::homes_of_regular_users(passwd).into_iter().filter(|home| below(home));
        // Hiding a link would remove the link from its directory.
        let homes = homes.filter(|home| {
            let path_here = self.locate(home);
            path_here.symlink_metadata().is_ok_and(|found| found.is_dir())
        });
        restricted.extend(homes);
        restricted.sort();
        restricted.dedup();
        restricted
    }

    fn helpers(&self) -> Option<Helpers> {
        let find = |name: &str| {
            HELPER_DIRS
                .iter()
                .map(|dir| self.locate(dir).join(name))
                .find(|path| fs::metadata(path).is_ok_and(|found| is_privileged(&found, path)))
        };
        Some(Helpers { newuidmap: find("newuidmap")?, newgidmap: find("newgidmap")? })
    }
}

/// Returns whether a program is setuid root or has file capabilities.
fn is_privileged(found: &fs::Metadata, path: &Path) -> bool {
    let mode = found.mode();
    let setuid = mode & 0o4000 != 0 && found.uid() == 0;
    let capable = || {
        let mut value = [0_u8; 64];
        rustix::fs::getxattr(path, "security.capability", &mut value).is_ok_and(|size| size > 0)
    };
    found.is_file() && mode & 0o111 != 0 && (setuid || capable())
}

/// Returns whether a path of the host is inside of a system directory.
pub fn is_shown(path: &Path) -> bool {
    SYSTEM_DIRS.iter().any(|name| path.starts_with(Path::new("/").join(name)))
}

/// Returns the ranges that `/etc/subuid` or `/etc/subgid` gives a user, by name or
/// number.
fn subordinates(text: &str, user: &str, uid: u32) -> Vec<SubordinateIds> {
    let uid = uid.to_string();
    let range = |line: &str| {
        let mut parts = line.trim().split(':');
        let owner = parts.next().filter(|owner| *owner == user || *owner == uid)?;
        let first: u32 = parts.next()?.parse().ok()?;
        let count: u32 = parts.next()?.parse().ok()?;
        let sound = !owner.is_empty()
            && parts.next().is_none()
            // Never root, and no overflow.
            && first != 0
            && count != 0
            && first.checked_add(count).is_some();
        sound.then_some(SubordinateIds { first, count })
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
