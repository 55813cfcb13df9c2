//! Files of this machine as streams that are counted.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::console::Progress;

/// A file whose bytes are counted on their way. A disk is always ready, so
/// nothing is gained by waiting for it elsewhere.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    file: &'a File,
    progress: &'a mut Progress,
}

impl<'a> Counted<'a> {
    pub(super) fn new(file: &'a File, progress: &'a mut Progress) -> Self {
        Self { file, progress }
    }
}

impl AsyncRead for Counted<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.file.read(buffer.initialize_unfilled())?;
        buffer.advance(read);
        self.progress.add_bytes(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.file.write(bytes)?;
        self.progress.add_bytes(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
