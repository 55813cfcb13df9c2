//! Who holds a lock on a file, by the system's list.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// Of the whole file, by `flock`.
    Whole,
    /// For writing, of this byte, by `fcntl`.
    Byte(u64),
}

/// Returns the process that holds a lock on a file; nothing where nobody does, or
/// the system does not say. The file is not opened: closing it would drop the
/// locks that this process has on it.
pub fn lock_holder(path: &Path, lock: Lock) -> io::Result<Option<u32>> {
    let inode = fs::metadata(path)?.ino();
    Ok(holder(&fs::read_to_string("/proc/locks")?, inode, lock))
}

/// Finds it in lines like `1: FLOCK  ADVISORY  WRITE 834 00:1a:12345 0 EOF`. Those
/// who wait for a lock have an arrow in the place of the kind.
///
/// The device is not compared: some file systems have another here than in what
/// they say about a file.
fn holder(locks: &str, inode: u64, lock: Lock) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, kind, _, access, pid, file, first, last] = fields[..] else { return None };
        let is_it = match lock {
            Lock::Whole => kind == "FLOCK",
            Lock::Byte(byte) => {
                let begins = first.parse().is_ok_and(|first: u64| first <= byte);
                let ends = last == "EOF" || last.parse().is_ok_and(|last: u64| last >= byte);
                kind == "POSIX" && access == "WRITE" && begins && ends
            }
        };
        let named = file.rsplit(':').next().and_then(|inode| inode.parse().ok());
        (is_it && named == Some(inode)).then(|| pid.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_the_one_that_the_system_names_for_the_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 00:1a:77 120 120\n\
                     2: POSIX  ADVISORY  READ  13 00:1a:77 123 123\n\
                     3: FLOCK  ADVISORY  WRITE 34 08:01:77 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 56 08:01:99 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 78 08:01:99 0 EOF\n";
        assert_eq!(holder(locks, 77, Lock::Whole), Some(34));
        assert_eq!(holder(locks, 99, Lock::Whole), Some(78));
        assert_eq!(holder(locks, 77, Lock::Byte(120)), Some(12));
        assert_eq!(holder(locks, 77, Lock::Byte(123)), None);
        assert_eq!(holder(locks, 1, Lock::Whole), None);
    }

    #[test]
    fn whoever_locks_a_file_is_found() {
        let path = std::env::temp_dir().join(format!("vestal-locks-{}", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        assert_eq!(lock_holder(&path, Lock::Whole).unwrap(), None);
        file.lock().unwrap();
        assert_eq!(lock_holder(&path, Lock::Whole).unwrap(), Some(std::process::id()));
        drop(file);
        fs::remove_file(path).unwrap();
    }
}
