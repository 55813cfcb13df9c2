//! Finding what a path of the host leads to, without being led astray.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, openat, readlinkat, statx};
use serde::{Deserialize, Serialize};

/// Links that are followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InodeIdentity {
    /// Number of its device, which may change when the machine is started.
    pub(crate) device: u64,
    /// Its number there.
    pub(crate) inode: u64,
    /// When it was made, in nanoseconds since 1970, where the filesystem knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) born: Option<i64>,
}

impl InodeIdentity {
    /// Returns whether both are the same file. The time it was made tells files
    /// of one number apart, and stays when the numbers of devices change.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.inode == other.inode
            && match (self.born, other.born) {
                (Some(own), Some(others)) => own == others,
                _ => self.device == other.device,
            }
    }

    fn of(file: &OwnedFd) -> io::Result<(Self, FileType)> {
        let wanted = StatxFlags::INO | StatxFlags::TYPE | StatxFlags::BTIME;
        let found = statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
        let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let born = found
            .stx_btime
            .tv_sec
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::from(found.stx_btime.tv_nsec));
        let identity = Self {
            device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born: known.then_some(born),
        };
        Ok((identity, FileType::from_raw_mode(found.stx_mode.into())))
    }
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) struct Reached {
    /// The path without any link in it.
    pub(crate) path: PathBuf,
    /// Which file that is.
    pub(crate) identity: InodeIdentity,
    /// The file itself, to ask more of it.
    pub(crate) file: OwnedFd,
    /// Whether sandboxes can put something else in its place.
    pub(crate) replaceable: bool,
    /// Whether sandboxes can change it, or what is in it.
    pub(crate) exposed: bool,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub(crate) enum PathProblem {
    /// A link is on the way that a sandbox may have made.
    Link {
        /// Where the link is.
        at: PathBuf,
        /// What it says.
        to: PathBuf,
    },
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for PathProblem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for PathProblem {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// A directory on the way.
struct PathStep {
    name: OsString,
    file: OwnedFd,
    /// Whether sandboxes can change what is in it.
    exposed: bool,
}

/// Follows a whole path. Links are followed where only the host's users can have
/// made them: not in, or anywhere below, a directory that is `exposed`.
pub(crate) fn walk(
    path: &Path,
    exposed: impl Fn(&Path, &InodeIdentity) -> bool,
) -> Result<Reached, PathProblem> {
    if !path.is_absolute() {
        return Err(PathProblem::Io(io::ErrorKind::InvalidInput.into()));
    }
    let top = open(None, OsStr::new("/"))?;
    let (identity, _) = InodeIdentity::of(&top)?;
    let mut way = vec![PathStep {
        name: OsString::new(),
        exposed: exposed(Path::new("/"), &identity),
        file: top,
    }];
    let mut ahead = names(path);
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            if way.len() > 1 {
                way.pop();
            }
            continue;
        }
        let Some(here) = way.last() else { break };
        let found = open(Some(&here.file), &name)?;
        let (identity, kind) = InodeIdentity::of(&found)?;
        if kind != FileType::Symlink {
            let exposed = here.exposed || exposed(&path_of(&way).join(&name), &identity);
            way.push(PathStep { name, file: found, exposed });
            continue;
        }
        let text = readlinkat(&found, "", Vec::new())?;
        let text = PathBuf::from(OsString::from_vec(text.into_bytes()));
        if here.exposed {
            return Err(PathProblem::Link { at: path_of(&way).join(name), to: text });
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(PathProblem::Io(rustix::io::Errno::LOOP.into()));
        }
        if text.is_absolute() {
            way.truncate(1);
        }
        for name in names(&text).into_iter().rev() {
            ahead.push_front(name);
        }
    }
    let path = path_of(&way);
    let Some(reached) = way.pop() else {
        return Err(PathProblem::Io(io::ErrorKind::NotFound.into()));
    };
    let (identity, _) = InodeIdentity::of(&reached.file)?;
    let replaceable = way.last().is_some_and(|above| above.exposed);
    Ok(Reached { path, identity, file: reached.file, replaceable, exposed: reached.exposed })
}

/// Returns where the links are that a path leads through, as far as it leads.
pub(crate) fn links_on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut here = PathBuf::from("/");
    let mut ahead = names(path);
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            here.pop();
            continue;
        }
        let at = here.join(&name);
        let Ok(text) = std::fs::read_link(&at) else {
            here = at;
            continue;
        };
        links.push(at);
        if links.len() > MAX_LINKS {
            break;
        }
        if text.is_absolute() {
            here = PathBuf::from("/");
        }
        for name in names(&text).into_iter().rev() {
            ahead.push_front(name);
        }
    }
    links
}

