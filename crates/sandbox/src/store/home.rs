//! The profile home: its random id, and whether it is a place to live in.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{StoreError, make_private_dir, read_versioned};
use crate::key::{HomeId, random_hex};

const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
struct HomeFile {
    version: u64,
    id: String,
}

/// A home that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// It lies on a filesystem whose locks cannot be relied on.
    #[error(
        "the home {} is on a network filesystem ({kind}), where locks are not safe",
        path.display()
    )]
    Network {
        /// The home.
        path: PathBuf,
        /// The filesystem's name.
        kind: &'static str,
    },
    /// It cannot be made or written.
    #[error("the home {} cannot be used: {source}", path.display())]
    Unusable {
        /// The home.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its id cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes the home if need be and returns its id.
pub(crate) fn open_home(path: &Path) -> Result<HomeId, HomeError> {
    let file = path.join("home.json");
    if let Some(HomeFile { id, .. }) = read_versioned(&file, VERSION)? {
        return Ok(HomeId(id));
    }
    let unusable = |source| HomeError::Unusable { path: path.into(), source };
    make_private_dir(path).map_err(|error| match error {
        StoreError::Io { source, .. } => unusable(source),
        other => HomeError::Store(other),
    })?;
    refuse_network(path)?;
    make_id(&file).map_err(unusable)?;
    // Whoever came first made the id; everyone reads that one.
    match read_versioned(&file, VERSION)? {
        Some(HomeFile { id, .. }) => Ok(HomeId(id)),
        None => Err(unusable(ErrorKind::NotFound.into())),
    }
}

/// Makes the id file unless it is there; of several processes one wins.
fn make_id(file: &Path) -> io::Result<()> {
    let temporary = file.with_extension(format!("{}.tmp", random_hex::<6>()?));
    let content = HomeFile { version: VERSION, id: random_hex::<16>()? };
    let made =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).and_then(
            |mut out| {
                serde_json::to_writer(&mut out, &content)?;
                out.write_all(b"\n")?;
                out.sync_data()?;
                match fs::hard_link(&temporary, file) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                    other => other,
                }
            },
        );
    fs::remove_file(&temporary).ok();
    made
}

fn refuse_network(path: &Path) -> Result<(), HomeError> {
    let stat = rustix::fs::statfs(path)
        .map_err(|error| HomeError::Unusable { path: path.into(), source: error.into() })?;
    match network_filesystem(stat.f_type) {
        Some(kind) => Err(HomeError::Network { path: path.into(), kind }),
        None => Ok(()),
    }
}

/// Returns the name of a network filesystem by the magic number of `statfs`.
fn network_filesystem(magic: i64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xfe53_4d42 => "SMB2",
        0xff53_4d42 => "CIFS",
        0x5346_414f => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x0102_1997 => "9P",
        0x4750_4653 => "GPFS",
        0x1980_0202 => "BeeGFS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_keeps_its_id_and_another_has_another() {
        let root = tempfile::tempdir().unwrap();
        let first = open_home(&root.path().join("a")).unwrap();
        assert_eq!(open_home(&root.path().join("a")).unwrap(), first);
        assert_ne!(open_home(&root.path().join("b")).unwrap(), first);
    }

    #[test]
    fn many_threads_that_open_a_home_agree_on_its_id() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let ids: Vec<HomeId> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..16).map(|_| scope.spawn(|| open_home(&home).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]));
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "only home.json is left");
    }

    #[test]
    fn network_filesystems_are_known_by_their_magic_and_local_ones_are_not() {
        assert_eq!(network_filesystem(0x6969), Some("NFS"));
        assert_eq!(network_filesystem(0xef53), None, "ext4");
        assert_eq!(network_filesystem(0x0102_1994), None, "tmpfs");
    }
}
