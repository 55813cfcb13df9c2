//! Making tasks.

use std::collections::HashMap;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde_json::{Value, json};
use vestal_config::ProfileName;

use super::limits;
use super::transition::{find, task_of_worker};
use crate::error::{BoardRefusal, Error};
use crate::event::{Kind, NewTaskEvent};
use crate::id::{Authority, HostName, TaskId};
use crate::store::Write;
use crate::task::{BlockKind, Status, Task, TaskWorkspace};
use crate::time::Time;
use crate::{Board, Result};

/// How often names are rebuilt because they are taken.
const ATTEMPTS: u32 = 3;
/// Tasks that are given to the store at once.
const UNWRITTEN: usize = 256;

/// A task to be made. What is not given is as in the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewTask {
    /// What it is about, in a line.
    pub title: String,
    /// What is to be done.
    pub body: String,
    /// The profile that works on it.
    pub assignee: Option<ProfileName>,
    /// Tasks that have to be finished before.
    pub parents: Vec<TaskId>,
    /// Where it is worked on.
    pub workspace: TaskWorkspace,
    /// Whether it is worked on where the task of the worker that makes it is,
    /// in place of `workspace`.
    pub inherit_workspace: bool,
    /// A namespace. A worker's tasks are of its own task's, whatever this says.
    pub tenant: Option<String>,
    /// Higher goes first.
    pub priority: i64,
    /// Where it begins.
    pub initial: Initial,
    /// With the same key the same task is meant.
    pub idempotency_key: Option<String>,
    /// Time that a run may take.
    pub max_runtime: Option<Duration>,
    /// Failures at which it is given up.
    pub max_retries: Option<u32>,
    /// Skills the worker is to use.
    pub skills: Vec<String>,
    /// Model to ask in place of the profile's.
    pub model: Option<String>,
    /// Whether the work has to be looked at before it counts as done.
    pub needs_review: bool,
    /// The profile that looks at it.
    pub reviewer: Option<ProfileName>,
    /// The conversation it is made in.
    pub session_id: Option<String>,
    /// Who makes it, if not the caller. A worker cannot set it.
    pub created_by: Option<String>,
}

/// Where a task begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Initial {
    /// Ready, or waiting for its parents.
    #[default]
    Queue,
    /// As a rough idea.
    Triage,
    /// Waiting for a person to let it continue.
    Blocked,
    /// Put off until a moment.
    At(Time),
}

/// A task that was made, or was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTask {
    /// The task.
    pub task: Task,
    /// Whether it was there before, by its idempotency key.
    pub existed: bool,
}

impl NewTask {
    /// Refuses a task that no board takes, whatever is on it.
    pub fn check(&self) -> Result<()> {
        checked(self).map(drop)
    }
}

impl Board {
    /// Makes a task, or returns the one that has its idempotency key.
    #[boxed]
    pub async fn create(&self, by: &Authority, new: NewTask) -> Result<CreatedTask> {
        let created = self.create_many(by, vec![new]).await?.pop();
        created.ok_or_else(|| Error::Unreadable {
            what: "the task that was made".to_owned(),
            reason: "it is not there".to_owned(),
        })
    }

