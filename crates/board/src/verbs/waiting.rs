//! A task waits, and goes on.

use super::transition::Permit;
use super::{Moved, limits, machine};
use crate::error::{Error, Refusal};
use crate::id::{Authority, TaskId};
use crate::status::BlockKind;
use crate::time::Time;
use crate::{Board, Result};

/// Why a task cannot go on.
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
    pub async fn block(&self, by: &Authority, id: &TaskId, block: Block) -> Result<Moved> {
        let block = block.checked(by)?;
        let decide = |task: &_, facts: machine::Facts<'_>| machine::block(task, facts, &block);
        self.transition(by, Permit::Holder("block"), id, decide).await
    }

    /// Puts a task off until a moment, or until somebody unblocks it. The reason
    /// is kept as a comment, too.
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
                return Err(Refusal::Status { verb, task: task.id.clone(), status }.into());
            }
            Ok(machine::schedule(task, facts, &reason, at)?)
        })
        .await
    }

    /// Lets a task go on that waits for a person, or for a moment. Its failures are
    /// forgotten, and whatever guard they set.
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
}
