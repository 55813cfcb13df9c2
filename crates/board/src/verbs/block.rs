//! A task waits.

use super::scene::Scene;
use super::{Moved, authority, limits, machine};
use crate::authority::Authority;
use crate::error::Error;
use crate::id::TaskId;
use crate::status::BlockKind;
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

impl Board {
    /// Makes a task wait. The reason is kept as a comment, too. Where it has
    /// waited for the same kind of thing before, a person has to decide.
    pub async fn block(&self, by: &Authority, id: &TaskId, block: Block) -> Result<Moved> {
        let block = block.checked(by)?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::own(by, "block", &scene.task)?;
        let change = machine::block(&scene.task, scene.facts(by), &block)?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
