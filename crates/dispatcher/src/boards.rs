//! The boards that a dispatcher has open.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use rustix::fs::inotify::WatchFlags;
use vestal_board::boards::{Boards, Slug};
use vestal_board::{Board, Error, Result};
use vestal_process::FileChanges;

use crate::dispatcher::lock;

/// All boards, each opened once.
#[derive(Debug)]
pub struct OpenBoards {
    boards: Boards,
    only: Option<Slug>,
    open: Mutex<BTreeMap<String, Board>>,
}

/// The result of looking for boards.
#[derive(Debug, Default)]
pub(crate) struct BoardsFound {
    /// The boards that could be opened.
    pub(crate) all: Vec<Board>,
    /// The errors of the others.
    pub(crate) troubles: Vec<(String, Error)>,
}

impl OpenBoards {
    /// Opens boards. `only` limits dispatching to one of them.
    pub fn new(boards: Boards, only: Option<Slug>) -> Self {
        Self { boards, only, open: Mutex::default() }
    }

    /// Returns all boards that can be opened and are not archived.
    #[boxed]
    pub async fn all(&self) -> Result<Vec<Board>> {
        Ok(self.refresh().await?.all)
    }

    /// Reports whether a board is dispatched.
    pub(crate) fn is_dispatched(&self, board: &Board) -> bool {
        self.only.as_ref().is_none_or(|only| only.as_str() == board.slug())
    }

    /// Opens new boards and forgets removed ones.
    pub(crate) async fn refresh(&self) -> Result<BoardsFound> {
        let mut found = BoardsFound::default();
        let mut open = BTreeMap::new();
        for listed in self.boards.list(false).await? {
            let slug = listed.slug.as_str().to_owned();
            if !self.boards.exists(&listed.slug)? {
                continue;
            }
            let known = lock(&self.open).get(&slug).cloned();
            let board = match known {
                Some(board) => board,
                None => match self.boards.open_any(&listed.slug).await {
                    Ok(board) => board,
                    Err(error) => {
                        found.troubles.push((slug, error));
                        continue;
                    }
                },
            };
            found.all.push(board.clone());
            open.insert(slug, board);
        }
        let before = std::mem::replace(&mut *lock(&self.open), open);
        for (slug, board) in before {
            if !found.all.iter().any(|board| board.slug() == slug) {
                board.close().await?;
            }
        }
        Ok(found)
    }

    /// Forgets a board that failed, so that it is opened again if it still exists.
    pub(crate) fn forget(&self, slug: &str) {
        lock(&self.open).remove(slug);
    }

    /// Returns a watch for boards that appear and disappear.
    pub(crate) fn signs(&self) -> Result<BoardsWatch> {
        BoardsWatch::new(self.boards.root().join("boards"))
    }
}

/// Watches for boards that appear and disappear.
pub(crate) struct BoardsWatch {
    path: PathBuf,
    changes: FileChanges,
}

impl BoardsWatch {
    fn new(path: PathBuf) -> Result<Self> {
        let make = || -> std::io::Result<FileChanges> {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
            let changes = FileChanges::new()?;
            let what = WatchFlags::CREATE
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::DELETE
                | WatchFlags::ONLYDIR;
            changes.watch(&path, what)?;
            Ok(changes)
        };
        match make() {
            Ok(changes) => Ok(Self { path, changes }),
            Err(source) => Err(Error::Io { action: "watch", path, source }),
        }
    }

    /// Waits until boards appeared or disappeared.
    pub(crate) async fn next(&mut self) -> Result<()> {
        let failed = |source| Error::Io { action: "watch", path: self.path.clone(), source };
        self.changes.next(Duration::ZERO, |_| {}).await.map_err(failed)
    }
}