    /// Makes tasks, all or none.
    #[boxed]
    pub async fn create_many(&self, by: &Authority, new: Vec<NewTask>) -> Result<Vec<CreatedTask>> {
        new.iter().try_for_each(NewTask::check)?;
        let mut attempt = 1;
        loop {
            match self.create_all(by, &new).await {
                Ok(created) => return Ok(created),
                Err(error) if attempt < ATTEMPTS && is_taken(&error) => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn create_all(&self, by: &Authority, new: &[NewTask]) -> Result<Vec<CreatedTask>> {
        let mut creation = self.creation(by).await?;
        let mut created = Vec::with_capacity(new.len());
        for new in new {
            created.push(creation.add(new).await?);
        }
        // A name that is taken may only be found out here.
        creation.commit().await?;
        Ok(created)
    }

    /// Begins to make tasks, all or none, however many: few of them are in memory at a time. Nobody
    /// else can write to the board meanwhile.
    pub async fn creation<'c>(&'c self, by: &'c Authority) -> Result<Creation<'c>> {
        let mut tx = self.write().await?;
        let maker = task_of_worker(&mut *tx, by).await?;
        let origin = TaskOrigin { by, host: &self.host().name, maker, now: tx.now() };
        Ok(Creation { tx, origin, unwritten: Vec::new(), keyed: HashMap::new() })
    }
}

/// Tasks that are being made. What is not committed did not happen.
pub struct Creation<'c> {
    tx: Box<dyn Write + 'c>,
    origin: TaskOrigin<'c>,
    /// Tasks that the store does not have yet, with the tasks they wait for.
    unwritten: Vec<(Task, Vec<TaskId>)>,
    /// Those of them that have a key.
    keyed: HashMap<String, usize>,
}

impl Creation<'_> {
    /// Makes a task, or returns the one that has its idempotency key. It may wait for one that was
    /// added before.
    #[boxed]
    pub async fn add(&mut self, new: &NewTask) -> Result<CreatedTask> {
        let new = checked(new)?;
        if let Some(key) = &new.idempotency_key {
            let earlier = self.keyed.get(key).and_then(|at| self.unwritten.get(*at));
            let known = match earlier {
                Some((task, _)) => Some(task.clone()),
                None => self.tx.task_with_key(key).await?,
            };
            if let Some(task) = known {
                return Ok(CreatedTask { task, existed: true });
            }
            self.keyed.insert(key.clone(), self.unwritten.len());
        }
        let mut pending = 0;
        for parent in &new.parents {
            pending += u32::from(self.is_pending(parent).await?);
        }
        let task = self.origin.task(&new, pending)?;
        self.unwritten.push((task.clone(), new.parents));
        if self.unwritten.len() >= UNWRITTEN {
            self.write().await?;
        }
        Ok(CreatedTask { task, existed: false })
    }

    /// Makes all that was added. When this returns, the tasks are there to stay.
    pub async fn commit(mut self) -> Result<()> {
        self.write().await?;
        self.tx.commit().await
    }

    /// Reports whether a task is not finished. One that does not exist is an
    /// error: nothing would ever finish it.
    async fn is_pending(&mut self, parent: &TaskId) -> Result<bool> {
        if self.unwritten.iter().any(|(task, _)| task.id == *parent) {
            return Ok(true);
        }
        let parent = find(&mut *self.tx, parent).await?;
        Ok(!parent.status.satisfies_children())
    }

    /// Gives the store what was added.
    async fn write(&mut self) -> Result<()> {
        self.keyed.clear();
        let added = std::mem::take(&mut self.unwritten);
        self.origin.check_limit(&mut *self.tx, added.len()).await?;
        let (tasks, parents): (Vec<Task>, Vec<Vec<TaskId>>) = added.into_iter().unzip();
        self.tx.insert_tasks(&tasks).await?;
        let mut events = Vec::with_capacity(tasks.len());
        for (task, parents) in tasks.iter().zip(&parents) {
            for parent in parents {
                self.tx.link(parent, &task.id).await?;
            }
            events.push(NewTaskEvent {
                task: task.id.clone(),
                run: task.created_by_run,
                kind: Kind::Created,
                payload: created_payload(task, parents),
            });
        }
        self.tx.add_events(&events).await
    }
}

/// Reports whether an error says that a name is taken.
fn is_taken(error: &Error) -> bool {
    use vestal_database::Error::Refused;
    matches!(error, Error::Database(Refused { source: sqlx::Error::Database(source), .. })
        if source.is_unique_violation())
}

/// Returns a new task in the shape that the board keeps.
fn checked(new: &NewTask) -> Result<NewTask> {
    if new.parents.len() > limits::MAX_PARENTS {
        return Err(Error::Invalid {
            what: "the parents".to_owned(),
            reason: format!(
                "are {}; at most {} are allowed",
                new.parents.len(),
                limits::MAX_PARENTS
            ),
        });
    }
    let mut parents = Vec::with_capacity(new.parents.len());
    for parent in &new.parents {
        if !parents.contains(parent) {
            parents.push(parent.clone());
        }
    }
    Ok(NewTask {
        title: limits::title(&new.title)?,
        body: limits::body("the body", &new.body)?,
        assignee: new.assignee.clone(),
        parents,
        workspace: limits::workspace(&new.workspace)?,
        inherit_workspace: new.inherit_workspace,
        tenant: limits::optional_name("the tenant", new.tenant.as_deref())?,
        priority: limits::priority(new.priority)?,
        initial: new.initial,
        idempotency_key: limits::key(new.idempotency_key.as_deref())?,
        max_runtime: limits::max_runtime(new.max_runtime)?,
        max_retries: limits::max_retries(new.max_retries)?,
        skills: limits::skills(&new.skills)?,
        model: limits::optional_name("the model", new.model.as_deref())?,
        needs_review: new.needs_review || new.reviewer.is_some(),
        reviewer: new.reviewer.clone(),
        session_id: limits::optional_name("the conversation", new.session_id.as_deref())?,
        created_by: limits::optional_name("who makes it", new.created_by.as_deref())?,
    })
}

/// Where tasks come from.
struct TaskOrigin<'a> {
    by: &'a Authority,
    host: &'a HostName,
    /// The task of the worker that makes them.
    maker: Option<Task>,
    now: Time,
}

