//! What is known about a board besides its tasks.

use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::slug::Slug;
use crate::id::HostName;
use crate::store::Read;
use crate::time::Time;
use crate::{Board, Error, Result};

/// Under what name it is kept with the board.
const NOTE: &str = "board";
/// The longest text, in characters.
const MAX_TEXT: usize = 2000;
/// The longest name, icon or colour, in characters.
const MAX_WORD: usize = 200;

/// What is known about a board besides its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoardInfo {
    /// Its name, for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// A sign that stands for it.
    pub icon: String,
    /// Its colour.
    pub color: String,
    /// The directory for its tasks that name none and need one.
    pub default_workdir: Option<PathBuf>,
    /// The host that has that directory.
    pub default_workdir_host: Option<HostName>,
    /// When it was made.
    pub created_at: Option<Time>,
    /// Whether it was removed, and is kept.
    pub archived: bool,
}

impl BoardInfo {
    /// Returns the directory for tasks that name none, if it is on this host.
    pub fn workdir_on(self, host: &HostName) -> Option<PathBuf> {
        let here = self.default_workdir_host.is_none_or(|named| named == *host);
        self.default_workdir.filter(|_| here)
    }

    /// Returns the properties of a board for which none were set.
    pub(super) fn of(slug: &Slug) -> Self {
        Self {
            name: slug.in_words(),
            description: String::new(),
            icon: String::new(),
            color: String::new(),
            default_workdir: None,
            default_workdir_host: None,
            created_at: None,
            archived: false,
        }
    }
}

/// What is to be changed about a board; none: it stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoardEdit {
    /// Its name, for people.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// A sign that stands for it.
    pub icon: Option<String>,
    /// Its colour.
    pub color: Option<String>,
    /// The directory for its tasks that name none; `Some(None)`: none any more.
    pub default_workdir: Option<Option<PathBuf>>,
}

impl BoardEdit {
    /// Returns the edit with its texts trimmed, if all of it can be taken.
    pub(super) fn checked(self) -> Result<Self> {
        let name = self.name.map(|name| word("the name", &name)).transpose()?;
        if name.as_deref() == Some("") {
            return Err(invalid("the name", "is empty"));
        }
        if let Some(Some(path)) = &self.default_workdir {
            check_workdir(path)?;
        }
        Ok(Self {
            name,
            description: self.description.map(|own| text("the description", &own)).transpose()?,
            icon: self.icon.map(|own| word("the icon", &own)).transpose()?,
            color: self.color.map(|own| word("the color", &own)).transpose()?,
            default_workdir: self.default_workdir,
        })
    }
}

fn invalid(what: &str, reason: &str) -> Error {
    Error::Invalid { what: what.to_owned(), reason: reason.to_owned() }
}

fn text(what: &str, own: &str) -> Result<String> {
    let own = own.trim();
    if own.chars().count() > MAX_TEXT {
        return Err(invalid(what, &format!("is longer than {MAX_TEXT} characters")));
    }
    if own.contains(|letter: char| letter.is_control() && !"\n\r\t".contains(letter)) {
        return Err(invalid(what, "contains control characters"));
    }
    Ok(own.to_owned())
}

fn word(what: &str, own: &str) -> Result<String> {
    let own = own.trim();
    if own.chars().count() > MAX_WORD {
        return Err(invalid(what, &format!("is longer than {MAX_WORD} characters")));
    }
    if own.contains(char::is_control) {
        return Err(invalid(what, "contains control characters"));
    }
    Ok(own.to_owned())
}

fn check_workdir(path: &Path) -> Result<()> {
    let shown = format!("the directory {}", path.display());
    if path.to_str().is_none() {
        return Err(invalid(&shown, "has a name that is not UTF-8"));
    }
    if !path.is_absolute() {
        return Err(invalid(&shown, "is not an absolute path"));
    }
    if !path.is_dir() {
        return Err(invalid(&shown, "is not there"));
    }
    Ok(())
}

