//! Verbs that move a task to another status: it waits and continues, it is done, submitted, sent
//! back, archived, reopened or deleted.

use std::fs;
use std::path::PathBuf;

use async_recursion::async_recursion as boxed;
use serde_json::{Value, json};

use super::machine::{self, TaskChange, TaskFacts};
use super::transition::{Permit, Transition, find, record};
use super::{Moved, limits};
use crate::attachments::remove_file;
use crate::error::{BoardRefusal, Error};
use crate::event::Kind;
use crate::id::{Authority, TaskId};
use crate::leftovers::remember_deleted;
use crate::log::log_path;
use crate::task::{BlockKind, Status, Task};
use crate::time::Time;
use crate::{Board, Result};

/// Runs that are looked at: more than any task has whose workers may live.
const RUNS: u32 = 1000;

/// The result of a run: what it hands over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskCompletion {
    /// What was done, for people and for the tasks that wait for this one.
    pub summary: Option<String>,
    /// Its outcome.
    pub result: Option<String>,
    /// The same for machines: an object.
    pub metadata: Option<Value>,
    /// Tasks that the worker says it made.
    pub created_cards: Vec<TaskId>,
    /// Files that are part of it, by name.
    pub artifacts: Vec<String>,
}

impl TaskCompletion {
    fn checked(self) -> Result<Self> {
        limits::named("the tasks that were made", self.created_cards.len())?;
        limits::named("the files", self.artifacts.len())?;
        let text = |what: &str, given: Option<String>| -> Result<Option<String>> {
            let given = given.filter(|text| !text.trim().is_empty());
            given.map(|text| limits::body(what, &text)).transpose()
        };
        for artifact in &self.artifacts {
            limits::optional_reason(artifact)?;
        }
        Ok(Self {
            summary: text("the summary", self.summary)?,
            result: text("the result", self.result)?,
            metadata: self.metadata.as_ref().map(limits::metadata).transpose()?,
            created_cards: self.created_cards,
            artifacts: self.artifacts,
        })
    }
}

/// Why a task cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// In words.
    pub reason: String,
    /// What it waits for; none: a person, who reads the words.
    pub kind: Option<BlockKind>,
}

impl Block {
    fn checked(self, by: &Authority) -> Result<Self> {
        let allowed = match self.kind {
            None
            | Some(
                BlockKind::NeedsInput
                | BlockKind::Capability
                | BlockKind::Transient
                | BlockKind::Dependency,
            ) => true,
            Some(BlockKind::Gate) => matches!(by, Authority::Person(_)),
            Some(BlockKind::GaveUp) => false,
        };
        match self.kind.filter(|_| !allowed) {
            Some(kind) => Err(Error::Invalid {
                what: format!("the kind of block {kind}"),
                reason: "is not yours to set; use needs_input, capability, transient or dependency"
                    .to_owned(),
            }),
            None => Ok(Self { reason: limits::reason(&self.reason)?, kind: self.kind }),
        }
    }
}

/// How a task is made ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promotion {
    /// Why; it may be empty.
    pub reason: String,
    /// Whether it need not wait for the tasks it is linked to.
    pub force: bool,
    /// Whether it is only to be found out what would come of it.
    pub dry_run: bool,
}

impl Board {
    /// Makes a task wait. The reason is kept as a comment, too. Where it has
    /// waited for the same kind of thing before, a person has to decide.
    #[boxed]
    pub async fn block(&self, by: &Authority, id: &TaskId, block: Block) -> Result<Moved> {
        let block = block.checked(by)?;
        let decide = |task: &_, facts: TaskFacts<'_>| machine::block(task, facts, &block);
        self.transition(by, Permit::Holder("block"), id, decide).await
    }

