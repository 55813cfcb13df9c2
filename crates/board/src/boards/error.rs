//! What can go wrong with boards as such.

use std::path::PathBuf;

use super::slug::{InvalidSlug, Slug};

/// Why something was not done with a board. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BoardsError {
    /// A text that names no board.
    #[error(transparent)]
    Name(#[from] InvalidSlug),
    /// There is no such board.
    #[error("board {slug} does not exist; make it with: vestal kanban boards create {slug}")]
    Missing {
        /// Its name.
        slug: Slug,
    },
    /// The board was removed, and is kept.
    #[error(
        "board {slug} is archived; bring it back with: vestal kanban boards restore {slug}, or be rid of it with: vestal kanban boards rm {slug} --delete"
    )]
    Archived {
        /// Its name.
        slug: Slug,
    },
    /// The board was archived while somebody had it open.
    #[error("the board was archived; nothing new is begun on it")]
    Closed,
    /// Tasks of the board are being worked on.
    #[error("cannot {verb} board {slug}: {count} of its tasks {} being worked on; wait, or take them back with: vestal kanban --board {slug} reclaim TASK", if *count == 1 { "is" } else { "are" })]
    Busy {
        /// What was asked: `archive` or `delete`.
        verb: &'static str,
        /// Its name.
        slug: Slug,
        /// How many.
        count: usize,
    },
    /// The board is always there.
    #[error("cannot {verb} board default: it is always there")]
    Default {
        /// What was asked.
        verb: &'static str,
    },
    /// A board came back under the name of one that was being deleted.
    #[error("board {slug} was not deleted: work on it began meanwhile, and its name was taken; it is in {}", path.display())]
    Displaced {
        /// Its name.
        slug: Slug,
        /// Where it is.
        path: PathBuf,
    },
}
