//! Snapshots of a machine's `/etc` for sandboxes.
//!
//! A snapshot holds an allow-list of files that everyone on the machine can read, and accounts
//! without people.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::survey::accounts::Accounts;
use crate::survey::facts::is_shown;
use crate::survey::resolve;

/// The host name in every sandbox. It is part of the snapshot's `/etc/hosts`.
pub const HOSTNAME: &str = "vestal";

/// Configures apt not to switch to its own user for downloads. It lies outside of
/// apt's directories, and is only bound into sandboxes that have a single user.
pub const APT_NO_SANDBOX: &str = "vestal/apt-alone.conf";

/// Deepest directory that is copied.
const MAX_DEPTH: usize = 8;

/// Most entries of a snapshot.
const MAX_ENTRIES: usize = 20_000;

/// Largest file of a snapshot.
const MAX_FILE: u64 = 16 << 20;

/// Mode of files that only root may read.
const ROOT_ONLY: u32 = 0o600;

/// The content of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcScan {
    /// Entries by their path below `/etc`.
    pub entries: BTreeMap<PathBuf, EtcEntry>,
}

/// An entry of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcEntry {
    /// A directory.
    Directory,
    /// A symbolic link with its text.
    Link(PathBuf),
    /// A file of the host.
    File {
        /// Its path on the host.
        source: PathBuf,
        /// Its permissions in the snapshot.
        mode: u32,
        /// Changes when the file does.
        state: FileState,
    },
    /// A file that is generated.
    Generated {
        /// What is in it.
        content: Vec<u8>,
        /// Its permissions.
        mode: u32,
    },
}

/// What identifies a version of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Its bytes.
    pub size: u64,
    /// Its inode.
    pub inode: u64,
    /// When it was changed: seconds and nanoseconds.
    pub modified: (i64, i64),
}

impl EtcScan {
    /// Scans a host whose `/` is at `root`.
    pub fn of(root: &Path) -> Self {
        let mut scanner = EtcScanner { root, scan: Self { entries: BTreeMap::new() } };
        for name in NAMES {
            scanner.add_listed(Path::new(name));
        }
        for name in scanner.versioned_names() {
            scanner.add_listed(&name);
        }
        scanner.add_accounts();
        scanner.add_name_resolution();
        scanner.add_link("mtab", "../proc/self/mounts");
        scanner.scan.entries.insert("vestal".into(), EtcEntry::Directory);
        scanner.add_generated(APT_NO_SANDBOX, "APT::Sandbox::User \"root\";\n", 0o644);
        scanner.scan
    }
}

struct EtcScanner<'a> {
    root: &'a Path,
    scan: EtcScan,
}

