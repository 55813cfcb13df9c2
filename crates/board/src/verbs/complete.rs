//! A task is done.

use serde_json::{Value, json};

use super::scene::Scene;
use super::{Moved, authority, limits, machine};
use crate::authority::Authority;
use crate::error::{Error, Refusal};
use crate::event::{Kind, NewEvent};
use crate::id::TaskId;
use crate::store::Write;
use crate::{Board, Result};

/// What whoever worked hands over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// What was done, for people and for the tasks that wait for this one.
    pub summary: Option<String>,
    /// What came of it.
    pub result: Option<String>,
    /// The same for machines: an object.
    pub metadata: Option<Value>,
    /// Tasks that the worker says it made.
    pub created_cards: Vec<TaskId>,
    /// Files that are part of it, by name.
    pub artifacts: Vec<String>,
}

impl Completion {
    pub(super) fn checked(self) -> Result<Self> {
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

impl Board {
    /// Ends a task. Where a worker does and the work has to be looked at, it is
    /// submitted in place of that.
    pub async fn complete(&self, by: &Authority, id: &TaskId, done: Completion) -> Result<Moved> {
        let done = done.checked()?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::own(by, "complete", &scene.task)?;
        if let Err(phantoms) = verify(&mut *tx, by, id, &done.created_cards).await {
            return Err(refuse(tx, id, by, &done, phantoms).await);
        }
        let change = machine::complete(&scene.task, scene.facts(by), &done)?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}

/// Checks that the tasks a worker says it made are there, and are its own or
/// wait for its task.
pub(super) async fn verify(
    tx: &mut dyn Write,
    by: &Authority,
    id: &TaskId,
    cards: &[TaskId],
) -> Result<()> {
    if cards.is_empty() {
        return Ok(());
    }
    let run = by.fence().map(|fence| fence.run);
    let children = tx.children(id).await?;
    let mut phantoms = Vec::new();
    for card in cards {
        let known = match tx.task(card).await? {
            None => false,
            Some(task) => {
                (run.is_some() && task.created_by_run == run)
                    || children.iter().any(|child| child.id == *card)
                    || matches!(by, Authority::Person(_))
            }
        };
        if !known {
            phantoms.push(card.clone());
        }
    }
    if phantoms.is_empty() { Ok(()) } else { Err(Refusal::Phantoms { tasks: phantoms }.into()) }
}

/// Writes down that a worker named tasks which are not there; its own task is
/// left as it is.
pub(super) async fn refuse(
    mut tx: Box<dyn Write + '_>,
    id: &TaskId,
    by: &Authority,
    done: &Completion,
    error: Error,
) -> Error {
    let Error::Refused(Refusal::Phantoms { tasks }) = &error else { return error };
    let summary = done.summary.as_deref().unwrap_or_default();
    let event = NewEvent {
        task: id.clone(),
        run: by.fence().map(|fence| fence.run),
        kind: Kind::CompletionBlockedHallucination,
        payload: json!({
            "phantom_cards": tasks,
            "verified_cards":
                done.created_cards.iter().filter(|card| !tasks.contains(card)).collect::<Vec<_>>(),
            "summary_preview": summary.chars().take(200).collect::<String>(),
        }),
    };
    if let Err(failed) = tx.tell(&[event]).await {
        return failed;
    }
    match tx.commit().await {
        Ok(()) => error,
        Err(failed) => failed,
    }
}
