//! Notices that logs were written to, so that a follower need not look at them all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use rustix::io::Errno;

use crate::files::LogFiles;

/// Reports when logs may have more than before: they were written, rotated, made or emptied.
///
/// The descriptor is readable then. It is never too late: what happens after [`LogWatch::new`] or
/// [`LogWatch::take`] makes it readable again.
#[derive(Debug)]
pub struct LogWatch {
    fd: OwnedFd,
    /// The directories of the logs, which need not exist.
    dirs: BTreeSet<PathBuf>,
    watched: BTreeMap<i32, PathBuf>,
}

impl LogWatch {
    /// Watches logs, whether or not they exist yet. It fails where the system has no more watches to
    /// give; then logs can only be looked at from time to time.
    pub fn new<'a>(logs: impl IntoIterator<Item = &'a LogFiles>) -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let dir = |files: &LogFiles| files.path().parent().map(Path::to_owned);
        let dirs = logs.into_iter().filter_map(dir).collect();
        let mut watch = Self { fd, dirs, watched: BTreeMap::new() };
        watch.take()?;
        Ok(watch)
    }

    /// Watches other logs, too, and directories in which logs may come to be.
    pub fn add<'a>(
        &mut self,
        logs: impl IntoIterator<Item = &'a LogFiles>,
        dirs: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<()> {
        let dir = |files: &LogFiles| files.path().parent().map(Path::to_owned);
        self.dirs.extend(logs.into_iter().filter_map(dir).chain(dirs));
        while !self.watch()? {}
        Ok(())
    }

    /// Takes what has happened so far. Look at the logs after this, not before.
    pub fn take(&mut self) -> io::Result<()> {
        // A directory may have been made, or another one has its name now.
        while !self.watch()? {}
        // After that: a watch that is given up reports its own end.
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        loop {
            match reader.next() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Watches the directories, and, for those that do not exist, the nearest one above. Reports
    /// whether they were watched before: what was made before the directory above it was watched is
    /// found by another call.
    fn watch(&mut self) -> io::Result<bool> {
        let below = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let written = below | WatchFlags::MODIFY | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
        let mut watched = BTreeMap::new();
        for dir in &self.dirs {
            for ancestor in dir.ancestors() {
                // A directory above may be that of another log.
                let flags = if self.dirs.contains(ancestor) { written } else { below };
                match add_watch(&self.fd, ancestor, flags) {
                    Ok(number) => {
                        watched.insert(number, ancestor.to_owned());
                        break;
                    }
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        for number in self.watched.keys().filter(|number| !watched.contains_key(number)) {
            // The watch of a directory that was removed is gone already.
            remove_watch(&self.fd, *number).ok();
        }
        let is_same = self.watched == watched;
        self.watched = watched;
        Ok(is_same)
    }
}

impl AsFd for LogWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for LogWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::writer::LogWriter;

    /// Reports whether something happened.
    fn is_readable(watch: &LogWatch) -> bool {
        let mut fds = [PollFd::new(watch, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    #[test]
    fn a_log_that_is_made_written_rotated_or_removed_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let files = LogFiles::new(dir.path().join("logs/gateways/work/current"), 100, 2);
        let other = LogFiles::new(dir.path().join("logs/agent.log"), 100, 2);
        let mut watch = LogWatch::new([&files, &other]).unwrap();
        let mut take = |what: &str| {
            assert!(is_readable(&watch), "{what}");
            watch.take().unwrap();
            assert!(!is_readable(&watch), "{what}: only once");
        };
        let mut log = LogWriter::new(files.clone());
        for number in 0..10 {
            log.write(format!("line {number} {}\n", "x".repeat(30)).as_bytes()).unwrap();
            take(&format!("line {number}"));
        }
        assert!(files.numbered(2).exists());
        LogWriter::new(other).write(b"line\n").unwrap();
        take("the other log");
        std::fs::remove_dir_all(dir.path().join("logs/gateways")).unwrap();
        take("the directory is gone");
        LogWriter::new(files).write(b"line\n").unwrap();
        take("there is another");
        // What is beside the logs wakes nobody up.
        std::fs::write(dir.path().join("state.json"), "").unwrap();
        std::fs::write(dir.path().join("logs/gateways/work/current"), "").unwrap();
        take("it is emptied");
    }

    #[test]
    fn logs_and_directories_that_are_added_are_watched_from_then_on() {
        let dir = tempfile::tempdir().unwrap();
        let files = LogFiles::new(dir.path().join("agent.log"), 100, 2);
        let mut watch = LogWatch::new([&files]).unwrap();
        let profiles = dir.path().join("profiles");
        watch.add([], [profiles.clone()]).unwrap();
        let made = profiles.join("work");
        for path in [&profiles, &made] {
            std::fs::create_dir(path).unwrap();
            assert!(is_readable(&watch), "{}", path.display());
            watch.take().unwrap();
        }
        let other = LogFiles::new(made.join("logs/agent.log"), 100, 2);
        watch.add([&other], []).unwrap();
        watch.take().unwrap();
        assert!(!is_readable(&watch));
        LogWriter::new(other).write(b"line\n").unwrap();
        assert!(is_readable(&watch));
    }
}
