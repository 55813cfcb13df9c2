//! What can go wrong with a sandbox.

use std::path::PathBuf;

use vestal_wire::JobId;

use crate::backend::BackendError;
use crate::client::{CallError, ConnectError};
use crate::files::FileError;
use crate::job::JobError;
use crate::publish::PublishError;
use crate::spec::Drift;
use crate::store::{HomeError, LockError, StoreError};
use crate::sync::SyncError;

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
    /// The files of a mounted directory could not be copied to the sandbox or back.
    #[error("failed to sync files: {0}")]
    Sync(#[from] SyncError),
    /// A declared credential file could not be brought to the sandbox.
    #[error("terminal.credential_files: {0}")]
    Credentials(#[from] CredentialError),
    /// The backend failed.
    #[error("backend {backend}: {source}")]
    Backend {
        /// Its name.
        backend: &'static str,
        /// Its message.
        source: BackendError,
    },
    /// A stopped sandbox did not start. It is as it was.
    #[error("sandbox {task:?} did not start and is kept as it was: backend {backend}: {source}")]
    StartFailed {
        /// The task.
        task: String,
        /// Its backend.
        backend: &'static str,
        /// Its message.
        source: BackendError,
    },
    /// No backend works on this machine.
    #[error("no backend works here: {}", reasons.join("; "))]
    NoBackend {
        /// Why, by backend.
        reasons: Vec<String>,
    },
    /// The settings ask for isolation, and what is left of `auto` has none.
    #[error(
        "the sandbox of task {task:?} cannot be isolated, which the settings ask for: {}; {}",
        listed(isolating),
        reasons.join("; ")
    )]
    NotIsolated {
        /// The task.
        task: String,
        /// The settings that ask for it.
        isolating: Vec<vestal_config::IsolatingSetting>,
        /// Why it cannot be obtained, by backend.
        reasons: Vec<String>,
    },
    /// The sandbox was made on a backend that is not the configured one.
    #[error("sandbox {task:?} is on backend {was}, and the settings name {now}")]
    BackendChanged {
        /// The task.
        task: String,
        /// The backend it lives on.
        was: String,
        /// The backend of the settings.
        now: String,
    },
    /// The sandbox has no isolation at somebody's wish, and this process works for others.
    #[error(
        "sandbox {task:?} is on backend {backend}, which does not isolate, and is refused to requests over a network"
    )]
    NotPermitted {
        /// The task.
        task: String,
        /// Its backend.
        backend: String,
    },
    /// The sandbox has no isolation, and this process takes isolated ones only.
    #[error(
        "the sandbox of task {task:?} would be on backend {backend}, which isolates nothing: its commands would run on this machine as you"
    )]
    NotConfined {
        /// The task.
        task: String,
        /// The backend.
        backend: String,
    },
    /// The sandbox's backend does not exist in this version.
    #[error("sandbox {task:?} is on backend {backend}, which this version does not have")]
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
    /// Only a sandbox on another machine can be forgotten.
    #[error("the sandbox of task {task:?} is not on another machine, but on backend {backend}")]
    NotElsewhere {
        /// The task.
        task: String,
        /// Its backend.
        backend: &'static str,
    },
    /// A sandbox whose machine answers is not forgotten.
    #[error("the machine of the sandbox of task {task:?} answers: {machine}")]
    Answers {
        /// The task.
        task: String,
        /// The machine.
        machine: String,
    },
    /// The sandbox exists but does not run, and the call needs it to.
    #[error("the sandbox of task {task:?} is stopped")]
    Stopped {
        /// The task.
        task: String,
    },
    /// The sandbox is on another machine and cannot be reached. It may run.
    #[error(
        "the sandbox of task {task:?} on backend {backend} cannot be reached and may still be \
         running: {reason}"
    )]
    OutOfReach {
        /// The task.
        task: String,
        /// Its backend.
        backend: &'static str,
        /// What went wrong with the connection.
        reason: String,
    },
    /// The sandbox runs, and its guest does not answer.
    #[error("the sandbox of task {task:?} is running and its guest does not answer: {reason}")]
    Unresponsive {
        /// The task.
        task: String,
        /// What went wrong with the connection.
        reason: String,
    },
    /// The directory belongs to another home or profile.
    #[error(
        "{} was made for another home, profile or task: set terminal.sandbox_dir to a directory \
         that is this profile's alone, or choose another task",
        path.display()
    )]
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
    /// A directory of the host is to be a sandbox's workspace that holds far more
    /// than a piece of work.
    #[error("{} cannot be mounted: {reason}; start in a project directory", path.display())]
    TooWideMount {
        /// The directory.
        path: PathBuf,
        /// What it is.
        reason: &'static str,
    },
    /// The settings isolate more than the sandbox does, and jobs are in the way
    /// of rebuilding it.
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
    /// A copy of the sandbox cannot be made or used.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// Files cannot be shown to the sandbox.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The guest cannot be talked to.
    #[error("cannot talk to the guest: {0}")]
    Connect(#[from] ConnectError),
    /// A call to the guest failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A job failed in a way that is not the command's own.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A job can no longer be followed, and may still be running.
    #[error("lost sight of job {job}, which may still be running: {source}")]
    LostJob {
        /// The job.
        job: JobId,
        /// Why it cannot be followed.
        source: Box<Error>,
    },
    /// The connection was lost before the command started; it never will.
    #[error("the connection was lost before the command started; it has not run (job {job})")]
    NeverStarted {
        /// The job.
        job: JobId,
    },
    /// The connection was lost, and nothing tells any more whether the command ran.
    #[error("the connection was lost, and it is not known whether the command ran (job {job})")]
    OutcomeUnknown {
        /// The job.
        job: JobId,
    },
}

