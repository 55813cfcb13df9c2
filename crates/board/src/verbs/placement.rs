//! Moving a task to another column of the board: which verb does that, and what it asks for.
//!
//! A front end that lets people drag tasks shows only moves of [`ways`], and asks for what they need.

use async_recursion::async_recursion as boxed;

use super::{Block, Moved, Promotion, TaskCompletion};
use crate::error::{BoardRefusal, Error};
use crate::id::{Authority, TaskId};
use crate::task::{Status, words};
use crate::time::Time;
use crate::{Board, Result};

words! {
    /// What moves a task to a column.
    PlacementVerb: "move" {
        /// It is made ready.
        Promote = "promote",
        /// It continues.
        Unblock = "unblock",
        /// It waits for a person.
        Block = "block",
        /// It is put off.
        Schedule = "schedule",
        /// Its work is handed in.
        Submit = "submit",
        /// It is done.
        Complete = "complete",
        /// Its work is accepted.
        Approve = "approve",
        /// Its work is sent back.
        RequestChanges = "request_changes",
        /// It is taken from its holder.
        Reclaim = "reclaim",
        /// It is taken up again.
        Reopen = "reopen",
        /// It is put away.
        Archive = "archive",
    }
}

words! {
    /// Whether a move asks for words.
    Words: "need for words" {
        /// None are kept.
        None = "none",
        /// They are kept if there are any.
        Optional = "optional",
        /// It is not done without.
        Needed = "needed",
    }
}

/// A way from one column to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnMove {
    /// Where the task goes. One that waits for others becomes `todo` in place of `ready`.
    pub to: Status,
    /// What is done.
    pub verb: PlacementVerb,
    /// Whether it asks for a reason, an answer or a summary.
    pub words: Words,
}

const fn way(to: Status, verb: PlacementVerb, words: Words) -> ColumnMove {
    ColumnMove { to, verb, words }
}

const ARCHIVE: ColumnMove = way(Status::Archived, PlacementVerb::Archive, Words::None);
const BLOCK: ColumnMove = way(Status::Blocked, PlacementVerb::Block, Words::Needed);
const COMPLETE: ColumnMove = way(Status::Done, PlacementVerb::Complete, Words::Optional);
const SCHEDULE: ColumnMove = way(Status::Scheduled, PlacementVerb::Schedule, Words::Needed);
const SUBMIT: ColumnMove = way(Status::Review, PlacementVerb::Submit, Words::Optional);

/// Returns where a task of a column can be moved by hand.
pub const fn ways(from: Status) -> &'static [ColumnMove] {
    use PlacementVerb as Verb;
    match from {
        Status::Triage => const { &[way(Status::Ready, Verb::Promote, Words::Optional), ARCHIVE] },
        Status::Todo => {
            const { &[way(Status::Ready, Verb::Promote, Words::Optional), BLOCK, SCHEDULE, ARCHIVE] }
        }
        Status::Scheduled => {
            const { &[way(Status::Ready, Verb::Unblock, Words::Optional), BLOCK, ARCHIVE] }
        }
        Status::Ready => &[BLOCK, SCHEDULE, SUBMIT, COMPLETE, ARCHIVE],
        Status::Running => {
            const {
                &[
                    way(Status::Ready, Verb::Reclaim, Words::Optional),
                    BLOCK,
                    SCHEDULE,
                    SUBMIT,
                    COMPLETE,
                    ARCHIVE,
                ]
            }
        }
        Status::Blocked => {
            const { &[way(Status::Ready, Verb::Unblock, Words::Optional), SUBMIT, COMPLETE, ARCHIVE] }
        }
        Status::Review => {
            const {
                &[
                    way(Status::Done, Verb::Approve, Words::Optional),
                    way(Status::Ready, Verb::RequestChanges, Words::Needed),
                    BLOCK,
                    ARCHIVE,
                ]
            }
        }
        Status::Done => const { &[way(Status::Ready, Verb::Reopen, Words::Optional), ARCHIVE] },
        Status::Archived => const { &[way(Status::Ready, Verb::Reopen, Words::Optional)] },
    }
}

/// A task to be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The column that it was seen in. If it is in another by now, nothing is done.
    pub from: Status,
    /// The column that it goes to.
    pub to: Status,
    /// The reason, the answer or the summary; it may be empty.
    pub words: String,
    /// When it goes on by itself, if it is put off.
    pub at: Option<Time>,
    /// Whether it need not wait for the tasks it is linked to.
    pub force: bool,
}

impl Board {
    /// Moves a task to another column by the verb that [`ways`] names. A run that ends by it is in the
    /// answer: its worker has to be stopped.
    #[boxed]
    pub async fn place(&self, by: &Authority, id: &TaskId, placement: Placement) -> Result<Moved> {
        let Placement { from, to, words, at, force } = placement;
        let status = self.get(id).await?.status;
        let refuse = || BoardRefusal::Status { verb: "move", task: id.clone(), status };
        if status != from {
            return Err(refuse().into());
        }
        let way = ways(from).iter().find(|way| way.to == to).ok_or_else(refuse)?;
        let words = words.trim().to_owned();
        if way.words == Words::Needed && words.is_empty() {
            let what = format!("the reason to {}", way.verb.as_str().replace('_', " "));
            return Err(Error::Invalid { what, reason: "is missing".to_owned() });
        }
        let done = || {
            let summary = (!words.is_empty()).then(|| words.clone());
            TaskCompletion { summary, ..TaskCompletion::default() }
        };
        match way.verb {
            PlacementVerb::Promote => {
                let promotion = Promotion { reason: words, force, dry_run: false };
                self.promote(by, id, promotion).await
            }
            PlacementVerb::Unblock => {
                self.unblock(by, id, Some(words.as_str()).filter(|words| !words.is_empty())).await
            }
            PlacementVerb::Block => self.block(by, id, Block { reason: words, kind: None }).await,
            PlacementVerb::Schedule => self.schedule(by, id, &words, at).await,
            PlacementVerb::Submit => self.submit(by, id, done()).await,
            PlacementVerb::Complete | PlacementVerb::Approve => self.complete(by, id, done()).await,
            PlacementVerb::RequestChanges => self.request_changes(by, id, &words).await,
            PlacementVerb::Reclaim => self.reclaim(by, id, &words).await,
            PlacementVerb::Reopen => self.reopen(by, id, &words).await,
            PlacementVerb::Archive => self.archive(by, id).await,
        }
    }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
