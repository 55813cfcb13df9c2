//! Directories of the host that sandboxes can, or could, write to.
//!
//! Whoever can write to a directory can plant links in it. So it is kept in
//! mind for good, also when the sandbox is gone: one file for each, named by
//! which directory it is, in a directory of the root home. Several processes
//! add to it without a lock: each file is made once and never changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::walk::{Identity, walk};
use crate::store::make_private_dir;

/// Name of the directory in the root home.
const NAME: &str = "mounted";

/// How many are kept before those are dropped whose directory is gone.
const MANY: usize = 512;

/// The directories that sandboxes of a home can or could write to.
#[derive(Debug)]
pub(crate) struct Exposed {
    dir: PathBuf,
    known: BTreeMap<u64, Vec<Identity>>,
}

impl Exposed {
    /// Reads what the sandboxes of a root home were given. The directories in
    /// `always` are taken for such that they can write to.
    pub(crate) fn read(root_home: &Path, always: &[PathBuf]) -> io::Result<Self> {
        let dir = root_home.join(NAME);
        let mut exposed = Self { known: BTreeMap::new(), dir };
        match fs::read_dir(&exposed.dir) {
            Ok(entries) => {
                for entry in entries {
                    if let Some(identity) = entry?.file_name().to_str().and_then(parse) {
                        exposed.know(identity);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        for dir in always {
            if let Ok(reached) = walk(dir, |_| false) {
                exposed.know(reached.identity);
            }
        }
        Ok(exposed)
    }

    fn know(&mut self, identity: Identity) {
        self.known.entry(identity.inode).or_default().push(identity);
    }

    /// Returns whether sandboxes can write to a directory.
    pub(crate) fn holds(&self, directory: &Identity) -> bool {
        let known = self.known.get(&directory.inode);
        known.is_some_and(|known| known.iter().any(|identity| identity.is(directory)))
    }

    /// Notes that sandboxes can write to a directory from now on.
    pub(crate) fn add(&mut self, path: &Path, identity: Identity) -> io::Result<()> {
        if self.holds(&identity) {
            return Ok(());
        }
        make_private_dir(&self.dir).map_err(io::Error::other)?;
        if self.known.len() >= MANY {
            self.forget_what_is_gone()?;
        }
        fs::write(self.dir.join(name(&identity)), path.as_os_str().as_bytes())?;
        self.know(identity);
        Ok(())
    }

    /// Drops directories that are no longer where they were.
    fn forget_what_is_gone(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)?.flatten() {
            let path = PathBuf::from(std::ffi::OsString::from_vec(fs::read(entry.path())?));
            let gone = fs::symlink_metadata(&path)
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            if gone {
                fs::remove_file(entry.path()).ok();
            }
        }
        Ok(())
    }
}

fn name(identity: &Identity) -> String {
    let Identity { device, inode, born } = identity;
    match born {
        Some(born) => format!("{device}-{inode}-{born}"),
        None => format!("{device}-{inode}"),
    }
}

fn parse(name: &str) -> Option<Identity> {
    let mut parts = name.splitn(3, '-');
    let (device, inode) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let born = match parts.next() {
        Some(born) => Some(born.parse().ok()?),
        None => None,
    };
    Some(Identity { device, inode, born })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_was_given_is_known_to_the_next_process() {
        let home = tempfile::tempdir().unwrap();
        let given = tempfile::tempdir().unwrap();
        let identity = walk(given.path(), |_| false).unwrap().identity;
        let mut exposed = Exposed::read(home.path(), &[]).unwrap();
        assert!(!exposed.holds(&identity));
        exposed.add(given.path(), identity).unwrap();
        exposed.add(given.path(), identity).unwrap();
        let next = Exposed::read(home.path(), &[]).unwrap();
        assert!(exposed.holds(&identity) && next.holds(&identity));
        assert_eq!(fs::read_dir(home.path().join(NAME)).unwrap().count(), 1);
        let always = Exposed::read(tempfile::tempdir().unwrap().path(), &[given.path().into()]);
        assert!(always.unwrap().holds(&identity));
    }

    #[test]
    fn names_tell_which_directory_it_is() {
        for born in [None, Some(7), Some(-7)] {
            let identity = Identity { device: 1, inode: 2, born };
            assert_eq!(parse(&name(&identity)), Some(identity));
        }
        assert_eq!(parse("1-x"), None);
    }
}
