//! What whoever asks may do, checked against the store.

use crate::Result;
use crate::authority::{Authority, Fence};
use crate::error::{Error, Refusal};
use crate::id::TaskId;
use crate::store::Write;
use crate::task::Task;

/// Lets a worker do what is about its own task only, and only while it holds it.
/// Everybody else may.
pub(crate) fn own(by: &Authority, verb: &'static str, task: &Task) -> Result<()> {
    let Some(fence) = by.fence() else { return Ok(()) };
    if fence.task != task.id {
        return Err(Refusal::NotYours { verb, task: task.id.clone() }.into());
    }
    holds(fence, task)
}

/// Lets no worker do this, whatever it holds.
pub(crate) fn no_worker(by: &Authority, verb: &'static str, task: &TaskId) -> Result<()> {
    match by {
        Authority::Worker(_) => Err(Refusal::NotYours { verb, task: task.clone() }.into()),
        Authority::Person(_) | Authority::Dispatcher(_) => Ok(()),
    }
}

/// Lets only people do this: it is what a task waits for a person for.
pub(crate) fn person(by: &Authority, verb: &'static str, task: &Task) -> Result<()> {
    no_worker(by, verb, &task.id)?;
    gate(by, verb, task)
}

/// Keeps dispatchers from what waits for a person.
pub(crate) fn gate(by: &Authority, verb: &'static str, task: &Task) -> Result<()> {
    if task.gate && matches!(by, Authority::Dispatcher(_)) {
        let refusal = Refusal::Status { verb, task: task.id.clone(), status: task.status };
        return Err(refusal.into());
    }
    Ok(())
}

/// Lets a worker go on while it holds its task, whatever it is about to do.
/// Returns its task, where a worker asks.
pub(crate) async fn at_work(tx: &mut dyn Write, by: &Authority) -> Result<Option<Task>> {
    match by.fence() {
        Some(fence) => fenced(tx, fence).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the task that a worker holds.
pub(crate) async fn fenced(tx: &mut dyn Write, fence: &Fence) -> Result<Task> {
    let Some(task) = tx.task(&fence.task).await? else {
        return Err(lost(fence, None));
    };
    holds(fence, &task)?;
    Ok(task)
}

fn holds(fence: &Fence, task: &Task) -> Result<()> {
    let profile = task.running_as.as_ref();
    if task.current_run == Some(fence.run) && profile.is_none_or(|name| *name == fence.profile) {
        Ok(())
    } else {
        Err(lost(fence, Some(task)))
    }
}

/// Says that a worker does not hold its task any more.
pub(crate) fn lost(fence: &Fence, task: Option<&Task>) -> Error {
    let now = task.and_then(|task| task.current_run).filter(|run| *run != fence.run);
    Error::Fenced { task: fence.task.clone(), run: fence.run, now }
}
