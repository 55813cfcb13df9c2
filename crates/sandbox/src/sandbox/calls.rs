//! What can be done in a sandbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::sync::OwnedRwLockReadGuard;
use vestal_wire::{FaultCode, JobId, JobInfo, JobState, SandboxStats, Status, WindowSize};

use super::Sandbox;
use crate::backend::{HostDirectories, JobEnvironment};
use crate::client::Connection;
use crate::command::{Command, CommandInput};
use crate::engine::{owned, policy};
use crate::files::Files;
use crate::job::{
    self, AfterInput, Follow, JobError, JobFilter, JobList, JobOutcome, JobStream, KillOnDrop,
    MAX_GUESTS, SentJob,
};
use crate::output::CapturedOutput;
use crate::publish::{self, read_bundle};
use crate::{Error, PublishError, PublishedName};

/// How long a guest may take over a request that takes no time.
const SHORT_CALL: Duration = Duration::from_secs(10);

impl Sandbox {
    /// Runs a command to its end and returns what it printed.
    ///
    /// If the connection is lost on the way, the result is fetched from the
    /// guest that ran it; the command is never run a second time. A command
    /// that is known never to have started, because the guest had ended before
    /// it got the request or was shutting down, is given to the guest that comes
    /// after it. With an id that the caller chose that is done only if the guest
    /// was shutting down: one that was asked about the id may have refused it
    /// for good.
    #[boxed]
    pub async fn run(&self, command: Command) -> Result<CapturedOutput, Error> {
        self.sync_before().await?;
        let ended = self.run_alone(command).await;
        self.bring_back().await;
        ended
    }

    async fn run_alone(&self, command: Command) -> Result<CapturedOutput, Error> {
        let mut command = self.complete(command).await?;
        let mut attempts = GuestAttempts::of(&command);
        loop {
            let guest = self.connection().await?;
            let spare = command.try_clone();
            match (self.run_once(command).await, spare) {
                (Err(error), Some(again)) => {
                    attempts.await_next_guest(&guest, error).await?;
                    command = again;
                }
                (result, _) => return result,
            }
        }
    }

    async fn run_once(&self, command: Command) -> Result<CapturedOutput, Error> {
        let output = job::run_through_losses(Arc::new(self.clone()), command).await?;
        self.handle.mark_used();
        Ok(output)
    }

    /// Starts a command whose output is followed as it comes, through lost
    /// connections. A guest that is shutting down refuses it, and the next one
    /// gets it; apart from that it is sent once only, and whether a command that
    /// was lost on the way ran is what [`JobStream::finish`] tells.
    #[boxed]
    pub async fn start(&self, command: Command, follow: Follow) -> Result<JobStream, Error> {
        self.sync_before().await?;
        let command = self.complete(command).await?;
        JobStream::start(Arc::new(self.clone()), command, follow).await
    }

    /// Starts a background job and returns once it runs.
    #[boxed]
    pub async fn spawn(&self, command: Command) -> Result<JobInfo, Error> {
        self.sync_before().await?;
        let mut command = self.complete(command).await?;
        let mut attempts = GuestAttempts::of(&command);
        loop {
            let guest = self.connection().await?;
            let spare = command.try_clone();
            match (self.spawn_once(&guest, command).await, spare) {
                (Err(error), Some(again)) => {
                    attempts.await_next_guest(&guest, error).await?;
                    command = again;
                }
                (result, _) => return result,
            }
        }
    }

    async fn spawn_once(
        &self,
        connection: &Connection,
        mut command: Command,
    ) -> Result<JobInfo, Error> {
        let id = command.ensure_id();
        let guard = command.kills_on_drop().then(|| KillOnDrop::new(Arc::new(self.clone()), id));
        let started = match job::spawn_background(connection, command).await {
            Ok(info) => Ok(info),
            Err(error) => match SentJob::lost(&error) {
                Some(sent) => match self.outcome(&sent).await {
                    Ok(outcome) => outcome.into_info(),
                    // It may run: the error must name the job.
                    Err(source) => {
                        Err(Error::LostJob { job: sent.job.clone(), source: Box::new(source) })
                    }
                },
                None => Err(error.into()),
            },
        };
        let is_settled =
            started.as_ref().map_or_else(|error| Unstarted::of(error).is_some(), |_| true);
        if let Some(guard) = guard.filter(|_| is_settled) {
            guard.release();
        }
        started
    }