    /// Puts a task off until a moment, or until somebody unblocks it. The reason
    /// is kept as a comment, too.
    #[boxed]
    pub async fn schedule(
        &self,
        by: &Authority,
        id: &TaskId,
        reason: &str,
        at: Option<Time>,
    ) -> Result<Moved> {
        let reason = limits::reason(reason)?;
        self.transition(by, Permit::Holder("schedule"), id, |task, facts| {
            if facts.by_worker() && at.is_some_and(|at| at <= facts.now) {
                // It would be back at once, and again, without end.
                return Err(Error::Invalid {
                    what: "the moment".to_owned(),
                    reason: "has passed; a worker puts its task off to a later one".to_owned(),
                });
            }
            if task.gate && matches!(by, Authority::Dispatcher(_)) {
                let (verb, status) = ("schedule", task.status);
                return Err(BoardRefusal::Status { verb, task: task.id.clone(), status }.into());
            }
            Ok(machine::schedule(task, facts, &reason, at)?)
        })
        .await
    }

    /// Lets a task go on that waits for a person, or for a moment. Its failures are
    /// forgotten, and whatever guard they set.
    #[boxed]
    pub async fn unblock(
        &self,
        by: &Authority,
        id: &TaskId,
        reason: Option<&str>,
    ) -> Result<Moved> {
        let reason = reason.map(limits::reason).transpose()?;
        self.transition(by, Permit::Person("unblock"), id, |task, facts| {
            machine::unblock(task, facts, reason.as_deref())
        })
        .await
    }

    /// Makes a task ready, whatever it waited for; for unfinished tasks it is
    /// linked to only with `force`. Its failures are forgotten, and whatever
    /// guard they set.
    #[boxed]
    pub async fn promote(
        &self,
        by: &Authority,
        id: &TaskId,
        promotion: Promotion,
    ) -> Result<Moved> {
        let reason = limits::optional_reason(&promotion.reason)?;
        let mut step = self.begin(by, Permit::Person("promote"), id).await?;
        let mut parents = Vec::new();
        if step.state.task.pending_parents > 0 {
            let all = step.tx.parents(id).await?.into_iter();
            parents.extend(all.filter(|one| !one.status.satisfies_children()).map(|one| one.id));
        }
        let change = step.decide(|task, facts| {
            machine::promote(task, facts, &reason, promotion.force, &parents)
        })?;
        if promotion.dry_run { step.preview(change).await } else { step.commit(change).await }
    }

    /// Ends a task. Where a worker does and the work has to be looked at, it is
    /// submitted in place of that.
    #[boxed]
    pub async fn complete(
        &self,
        by: &Authority,
        id: &TaskId,
        done: TaskCompletion,
    ) -> Result<Moved> {
        self.hand_over(by, Permit::Holder("complete"), id, done, machine::complete).await
    }

    /// Puts a task among those whose work has to be looked at: by its reviewer,
    /// or by a person.
    #[boxed]
    pub async fn submit(&self, by: &Authority, id: &TaskId, done: TaskCompletion) -> Result<Moved> {
        self.hand_over(by, Permit::Holder("submit"), id, done, machine::submit).await
    }