impl EtcScanner<'_> {
    fn host_path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Adds an entry of the allow-list, if its parent directories are world-readable.
    fn add_listed(&mut self, name: &Path) {
        let above = name.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
        let open = above.clone().all(|dir| {
            let found = fs::symlink_metadata(self.host_path(&Path::new("/etc").join(dir)));
            found.is_ok_and(|found| found.is_dir() && is_world_listable(&found))
        });
        let path = self.host_path(&Path::new("/etc").join(name));
        if open && self.add(name, &path, 0) {
            let above: Vec<PathBuf> = above.map(Path::to_owned).collect();
            for dir in above {
                self.scan.entries.entry(dir).or_insert(EtcEntry::Directory);
            }
        }
    }

    /// Returns the names that match [`PREFIXES`].
    fn versioned_names(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.host_path(Path::new("/etc"))) else {
            return Vec::new();
        };
        let fits = |name: &std::ffi::OsStr| {
            PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter(|name| fits(name)).map(PathBuf::from).collect()
    }

    /// Adds the world-readable part of a file or directory. Returns whether there
    /// is any.
    fn add(&mut self, name: &Path, path: &Path, depth: usize) -> bool {
        let Ok(found) = fs::symlink_metadata(path) else {
            return false;
        };
        if self.scan.entries.len() >= MAX_ENTRIES {
            return false;
        }
        if found.is_symlink() {
            return self.add_link_or_target(name, path, depth);
        }
        if found.is_dir() {
            return is_world_listable(&found) && self.add_directory(name, path, depth);
        }
        let accepted = found.is_file() && is_world_readable(&found) && found.size() <= MAX_FILE;
        if accepted {
            let state = FileState {
                size: found.size(),
                inode: found.ino(),
                modified: (found.mtime(), found.mtime_nsec()),
            };
            let mode = 0o644 | (found.mode() & 0o111);
            let entry = EtcEntry::File { source: path.to_owned(), mode, state };
            self.scan.entries.insert(name.to_owned(), entry);
        }
        accepted
    }

    fn add_directory(&mut self, name: &Path, path: &Path, depth: usize) -> bool {
        if depth >= MAX_DEPTH {
            return false;
        }
        let Ok(entries) = fs::read_dir(path) else {
            return false;
        };
        self.scan.entries.insert(name.to_owned(), EtcEntry::Directory);
        for entry in entries.flatten() {
            self.add(&name.join(entry.file_name()), &entry.path(), depth + 1);
        }
        true
    }

    /// Adds a link into `/etc` or a system directory. A link into one of
    /// [`FOLLOWED_DIRS`] is replaced by its target, and others are left out.
    fn add_link_or_target(&mut self, name: &Path, path: &Path, depth: usize) -> bool {
        let Ok(text) = fs::read_link(path) else {
            return false;
        };
        let from = Path::new("/etc").join(name);
        let target = resolve::lexical(&from.parent().unwrap_or(Path::new("/etc")).join(&text));
        if is_shown(&target) || target.starts_with("/etc") {
            self.scan.entries.insert(name.to_owned(), EtcEntry::Link(text));
            return true;
        }
        let followed = resolve::real_path(self.root, &target)
            .ok()
            .filter(|real| FOLLOWED_DIRS.iter().any(|dir| real.starts_with(dir)));
        match followed {
            Some(real) => {
                let path = self.host_path(&real);
                self.add(name, &path, depth)
            }
            None => false,
        }
    }

    /// Returns the content of a world-readable file, following links.
    fn content(&self, path: &str) -> Option<Vec<u8>> {
        let path = self.host_path(&resolve::real_path(self.root, Path::new(path)).ok()?);
        let found = fs::symlink_metadata(&path).ok()?;
        let fits = found.is_file() && is_world_readable(&found) && found.size() <= MAX_FILE;
        fs::read(path).ok().filter(|_| fits)
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&self.content(path).unwrap_or_default()).into_owned()
    }

    fn add_generated(&mut self, name: &str, content: impl Into<Vec<u8>>, mode: u32) {
        let entry = EtcEntry::Generated { content: content.into(), mode };
        self.scan.entries.insert(name.into(), entry);
    }

    fn add_link(&mut self, name: &str, text: &str) {
        self.scan.entries.insert(name.into(), EtcEntry::Link(text.into()));
    }

    fn add_accounts(&mut self) {
        let has_bash = resolve::real_path(self.root, Path::new("/bin/bash")).is_ok();
        let shell = if has_bash { "/bin/bash" } else { "/bin/sh" };
        let [passwd, group, login_defs] =
            ["/etc/passwd", "/etc/group", "/etc/login.defs"].map(|path| self.text(path));
        let made = Accounts::of(&passwd, &group, &login_defs, shell);
        self.add_generated("passwd", made.passwd, 0o644);
        self.add_generated("group", made.group, 0o644);
        self.add_generated("shadow", made.shadow, ROOT_ONLY);
        self.add_generated("gshadow", made.gshadow, ROOT_ONLY);
    }

    /// Adds `resolv.conf` and `hosts`. They always exist, because sandboxes with a
    /// root filesystem of their own get these two files as well.
    fn add_name_resolution(&mut self) {
        // It is often a link to a file of the network manager.
        let resolv = self.content("/etc/resolv.conf").unwrap_or_default();
        self.add_generated("resolv.conf", resolv, 0o644);
        let mut hosts = self.text("/etc/hosts");
        if hosts.is_empty() {
            hosts.push_str("127.0.0.1 localhost\n::1 localhost\n");
        }
        if !hosts.ends_with('\n') {
            hosts.push('\n');
        }
        // Many programs look up their own host name.
        hosts.push_str("127.0.1.1 ");
        hosts.push_str(HOSTNAME);
        hosts.push('\n');
        self.add_generated("hosts", hosts, 0o644);
    }
}

/// Returns whether everyone on the host may read a file.
pub(super) fn is_world_readable(found: &fs::Metadata) -> bool {
    found.mode() & 0o004 != 0
}

/// Returns whether everyone on the host may enter and list a directory.
fn is_world_listable(found: &fs::Metadata) -> bool {
    found.mode() & 0o005 == 0o005
}

/// A line that marks a private key in any file.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