/// Why a copy of a sandbox cannot be made or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// The name is taken.
    #[error("the sandbox of task {task:?} has a snapshot {name} already")]
    SnapshotExists {
        /// The task.
        task: String,
        /// The name.
        name: String,
    },
    /// No such snapshot.
    #[error("the sandbox of task {task:?} has no snapshot {name}")]
    NoSnapshot {
        /// The task.
        task: String,
        /// The name.
        name: String,
    },
    /// A fork needs a task that has nothing yet.
    #[error("task {task:?} has a sandbox, or files of one, already")]
    SandboxExists {
        /// The task.
        task: String,
    },
    /// The snapshot was made on another backend than the sandbox is on.
    #[error(
        "snapshot {name} was made on backend {was}, and the sandbox of task {task:?} is on {now}"
    )]
    OtherBackend {
        /// The task.
        task: String,
        /// The snapshot.
        name: String,
        /// The backend of the snapshot.
        was: String,
        /// The backend of the sandbox.
        now: String,
    },
    /// The sandbox is the host itself.
    #[error(
        "the sandbox of task {task:?} is on backend {backend}, whose files are the host's own: \
         there is nothing to copy"
    )]
    HostsFiles {
        /// The task.
        task: String,
        /// Its backend.
        backend: String,
    },
    /// The backend makes no copies.
    #[error("the sandbox of task {task:?} is on backend {backend}, which cannot copy sandboxes")]
    Unsupported {
        /// The task.
        task: String,
        /// Its backend.
        backend: String,
    },
    /// The sandbox ends with the process that uses it.
    #[error("the sandbox of task {task:?} ends with the process that uses it, and is not copied")]
    Owned {
        /// The task.
        task: String,
    },
    /// Its files are in memory.
    #[error(
        "the files of the sandbox of task {task:?} are in memory \
         (terminal.container_persistent: false) and would be lost when it is stopped to be copied"
    )]
    InMemory {
        /// The task.
        task: String,
    },
    /// Its files are kept by an engine on another machine.
    #[error(
        "the files of the sandbox of task {task:?} are in volumes of its engine or on another \
         machine ({}), where they cannot be copied from here",
        volumes.join(", ")
    )]
    InVolumes {
        /// The task.
        task: String,
        /// The volumes.
        volumes: Vec<String>,
    },
    /// Its files are on this machine, and would not be seen on another one.
    #[error(
        "the files of the sandbox of task {task:?} are on this machine ({}), and backend {backend} \
         keeps files on another one",
        files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    FilesHere {
        /// The task.
        task: String,
        /// The backend it was to move to.
        backend: String,
        /// The directories.
        files: Vec<PathBuf>,
    },
    /// Where it is to move there are files of it from before.
    #[error(
        "backend {backend} has files of the sandbox of task {task:?} from before ({})",
        files.join(", ")
    )]
    Occupied {
        /// The task.
        task: String,
        /// The backend it was to move to.
        backend: String,
        /// The directories.
        files: Vec<String>,
    },
    /// The settings lead to another place than the one where its files are.
    #[error(
        "the files of the sandbox of task {task:?} are not where the settings of backend {backend} \
         lead to"
    )]
    Misplaced {
        /// The task.
        task: String,
        /// Its backend.
        backend: String,
    },
    /// The disk is too full for the copy.
    #[error("the disk of {} is too full for the copy: {problem}", path.display())]
    NoSpace {
        /// Where the copy was to be.
        path: PathBuf,
        /// What could not be written.
        problem: String,
    },
    /// Another process copies it, which takes long.
    #[error("the sandbox of task {task:?} cannot be used now: {what}")]
    Underway {
        /// The task.
        task: String,
        /// What is being done.
        what: String,
    },
    /// Nobody waits for the copy any more; what there was of it is gone.
    #[error("the copy of the sandbox of task {task:?} was given up")]
    GivenUp {
        /// The task.
        task: String,
    },
}