    async fn hand_over(
        &self,
        by: &Authority,
        permit: Permit,
        id: &TaskId,
        done: TaskCompletion,
        decide: fn(&Task, TaskFacts<'_>, &TaskCompletion) -> Result<TaskChange>,
    ) -> Result<Moved> {
        let done = done.checked()?;
        let mut step = self.begin(by, permit, id).await?;
        let phantoms = phantoms(&mut step, by, &done.created_cards).await?;
        if !phantoms.is_empty() {
            return Err(refuse_unknown_cards(step, by, &done, phantoms).await?.into());
        }
        let change = step.decide(|task, facts| decide(task, facts, &done))?;
        step.commit(change).await
    }

    /// Sends work back that was looked at. The reason is kept as a comment, too.
    #[boxed]
    pub async fn request_changes(
        &self,
        by: &Authority,
        id: &TaskId,
        reason: &str,
    ) -> Result<Moved> {
        let reason = limits::changes(reason)?;
        self.transition(by, Permit::Holder("request changes to"), id, |task, facts| {
            machine::request_changes(task, facts, &reason)
        })
        .await
    }

    /// Puts a task away. If it is being worked on, that ends; tasks that wait for it
    /// need not any more.
    #[boxed]
    pub async fn archive(&self, by: &Authority, id: &TaskId) -> Result<Moved> {
        self.transition(by, Permit::Person("archive"), id, machine::archive).await
    }

    /// Takes up a task again that was done or put away. Tasks that wait for it
    /// and could be worked on have to wait again.
    #[boxed]
    pub async fn reopen(&self, by: &Authority, id: &TaskId, reason: &str) -> Result<Moved> {
        let reason = limits::optional_reason(reason)?;
        let mut step = self.begin(by, Permit::NoWorker("reopen"), id).await?;
        let mut change = step.decide(|task, facts| machine::reopen(task, facts, &reason))?;
        // While a task was put away its key was free for another.
        if let (Status::Archived, Some(key)) =
            (step.state.task.status, &step.state.task.idempotency_key)
            && let Some(heir) = step.tx.task_with_key(key).await?
        {
            change.task.idempotency_key = None;
            for (_, payload) in &mut change.events {
                payload["idempotency_key_now_of"] = json!(heir.id);
            }
        }
        step.commit(change).await
    }

    /// Removes a task that was put away, and all that hangs on it. One whose
    /// worker may still be there is kept until it is gone: with the task, all
    /// trace of the worker would go.
    #[boxed]
    pub async fn delete(&self, by: &Authority, id: &TaskId) -> Result<()> {
        Permit::NoWorker("delete").check_caller(by, id)?;
        let mut tx = self.write().await?;
        let task = find(&mut *tx, id).await?;
        if task.status != Status::Archived {
            let status = task.status;
            return Err(BoardRefusal::Status { verb: "delete", task: id.clone(), status }.into());
        }
        if let Some(run) = tx.runs(id, RUNS).await?.into_iter().find(|run| !run.gone) {
            let (run, owner) = (run.id, run.owner);
            return Err(BoardRefusal::Held { verb: "delete", task: id.clone(), run, owner }.into());
        }
        let files = tx.attachments(id).await?;
        remember_deleted(&mut *tx, &task).await?;
        tx.delete_task(&task).await?;
        tx.commit().await?;
        let here = files.iter().filter(|file| file.host == self.host().name);
        let here: Vec<PathBuf> = here.map(|file| self.attachment_path(file)).collect();
        for path in here.iter().chain([&log_path(self.dir(), id)]) {
            remove_file(path);
        }
        // The directory of the task's files goes with the last of them.
        here.first().and_then(|path| path.parent()).map(fs::remove_dir);
        Ok(())
    }
}

/// Returns the tasks that a worker says it made, and that are not there or
/// neither its own nor waiting for its task.
async fn phantoms(
    step: &mut Transition<'_>,
    by: &Authority,
    cards: &[TaskId],
) -> Result<Vec<TaskId>> {
    let mut phantoms = Vec::new();
    if cards.is_empty() {
        return Ok(phantoms);
    }
    let run = by.fence().map(|fence| fence.run);
    let children = step.tx.children(&step.state.task.id).await?;
    for card in cards {
        let known = step.tx.task(card).await?.is_some_and(|task| {
            (run.is_some() && task.created_by_run == run)
                || children.iter().any(|child| child.id == *card)
                || matches!(by, Authority::Person(_))
        });
        if !known {
            phantoms.push(card.clone());
        }
    }
    Ok(phantoms)
}

/// Records that a worker named tasks which are not there; its own task is left
/// as it is.
async fn refuse_unknown_cards(
    step: Transition<'_>,
    by: &Authority,
    done: &TaskCompletion,
    phantoms: Vec<TaskId>,
) -> Result<BoardRefusal> {
    let Transition { mut tx, state, .. } = step;
    let real: Vec<_> = done.created_cards.iter().filter(|card| !phantoms.contains(card)).collect();
    let summary = done.summary.as_deref().unwrap_or_default();
    let payload = json!({
        "phantom_cards": phantoms,
        "verified_cards": real,
        "summary_preview": summary.chars().take(200).collect::<String>(),
    });
    let run = by.fence().map(|fence| fence.run);
    record(&mut *tx, &state.task.id, run, Kind::CompletionBlockedHallucination, payload).await?;
    tx.commit().await?;
    Ok(BoardRefusal::Phantoms { tasks: phantoms })
}