/// What is kept. What a later version adds stays when this one changes the rest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BoardInfoFile {
    name: Option<String>,
    description: Option<String>,
    icon: Option<String>,
    color: Option<String>,
    default_workdir: Option<PathBuf>,
    default_workdir_host: Option<String>,
    created_at: Option<i64>,
    archived: bool,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl BoardInfoFile {
    /// Reads it; what is damaged counts as not set, so that a board can always
    /// be looked at.
    pub(super) fn of(note: Option<Value>) -> Self {
        note.and_then(|note| serde_json::from_value(note).ok()).unwrap_or_default()
    }

    pub(super) fn info(&self, slug: &Slug) -> BoardInfo {
        let text = |own: &Option<String>| own.clone().unwrap_or_default();
        BoardInfo {
            name: self.name.clone().unwrap_or_else(|| slug.in_words()),
            description: text(&self.description),
            icon: text(&self.icon),
            color: text(&self.color),
            default_workdir: self.default_workdir.clone(),
            default_workdir_host: self.default_workdir_host.as_deref().map(HostName::new),
            created_at: self.created_at.map(Time::from_millis),
            archived: self.archived,
        }
    }

    /// Changes what an edit names. It was checked before.
    pub(super) fn edit(&mut self, edit: BoardEdit, host: &HostName) {
        let slots = [
            (&mut self.name, edit.name),
            (&mut self.description, edit.description),
            (&mut self.icon, edit.icon),
            (&mut self.color, edit.color),
        ];
        for (slot, new) in slots {
            if new.is_some() {
                *slot = new;
            }
        }
        if let Some(workdir) = edit.default_workdir {
            self.default_workdir_host = workdir.is_some().then(|| host.to_string());
            self.default_workdir = workdir;
        }
    }

    pub(super) fn set_archived(&mut self, archived: bool) {
        self.archived = archived;
    }

    pub(super) fn set_created_at(&mut self, at: Time) {
        self.created_at = Some(at.millis());
    }

    pub(super) fn is_new(&self) -> bool {
        self.created_at.is_none()
    }
}

/// Refuses to begin anything on a board that was archived, and may be deleted
/// the next moment, while the caller had it open.
pub(crate) async fn refuse_archived(tx: &mut (dyn Read + '_)) -> Result<()> {
    if BoardInfoFile::of(tx.note(NOTE).await?).archived {
        return Err(super::BoardsError::Closed.into());
    }
    Ok(())
}

/// When a board may be changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum BoardGuard<'a> {
    /// Always.
    Always,
    /// While none of its tasks is worked on.
    Idle {
        /// What is to be done.
        verb: &'static str,
        /// Its name.
        slug: &'a Slug,
    },
}

impl Board {
    /// Returns what is known about the board besides its tasks.
    #[boxed]
    pub async fn info(&self) -> Result<BoardInfo> {
        let slug = Slug::new(self.slug()).map_err(super::BoardsError::from)?;
        let note = self.read().await?.note(NOTE).await?;
        Ok(BoardInfoFile::of(note).info(&slug))
    }

    /// Changes what is known about the board, in one transaction.
    pub(super) async fn change_info<T: Send>(
        &self,
        guard: BoardGuard<'_>,
        change: impl FnOnce(&mut BoardInfoFile, Time) -> T + Send,
    ) -> Result<T> {
        let mut write = self.write().await?;
        if let BoardGuard::Idle { verb, slug } = guard {
            let count = write.live_runs().await?.len();
            if count > 0 {
                return Err(super::BoardsError::Busy { verb, slug: slug.clone(), count }.into());
            }
        }
        let mut kept = BoardInfoFile::of(write.note(NOTE).await?);
        let result = change(&mut kept, write.now());
        let note = serde_json::to_value(&kept).map_err(|error| Error::Unreadable {
            what: "what is known about the board".to_owned(),
            reason: error.to_string(),
        })?;
        write.set_note(NOTE, Some(&note)).await?;
        write.commit().await?;
        Ok(result)
    }
}