    /// Returns what became of a command that may have been sent.
    #[boxed]
    pub async fn outcome(&self, sent: &SentJob) -> Result<JobOutcome, Error> {
        let connection = self.connection().await?;
        Ok(sent.outcome(&connection).await?)
    }

    /// Follows a job, also one that has ended or that another process started,
    /// through lost connections.
    #[boxed]
    pub async fn attach(&self, request: vestal_wire::AttachJob) -> Result<JobStream, Error> {
        JobStream::attach(Arc::new(self.clone()), request).await
    }

    /// Returns the jobs on record.
    #[boxed]
    pub async fn jobs(&self, filter: JobFilter, limit: u32) -> Result<JobList, Error> {
        let connection = self.connection().await?;
        Ok(job::jobs(&connection, filter, limit).await?)
    }

    /// Waits for a job's end, or until the time is up.
    #[boxed]
    pub async fn wait(&self, id: &JobId, limit: Option<Duration>) -> Result<JobInfo, Error> {
        let connection = self.connection().await?;
        let waited = job::wait(&connection, id, limit).await?;
        if matches!(waited.state, JobState::Ended(_)) {
            self.bring_back().await;
        }
        Ok(waited)
    }

    /// Kills every process of a job and returns when none is left. This, like
    /// [`Sandbox::signal`], [`Sandbox::write`] and [`Sandbox::resize`], acts on
    /// a job that runs: a sandbox that has been stopped is not started for it,
    /// which is [`Error::Stopped`].
    #[boxed]
    pub async fn kill(&self, id: &JobId) -> Result<JobInfo, Error> {
        let connection = self.running_connection().await?;
        let killed = job::kill(&connection, id).await?;
        self.bring_back().await;
        Ok(killed)
    }

    /// Sends a signal to a job's foreground process group.
    #[boxed]
    pub async fn signal(&self, id: &JobId, signal: i32) -> Result<(), Error> {
        let connection = self.running_connection().await?;
        Ok(job::signal(&connection, id, signal).await?)
    }

    /// Writes to a job's standard input.
    #[boxed]
    pub async fn write(
        &self,
        id: &JobId,
        input: CommandInput,
        after: AfterInput,
    ) -> Result<(), Error> {
        let connection = self.running_connection().await?;
        Ok(job::write(&connection, id, input, after).await?)
    }

    /// Changes the size of a job's terminal.
    #[boxed]
    pub async fn resize(&self, id: &JobId, size: WindowSize) -> Result<(), Error> {
        let connection = self.running_connection().await?;
        Ok(job::resize(&connection, id, size).await?)
    }

    /// Returns the sandbox's files, relative paths starting where `session` is.
    #[boxed]
    pub async fn files(&self, session: Option<&str>) -> Result<Files, Error> {
        self.sync_before().await?;
        let connection = self.connection().await?;
        let start_dir = self.handle.start_dir().await?;
        let files = Files::new(connection).start_dir(start_dir);
        Ok(match session {
            Some(session) => files.session(session),
            None => files,
        })
    }

    /// Returns the guest's state.
    #[boxed]
    pub async fn status(&self) -> Result<Status, Error> {
        let connection = self.connection().await?;
        Ok(connection.status(SHORT_CALL).await?)
    }

    /// Returns what the sandbox consumes.
    #[boxed]
    pub async fn stats(&self) -> Result<SandboxStats, Error> {
        let connection = self.connection().await?;
        Ok(connection.stats(SHORT_CALL).await?)
    }

    /// Keeps the sandbox from idling out.
    #[boxed]
    pub async fn touch(&self) -> Result<(), Error> {
        let connection = self.connection().await?;
        Ok(connection.touch(SHORT_CALL).await?)
    }

