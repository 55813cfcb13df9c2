//! Which board is meant by default.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;

use super::catalogue::{Boards, Make};
use super::lifecycle::CatalogueLock;
use super::slug::{BoardsError, Slug};
use crate::{Error, Result};

const FILE: &str = "current";
/// More than any name of a board.
const MAX_BYTES: u64 = 256;

/// Who says which board is meant.
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
