//! Directories of the host that sandboxes can, or could, write to.
//!
//! A sandbox that can write to a directory can plant links in it. So the directory is
//! recorded for good, also when the sandbox is gone: one file for each, named by
//! which directory it is, in a directory of the root home. Several processes
//! add to it without a lock: each file is made whole, and changed only if it says
//! nothing, as one that an earlier version was killed over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::walk::{InodeIdentity, walk};
use crate::store::{make_private_dir, replace};

/// Name of the directory in the root home.
pub(super) const NAME: &str = "mounted";

/// Name of the file that says that what was given before is noted, too.
const SEEDED: &str = "seeded";

/// How many are kept before those are dropped whose directory is gone.
const MANY: usize = 512;

/// The directories that sandboxes of a home can or could write to.
#[derive(Debug)]
pub(crate) struct Exposed {
    dir: PathBuf,
    known: BTreeMap<u64, Vec<InodeIdentity>>,
    /// Where they were. Some filesystems give a directory another number each
    /// time it is looked up, and no time of birth.
    paths: BTreeSet<PathBuf>,
    /// Names of files that do not say where their directory was.
    placeless: BTreeSet<String>,
}

impl Exposed {
    /// Reads what the sandboxes of a root home were given. The directories in
    /// `always` are taken for such that they can write to. What `given` returns
    /// is what they were given before such notes were taken; it is asked, and
    /// noted, once in the life of a home.
    pub(crate) fn read(
        root_home: &Path,
        always: &[PathBuf],
        given: impl FnOnce() -> Vec<PathBuf>,
    ) -> io::Result<Self> {
        let mut exposed = Self::load_from(root_home.join(NAME))?;
        exposed.seed(given)?;
        for dir in always {
            if let Ok(reached) = walk(dir, |_, _| false) {
                exposed.know(reached.identity);
            }
        }
        Ok(exposed)
    }