    /// Returns the jobs of a session that run or left processes behind, no
    /// matter which process started them.
    #[boxed]
    pub async fn jobs_of_session(&self, name: &str) -> Result<Vec<JobInfo>, Error> {
        let connection = self.connection().await?;
        Ok(job::of_session(&connection, name).await?)
    }

    /// Kills every process of a session's jobs and forgets its state. Returns
    /// the jobs that were killed.
    #[boxed]
    pub async fn end_session(&self, name: &str) -> Result<Vec<JobInfo>, Error> {
        let connection = self.connection().await?;
        Ok(job::end_session(&connection, name).await?)
    }

    /// Forgets a session's saved state.
    #[boxed]
    pub async fn reset_session(&self, name: &str) -> Result<(), Error> {
        let connection = self.connection().await?;
        Ok(connection.reset_session(name, SHORT_CALL).await?)
    }

    /// Returns the connection to the guest, made again if it was lost.
    #[boxed]
    pub async fn connection(&self) -> Result<Connection, Error> {
        self.handle.connection().await
    }

    /// Returns the connection to the recorded instance, made again if it was
    /// lost. Nothing is started or made for it.
    pub(crate) async fn running_connection(&self) -> Result<Connection, Error> {
        self.handle.running_connection().await
    }

    /// Makes [`crate::Engine::close`] wait until the returned value is dropped.
    pub(crate) fn delay_close(&self) -> Option<OwnedRwLockReadGuard<()>> {
        owned::delay_close(&self.handle.engine)
    }

    /// Adds to a command what the settings say and the caller left open.
    async fn complete(&self, command: Command) -> Result<Command, Error> {
        let engine = &self.handle.engine;
        let environment = self.handle.job_environment().await;
        let command = match environment {
            JobEnvironment::Callers => command.or_env(|| policy::base_environment(engine))?,
            JobEnvironment::Guests => {
                command.with_secret_env(policy::container_environment(engine)?)
            }
        };
        let command = command.with_secret_env(policy::forwarded_environment(engine, environment)?);
        let start_dir = self.handle.start_dir().await;
        command.or_start_dir(|| start_dir)
    }
}

impl Sandbox {
    /// Shows a directory of the host to the sandbox, under a name of two parts
    /// as `skills/deploy`, and returns where commands find it. Where anything
    /// confines them they can only read it; on a machine that sees none of this one's files they
    /// are given a copy below their home, which is put right each time.
    ///
    /// What is shown is a copy, at most 32 MiB in 2,000 files; hidden files stay
    /// out. The same files again change nothing, others replace those before in
    /// one step. It survives the sandbox's stop, and a sandbox that is rebuilt
    /// is shown the same again. Neither is it one of the settings it was made
    /// with.
    #[boxed]
    pub async fn publish(&self, name: &str, source: &Path) -> Result<PathBuf, Error> {
        let name = PublishedName::new(name)?;
        let bundle = read_bundle(source).await?;
        // This makes an instance that has ended meanwhile again.
        self.connection().await?;
        let (backend, instance) = self.handle.place().await;
        let Some(publishing) = backend.publishing() else {
            if backend.declaration().host_directories == HostDirectories::Synced {
                return self.publish_copy(&name, source).await;
            }
            return Err(PublishError::Unsupported(backend.name()).into());
        };
        let shown = publishing.publish(&instance, &name, &bundle).await;
        let shown = shown.map_err(Error::backend(backend.name()))?;
        if !self.is_owned() {
            publish::remember_published(&self.handle.engine, self.key(), &name, source)?;
        }
        Ok(shown)
    }
}

/// Why a command certainly never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unstarted {
    /// The guest had ended before it received the command.
    GuestEnded,
    /// The guest refused the command because it is shutting down.
    GuestShutsDown,
}

