//! Creating and removing boards.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::catalogue::{Boards, DATABASE};
use super::info::{BoardEdit, BoardGuard, BoardInfo};
use super::slug::{BoardsError, Slug};
use crate::store::{BoardStore as _, SqliteStore};
use crate::{Error, Result};

/// Properties of a new board; what is not given is left open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewBoard {
    /// Its name, for people.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// A sign that stands for it.
    pub icon: Option<String>,
    /// Its colour.
    pub color: Option<String>,
    /// The directory for its tasks that name none and need one.
    pub default_workdir: Option<PathBuf>,
}

/// What became of the wish for a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardCreation {
    /// What is known about it.
    pub info: BoardInfo,
    /// Whether it was there before, and is as it was.
    pub existed: bool,
}

impl Boards {
    /// Makes a board. One that is there is left as it is; one that is archived
    /// is refused, because the maker of a board expects an empty one.
    #[boxed]
    pub async fn create(&self, slug: &Slug, new: NewBoard) -> Result<BoardCreation> {
        let edit = BoardEdit {
            name: new.name,
            description: new.description,
            icon: new.icon,
            color: new.color,
            default_workdir: new.default_workdir.map(Some),
        };
        let edit = edit.checked()?;
        let _lock = CatalogueLock::acquire(&self.root).await?;
        self.sweep_locked()?;
        if self.exists(slug)? {
            let board = self.open_any(slug).await?;
            let info = board.info().await?;
            if info.archived {
                return Err(BoardsError::Archived { slug: slug.clone() }.into());
            }
            // A process may have died between making the file and this.
            if info.created_at.is_some() {
                return Ok(BoardCreation { info, existed: true });
            }
        }
        let board = self.open_or_make(slug).await?;
        let host = self.host.name.clone();
        let existed = board
            .change_info(BoardGuard::Always, |kept, now| {
                let existed = !kept.is_new();
                if !existed {
                    kept.set_created_at(now);
                    kept.edit(edit, &host);
                }
                existed
            })
            .await?;
        Ok(BoardCreation { info: board.info().await?, existed })
    }

    /// Makes a board unless it is there, and makes it the current one.
    #[boxed]
    pub async fn create_and_switch(&self, slug: &Slug, new: NewBoard) -> Result<BoardCreation> {
        let created = self.create(slug, new).await?;
        self.switch(slug).await?;
        Ok(created)
    }
}

/// What the directory of a board that is being deleted begins with. No board
/// has such a name.
const DELETED: &str = ".deleted-";

impl Boards {
    /// Archives a board: it is neither listed nor dispatched nor written to, and
    /// nothing of it is lost. It is refused while its tasks are worked on.
    #[boxed]
    pub async fn remove(&self, slug: &Slug) -> Result<()> {
        removable("archive", slug)?;
        let _lock = CatalogueLock::acquire(&self.root).await?;
        self.archive("archive", slug).await?;
        self.forget_choice(slug)
    }

    /// Brings an archived board back.
    #[boxed]
    pub async fn restore(&self, slug: &Slug) -> Result<()> {
        let _lock = CatalogueLock::acquire(&self.root).await?;
        let board = self.open_any(slug).await?;
        board.change_info(BoardGuard::Always, |kept, _| kept.set_archived(false)).await
    }

    /// Deletes a board, archived or not, with all that is in it. It is refused
    /// while its tasks are worked on.
    ///
    /// The directory goes out of the way in one step, and then away. If this
    /// process dies between the two, the next process that makes or deletes a
    /// board finishes it.
    #[boxed]
    pub async fn delete(&self, slug: &Slug) -> Result<()> {
        removable("delete", slug)?;
        let _lock = CatalogueLock::acquire(&self.root).await?;
        self.sweep_locked()?;
        // From here on nobody who comes again begins anything on it.
        self.archive("delete", slug).await?;
        let dir = self.dir(slug);
        let aside = self.all_dir().join(format!("{DELETED}{slug}-{}", random()?));
        let failed = |source| Error::Io { action: "move", path: dir.clone(), source };
        fs::rename(&dir, &aside).map_err(failed)?;
        // A process that had it open before may have started something meanwhile.
        let count = self.at_work(&aside).await?;
        if count > 0 {
            return match renameat_with(CWD, &aside, CWD, &dir, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    Err(BoardsError::Busy { verb: "delete", slug: slug.clone(), count }.into())
                }
                Err(_) => {
                    Err(BoardsError::Displaced { slug: slug.clone(), path: aside.clone() }.into())
                }
            };
        }
        sync(&self.all_dir()).map_err(failed)?;
        self.forget_choice(slug)?;
        erase(&aside)
    }

    /// Finishes what a process that died while it deleted a board left behind.
    #[boxed]
    pub async fn sweep(&self) -> Result<()> {
        if !self.all_dir().exists() {
            return Ok(());
        }
        let _lock = CatalogueLock::acquire(&self.root).await?;
        self.sweep_locked()
    }

    pub(super) fn sweep_locked(&self) -> Result<()> {
        let dir = self.all_dir();
        let failed = |source| Error::Io { action: "read", path: dir.clone(), source };
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().starts_with(DELETED) {
                erase(&entry.path())?;
            }
        }
        Ok(())
    }

    async fn archive(&self, verb: &'static str, slug: &Slug) -> Result<()> {
        let board = self.open_any(slug).await?;
        let guard = BoardGuard::Idle { verb, slug };
        board.change_info(guard, |kept, _| kept.set_archived(true)).await?;
        board.close().await
    }

    /// Returns how many tasks of a board that lies aside are worked on.
    async fn at_work(&self, dir: &Path) -> Result<usize> {
        let store = SqliteStore::open_existing(dir.join(DATABASE), self.options()).await?;
        let Some(store) = store else { return Ok(0) };
        let count = store.read().await?.live_runs().await?.len();
        store.close().await?;
        Ok(count)
    }
}

fn removable(verb: &'static str, slug: &Slug) -> Result<()> {
    if slug.is_default() { Err(BoardsError::Default { verb }.into()) } else { Ok(()) }
}

fn random() -> Result<String> {
    let number = getrandom::u64().map_err(io::Error::other).map_err(Error::Name)?;
    Ok(format!("{number:016x}"))
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn erase(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::Io { action: "delete", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

const LOCK_FILE: &str = ".boards.lock";

/// The right to change which boards there are. The system takes it back from a
/// process that dies.
#[derive(Debug)]
pub(super) struct CatalogueLock {
    _file: File,
}

impl CatalogueLock {
    /// Waits for it. The root is made if it is not there.
    pub(super) async fn acquire(root: &Path) -> Result<Self> {
        let path = root.join(LOCK_FILE);
        let failed = {
            let path = path.clone();
            move |source| Error::Io { action: "lock", path, source }
        };
        let locked = tokio::task::spawn_blocking(move || lock(&path)).await;
        let file = locked.map_err(std::io::Error::other).and_then(|locked| locked);
        file.map(|file| Self { _file: file }).map_err(failed)
    }
}

fn lock(path: &PathBuf) -> std::io::Result<File> {
    if let Some(root) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
    }
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.lock()?;
    Ok(file)
}
