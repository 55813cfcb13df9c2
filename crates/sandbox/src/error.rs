//! What can go wrong with a sandbox.

use std::path::PathBuf;

use vestal_wire::JobId;

use crate::backend::BackendError;
use crate::client::{CallError, ConnectError};
use crate::job::JobError;
use crate::spec::Drift;
use crate::store::{HomeError, LockError, StoreError};

/// A failure of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting has a wrong value.
    #[error(transparent)]
    Config(#[from] vestal_config::ConfigError),
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A file of ours cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sandbox is locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The backend failed.
    #[error("backend {backend}: {source}")]
    Backend {
        /// Its name.
        backend: &'static str,
        /// What it said.
        source: BackendError,
    },
    /// No backend works on this machine.
    #[error("no backend works here: {}", reasons.join("; "))]
    NoBackend {
        /// Why, by backend.
        reasons: Vec<String>,
    },
    /// The sandbox was made on a backend that is not the configured one.
    #[error("sandbox {task:?} lives on backend {was}, and the settings say {now}")]
    BackendChanged {
        /// The task.
        task: String,
        /// The backend it lives on.
        was: String,
        /// The backend of the settings.
        now: String,
    },
    /// The sandbox's backend does not exist in this version.
    #[error("sandbox {task:?} lives on backend {backend}, which this version does not have")]
    UnknownBackend {
        /// The task.
        task: String,
        /// The backend's name.
        backend: String,
    },
    /// No such sandbox.
    #[error("there is no sandbox for task {task:?}")]
    NoSandbox {
        /// The task.
        task: String,
    },
    /// The sandbox exists but does not run, and the call needs it to.
    #[error("the sandbox of task {task:?} is stopped")]
    Stopped {
        /// The task.
        task: String,
    },
    /// The directory belongs to another home or profile.
    #[error("{} was made for another home, profile or task", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// A directory of the host cannot be in a sandbox.
    #[error("{} cannot be in the sandbox: {reason}", path.display())]
    Bind {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The settings isolate more than the sandbox does, and jobs are in the way
    /// of making it anew.
    #[error(
        "the settings {} isolate more than the running sandbox, which is busy: {}",
        keys(drift),
        in_the_way(jobs)
    )]
    Tightened {
        /// What differs.
        drift: Vec<Drift>,
        /// Jobs in the way; none when it is a call.
        jobs: Vec<JobId>,
    },
    /// The sandbox is in use.
    #[error("the sandbox of task {task:?} is in use: {reason}")]
    Busy {
        /// The task.
        task: String,
        /// By what.
        reason: String,
    },
    /// The guest cannot be talked to.
    #[error("cannot talk to the guest: {0}")]
    Connect(#[from] ConnectError),
    /// A call to the guest failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A job failed in a way that is not the command's own.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The connection was lost before the command started; it never will.
    #[error("the connection was lost before the command started; it has not run (job {job})")]
    NeverStarted {
        /// The job.
        job: JobId,
    },
    /// The connection was lost, and nothing tells any more whether the command ran.
    #[error("the connection was lost, and whether the command ran cannot be told (job {job})")]
    OutcomeUnknown {
        /// The job.
        job: JobId,
    },
}

impl Error {
    pub(crate) fn backend(backend: &'static str) -> impl FnOnce(BackendError) -> Self {
        move |source| Self::Backend { backend, source }
    }
}

fn in_the_way(jobs: &[JobId]) -> String {
    match jobs {
        [] => "a call is open".to_owned(),
        [job] => format!("job {job} runs"),
        jobs => {
            let names: Vec<&str> = jobs.iter().map(JobId::as_str).collect();
            format!("jobs {} run", names.join(", "))
        }
    }
}

fn keys(drift: &[Drift]) -> String {
    drift.iter().map(|drift| drift.key.as_str()).collect::<Vec<_>>().join(", ")
}