impl CopyError {
    /// Returns what to do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::SnapshotExists { .. } => {
                "choose another name, or remove that snapshot first".to_owned()
            }
            Self::NoSnapshot { .. } => "see which there are: vestal snapshots".to_owned(),
            Self::SandboxExists { .. } => "choose another task for the copy".to_owned(),
            Self::OtherBackend { task, was, .. } => {
                format!("move the sandbox there first: vestal rebuild --backend {was} {task:?}")
            }
            Self::Unsupported { .. } => "take what is needed with `vestal cp`".to_owned(),
            Self::HostsFiles { task, .. } => format!(
                "give the task a sandbox of its own: vestal rebuild --backend native {task:?}"
            ),
            Self::Owned { .. } => {
                "set terminal.persist_across_processes to true for sandboxes that last".to_owned()
            }
            Self::InMemory { .. } => {
                "set terminal.container_persistent to true for files that last".to_owned()
            }
            Self::InVolumes { .. } => {
                "use an engine on this machine, or take what is needed with `vestal cp`".to_owned()
            }
            Self::FilesHere { .. } => "take a sandbox of another task there, and copy what is \
                                       needed with `vestal cp`"
                .to_owned(),
            Self::Occupied { .. } => {
                "look at them, and move them away or remove them; then repeat".to_owned()
            }
            Self::Misplaced { task, .. } => format!(
                "set them to what they were when it was made, which vestal inspect {task:?} shows"
            ),
            Self::NoSpace { .. } => {
                "free some space, or remove snapshots that are not needed any more".to_owned()
            }
            Self::Underway { .. } => "try again when that is done".to_owned(),
            Self::GivenUp { .. } => "ask for it again".to_owned(),
        }
    }
}

/// Why a declared credential file is not in a sandbox. Nothing of its content is told.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// It is none that is taken.
    #[error("{file} is not taken: {reason}")]
    Refused {
        /// The file, as it was declared.
        file: String,
        /// Why.
        reason: String,
    },
    /// It cannot be read here.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// The file, as it was declared.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Nobody knows where the user's home is.
    #[error("your home is not known, because HOME is not set")]
    NoHome,
    /// The sandbox does not take it.
    #[error("cannot write {file} in the sandbox: {source}")]
    NotBrought {
        /// The file.
        file: String,
        /// Why.
        source: Box<FileError>,
    },
}

impl CredentialError {
    /// Returns what to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Refused { .. } => {
                "declare an ordinary file below your home, or take it out of the list"
            }
            Self::Unreadable { .. } => "make it readable for you, or take it out of the list",
            Self::NoHome => "set HOME",
            Self::NotBrought { .. } => {
                "see what is at that path in the sandbox, and whether its disk is full"
            }
        }
    }
}

impl Error {
    pub(crate) fn backend(backend: &'static str) -> impl FnOnce(BackendError) -> Self {
        move |source| Self::Backend { backend, source }
    }
}

fn listed(isolating: &[vestal_config::IsolatingSetting]) -> String {
    isolating.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
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
