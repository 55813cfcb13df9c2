//! The files of a directory, to compare before and after.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Returns the regular files of a directory with their bytes.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.is_file())
        .map(|path| (name(&path), std::fs::read(&path).unwrap()))
        .collect()
}

/// Returns the permission bits of everything in a directory.
pub fn modes(dir: &Path) -> BTreeMap<String, u32> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
    paths.map(|path| (name(&path), mode(&path))).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}
