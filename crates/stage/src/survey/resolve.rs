//! Resolving paths inside of a root directory, without leaving it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Most links that are followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Resolves `path` as a process whose `/` is `root` would, and returns the path that
/// this process would see. A path that does not exist is an error.
pub fn real_path(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let walk = walk(root, path)?;
    match walk.missing {
        None => Ok(walk.reached),
        Some(_) => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Like [`real_path`], for a path that need not exist: the names from the first
/// missing one on are kept as they are.
pub fn real_target(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let walk = walk(root, path)?;
    Ok(walk.missing.into_iter().fold(walk.reached, |path, rest| path.join(rest)))
}

struct Walk {
    /// The part that exists, as a path inside of the root.
    reached: PathBuf,
    /// The rest.
    missing: Option<PathBuf>,
}

fn walk(root: &Path, path: &Path) -> io::Result<Walk> {
    let mut reached = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(path);
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            reached.pop();
            continue;
        }
        let next = reached.join(&name);
        let place = root.join(next.strip_prefix("/").unwrap_or(&next));
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::other("too many levels of symbolic links"));
                }
                let text = fs::read_link(&place)?;
                if text.is_absolute() {
                    reached = PathBuf::from("/");
                }
                for name in names(&text).into_iter().rev() {
                    ahead.push_front(name);
                }
            }
            Ok(found) if found.is_dir() || ahead.is_empty() => reached = next,
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let rest = ahead.into_iter().filter(|name| name != "..");
                let missing = rest.fold(PathBuf::from(name), |path, name| path.join(name));
                return Ok(Walk { reached, missing: Some(missing) });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Walk { reached, missing: None })
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Resolves `.` and `..` without looking at the filesystem.
pub fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_inside_and_never_out() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/dash"), "").unwrap();
        let links = [
            ("usr/bin", "bin"),
            ("/usr/bin/dash", "usr/bin/sh"),
            ("../../../../usr", "usr/up"),
            ("loop", "loop"),
            ("/etc", "out"),
            ("usr/missing", "dangling"),
        ];
        for (text, name) in links {
            symlink(text, root.join(name)).unwrap();
        }
        let real = |path: &str| real_path(root, Path::new(path)).ok();
        assert_eq!(real("/bin/sh"), Some("/usr/bin/dash".into()));
        assert_eq!(real("/bin/../up/../bin"), Some("/usr/bin".into()));
        assert_eq!(real("usr/up/bin"), Some("/usr/bin".into()));
        assert_eq!(real("/../../bin"), Some("/usr/bin".into()));
        for missing in ["/loop", "/out", "/dangling", "/bin/sh/x", "/nowhere"] {
            assert_eq!(real(missing), None, "{missing}");
        }
        let target = |path: &str| real_target(root, Path::new(path)).ok();
        assert_eq!(target("/bin/new/one"), Some("/usr/bin/new/one".into()));
        assert_eq!(target("/dangling/x"), Some("/usr/missing/x".into()));
        assert_eq!(target("/bin/sh/x"), None);
    }
}