fn path_of(way: &[PathStep]) -> PathBuf {
    way.iter().skip(1).fold(PathBuf::from("/"), |path, step| path.join(&step.name))
}

/// Opens a name in a directory: a link itself, not what it names.
fn open(directory: Option<&OwnedFd>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match directory {
        Some(directory) => openat(directory, name, flags, Mode::empty()),
        None => openat(CWD, name, flags, Mode::empty()),
    }
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn identity(path: &Path) -> InodeIdentity {
        walk(path, |_, _| false).unwrap().identity
    }

    #[test]
    fn links_of_the_host_are_followed_and_those_a_sandbox_can_make_are_not() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("shared/inner")).unwrap();
        fs::create_dir_all(root.join("own/real")).unwrap();
        symlink("own/real", root.join("link")).unwrap();
        symlink(root.join("shared"), root.join("to-shared")).unwrap();
        symlink(root.join("own"), root.join("shared/planted")).unwrap();
        symlink("../../own", root.join("shared/inner/planted")).unwrap();
        let shared = identity(&root.join("shared"));
        let follow = |path: &str| walk(&root.join(path), |_, found| found.is(&shared));

        assert_eq!(follow("link/../real").unwrap().path, root.join("own/real"));
        assert_eq!(follow("link").unwrap().identity, identity(&root.join("own/real")));
        // Its own place is not for a sandbox to change.
        assert_eq!(follow("to-shared").unwrap().path, root.join("shared"));
        assert_eq!(follow("to-shared/inner").unwrap().path, root.join("shared/inner"));
        // Only what is in a place that a sandbox can change can be replaced by one.
        assert!(!follow("shared").unwrap().replaceable && !follow("link").unwrap().replaceable);
        assert!(follow("shared/inner").unwrap().replaceable);
        for (path, at) in [
            ("shared/planted", "shared/planted"),
            ("shared/planted/real", "shared/planted"),
            ("to-shared/inner/planted/real", "shared/inner/planted"),
            ("link/../../shared/planted", "shared/planted"),
        ] {
            let astray = follow(path).unwrap_err();
            assert!(
                matches!(&astray, PathProblem::Link { at: found, .. } if *found == root.join(at))
            );
        }
        assert!(matches!(follow("nothing").unwrap_err(), PathProblem::Io(_)));
    }

    #[test]
    fn the_links_that_a_path_leads_through_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("data/inner")).unwrap();
        symlink("data", root.join("link")).unwrap();
        symlink(root.join("link/inner"), root.join("second")).unwrap();
        let reported = |path: &str| links_on_the_way(&root.join(path));
        assert_eq!(reported("data/inner"), Vec::<PathBuf>::new());
        assert_eq!(reported("link/inner/missing"), [root.join("link")]);
        assert_eq!(reported("second/x"), [root.join("second"), root.join("link")]);
        symlink("loop", root.join("loop")).unwrap();
        assert!(reported("loop").len() > MAX_LINKS);
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_is_another() {
        let a = InodeIdentity { device: 1, inode: 2, born: Some(3) };
        assert!(a.is(&InodeIdentity { device: 9, ..a }));
        assert!(!a.is(&InodeIdentity { born: Some(4), ..a }));
        assert!(!a.is(&InodeIdentity { inode: 4, ..a }));
        let old = InodeIdentity { born: None, ..a };
        assert!(old.is(&a) && !old.is(&InodeIdentity { device: 9, ..a }));
    }
}
