//! Ending a line of work that somebody left behind.

use vestal_wire::{JobInfo, Role};

use super::Engine;
use super::attach::{GreetError, greet};
use crate::backend::InstanceState;
use crate::{Error, Task, job};

impl Engine {
    /// Ends a shell session of a task's sandbox: kills every process of its
    /// jobs, also of those that a process started which is gone, and forgets
    /// its state. Returns the jobs that were killed.
    ///
    /// Nothing is made or started for it: where there is no sandbox, or it does
    /// not run, there are no jobs. A sandbox that runs and does not answer is
    /// an error, for nobody can tell what runs in it.
    pub async fn end_session(&self, task: &Task, session: &str) -> Result<Vec<JobInfo>, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        let Some(record) = dir.record_of(&key)? else {
            return Ok(Vec::new());
        };
        let Some(instance) = record.instance(&dir) else {
            return Ok(Vec::new());
        };
        let backend = self.inner.backend(task, &record.backend)?;
        let failed = || Error::backend(backend.name());
        // A sandbox is not kept from idling out by what is cleaned up in it.
        let connection = match greet(&**backend, &instance, Role::Observer).await {
            Ok(connection) => connection,
            Err(error) => match backend.state(&instance).await.map_err(failed())? {
                InstanceState::Absent | InstanceState::Stopped { .. } => return Ok(Vec::new()),
                InstanceState::Running | InstanceState::Paused | InstanceState::Broken { .. } => {
                    return Err(match error {
                        GreetError::Backend(error) => failed()(error),
                        GreetError::Connect(error) => Error::Connect(error),
                    });
                }
            },
        };
        Ok(job::end_session(&connection, session).await?)
    }
}
