//! The log of a task's workers, followed as events. Nothing is polled: the kernel says when it grows.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::extract::{Path as RoutePath, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream;
use rustix::fs::inotify::WatchFlags;
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde_json::json;
use vestal_process::FileChanges;

use super::task::find;
use crate::app::App;
use crate::error::PageError;
use crate::events::{self, KEEP_ALIVE};
use crate::gate::{Caller, DeclaredRoute, Right, Route};

/// How much of the end of a log a page begins with, unless it has a cursor.
const TAIL_BYTES: u64 = 256 << 10;

/// The most bytes of one event.
const PIECE: usize = 64 << 10;

/// Lines that are written together are sent together.
const TOGETHER: Duration = Duration::from_millis(30);

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![Route::get("/api/board/{board}/tasks/{task}/log", follow).needs(Right::Viewer)]
}

#[derive(Debug, Deserialize)]
pub(super) struct TaskLogQuery {
    /// The id of the last event that the page has.
    #[serde(default)]
    cursor: String,
}

/// Sends what the workers of a task print, as long as somebody looks.
async fn follow(
    State(app): State<App>,
    caller: Caller,
    RoutePath((board, task)): RoutePath<(String, String)>,
    headers: HeaderMap,
    Query(query): Query<TaskLogQuery>,
) -> Result<Response, PageError> {
    let (board, id) = find(&app, &board, &task).await?;
    let path = vestal_board::log_path(board.dir(), &id);
    let watch = TaskLogWatch::new(board.dir(), &path);
    let watch = watch.map_err(|error| {
        PageError::unavailable(format!("the log {} cannot be watched: {error}", path.display()))
    })?;
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let cursor = TaskLogCursor::parse(last.unwrap_or(&query.cursor));
    let mut log = WorkerLog { path, file: None, cursor, text: Utf8Pieces::default() };
    let mut pending = VecDeque::new();
    match log.open() {
        Ok(from) => {
            if cursor.is_none() {
                let begin = json!({ "stdout_from": from, "stderr_from": 0 });
                pending.push_back(Event::default().event("begin").data(begin.to_string()));
            }
        }
        Err(error) => pending.push_back(failed(&error)),
    }
    let state = FollowedTaskLog { app, caller, log, watch, pending };
    Ok(events::response(stream::unfold(state, FollowedTaskLog::next)))
}

fn failed(error: &io::Error) -> Event {
    let data = json!({ "detail": format!("the log cannot be read: {error}") });
    Event::default().event("failed").data(data.to_string())
}

struct FollowedTaskLog {
    app: App,
    caller: Caller,
    log: WorkerLog,
    watch: TaskLogWatch,
    pending: VecDeque<Event>,
}

impl FollowedTaskLog {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some((Ok(event), self));
            }
            match self.log.read() {
                Ok(Some(event)) => return Some((Ok(event), self)),
                Ok(None) => {}
                Err(error) => self.pending.push_back(failed(&error)),
            }
            let waited = tokio::select! {
                () = self.app.stop.cancelled() => return None,
                waited = tokio::time::timeout(KEEP_ALIVE, self.watch.next()) => waited,
            };
            // A session that has ended sees nothing more.
            if !self.app.gate.is_still_in(&self.caller).await {
                return None;
            }
            match waited {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.pending.push_back(failed(&error));
                    tokio::time::sleep(KEEP_ALIVE).await;
                }
                Err(_) => self.pending.push_back(Event::default().comment("")),
            }
        }
    }
}

/// Where a page is: in which file, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TaskLogCursor {
    inode: u64,
    offset: u64,
}

impl TaskLogCursor {
    fn parse(text: &str) -> Option<Self> {
        let (inode, offset) = text.trim().split_once('.')?;
        Some(Self { inode: inode.parse().ok()?, offset: offset.parse().ok()? })
    }

    fn id(self) -> String {
        format!("{}.{}", self.inode, self.offset)
    }
}

/// The log, which may not be there yet, and may be put aside for a new one.
struct WorkerLog {
    path: PathBuf,
    file: Option<File>,
    cursor: Option<TaskLogCursor>,
    text: Utf8Pieces,
}

