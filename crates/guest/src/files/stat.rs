//! Describes a file.

use std::path::Path;

use rustix::fs::{CWD, lstat, readlinkat, stat as stat_following};
use vestal_wire::{Fault, FileKind, FileReply};

use super::fault::OrFault;
use super::metadata::describe;

/// What to do with a symbolic link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// Looks at the link itself.
    Keep,
    /// Looks at what it points at.
    Follow,
}

impl From<bool> for Links {
    fn from(follow: bool) -> Self {
        if follow { Self::Follow } else { Self::Keep }
    }
}

/// Describes the file at `path`.
pub(super) fn stat(path: &Path, links: Links) -> Result<FileReply, Fault> {
    let found = match links {
        Links::Follow => stat_following(path),
        Links::Keep => lstat(path),
    }
    .or_fault("look at", path)?;
    let mut metadata = describe(path, &found);
    if metadata.kind == FileKind::Symlink {
        let target = readlinkat(CWD, path, Vec::new()).or_fault("look at", path)?;
        metadata.target = Some(target.into_bytes().into());
    }
    Ok(FileReply::Stat(metadata))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use vestal_wire::FaultCode;

    use super::*;
    use crate::files::testing::{Yard, metadata_of};

    #[test]
    fn a_link_is_described_itself_or_by_what_it_points_at() {
        let yard = Yard::new();
        yard.put("file", b"12345");
        symlink("file", yard.path("link")).unwrap();
        let itself = metadata_of(stat(&yard.path("link"), Links::Keep).unwrap());
        assert_eq!(itself.kind, FileKind::Symlink);
        assert_eq!(itself.target, Some(b"file".to_vec().into()));
        let behind = metadata_of(stat(&yard.path("link"), Links::Follow).unwrap());
        assert_eq!((behind.kind, behind.version.size, behind.target), (FileKind::File, 5, None));
    }

    #[test]
    fn a_dangling_link_can_only_be_described_itself() {
        let yard = Yard::new();
        symlink("nowhere", yard.path("link")).unwrap();
        assert!(stat(&yard.path("link"), Links::Keep).is_ok());
        let fault = stat(&yard.path("link"), Links::Follow).unwrap_err();
        assert_eq!(fault.code, FaultCode::NotFound);
    }
}
