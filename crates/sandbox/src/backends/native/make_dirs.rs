//! Making the directories that a plan asks for.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, chown};

use super::plan::DirToMake;
use crate::backend::BackendError;

/// Makes what is missing. Done before every start: somebody may have deleted
/// one. What is there keeps its owner and permissions, which the sandbox's own
/// users may have changed.
pub(super) fn make(wanted: &[DirToMake]) -> Result<(), BackendError> {
    for dir in wanted {
        make_one(dir).map_err(BackendError::io(format!("make {}", dir.path.display())))?;
    }
    Ok(())
}

fn make_one(dir: &DirToMake) -> io::Result<()> {
    match fs::create_dir(&dir.path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    if let Some((uid, gid)) = dir.owner {
        chown(&dir.path, Some(uid), Some(gid))?;
    }
    // The user's mask may have taken bits away.
    fs::set_permissions(&dir.path, fs::Permissions::from_mode(dir.mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gets_its_mode_once() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dir");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        let wanted = [DirToMake { path: path.clone(), mode: 0o1777, owner: None }];
        make(&wanted).unwrap();
        assert_eq!(mode(), 0o1777);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        make(&wanted).unwrap();
        assert_eq!(mode(), 0o700, "it is somebody's now");
        let below = DirToMake { path: path.join("a/b"), mode: 0o700, owner: None };
        assert!(make(&[below]).unwrap_err().to_string().contains("a/b"));
    }
}
