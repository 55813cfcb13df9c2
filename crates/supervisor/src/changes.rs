//! Notices when the directories change that decide which slots there are.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Several changes that belong together are seen as one.
const TOGETHER: Duration = Duration::from_millis(100);

/// Watches directories by inotify.
#[derive(Debug)]
pub(crate) struct DirectoryWatch {
    fd: AsyncFd<OwnedFd>,
    watched: BTreeMap<i32, PathBuf>,
}

impl DirectoryWatch {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        #[expect(deprecated, reason = "an owned descriptor stays the same one, as it has to")]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { fd, watched: BTreeMap::new() })
    }

    /// Watches directories; those that do not exist are left out.
    pub(crate) fn watch(&mut self, dirs: Vec<PathBuf>) {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        let fd = self.fd.get_ref();
        // The same directory again is the same watch.
        let watch = |dir: PathBuf| Some((add_watch(fd, dir.as_path(), flags).ok()?, dir));
        let watched: BTreeMap<i32, PathBuf> = dirs.into_iter().filter_map(watch).collect();
        for number in self.watched.keys().filter(|number| !watched.contains_key(number)) {
            // The watch of a directory that was removed is gone already.
            remove_watch(fd, *number).ok();
        }
        self.watched = watched;
    }

    /// Waits for a change.
    pub(crate) async fn next(&mut self) -> io::Result<()> {
        self.fd.readable().await?.retain_ready();
        tokio::time::sleep(TOGETHER).await;
        let mut ready = self.fd.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_is_noticed_and_the_next_one_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut changes = DirectoryWatch::new().unwrap();
        changes.watch(vec![dir.path().join("none"), dir.path().into()]);
        assert_eq!(changes.watched.values().collect::<Vec<_>>(), [dir.path()]);
        for name in ["one", "two"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            changes.next().await.unwrap();
        }
    }
}
