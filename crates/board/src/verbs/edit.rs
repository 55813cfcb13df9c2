//! Changing a task's texts, who does it, and what it waits for.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde_json::{Value, json};
use vestal_config::ProfileName;

use super::transition::{Permit, demote, find, record, release, task_of_worker};
use super::{limits, machine};
use crate::error::{BoardRefusal, Error};
use crate::event::{Kind, NewTaskEvent};
use crate::id::{Authority, RunId, TaskId};
use crate::store::Write;
use crate::task::{Status, Task};
use crate::{Board, Result};

/// What is to be changed; what is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskEdit {
    /// What it is about, in a line.
    pub title: Option<String>,
    /// What is to be done.
    pub body: Option<String>,
    /// Higher goes first.
    pub priority: Option<i64>,
    /// A namespace, or none.
    pub tenant: Option<Option<String>>,
    /// Skills the worker is to use.
    pub skills: Option<Vec<String>>,
    /// Time that a run may take, or any.
    pub max_runtime: Option<Option<Duration>>,
    /// Failures at which it is given up, or as configured.
    pub max_retries: Option<Option<u32>>,
    /// Model to ask, or the profile's.
    pub model: Option<Option<String>>,
    /// Whether the work has to be looked at.
    pub needs_review: Option<bool>,
    /// The profile that looks at it, or a person.
    pub reviewer: Option<Option<ProfileName>>,
    /// Its outcome.
    pub result: Option<String>,
    /// The last report about the work.
    pub summary: Option<String>,
    /// The same for machines: an object.
    pub metadata: Option<Value>,
}

impl TaskEdit {
    /// Reports whether it is only about the result of the work, which is all that
    /// a worker may change.
    fn is_about_outcome(&self) -> bool {
        let outcome = Self {
            result: self.result.clone(),
            summary: self.summary.clone(),
            metadata: self.metadata.clone(),
            ..Self::default()
        };
        outcome == *self
    }
}

impl Board {
    /// Changes a task's texts and properties; its status is not touched. A
    /// worker may change the result of its own task.
    #[boxed]
    pub async fn edit(&self, by: &Authority, id: &TaskId, edit: TaskEdit) -> Result<Task> {
        let mut tx = self.write().await?;
        let before = find(&mut *tx, id).await?;
        Permit::Holder("edit").check(by, &before)?;
        if by.fence().is_some() && !edit.is_about_outcome() {
            return Err(BoardRefusal::NotYours { verb: "edit", task: id.clone() }.into());
        }
        if before.status == Status::Archived {
            let refusal =
                BoardRefusal::Status { verb: "edit", task: id.clone(), status: before.status };
            return Err(refusal.into());
        }
        let mut after = before.clone();
        let mut fields = change(&mut after, &edit)?;
        let run = edit_last_run(&mut *tx, &before, &edit, &mut fields).await?;
        let events = events(&before, &after, &edit, &fields, run);
        if events.is_empty() {
            return Ok(before);
        }
        after.updated_at = tx.now();
        tx.update_task(&before, &after).await?;
        tx.add_events(&events).await?;
        tx.commit().await?;
        Ok(after)
    }

    /// Gives a task to a profile, or to nobody. Its failures are forgotten, and
    /// whatever guard they set. Whether the profile exists is the caller's to say.
    #[boxed]
    pub async fn assign(
        &self,
        by: &Authority,
        id: &TaskId,
        to: Option<ProfileName>,
    ) -> Result<Task> {
        let moved = self.transition(by, Permit::NoWorker("assign"), id, |task, facts| {
            machine::assign(task, facts, to.as_ref(), None)
        });
        Ok(moved.await?.task)
    }

    /// Adds a comment to a task and returns its number. A worker may say
    /// something about any task, while it holds its own.
    #[boxed]
    pub async fn comment(&self, by: &Authority, id: &TaskId, body: &str) -> Result<i64> {
        let body = limits::comment(body)?;
        let author = limits::name("the author", by.name())?;
        let mut tx = self.write().await?;
        task_of_worker(&mut *tx, by).await?;
        find(&mut *tx, id).await?;
        let number = tx.comment(id, &author, &body).await?;
        let run = by.fence().filter(|fence| fence.task == *id).map(|fence| fence.run);
        let payload = json!({
            "author": author,
            "len": body.chars().count(),
            "comment": number,
            "person": matches!(by, Authority::Person(_)),
        });
        record(&mut *tx, id, run, Kind::Commented, payload).await?;
        tx.commit().await?;
        Ok(number)
    }

    /// Makes `child` wait for `parent`, and returns it. If it could be worked on
    /// and the parent is not finished, it has to wait from now on. A link that
    /// is there is left at that.
    #[boxed]
    pub async fn link(&self, by: &Authority, parent: &TaskId, child: &TaskId) -> Result<Task> {
        let mut tx = self.write().await?;
        task_of_worker(&mut *tx, by).await?;
        let waited_for = find(&mut *tx, parent).await?;
        let mut task = find(&mut *tx, child).await?;
        check_link(by, &task)?;
        if parent == child || tx.waits_for(parent, child).await? {
            return Err(BoardRefusal::Cycle { parent: parent.clone(), child: child.clone() }.into());
        }
        if !tx.link(parent, child).await? {
            return Ok(task);
        }
        let run = by.fence().map(|fence| fence.run);
        let payload = json!({ "parent": parent, "child": child, "by": by.name() });
        record(&mut *tx, child, run, Kind::Linked, payload).await?;
        if !waited_for.status.satisfies_children() {
            task = demote(&mut *tx, &task, parent).await?;
        }
        tx.commit().await?;
        Ok(task)
    }

