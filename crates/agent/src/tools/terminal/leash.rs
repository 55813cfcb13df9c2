//! A job that must not outlive its caller.

use tokio::runtime::Handle;
use vestal_sandbox::Sandbox;
use vestal_wire::JobId;

/// Kills a job when it is dropped before it was let go: a foreground command
/// goes with the call that runs it.
#[derive(Debug)]
pub(crate) struct Leash {
    sandbox: Sandbox,
    job: Option<JobId>,
}

impl Leash {
    /// Takes a job on the leash, best before it is started.
    pub(crate) fn new(sandbox: &Sandbox, job: JobId) -> Self {
        Self { sandbox: sandbox.clone(), job: Some(job) }
    }

    /// Lets the job go.
    pub(crate) fn release(mut self) {
        self.job = None;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let (Some(job), Ok(runtime)) = (self.job.take(), Handle::try_current()) else { return };
        let sandbox = self.sandbox.clone();
        runtime.spawn(async move {
            if let Err(error) = Box::pin(sandbox.kill(&job)).await {
                tracing::debug!(%job, %error, "a command that nobody waits for was not killed");
            }
        });
    }
}
