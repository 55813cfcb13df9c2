//! Making a board.

use std::path::PathBuf;

use super::catalogue::Boards;
use super::error::BoardsError;
use super::info::{BoardEdit, BoardInfo, Guard};
use super::lock::CatalogueLock;
use super::slug::Slug;
use crate::Result;

/// What a new board is like; what is not said is left open.
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
pub struct Creation {
    /// What is known about it.
    pub info: BoardInfo,
    /// Whether it was there before, and is as it was.
    pub existed: bool,
}

impl Boards {
    /// Makes a board. One that is there is left as it is; one that is archived
    /// is refused, for whoever makes a board expects an empty one.
    pub async fn create(&self, slug: &Slug, new: NewBoard) -> Result<Creation> {
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
                return Ok(Creation { info, existed: true });
            }
        }
        let board = self.open_or_make(slug).await?;
        let host = self.host.name.clone();
        let existed = board
            .change_info(Guard::Always, |kept, now| {
                let existed = !kept.is_new();
                if !existed {
                    kept.set_created_at(now);
                    kept.edit(edit, &host);
                }
                existed
            })
            .await?;
        Ok(Creation { info: board.info().await?, existed })
    }

    /// Makes a board unless it is there, and makes it the current one.
    pub async fn create_and_switch(&self, slug: &Slug, new: NewBoard) -> Result<Creation> {
        let created = self.create(slug, new).await?;
        self.switch(slug).await?;
        Ok(created)
    }
}
