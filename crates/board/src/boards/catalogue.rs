//! Which boards there are, and opening them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde::Serialize;

use super::info::{BoardEdit, BoardGuard, BoardInfo};
use super::lifecycle::CatalogueLock;
use super::slug::{BoardsError, Slug};
use crate::id::HostId;
use crate::store::{Durability, SqliteOptions, SqliteStore};
use crate::task::Status;
use crate::{Board, Error, Result};

/// The file of a board.
pub(super) const DATABASE: &str = "kanban.db";

/// What to do about a board that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// Make it, if it is the one that is always there; others are made by name
    /// alone, so that a misspelt one is not.
    IfMissing,
    /// Report it as missing: a read creates nothing.
    Never,
}

/// The boards below one directory.
#[derive(Debug, Clone)]
pub struct Boards {
    pub(super) root: PathBuf,
    pub(super) host: HostId,
    pub(super) durability: Durability,
}

/// A board in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedBoard {
    /// Its name.
    pub slug: Slug,
    /// What is known about it.
    #[serde(flatten)]
    pub info: BoardInfo,
    /// How many tasks it has of each status; nothing where that was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<BTreeMap<Status, u64>>,
    /// How many of them need a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_attention: Option<u64>,
    /// Why no more is known, where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What a list says about a board: its own account, or why there is none.
type BoardDescription = Result<Option<(BoardInfo, crate::verbs::BoardStats)>>;

impl ListedBoard {
    /// Returns a board whose tasks were not counted.
    pub fn new(slug: Slug, info: BoardInfo) -> Self {
        Self { slug, info, tasks: None, needs_attention: None, trouble: None }
    }
}