impl TaskOrigin<'_> {
    fn task(&self, new: &NewTask, pending_parents: u32) -> Result<Task> {
        let id = TaskId::generate().map_err(Error::Name)?;
        let now = self.now;
        let blocked = new.initial == Initial::Blocked;
        let status = match new.initial {
            Initial::Blocked => Status::Blocked,
            Initial::Triage => Status::Triage,
            Initial::At(_) => Status::Scheduled,
            Initial::Queue if pending_parents > 0 => Status::Todo,
            Initial::Queue => Status::Ready,
        };
        let (workspace, workspace_host) = self.workspace(new)?;
        let created_by = match (self.by, &new.created_by) {
            (Authority::Person(_), Some(name)) => name.clone(),
            (by, _) => limits::name("who makes it", by.name())?,
        };
        let tenant = self.maker.as_ref().map_or(&new.tenant, |maker| &maker.tenant);
        Ok(Task {
            id,
            seq: 0,
            title: new.title.clone(),
            body: new.body.clone(),
            assignee: new.assignee.clone(),
            status,
            priority: new.priority,
            tenant: tenant.clone(),
            created_by,
            created_by_run: self.by.fence().map(|fence| fence.run),
            depth: self.depth()?,
            session_id: new.session_id.clone(),
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
            queued_at: (status == Status::Ready).then_some(now),
            workspace,
            workspace_host,
            max_runtime: new.max_runtime,
            max_retries: new.max_retries,
            skills: new.skills.clone(),
            model: new.model.clone(),
            result: None,
            idempotency_key: new.idempotency_key.clone(),
            current_run: None,
            running_as: None,
            block_kind: blocked.then_some(BlockKind::Gate),
            block_reason: None,
            block_recurrences: 0,
            gate: blocked,
            attention: None,
            wake_at: match new.initial {
                Initial::At(moment) => Some(moment),
                Initial::Queue | Initial::Triage | Initial::Blocked => None,
            },
            guard: None,
            needs_review: new.needs_review,
            reviewer: new.reviewer.clone(),
            pending_parents,
        })
    }

    /// Returns where a task is worked on, and which host has that. A worker
    /// cannot reach a directory by way of a task that it could not reach itself.
    fn workspace(&self, new: &NewTask) -> Result<(TaskWorkspace, Option<HostName>)> {
        let own = self.maker.as_ref();
        if let Some(maker) = own
            && (new.inherit_workspace || new.workspace == maker.workspace)
        {
            return Ok((maker.workspace.clone(), maker.workspace_host.clone()));
        }
        match (&new.workspace, own) {
            (TaskWorkspace::Scratch, _) => Ok((TaskWorkspace::Scratch, None)),
            (_, Some(_)) => Err(Error::Invalid {
                what: "the workspace".to_owned(),
                reason: "of a task that a worker makes is scratch, or that of its own task"
                    .to_owned(),
            }),
            (other, None) => Ok((other.clone(), Some(self.host.clone()))),
        }
    }

    fn depth(&self) -> Result<u32> {
        let depth = self.maker.as_ref().map_or(0, |maker| maker.depth.saturating_add(1));
        if depth > limits::MAX_DEPTH {
            return Err(BoardRefusal::TooDeep { limit: limits::MAX_DEPTH }.into());
        }
        Ok(depth)
    }

    async fn check_limit(&self, tx: &mut dyn Write, more: usize) -> Result<()> {
        let Some(fence) = self.by.fence() else { return Ok(()) };
        let made = tx.made_by(fence.run).await?;
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if made.saturating_add(more) > limits::TASKS_PER_RUN {
            return Err(BoardRefusal::TooMany { limit: limits::TASKS_PER_RUN }.into());
        }
        Ok(())
    }
}

fn created_payload(task: &Task, parents: &[TaskId]) -> Value {
    let mut payload = json!({
        "assignee": task.assignee.as_ref().map(ProfileName::as_str),
        "status": task.status,
        "parents": parents,
        "tenant": task.tenant,
        "by": task.created_by,
    });
    if let Some(branch) = task.workspace.branch() {
        payload["branch_name"] = json!(branch);
    }
    if !task.skills.is_empty() {
        payload["skills"] = json!(task.skills);
    }
    payload
}
