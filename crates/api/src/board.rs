//! Boards, and the profiles that their tasks go to. Times are whole seconds since 1970.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vestal_board::boards::{BoardInfo, ListedBoard};
use vestal_board::{Status, Time};

/// A profile that tasks go to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssigneeView {
    /// The profile.
    pub name: String,
    /// Whether there is such a profile.
    pub exists: bool,
    /// How many tasks it has of each status that has any.
    pub counts: BTreeMap<Status, u64>,
}

/// Where a board is, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardPlaceView {
    /// The board.
    pub board: String,
    /// Its directory.
    pub path: String,
    /// Whether it is there.
    pub exists: bool,
    /// Profiles that tasks can go to.
    pub profiles: Vec<String>,
}

/// A board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardView {
    /// Its name for programs.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// A sign that stands for it.
    pub icon: String,
    /// Its colour.
    pub color: String,
    /// The directory for its tasks that name none and need one.
    pub default_workdir: Option<String>,
    /// The host that has that directory.
    pub default_workdir_host: Option<String>,
    /// When it was made.
    pub created_at: Option<i64>,
    /// Whether it was removed, and is kept.
    pub archived: bool,
    /// How many tasks it has of each status; left out where that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<BTreeMap<Status, u64>>,
    /// How many of them need a person; left out where that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_attention: Option<u64>,
    /// Why no more is known; left out where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Its directory.
    pub path: String,
    /// Whether it is the current board.
    pub current: bool,
}

impl BoardView {
    /// Returns the view of a board in a directory.
    pub fn new(board: &ListedBoard, path: String, current: bool) -> Self {
        let ListedBoard { slug, info, tasks, needs_attention, trouble } = board.clone();
        let BoardInfo {
            name,
            description,
            icon,
            color,
            default_workdir,
            default_workdir_host,
            created_at,
            archived,
        } = info;
        Self {
            slug: slug.to_string(),
            name,
            description,
            icon,
            color,
            default_workdir: default_workdir.map(|path| path.to_string_lossy().into_owned()),
            default_workdir_host: default_workdir_host.map(|host| host.to_string()),
            created_at: created_at.map(Time::seconds),
            archived,
            tasks,
            needs_attention,
            trouble,
            path,
            current,
        }
    }
}

/// A board that was archived or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedBoardView {
    /// The board.
    pub slug: String,
    /// Whether it is gone for good.
    pub deleted: bool,
}

/// A board that was brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredBoardView {
    /// The board.
    pub slug: String,
    /// Whether it is archived.
    pub archived: bool,
}

/// The board that is the current one from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentBoardView {
    /// The board.
    pub current: String,
}