impl Boards {
    /// Returns the boards below a directory, which need not be there.
    pub fn at(root: impl Into<PathBuf>, host: HostId, durability: Durability) -> Self {
        Self { root: root.into(), host, durability }
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns this host, as the boards know it.
    pub fn host(&self) -> &HostId {
        &self.host
    }

    pub(super) fn all_dir(&self) -> PathBuf {
        self.root.join("boards")
    }

    /// Returns where a board is, or would be.
    pub fn dir(&self, slug: &Slug) -> PathBuf {
        self.all_dir().join(slug.as_str())
    }

    /// Reports whether a board is there, archived or not.
    pub fn exists(&self, slug: &Slug) -> Result<bool> {
        let path = self.dir(slug).join(DATABASE);
        path.try_exists().map_err(|source| Error::Io { action: "look for", path, source })
    }

    /// Opens a board that is not archived.
    #[boxed]
    pub async fn open(&self, slug: &Slug, make: Make) -> Result<Board> {
        let board = match (make, slug.is_default()) {
            (Make::IfMissing, true) => self.open_or_make(slug).await?,
            (Make::IfMissing | Make::Never, _) => self.open_any(slug).await?,
        };
        if board.info().await?.archived {
            return Err(BoardsError::Archived { slug: slug.clone() }.into());
        }
        Ok(board)
    }

    /// Opens a board to read it. There is none yet where the one that is always
    /// there was never written to: it is empty.
    #[boxed]
    pub async fn open_to_read(&self, slug: &Slug) -> Result<Option<Board>> {
        match self.open(slug, Make::Never).await {
            Err(Error::Boards(BoardsError::Missing { .. })) if slug.is_default() => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens a board to write to it.
    #[boxed]
    pub async fn open_to_write(&self, slug: &Slug) -> Result<Board> {
        self.open(slug, Make::IfMissing).await
    }

    pub(super) fn options(&self) -> SqliteOptions {
        SqliteOptions { durability: self.durability, ..SqliteOptions::default() }
    }

    /// Opens a board that is there, archived or not.
    #[boxed]
    pub async fn open_any(&self, slug: &Slug) -> Result<Board> {
        let dir = self.dir(slug);
        let store = SqliteStore::open_existing(dir.join(DATABASE), self.options()).await?;
        let store = store.ok_or_else(|| BoardsError::Missing { slug: slug.clone() })?;
        Ok(self.board(store, slug, &dir))
    }

    pub(super) async fn open_or_make(&self, slug: &Slug) -> Result<Board> {
        let dir = self.dir(slug);
        let store = SqliteStore::open(dir.join(DATABASE), self.options()).await?;
        Ok(self.board(store, slug, &dir))
    }

    fn board(&self, store: SqliteStore, slug: &Slug, dir: &Path) -> Board {
        Board::new(Arc::new(store), slug.as_str(), dir, self.host.clone())
    }

    /// Returns the boards by name, the one that is always there first. One that
    /// cannot be read is among them, and says why.
    #[boxed]
    pub async fn list(&self, with_archived: bool) -> Result<Vec<ListedBoard>> {
        let mut listed = Vec::new();
        let default = Slug::default_board();
        let others = self.names()?.into_iter().filter(|slug| *slug != default);
        for slug in std::iter::once(default.clone()).chain(others) {
            let found = self.describe(&slug).await;
            if with_archived || !found.info.archived {
                listed.push(found);
            }
        }
        Ok(listed)
    }

    async fn describe(&self, slug: &Slug) -> ListedBoard {
        let found = async {
            let board = self.open_any(slug).await?;
            let (info, stats) = (board.info().await?, board.stats().await?);
            board.close().await?;
            Ok(Some((info, stats)))
        };
        let found: BoardDescription = found.await;
        Self::listed(slug, found)
    }

    /// Returns a board that is open already, or is not there yet, as [`Boards::list`] lists it.
    #[boxed]
    pub async fn describe_open(slug: &Slug, board: Result<Option<Board>>) -> ListedBoard {
        let found = async {
            let Some(board) = board? else { return Ok(None) };
            Ok(Some((board.info().await?, board.stats().await?)))
        };
        let found: BoardDescription = found.await;
        Self::listed(slug, found)
    }

    fn listed(slug: &Slug, found: BoardDescription) -> ListedBoard {
        match found {
            Ok(Some((info, stats))) => ListedBoard {
                tasks: Some(stats.by_status),
                needs_attention: Some(stats.needs_attention),
                ..ListedBoard::new(slug.clone(), info)
            },
            Ok(None) | Err(Error::Boards(BoardsError::Missing { .. })) => ListedBoard {
                tasks: Some(BTreeMap::new()),
                needs_attention: Some(0),
                ..ListedBoard::new(slug.clone(), BoardInfo::of(slug))
            },
            Err(error) => ListedBoard {
                trouble: Some(error.to_string()),
                ..ListedBoard::new(slug.clone(), BoardInfo::of(slug))
            },
        }
    }

    /// Returns the file of a board as the system knows it, whatever it is
    /// called: another number means another board under the same name.
    pub fn identity(&self, slug: &Slug) -> Result<Option<(u64, u64)>> {
        let path = self.dir(slug).join(DATABASE);
        match fs::metadata(&path) {
            Ok(file) => Ok(Some((file.dev(), file.ino()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { action: "look at", path, source }),
        }
    }

    /// Returns the names of the boards that are there, archived or not, sorted,
    /// without opening any.
    pub fn names(&self) -> Result<Vec<Slug>> {
        let dir = self.all_dir();
        let failed = |source| Error::Io { action: "read", path: dir.clone(), source };
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => Some(entries),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for entry in entries.into_iter().flatten() {
            let name = entry.map_err(failed)?.file_name();
            let slug = name
                .to_str()
                .and_then(|name| Slug::new(name).ok().filter(|slug| slug.as_str() == name));
            if let Some(slug) = slug
                && self.exists(&slug)?
            {
                found.push(slug);
            }
        }
        found.sort();
        Ok(found)
    }

    /// Changes what is known about a board.
    #[boxed]
    pub async fn edit(&self, slug: &Slug, edit: BoardEdit) -> Result<BoardInfo> {
        let edit = edit.checked()?;
        let board = self.open(slug, Make::IfMissing).await?;
        let host = self.host.name.clone();
        board.change_info(BoardGuard::Always, |kept, _| kept.edit(edit, &host)).await?;
        board.info().await
    }

    /// Gives a board another name for people; what it is known by stays.
    #[boxed]
    pub async fn rename(&self, slug: &Slug, name: &str) -> Result<BoardInfo> {
        self.edit(slug, BoardEdit { name: Some(name.to_owned()), ..BoardEdit::default() }).await
    }

    /// Sets the directory for tasks that name none and need one.
    #[boxed]
    pub async fn set_default_workdir(&self, slug: &Slug, path: Option<&Path>) -> Result<BoardInfo> {
        let default_workdir = Some(path.map(Path::to_owned));
        self.edit(slug, BoardEdit { default_workdir, ..BoardEdit::default() }).await
    }
}

const FILE: &str = "current";
/// More than any name of a board.
const MAX_BYTES: u64 = 256;

/// The source of the choice of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// The environment of the process.
    Environment,
    /// A choice that was made to stay.
    Switch,
    /// Nobody.
    Nobody,
}

/// The board that is meant when nobody names one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentBoard {
    /// Its name.
    pub slug: Slug,
    /// Who says so.
    pub by: ChosenBy,
    /// Why the choice that was made to stay is not followed.
    pub warning: Option<String>,
}

impl Boards {
    fn current_file(&self) -> PathBuf {
        self.root.join(FILE)
    }

    /// Returns the board that is meant when nobody names one: the one the
    /// environment names, else the one that was switched to, as long as it is
    /// there, else `default`.
    #[boxed]
    pub async fn current(&self, environment: Option<&str>) -> Result<CurrentBoard> {
        if let Some(choice) = environment.map(str::trim).filter(|choice| !choice.is_empty()) {
            let slug = Slug::new(choice).map_err(BoardsError::from)?;
            return Ok(CurrentBoard { slug, by: ChosenBy::Environment, warning: None });
        }
        let nobody =
            |warning| CurrentBoard { slug: Slug::default_board(), by: ChosenBy::Nobody, warning };
        let path = self.current_file();
        let text = match read(&path) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(nobody(None)),
            Err(source) => return Err(Error::Io { action: "read", path, source }),
        };
        let Ok(slug) = Slug::new(&text) else {
            let shown = path.display();
            return Ok(nobody(Some(format!("{shown} names no board; board default is used"))));
        };
        if slug.is_default() {
            return Ok(CurrentBoard { slug, by: ChosenBy::Switch, warning: None });
        }
        let gone = match self.open_any(&slug).await {
            Ok(board) => {
                // A board that cannot be read is still the one that was chosen.
                let archived = board.info().await.is_ok_and(|info| info.archived);
                archived.then_some("is archived")
            }
            Err(Error::Boards(BoardsError::Missing { .. })) => Some("does not exist any more"),
            Err(_) => None,
        };
        Ok(match gone {
            None => CurrentBoard { slug, by: ChosenBy::Switch, warning: None },
            Some(why) => nobody(Some(format!(
                "board {slug}, which was switched to, {why}; board default is used"
            ))),
        })
    }

    /// Makes a board the one that is meant when nobody names one.
    #[boxed]
    pub async fn switch(&self, slug: &Slug) -> Result<()> {
        let _lock = CatalogueLock::acquire(&self.root).await?;
        if !slug.is_default() {
            self.open(slug, Make::Never).await?;
        }
        self.write_current(slug)
    }

    /// Goes back to `default` if a board is the one that was switched to. The
    /// lock is held.
    pub(super) fn forget_choice(&self, slug: &Slug) -> Result<()> {
        let path = self.current_file();
        let text = read(&path).map_err(|source| Error::Io { action: "read", path, source })?;
        let chosen = text.and_then(|text| Slug::new(&text).ok());
        if chosen.as_ref() == Some(slug) {
            self.write_current(&Slug::default_board())?;
        }
        Ok(())
    }

    fn write_current(&self, slug: &Slug) -> Result<()> {
        let path = self.current_file();
        replace(&self.root, &path, &format!("{slug}\n")).map_err(|source| Error::Io {
            action: "write",
            path,
            source,
        })
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// Replaces a small file in one step. Only the holder of the lock does it, so a
/// half-written one left by a crash is nobody's.
fn replace(root: &Path, path: &Path, text: &str) -> io::Result<()> {
    let new = root.join(format!(".{FILE}.new"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(root)?.sync_all()
}