impl WorkerLog {
    /// Opens the file of now: where the cursor is if that is the same file, else near its end. Returns
    /// from where it is read.
    fn open(&mut self) -> io::Result<u64> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let inode = found.ino();
        let offset = match self.cursor {
            Some(cursor) if cursor.inode == inode => cursor.offset.min(found.len()),
            // One that took the place of another is read from its beginning.
            Some(_) => 0,
            None => found.len().saturating_sub(TAIL_BYTES),
        };
        file.seek(SeekFrom::Start(offset))?;
        self.cursor = Some(TaskLogCursor { inode, offset });
        self.file = Some(file);
        Ok(offset)
    }

    /// Returns what was written since, if anything was.
    fn read(&mut self) -> io::Result<Option<Event>> {
        loop {
            if self.file.is_none() {
                self.open()?;
            }
            let (Some(file), Some(cursor)) = (&mut self.file, &mut self.cursor) else {
                return Ok(None);
            };
            let mut piece = vec![0; PIECE];
            let count = file.read(&mut piece)?;
            piece.truncate(count);
            if count > 0 {
                cursor.offset += count as u64;
                let text = self.text.push(&piece);
                // Text that is held back is sent again to a page that reconnects.
                let sent = TaskLogCursor { offset: cursor.offset - self.text.held(), ..*cursor };
                let data = json!({ "stream": "stdout", "text": text }).to_string();
                return Ok(Some(Event::default().event("output").id(sent.id()).data(data)));
            }
            if self.is_current()? {
                return Ok(None);
            }
            self.file = None;
        }
    }

    /// Reports whether the file that is read still has the name, and no less than was read.
    fn is_current(&mut self) -> io::Result<bool> {
        let Some(cursor) = self.cursor else { return Ok(true) };
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) if found.ino() == cursor.inode && found.len() >= cursor.offset => Ok(true),
            Ok(found) if found.ino() == cursor.inode => {
                self.cursor = Some(TaskLogCursor { offset: 0, ..cursor });
                Ok(false)
            }
            Ok(_) => Ok(false),
            // It was put aside, and the new one is not begun.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Bytes as text, of which the last character may still come.
#[derive(Debug, Default)]
struct Utf8Pieces(Vec<u8>);

impl Utf8Pieces {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // Bytes that are not text are shown as replacement characters.
            _ => self.0.len(),
        };
        let rest = self.0.split_off(whole);
        let text = String::from_utf8_lossy(&self.0).into_owned();
        self.0 = rest;
        text
    }

    fn held(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Tells when something happens in the directory of logs; it may be made only later.
struct TaskLogWatch {
    changes: FileChanges,
    dir: PathBuf,
    has_dir: bool,
}

impl TaskLogWatch {
    fn new(board: &Path, log: &Path) -> io::Result<Self> {
        let changes = FileChanges::new()?;
        let dir = log.parent().unwrap_or(board).to_owned();
        let made = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        changes.watch(board, made)?;
        let mut watch = Self { changes, dir, has_dir: false };
        watch.look();
        Ok(watch)
    }

    fn look(&mut self) {
        let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
        self.has_dir = self.changes.watch(&self.dir, what | WatchFlags::ONLYDIR).is_ok();
    }

    async fn next(&mut self) -> io::Result<()> {
        self.changes.next(TOGETHER, |_| {}).await?;
        if !self.has_dir {
            self.look();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_character_that_is_cut_in_two_is_sent_whole() {
        let mut pieces = Utf8Pieces::default();
        let bytes = "aé€".as_bytes();
        assert_eq!(pieces.push(&bytes[..2]), "a");
        assert_eq!(pieces.held(), 1);
        assert_eq!(pieces.push(&bytes[2..4]), "é");
        assert_eq!(pieces.push(&bytes[4..]), "€");
        assert_eq!(pieces.push(b"\xff."), "\u{fffd}.");
        assert_eq!(pieces.held(), 0);
    }

    #[tokio::test]
    async fn a_log_is_followed_from_before_it_is_there_and_when_another_takes_its_place() {
        let board = tempfile::tempdir().unwrap();
        let path = board.path().join("logs").join("t_1.log");
        let mut watch = TaskLogWatch::new(board.path(), &path).unwrap();
        let (file, cursor, text) = (None, None, Utf8Pieces::default());
        let mut log = WorkerLog { path: path.clone(), file, cursor, text };
        assert!(log.read().unwrap().is_none());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "one\n").unwrap();
        watch.next().await.unwrap();
        assert!(log.read().unwrap().is_some());
        assert_eq!(log.cursor.unwrap().offset, 4);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"two\n").unwrap();
        watch.next().await.unwrap();
        assert!(log.read().unwrap().is_some());
        std::fs::rename(&path, path.with_extension("log.1")).unwrap();
        assert!(log.read().unwrap().is_none());
        std::fs::write(&path, "three\n").unwrap();
        assert!(log.read().unwrap().is_some());
        assert_eq!(log.cursor.unwrap().offset, 6);
        assert!(log.read().unwrap().is_none());
    }

    #[test]
    fn a_cursor_of_another_file_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t_1.log");
        std::fs::write(&path, "one\n").unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        let log = |cursor: &str| {
            let (file, cursor) = (None, TaskLogCursor::parse(cursor));
            WorkerLog { path: path.clone(), file, cursor, text: Utf8Pieces::default() }
        };
        assert_eq!(log(&format!("{inode}.2")).open().unwrap(), 2);
        assert_eq!(log(&format!("{inode}.99")).open().unwrap(), 4);
        assert_eq!(log("1.2").open().unwrap(), 0);
        assert_eq!(log("").open().unwrap(), 0);
        assert_eq!(TaskLogCursor::parse("7"), None);
    }
}
