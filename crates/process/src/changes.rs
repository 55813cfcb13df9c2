//! Changes of files by any process, as the kernel reports them (inotify).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Event, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Reports changes of files and directories that are watched. It must be made within a runtime.
#[derive(Debug)]
pub struct FileChanges {
    fd: AsyncFd<OwnedFd>,
}

impl FileChanges {
    /// Watches nothing yet. Fails where the kernel has no more of them to give.
    pub fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        #[expect(deprecated, reason = "an owned descriptor stays the same one, as it has to")]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { fd })
    }

    /// Watches a file or directory, and returns the number that its events have. The same one again
    /// has the same number.
    pub fn watch(&self, path: &Path, what: WatchFlags) -> io::Result<i32> {
        Ok(inotify::add_watch(self.fd.get_ref(), path, what)?)
    }

    /// Ends a watch. That of a directory that was removed has ended already.
    pub fn unwatch(&self, number: i32) {
        inotify::remove_watch(self.fd.get_ref(), number).ok();
    }

    /// Waits for a change, waits `together` for those that belong to it, and passes all of them to
    /// `each`. What is given up before that is reported by the next call.
    pub async fn next(
        &self,
        together: Duration,
        mut each: impl FnMut(&Event<'_>),
    ) -> io::Result<()> {
        if !together.is_zero() {
            self.fd.readable().await?.retain_ready();
            tokio::time::sleep(together).await;
        }
        let mut ready = self.fd.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => each(&event),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        Ok(())
    }
}
