//! Notices that another process has changed the schedules.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The writes of one change are seen as one.
const TOGETHER: Duration = Duration::from_millis(20);

/// Watches the directory of the file: every commit writes to the log beside it.
#[derive(Debug)]
pub(crate) struct Wake {
    fd: AsyncFd<OwnedFd>,
}

impl Wake {
    pub(crate) fn new(file: &Path) -> io::Result<Self> {
        let dir = file.parent().ok_or_else(|| io::Error::other("the file has no directory"))?;
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        add_watch(&fd, dir, WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::ONLYDIR)?;
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
