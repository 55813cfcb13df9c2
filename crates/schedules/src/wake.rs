//! Notices that another process has changed the schedules.
//!
//! Writes to the log of the file say nothing: they come before the commit is on disk, and what is not
//! committed cannot be seen. So a process touches the file after each commit, and that is watched.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The writes of one change are seen as one.
const TOGETHER: Duration = Duration::from_millis(20);

/// Says that a change was committed. One that is not said is noticed within a minute.
pub(crate) fn announce(file: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    // By name: to close a descriptor of the file would drop the locks of the database.
    if let Err(error) = utimensat(CWD, file, &times, AtFlags::SYMLINK_NOFOLLOW) {
        tracing::debug!(%error, "a change of schedules was not announced");
    }
}

/// Watches the directory of the file for announcements.
#[derive(Debug)]
pub(crate) struct FileWatch {
    fd: AsyncFd<OwnedFd>,
}

impl FileWatch {
    pub(crate) fn new(file: &Path) -> io::Result<Self> {
        let dir = file.parent().ok_or_else(|| io::Error::other("the file has no directory"))?;
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        add_watch(&fd, dir, WatchFlags::ATTRIB | WatchFlags::ONLYDIR)?;
        #[expect(deprecated, reason = "an owned descriptor stays the same one, as it has to")]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { fd })
    }

    /// Waits for a change.
    pub(crate) async fn next(&self) -> io::Result<()> {
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
