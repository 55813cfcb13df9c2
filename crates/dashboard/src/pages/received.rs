//! Files that a browser sends: written to the disk as they come, however large, and gone with the request.

use std::fs::{DirBuilder, DirEntry};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{HeaderMap, header};
use futures_util::TryStreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::io::StreamReader;

use crate::error::PageError;

/// What names of directories begin with in which such files are.
const PREFIX: &str = "dashboard-files-";

/// A file that was sent, until this value is dropped.
pub(super) struct ReceivedFile {
    dir: PrivateDir,
}

impl ReceivedFile {
    /// Takes the body of a request, below the directory of running processes. Nothing where it has more
    /// than `most` bytes; one that says so first is not read.
    pub(super) async fn new(
        run: &Path,
        headers: &HeaderMap,
        body: Body,
        most: u64,
    ) -> Result<Option<Self>, PageError> {
        let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let declared = declared.and_then(|length| length.parse::<u64>().ok());
        if declared.is_some_and(|length| length > most) {
            return Ok(None);
        }
        let received = Self { dir: PrivateDir::new(run)? };
        let written = write(body, &received.path(), most + 1).await?;
        Ok((written <= most).then_some(received))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("file")
    }
}

/// Writes so many bytes of a body at most, and returns how many there were.
async fn write(body: Body, path: &Path, most: u64) -> Result<u64, PageError> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::TimedOut => PageError::invalid(error.to_string()),
        _ => PageError::unavailable(format!("the file cannot be kept: {error}")),
    };
    let mut file = tokio::fs::File::create(path).await.map_err(failed)?;
    let pieces = body.into_data_stream().map_err(std::io::Error::other);
    let mut reader = StreamReader::new(pieces).take(most);
    let written = tokio::io::copy(&mut reader, &mut file).await.map_err(failed)?;
    file.flush().await.map_err(failed)?;
    Ok(written)
}

/// Removes what a dashboard left behind that was killed. The one of now has received nothing yet.
pub(crate) fn remove_left_files(run: &Path) {
    let Ok(entries) = std::fs::read_dir(run) else { return };
    let is_ours = |entry: &DirEntry| {
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        is_named && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    for entry in entries.filter_map(Result::ok).filter(is_ours) {
        drop(PrivateDir(entry.path()));
    }
}

/// A directory that only we can read and that goes with this value.
pub(super) struct PrivateDir(PathBuf);

impl PrivateDir {
    pub(super) fn new(run: &Path) -> Result<Self, PageError> {
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(|error| PageError::internal(error.to_string()))?;
        let path = run.join(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| PageError::internal(format!("make {}: {error}", path.display())))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, "a directory for files that were sent stays behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<std::ffi::OsString> {
        let names = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_file_that_is_too_large_is_not_kept_whether_it_says_so_or_not() {
        let run = tempfile::tempdir().unwrap();
        let none = HeaderMap::new();
        let whole = ReceivedFile::new(run.path(), &none, Body::from("12345"), 5).await.unwrap();
        let whole = whole.unwrap();
        assert_eq!(std::fs::read_to_string(whole.path()).unwrap(), "12345");
        drop(whole);
        let long = ReceivedFile::new(run.path(), &none, Body::from("123456"), 5).await.unwrap();
        assert!(long.is_none());
        let mut says = HeaderMap::new();
        says.insert(header::CONTENT_LENGTH, 6.into());
        let unread = Body::from_stream(futures_util::stream::pending::<std::io::Result<&[u8]>>());
        assert!(ReceivedFile::new(run.path(), &says, unread, 5).await.unwrap().is_none());
        assert!(names(run.path()).is_empty(), "nothing is left");
    }

    #[test]
    fn what_a_killed_dashboard_left_is_removed_and_nothing_else() {
        let run = tempfile::tempdir().unwrap();
        let left = PrivateDir::new(run.path()).unwrap();
        std::fs::write(left.path().join("file"), "x").unwrap();
        std::mem::forget(left);
        std::fs::create_dir(run.path().join("operations")).unwrap();
        std::os::unix::fs::symlink("operations", run.path().join("dashboard-files-x")).unwrap();
        remove_left_files(run.path());
        assert_eq!(names(run.path()), ["dashboard-files-x", "operations"]);
    }
}