    /// Makes `child` wait for `parent` no more, and returns it.
    #[boxed]
    pub async fn unlink(&self, by: &Authority, parent: &TaskId, child: &TaskId) -> Result<Task> {
        Permit::NoWorker("unlink").check_caller(by, child)?;
        let mut tx = self.write().await?;
        let waited_for = find(&mut *tx, parent).await?;
        let task = find(&mut *tx, child).await?;
        if !tx.unlink(parent, child).await? {
            return Err(Error::Invalid {
                what: "the link".to_owned(),
                reason: format!("is not there: {child} does not wait for {parent}"),
            });
        }
        let payload = json!({ "parent": parent, "child": child, "by": by.name() });
        record(&mut *tx, child, None, Kind::Unlinked, payload).await?;
        if !waited_for.status.satisfies_children() {
            release(&mut *tx, &task).await?;
        }
        let task = find(&mut *tx, child).await?;
        tx.commit().await?;
        Ok(task)
    }
}

/// Refuses a worker to make others wait than its own task and those it made.
fn check_link(by: &Authority, child: &Task) -> Result<()> {
    match by.fence() {
        Some(fence) if fence.task != child.id && child.created_by_run != Some(fence.run) => {
            Err(BoardRefusal::NotYours { verb: "link", task: child.id.clone() }.into())
        }
        _ => Ok(()),
    }
}

/// Changes the task, and returns the names of what is different.
fn change(task: &mut Task, edit: &TaskEdit) -> Result<Vec<&'static str>> {
    let before = task.clone();
    if let Some(title) = &edit.title {
        task.title = limits::title(title)?;
    }
    if let Some(body) = &edit.body {
        task.body = limits::body("the body", body)?;
    }
    if let Some(priority) = edit.priority {
        task.priority = limits::priority(priority)?;
    }
    if let Some(tenant) = &edit.tenant {
        task.tenant = limits::optional_name("the tenant", tenant.as_deref())?;
    }
    if let Some(skills) = &edit.skills {
        task.skills = limits::skills(skills)?;
    }
    if let Some(max_runtime) = edit.max_runtime {
        task.max_runtime = limits::max_runtime(max_runtime)?;
    }
    if let Some(max_retries) = edit.max_retries {
        task.max_retries = limits::max_retries(max_retries)?;
    }
    if let Some(model) = &edit.model {
        task.model = limits::optional_name("the model", model.as_deref())?;
    }
    if let Some(needs_review) = edit.needs_review {
        task.needs_review = needs_review;
    }
    if let Some(reviewer) = &edit.reviewer {
        task.reviewer.clone_from(reviewer);
        task.needs_review |= reviewer.is_some();
        if task.status == Status::Review {
            task.attention = machine::asks_to_be_looked_at(task);
        }
    }
    if let Some(result) = &edit.result {
        task.result = Some(limits::body("the result", result)?);
    }
    let same = [
        ("title", before.title == task.title),
        ("body", before.body == task.body),
        ("tenant", before.tenant == task.tenant),
        ("skills", before.skills == task.skills),
        ("max_runtime", before.max_runtime == task.max_runtime),
        ("max_retries", before.max_retries == task.max_retries),
        ("model", before.model == task.model),
        ("needs_review", before.needs_review == task.needs_review),
        ("reviewer", before.reviewer == task.reviewer),
        ("result", before.result == task.result),
    ];
    Ok(same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect())
}

/// Changes what the last run says about the work.
async fn edit_last_run(
    tx: &mut dyn Write,
    task: &Task,
    edit: &TaskEdit,
    fields: &mut Vec<&'static str>,
) -> Result<Option<RunId>> {
    if edit.summary.is_none() && edit.metadata.is_none() {
        return Ok(task.current_run);
    }
    let Some(mut run) = tx.runs(&task.id, 1).await?.pop() else {
        return Err(Error::Invalid {
            what: "the summary".to_owned(),
            reason: format!("is of a run, and {} was not worked on yet", task.id),
        });
    };
    if let Some(summary) = &edit.summary {
        run.summary = Some(limits::body("the summary", summary)?);
        fields.push("summary");
    }
    if let Some(metadata) = &edit.metadata {
        run.metadata = Some(limits::metadata(metadata)?);
        fields.push("metadata");
    }
    tx.update_run(&run).await?;
    Ok(Some(run.id))
}

fn events(
    before: &Task,
    after: &Task,
    edit: &TaskEdit,
    fields: &[&str],
    run: Option<RunId>,
) -> Vec<NewTaskEvent> {
    let event = |kind, payload| NewTaskEvent { task: before.id.clone(), run, kind, payload };
    let mut events = Vec::new();
    if before.priority != after.priority {
        events.push(event(Kind::Reprioritized, json!({ "priority": after.priority })));
    }
    if !fields.is_empty() {
        let mut payload = json!({ "fields": fields });
        if let Some(result) = &edit.result {
            payload["result_len"] = json!(result.chars().count());
        }
        if let Some(summary) = &edit.summary {
            payload["summary"] = json!(machine::headline(summary));
        }
        events.push(event(Kind::Edited, payload));
    }
    events
}