    fn load_from(dir: PathBuf) -> io::Result<Self> {
        let (known, paths, placeless) = <(BTreeMap<_, _>, BTreeSet<_>, BTreeSet<_>)>::default();
        let mut exposed = Self { dir, known, paths, placeless };
        match fs::read_dir(&exposed.dir) {
            Ok(entries) => {
                for entry in entries {
                    let entry = entry?;
                    if let Some(identity) = entry.file_name().to_str().and_then(parse) {
                        exposed.know(identity);
                        match noted(&entry.path())? {
                            Some(path) => exposed.paths.insert(path),
                            None => exposed.placeless.insert(name(&identity)),
                        };
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(exposed)
    }

    fn know(&mut self, identity: InodeIdentity) {
        self.known.entry(identity.inode).or_default().push(identity);
    }

    /// Returns whether sandboxes can write to a directory.
    pub(crate) fn holds(&self, path: &Path, directory: &InodeIdentity) -> bool {
        if self.paths.contains(path) {
            return true;
        }
        let known = self.known.get(&directory.inode);
        known.is_some_and(|known| known.iter().any(|identity| identity.is(directory)))
    }

    /// Notes that sandboxes can write to a directory from now on.
    pub(crate) fn add(&mut self, path: &Path, identity: InodeIdentity) -> io::Result<()> {
        let name = name(&identity);
        if self.holds(path, &identity) && !self.placeless.contains(&name) {
            return Ok(());
        }
        make_private_dir(&self.dir).map_err(io::Error::other)?;
        if self.known.len() >= MANY {
            self.forget_removed_dirs();
        }
        replace(&self.dir.join(&name), path.as_os_str().as_bytes())?;
        self.placeless.remove(&name);
        self.know(identity);
        self.paths.insert(path.to_owned());
        Ok(())
    }

    /// Drops directories that are no longer where they were. Another process may
    /// do the same at this moment, and what stays is met again.
    fn forget_removed_dirs(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let known = entry.file_name().to_str().and_then(parse).is_some();
            let Ok(Some(path)) = noted(&entry.path()) else {
                continue;
            };
            let gone = fs::symlink_metadata(&path)
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            if known && gone {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    fn seed(&mut self, given: impl FnOnce() -> Vec<PathBuf>) -> io::Result<()> {
        let seeded = self.dir.join(SEEDED);
        if seeded.exists() {
            return Ok(());
        }
        for path in given() {
            // What is gone cannot be given to anybody.
            if let Ok(reached) = walk(&path, |_, _| false) {
                self.add(&reached.path, reached.identity)?;
            }
        }
        make_private_dir(&self.dir).map_err(io::Error::other)?;
        fs::write(seeded, "")
    }
}

/// Reads where a directory was; nothing if the note was dropped at this moment, or
/// was never written to its end.
fn noted(file: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read(file) {
        Ok(path) => {
            let path = PathBuf::from(std::ffi::OsString::from_vec(path));
            Ok(path.is_absolute().then_some(path))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn name(identity: &InodeIdentity) -> String {
    let InodeIdentity { device, inode, born } = identity;
    match born {
        Some(born) => format!("{device}-{inode}-{born}"),
        None => format!("{device}-{inode}"),
    }
}

fn parse(name: &str) -> Option<InodeIdentity> {
    let mut parts = name.splitn(3, '-');
    let (device, inode) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let born = match parts.next() {
        Some(born) => Some(born.parse().ok()?),
        None => None,
    };
    Some(InodeIdentity { device, inode, born })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_was_given_is_known_to_the_next_process() {
        let home = tempfile::tempdir().unwrap();
        let given = tempfile::tempdir().unwrap();
        let path = given.path();
        let identity = walk(path, |_, _| false).unwrap().identity;
        let mut exposed = Exposed::read(home.path(), &[], Vec::new).unwrap();
        assert!(!exposed.holds(path, &identity));
        exposed.add(path, identity).unwrap();
        exposed.add(path, identity).unwrap();
        let next = Exposed::read(home.path(), &[], Vec::new).unwrap();
        assert!(exposed.holds(path, &identity) && next.holds(path, &identity));
        assert!(next.holds(Path::new("/moved"), &identity));
        let mut noted: Vec<_> = fs::read_dir(home.path().join(NAME))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        noted.sort();
        assert_eq!(noted, [name(&identity), SEEDED.to_owned()]);
        let always = Exposed::read(tempfile::tempdir().unwrap().path(), &[path.into()], Vec::new);
        assert!(always.unwrap().holds(path, &identity));
    }

    #[test]
    fn a_directory_whose_number_changes_is_known_by_its_path() {
        let home = tempfile::tempdir().unwrap();
        let (path, other) = (Path::new("/fuse/given"), Path::new("/fuse/other"));
        let identity = InodeIdentity { device: 1, inode: 2, born: None };
        Exposed::read(home.path(), &[], Vec::new).unwrap().add(path, identity).unwrap();
        let next = Exposed::read(home.path(), &[], Vec::new).unwrap();
        let renumbered = InodeIdentity { inode: 3, ..identity };
        assert!(next.holds(path, &renumbered));
        assert!(!next.holds(other, &renumbered));
    }

    #[test]
    fn what_another_process_drops_fails_nothing() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(NAME)).unwrap();
        for inode in 0..MANY as u64 {
            let note = name(&InodeIdentity { device: 1, inode, born: None });
            fs::write(home.path().join(NAME).join(note), format!("/nonexistent/{inode}")).unwrap();
        }
        let mut exposed = Exposed::read(home.path(), &[], Vec::new).unwrap();
        // What is listed and cannot be read, as a file that was just dropped.
        std::os::unix::fs::symlink("nowhere", home.path().join(NAME).join("1-99999")).unwrap();
        let given = tempfile::tempdir().unwrap();
        let identity = walk(given.path(), |_, _| false).unwrap().identity;
        exposed.add(given.path(), identity).unwrap();
        let next = Exposed::read(home.path(), &[], Vec::new).unwrap();
        assert!(next.holds(given.path(), &identity));
    }

    #[test]
    fn what_was_given_before_notes_were_taken_is_noted_once() {
        let home = tempfile::tempdir().unwrap();
        let given = tempfile::tempdir().unwrap();
        let path = given.path().canonicalize().unwrap();
        let identity = walk(&path, |_, _| false).unwrap().identity;
        let before = || vec![path.clone(), "/nonexistent".into()];
        let exposed = Exposed::read(home.path(), &[], before).unwrap();
        let next = Exposed::read(home.path(), &[], || panic!("it is noted")).unwrap();
        assert!(exposed.holds(&path, &identity) && next.holds(&path, &identity));
    }

    #[test]
    fn a_note_that_was_never_written_to_its_end_counts_and_is_written_again() {
        let home = tempfile::tempdir().unwrap();
        let given = tempfile::tempdir().unwrap();
        let path = given.path().canonicalize().unwrap();
        let identity = walk(&path, |_, _| false).unwrap().identity;
        let note = home.path().join(NAME).join(name(&identity));
        fs::create_dir(home.path().join(NAME)).unwrap();
        fs::write(&note, "").unwrap();
        let mut exposed = Exposed::read(home.path(), &[], Vec::new).unwrap();
        exposed.forget_removed_dirs();
        let next = Exposed::read(home.path(), &[], Vec::new).unwrap();
        assert!(next.holds(Path::new("/anywhere"), &identity));
        exposed.add(&path, identity).unwrap();
        assert_eq!(fs::read(&note).unwrap(), path.as_os_str().as_bytes());
    }

    #[test]
    fn names_tell_which_directory_it_is() {
        for born in [None, Some(7), Some(-7)] {
            let identity = InodeIdentity { device: 1, inode: 2, born };
            assert_eq!(parse(&name(&identity)), Some(identity));
        }
        assert_eq!(parse("1-x"), None);
    }
}