impl EtcScan {
    /// Writes the snapshot into an empty directory.
    pub fn write(&self, into: &Path) -> io::Result<()> {
        // In the order of names, a directory comes before its content.
        for (name, entry) in &self.entries {
            let target = into.join(name);
            match entry {
                EtcEntry::Directory => make_directory(&target)?,
                EtcEntry::Link(text) => symlink(text, &target)?,
                EtcEntry::Generated { content, mode } => write(&target, content, *mode)?,
                EtcEntry::File { source, mode, .. } => {
                    if let Some(content) = public_content(source)? {
                        write(&target, &content, *mode)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the content of a file; `None` if it is gone, is no longer
/// world-readable, or holds a private key.
fn public_content(source: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(source);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if was_replaced(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() || !is_world_readable(&found) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let has_key = content.windows(PRIVATE_KEY.len()).any(|window| window == PRIVATE_KEY);
    Ok((!has_key).then_some(content))
}

/// Returns whether a file was removed or replaced since the scan.
fn was_replaced(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(libc::ELOOP)
}

/// Makes a directory that everyone may enter.
pub(in crate::survey) fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    // The umask may have cleared bits.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Names below `/etc`; a directory is copied with its content. These are what
/// programs and package managers need to run, to resolve names and to verify
/// peers. Directories that usually hold credentials are not listed.
pub(super) const NAMES: &[&str] = &[
    // Programs and libraries.
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "shells",
    "magic",
    "magic.mime",
    "mime.types",
    "mailcap",
    "terminfo",
    "fonts",
    "xattr.conf",
    "perl",
    "python",
    "python3",
    "R",
    "java",
    "maven/m2.conf",
    "maven/logging",
    "texmf",
    "ghostscript",
    "vim",
    "nanorc",
    "emacs",
    "wgetrc",
    "OpenCL",
    "vulkan",
    "glvnd",
    // Shells.
    "profile",
    "profile.d",
    "bash.bashrc",
    "bashrc",
    "bash_completion",
    "inputrc",
    "zsh",
    "zshenv",
    "zshrc",
    "zprofile",
    "skel",
    "login.defs",
    "DIR_COLORS",
    // Time, language, system.
    "localtime",
    "timezone",
    "locale.alias",
    "locale.conf",
    "locale.gen",
    "default/locale",
    "os-release",
    "lsb-release",
    "debian_version",
    "redhat-release",
    "system-release",
    "fedora-release",
    "centos-release",
    "rocky-release",
    "almalinux-release",
    "arch-release",
    "alpine-release",
    "issue",
    "issue.net",
    // Networks.
    "nsswitch.conf",
    "host.conf",
    "gai.conf",
    "networks",
    "protocols",
    "services",
    "rpc",
    "netconfig",
    "bindresvport.blacklist",
    // Certificates. PrivatePaths keys lie in other directories.
    "ssl/certs",
    "ssl/openssl.cnf",
    "ssl/cert.pem",
    "ssl/ca-bundle.pem",
    "ssl/ct_log_list.cnf",
    "ca-certificates",
    "ca-certificates.conf",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "pki/tls/openssl.d",
    "pki/rpm-gpg",
    "pki/java",
    "crypto-policies",
    "gnutls",
    // PAM and account tools.
    "pam.conf",
    "pam.d",
    "security/access.conf",
    "security/limits.conf",
    "security/limits.d",
    "security/pam_env.conf",
    "adduser.conf",
    "deluser.conf",
    // Package managers, without their credentials.
    "apt/apt.conf",
    "apt/apt.conf.d",
    "apt/keyrings",
    "apt/preferences",
    "apt/preferences.d",
    "apt/sources.list",
    "apt/sources.list.d",
    "apt/trusted.gpg",
    "apt/trusted.gpg.d",
    "debconf.conf",
    "dpkg",
    "ucf.conf",
    "apk/arch",
    "apk/keys",
    "apk/protected_paths.d",
    "apk/repositories",
    "apk/world",
    "dnf/dnf.conf",
    "dnf/vars",
    "yum.conf",
    "yum.repos.d",
    "yum/vars",
    "rpm",
    "zypp/repos.d",
    "zypp/zypp.conf",
    "pacman.conf",
    "pacman.d/mirrorlist",
];

/// Prefixes of versioned names that are copied as well.
pub(super) const PREFIXES: &[&str] = &["ImageMagick-", "java-", "ld-musl-", "python3."];

/// Directories outside of the system directories that a link of a listed name may
/// lead to. The snapshot holds the link's target in its place.
pub(super) const FOLLOWED_DIRS: &[&str] = &["/var/lib/ca-certificates"];
