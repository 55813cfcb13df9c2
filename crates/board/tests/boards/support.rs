//! A home of boards for each test.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use vestal_board::boards::{Boards, NewBoard, Slug};
use vestal_board::store::Durability;
use vestal_board::{Authority, Board, Claim, HostId, HostName, NewTask, Role, Run, Task};
pub(crate) use vestal_testkit::files::names;

/// Boards in a directory of their own.
pub(crate) struct BoardsFixture {
    dir: TempDir,
}

impl BoardsFixture {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Returns the root, which is not there before something is written.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("kanban")
    }

    /// Returns a place beside it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the boards, as another process would see them.
    pub(crate) fn boards(&self) -> Boards {
        self.boards_of("here")
    }

    pub(crate) fn boards_of(&self, host: &str) -> Boards {
        let host = HostId::this(HostName::new(host)).unwrap();
        Boards::at(self.root(), host, Durability::Normal)
    }

    /// Makes a board and opens it.
    pub(crate) async fn make(&self, name: &str) -> Board {
        let slug = slug(name);
        self.boards().create(&slug, NewBoard::default()).await.unwrap();
        self.boards().open_to_write(&slug).await.unwrap()
    }

    pub(crate) async fn slugs(&self, with_archived: bool) -> Vec<String> {
        let listed = self.boards().list(with_archived).await.unwrap();
        listed.into_iter().map(|board| board.slug.to_string()).collect()
    }
}

pub(crate) fn slug(name: &str) -> Slug {
    Slug::new(name).unwrap()
}

pub(crate) fn person() -> Authority {
    Authority::Person("ada".to_owned())
}

pub(crate) async fn task(board: &Board, title: &str) -> Task {
    let new = NewTask { title: title.to_owned(), ..NewTask::default() };
    board.create(&person(), new).await.unwrap().task
}

pub(crate) async fn claim(board: &Board, task: &Task) -> Run {
    let claim =
        Claim { lease: Duration::from_mins(5), profile: None, role: Role::Work, host: None };
    board.claim(&person(), &task.id, claim).await.unwrap()
}
