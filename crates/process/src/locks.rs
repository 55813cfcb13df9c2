//! Finds the holder of a file lock in `/proc/locks`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// How often the list is read before a lock counts as free. One reading in eighty
/// missed a lock while three processes took and released a hundred locks each.
const ATTEMPTS: u32 = 8;

/// A kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// Of the whole file, by `flock`.
    Whole,
    /// For writing, of this byte, by `fcntl`.
    Byte(u64),
}

/// Returns the pid of the process that holds a lock on a file, or nothing if none
/// does or the system does not show it. The file is not opened: closing it would
/// release this process's own locks.
///
/// The kernel prints the list a page at a time and may skip a lock if others are
/// taken or released between two pages. So the list is read several times before a
/// lock counts as free.
pub fn lock_holder(path: &Path, lock: Lock) -> io::Result<Option<u32>> {
    let inode = fs::metadata(path)?.ino();
    for _ in 0..ATTEMPTS {
        if let Some(pid) = holder(&fs::read_to_string("/proc/locks")?, inode, lock) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// Finds the pid in lines like `1: FLOCK  ADVISORY  WRITE 834 00:1a:12345 0 EOF`.
/// Lines of processes that wait for a lock have an arrow in place of the kind.
///
/// The device is not compared: some filesystems show different device numbers here.
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
    fn the_process_that_locks_a_file_is_found() {
        let path = std::env::temp_dir().join(format!("vestal-locks-{}", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        assert_eq!(lock_holder(&path, Lock::Whole).unwrap(), None);
        file.lock().unwrap();
        assert_eq!(lock_holder(&path, Lock::Whole).unwrap(), Some(std::process::id()));
        drop(file);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_lock_is_found_while_others_come_and_go() {
        let dir = std::env::temp_dir().join(format!("vestal-lock-list-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let held = fs::File::create(dir.join("held")).unwrap();
        held.lock().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (dir, done) = (&dir, &done);
                scope.spawn(move || {
                    let open = |n| fs::File::create(dir.join(format!("{thread}-{n}"))).unwrap();
                    let files: Vec<fs::File> = (0..100).map(open).collect();
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        for file in &files {
                            file.lock().unwrap();
                        }
                        for file in &files {
                            file.unlock().unwrap();
                        }
                    }
                });
            }
            let missed = (0..2000)
                .filter(|_| lock_holder(&dir.join("held"), Lock::Whole).unwrap().is_none())
                .count();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
        fs::remove_dir_all(dir).unwrap();
    }
}
