//! Finding what a name on the command line stands for.

use vestal_api::JobPrefix;
use vestal_sandbox::client::Connection;
use vestal_sandbox::job::{self, FoundJob, FoundJobs};
use vestal_sandbox::{Engine, Error, JobId, Overrides, TaskName};

use crate::context::Context;
use crate::error::CommandFailure;
use crate::values::quoted;

/// Returns the task that a name stands for, or the one meant when none is
/// given. Every verb that takes a task asks here: where the directory that
/// `vestal` is started in is mounted, it is part of the task.
pub(crate) fn task(engine: &Engine, name: Option<&TaskName>) -> Result<TaskName, CommandFailure> {
    let Some(name) = name else {
        return Ok(engine.scoped(&TaskName::default_task())?);
    };
    let scoped = engine.scoped(name)?;
    // A sandbox that nothing is mounted in is still found by the name it has.
    if scoped != *name && !is_there(engine, &scoped) && is_there(engine, name) {
        return Ok(name.clone());
    }
    Ok(scoped)
}

/// Finds a job: in the sandbox of the task given, which is started if it was
/// stopped, else in all that run.
pub(crate) async fn job(
    context: &Context,
    engine: &Engine,
    name: Option<&TaskName>,
    wanted: &JobPrefix,
) -> Result<FoundJob, CommandFailure> {
    let (id, matches) = (wanted.as_id(), |id: &JobId| wanted.matches(id));
    let found = if name.is_some() {
        let task = task(engine, name)?;
        let connection = connect(context, engine, &task).await?;
        let jobs = job::find_in(&task, connection, id.as_ref(), matches).await?;
        FoundJobs { jobs, stopped: Vec::new() }
    } else {
        job::find(engine, id.as_ref(), matches).await?
    };
    let stopped = found.stopped.iter().map(|task| quoted(task)).collect();
    Ok(wanted.only(found.jobs, |job| &job.info, stopped)?)
}

/// Connects to the sandbox of a task, started if it was stopped, never made.
async fn connect(
    context: &Context,
    engine: &Engine,
    task: &TaskName,
) -> Result<Connection, CommandFailure> {
    match engine.observe(task).await {
        Ok(connection) => Ok(connection),
        // A guest that does not answer is started again, as by any command.
        Err(Error::Stopped { .. } | Error::Unresponsive { .. }) => {
            let sandbox = context.sandbox(engine, task, &Overrides::default()).await?;
            Ok(sandbox.connection().await?)
        }
        Err(error) => Err(explain(engine, error).await),
    }
}

/// Reports whether there is anything of a task: a sandbox, or files of one.
pub(crate) fn is_there(engine: &Engine, task: &TaskName) -> bool {
    engine.sandboxes_dir().join(engine.key(task).dir_name()).is_dir()
}

/// Refuses a task that there is nothing of, before anything is printed about it.
pub(crate) async fn known(engine: &Engine, task: &TaskName) -> Result<(), CommandFailure> {
    if is_there(engine, task) {
        return Ok(());
    }
    Err(explain(engine, Error::NoSandbox { task: task.to_string() }).await)
}

/// Refuses a task that has no sandbox.
pub(crate) async fn existing(engine: &Engine, task: &TaskName) -> Result<(), CommandFailure> {
    match engine.inspect(task).await {
        Err(error @ Error::NoSandbox { .. }) => Err(explain(engine, error).await),
        // What else is wrong is reported by the call itself.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the failure of a call about one sandbox; if there is none of that
/// name, with the name that was probably meant.
pub(crate) async fn explain(engine: &Engine, error: Error) -> CommandFailure {
    let Error::NoSandbox { task: wanted } = &error else {
        return error.into();
    };
    let wanted = wanted.clone();
    let others = engine.list().await.unwrap_or_default();
    CommandFailure::from(error).suggest(&wanted, others.iter().map(|summary| summary.task.as_str()))
}