impl Unstarted {
    /// Returns `None` for a command that may have started, and for one that the
    /// next guest would refuse as well.
    fn of(error: &Error) -> Option<Self> {
        match error {
            Error::NeverStarted { .. } => Some(Self::GuestEnded),
            Error::Job(JobError::Fault(fault)) if fault.code == FaultCode::ShuttingDown => {
                Some(Self::GuestShutsDown)
            }
            _ => None,
        }
    }
}

/// Counts the guests that ended before they started a command.
#[derive(Debug, Default)]
struct GuestAttempts {
    /// Guests so far.
    guests: u32,
    /// Whether the caller knows the job by an id.
    has_id: bool,
}

impl GuestAttempts {
    fn of(command: &Command) -> Self {
        Self { guests: 0, has_id: command.has_id() }
    }

    /// Waits until the command can be sent to the next guest. Returns the error
    /// if that is not allowed, or if too many guests have ended already.
    async fn await_next_guest(&mut self, guest: &Connection, error: Error) -> Result<(), Error> {
        let Some(reason) = Unstarted::of(&error) else {
            return Err(error);
        };
        self.guests += 1;
        if self.guests == MAX_GUESTS || (self.has_id && reason == Unstarted::GuestEnded) {
            return Err(error);
        }
        tracing::debug!(%error, "sending the command to the next guest");
        // Until it has closed the connection, the same guest would be asked again.
        let ended = match reason {
            Unstarted::GuestEnded => true,
            Unstarted::GuestShutsDown => job::has_shut_down(guest).await,
        };
        if ended { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use vestal_wire::Fault;

    use super::*;
    use crate::client::fake_guest::{connected, soon};
    use crate::command::new_job_id;

    fn never_started() -> Error {
        Error::NeverStarted { job: new_job_id() }
    }

    fn fault(code: FaultCode) -> Error {
        JobError::Fault(Fault { code, message: "no".to_owned(), errno: None }).into()
    }

    #[tokio::test]
    async fn a_command_that_never_started_survives_three_stops_in_a_row() {
        let (connection, _guest) = connected().await;
        let mut attempts = GuestAttempts::default();
        for _ in 0..3 {
            attempts.await_next_guest(&connection, never_started()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_id_that_a_guest_may_have_refused_for_good_is_not_sent_again() {
        let (connection, _guest) = connected().await;
        let named = Command::shell("true").job_id(new_job_id());
        let given_up =
            GuestAttempts::of(&named).await_next_guest(&connection, never_started()).await;
        assert!(matches!(given_up, Err(Error::NeverStarted { .. })), "{given_up:?}");
    }

    #[tokio::test]
    async fn a_command_that_no_guest_starts_is_given_up() {
        let (connection, _guest) = connected().await;
        let mut attempts = GuestAttempts::default();
        for _ in 1..MAX_GUESTS {
            attempts.await_next_guest(&connection, never_started()).await.unwrap();
        }
        let given_up = attempts.await_next_guest(&connection, never_started()).await;
        assert!(matches!(given_up, Err(Error::NeverStarted { .. })), "{given_up:?}");
    }

    #[tokio::test]
    async fn a_guest_that_is_shutting_down_is_waited_for_until_it_is_gone() {
        let (connection, guest) = connected().await;
        let mut attempts = GuestAttempts::default();
        let mut next =
            Box::pin(attempts.await_next_guest(&connection, fault(FaultCode::ShuttingDown)));
        tokio::select! {
            biased;
            early = &mut next => panic!("the same guest would be asked again: {early:?}"),
            () = tokio::task::yield_now() => {}
        }
        drop(guest);
        soon(next).await.unwrap();
    }

    #[tokio::test]
    async fn a_command_that_is_refused_for_another_reason_is_not_repeated() {
        let (connection, _guest) = connected().await;
        for code in [FaultCode::Busy, FaultCode::NoWorkdir, FaultCode::Internal] {
            let refused = GuestAttempts::default().await_next_guest(&connection, fault(code)).await;
            let Err(Error::Job(JobError::Fault(fault))) = refused else { panic!("{refused:?}") };
            assert_eq!(fault.code, code);
        }
    }
}
