//! The state machine: every way of a task from one status to another, each with
//! its guard and its event, as pure functions. They take a task and what is
//! known about it and return its outcome; `Transition` writes that down.
//!
//! | from | to | by |
//! |---|---|---|
//! | ready, review | running | `claim` |
//! | running, ready, blocked, review | done, or review first | `complete` |
//! | running, ready, blocked | review | `submit` |
//! | review, running (to look at it) | ready, todo | `request_changes` |
//! | todo, scheduled, ready, running, review | blocked, todo, triage | `block` |
//! | todo, ready, running, blocked, review | scheduled | `schedule` |
//! | blocked, scheduled, triage (loop) | ready, todo, review | `unblock` |
//! | triage, todo, blocked, scheduled | ready | `promote` |
//! | running | ready, todo, review | `reclaim`, a failed run |
//! | running | blocked | a failed run too many |
//! | scheduled, blocked (passing trouble) | ready, todo, review | `wake` |
//! | done, archived | ready, todo | `reopen` |
//! | any but archived | archived | `archive` |
//! | todo | ready | the last parent is finished |
//! | ready | todo | a parent is taken up again, or linked |

mod change;
mod finish;
mod hold;
mod waiting;

pub(crate) use change::{
    RunEnding, TaskChange, TaskFacts, asks_to_be_looked_at, parent_finished, parent_unfinished,
};
pub(crate) use finish::{archive, changes_comment, complete, headline, request_changes, submit};
pub(crate) use hold::{FailedRun, assign, claim, end_run, reclaim};
pub(crate) use waiting::{block, promote, reopen, schedule, unblock, unblocking_comment, wake};
