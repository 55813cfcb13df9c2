//! Files of this machine as streams that are counted.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::console::CopyStatusLine;

/// A file whose bytes are counted on their way. A disk is always ready, so
/// nothing is gained by waiting for it elsewhere.
#[derive(Debug)]
pub(super) struct CountedFile<'a> {
    file: &'a File,
    progress: &'a mut CopyStatusLine,
}

/// Zeros of which this many come at once are left out of a file, which then has
/// a hole there: a file that had holes has them again, and is not larger on this
/// disk than it was on the other.
const HOLE: usize = 4096;

impl<'a> CountedFile<'a> {
    pub(super) fn new(file: &'a File, progress: &'a mut CopyStatusLine) -> Self {
        Self { file, progress }
    }
}

impl AsyncRead for CountedFile<'_> {
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

impl AsyncWrite for CountedFile<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let zeros = zeros_at(bytes);
        let written = if zeros >= HOLE {
            let ahead = i64::try_from(zeros).map_err(io::Error::other)?;
            self.file.seek(SeekFrom::Current(ahead))?;
            zeros
        } else {
            self.file.write(&bytes[..data_at(bytes)])?
        };
        self.progress.add_bytes(written);
        Poll::Ready(Ok(written))
    }

    /// The file ends where its last byte is, also where that is in a hole.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut file = self.file;
        let end = file.stream_position()?;
        if file.metadata()?.len() < end {
            file.set_len(end)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns how many zeros the bytes begin with.
fn zeros_at(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len())
}

/// Returns how many bytes come before the next hole, at least one.
fn data_at(bytes: &[u8]) -> usize {
    let mut at = 0;
    for chunk in bytes.chunks(HOLE) {
        if at > 0 && chunk.len() == HOLE && zeros_at(chunk) == HOLE {
            return at;
        }
        at += chunk.len();
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use tokio::io::AsyncWriteExt as _;

    #[tokio::test]
    async fn holes_stay_holes_and_every_byte_is_what_it_was() {
        let mut content = vec![0_u8; 3 << 20];
        content[5] = 1;
        content[(1 << 20) + 17..(1 << 20) + 6000].fill(7);
        let root = tempfile::tempdir().unwrap();
        for end in [content.len(), content.len() - (1 << 20), (1 << 20) + 5000, 6, 5, 0] {
            let path = root.path().join(end.to_string());
            let file = File::create_new(&path).unwrap();
            let mut progress = CopyStatusLine::new();
            let mut writer = CountedFile::new(&file, &mut progress);
            for piece in content[..end].chunks(100_000) {
                writer.write_all(piece).await.unwrap();
            }
            writer.flush().await.unwrap();
            assert!(std::fs::read(&path).unwrap() == content[..end], "{end}");
            assert!(file.metadata().unwrap().blocks() * 512 < 64 << 10, "{end}");
        }
    }
}
