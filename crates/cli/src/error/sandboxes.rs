//! What to do about errors of sandboxes, their jobs and their files.

use vestal_api::JobNotFound;
use vestal_sandbox::backend::BackendError;
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;
use vestal_sandbox::job::JobError;
use vestal_sandbox::{Error, Fault, FaultCode, HomeError, JobId, LockError, StoreError, SyncError};

use super::CommandFailure;
use crate::console::text;
use crate::exit::Exit;
use crate::values::quoted;

const DOCTOR: &str = "run `vestal doctor` to see what works on this machine";
const LIST: &str = "`vestal ps` lists the sandboxes";

impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            Error::Config(error)
            | Error::Backend { source: BackendError::Config(error), .. } => error.into(),
            Error::Home(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Job(error) => error.into(),
            Error::Call(error) => error.into(),
            Error::Sync(SyncError::Call(error)) => {
                let advice = Self::from(error).advice;
                Self { advice, ..failure }
            }
            Error::Credentials(error) => failure.advise(error.advice()),
            Error::Sync(SyncError::OldGuest) => failure.advise("vestal stop, and use it again"),
            Error::Sync(SyncError::NotBroughtBack { .. }) => failure
                .advise("correct that, or take what you need with `vestal cp`; then repeat")
                .advise("to give it up all the same, move the directory here away first"),
            Error::Sync(SyncError::NotCopied { .. }) => {
                failure.advise("correct that, or remove what is not needed; then repeat")
            }
            Error::Sync(SyncError::Tree(_) | SyncError::Here(_)) => {
                failure.advise("correct that, then repeat; what was copied is not copied again")
            }
            Error::Lock(LockError::Busy { holder: Some(pid), .. }) => failure.advise(format!(
                "wait for it, or look at it with `ps`; `kill {pid}` ends it and releases the lock"
            )),
            Error::Lock(LockError::Busy { holder: None, .. }) => failure
                .advise("wait for it, or look at it with `ps`; the lock is released when it ends"),
            Error::Lock(LockError::Io { .. }) | Error::Publish(_) | Error::Sync(_) => failure,
            Error::Backend { source, .. } => failure.advise(source.advice().unwrap_or(DOCTOR)),
            // A copy or a new one would only take more.
            Error::StartFailed { source, .. } if source.is_out_of_space() => failure
                .advise("free some space on that filesystem (`df -h`, `df -i`), then try again")
                .advise("`vestal snapshots` lists copies that can be removed"),
            Error::StartFailed { task, source, .. } => failure
                .advise(source.advice().unwrap_or("try again when the cause is fixed"))
                .advise(format!("to keep a copy of it first: vestal snapshot {}", quoted(&task)))
                .advise(format!(
                    "to recreate it: vestal rebuild {}; workspace and home are kept, software installed elsewhere is lost",
                    quoted(&task)
                )),
            Error::NoBackend { .. } | Error::Connect(_) => failure.advise(DOCTOR),
            Error::NotIsolated { task, .. } => failure
                .advise(DOCTOR)
                .advise(format!(
                    "to move an existing sandbox: vestal rebuild {} --backend native",
                    quoted(&task)
                ))
                .advise("to run commands on this machine as you, without isolation: -b local"),
            Error::BackendChanged { task, was, now } => failure
                .advise(format!("to use it as it is: -b {was}, or terminal.backend: auto"))
                .advise(format!(
                    "to move it, workspace and home kept: vestal rebuild {} --backend {now}",
                    quoted(&task)
                )),
            Error::NotPermitted { backend, .. } => failure.advise(format!(
                "to permit it to everybody who has the key: vestal config set api_server.backends {backend}"
            )),
            Error::NotConfined { .. } => failure
                .advise(DOCTOR)
                .advise("to allow it nevertheless: --allow-local"),
            Error::UnknownBackend { task, .. } => failure
                .advise("use the version of vestal that created it")
                .advise(format!("or remove it: vestal rm {}", quoted(&task))),
            Error::NoSandbox { .. } => failure.advise(LIST),
            Error::NotElsewhere { task, .. } | Error::Answers { task, .. } => {
                failure.advise(format!("to remove it: vestal rm {}", quoted(&task)))
            }
            Error::Stopped { task } => {
                failure.advise(format!("to start it: vestal run -t {} true", quoted(&task)))
            }
            Error::Foreign { path } => failure
                .advise("if home.json of this home was lost or replaced, restore it from a backup")
                .advise(format!(
                    "else move {} away; its files are in workspace and home below it",
                    path.display()
                )),
            Error::Tightened { .. } => failure
                .advise("`vestal jobs` lists the jobs in the way; when they have ended, or after `vestal stop`, the settings apply"),
            Error::Busy { task, .. } => {
                failure.advise(format!("to see what uses it: vestal jobs -t {}", quoted(&task)))
            }
            Error::Copy(error) => failure.advise(error.advice()),
            Error::Bind { .. } => failure.advise("choose another directory for the task"),
            Error::TooWideMount { path, .. } => {
                let failure = failure.advise("or run the command without mounting the directory");
                if path.parent().is_none() {
                    return failure;
                }
                failure.advise(format!(
                    "to mount it nevertheless, name it: --set 'terminal.docker_volumes=[\"{}:/workspace\"]'",
                    path.display()
                ))
            }
            Error::OutOfReach { .. } => failure
                .advise("nothing was changed; try again when the connection works"),
            Error::Unresponsive { task, .. } => failure.advise(format!(
                "to start it again, which ends what runs in it: vestal run -t {} true",
                quoted(&task)
            )),
            Error::LostJob { job, .. } => lost_job(failure, &job),
            Error::NeverStarted { .. } => failure.advise("it is safe to run it again"),
            Error::OutcomeUnknown { .. } => {
                failure.advise("look for its effects before you run it again")
            }
        }
    }
}

impl From<HomeError> for CommandFailure {
    fn from(error: HomeError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            HomeError::Network { .. } => {
                failure.advise("set VESTAL_HOME to a directory on a disk of this machine")
            }
            HomeError::Unusable { .. } | HomeError::Store(StoreError::Io { .. }) => {
                failure.advise("make it writable for you, or set VESTAL_HOME to another directory")
            }
            // They say what to do.
            HomeError::SandboxesOfOriginal { .. } | HomeError::ExposedSandboxes { .. } => failure,
            HomeError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            StoreError::Io { action, path, source } => {
                Self::io(&format!("{action} {}", path.display()), &source)
            }
            StoreError::Damaged { path, .. } if path.ends_with("home.json") => failure
                .advise(format!(
                    "restore {} from a backup: the sandboxes of this home are found by the id in it",
                    path.display()
                ))
                .advise(
                    "without a backup: move that file away. The home begins with another identity; sandboxes of before are shown as such, and their files stay in sandboxes/*/workspace and home",
                ),
            StoreError::Damaged { path, .. } => failure.advise(format!(
                "move {} away to start over; nothing was changed",
                path.display()
            )),
            StoreError::Newer { .. } => {
                failure.advise("use the newer version of vestal; nothing was changed")
            }
        }
    }
}

impl From<JobError> for CommandFailure {
    fn from(error: JobError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            JobError::Fault(fault) => fault.into(),
            JobError::TooLarge(_) => failure.advise(
                "pass long text with `vestal run --file FILE`, and use a smaller environment",
            ),
            JobError::Lost { job, .. } | JobError::InputLost { job, .. } => lost_job(failure, &job),
            JobError::Invalid(_) | JobError::Input { .. } => failure,
        }
    }
}

/// Says what to do about a job that may still be running.
fn lost_job(failure: CommandFailure, job: &JobId) -> CommandFailure {
    failure
        .advise(format!("if it still runs, to end it: vestal kill {job}"))
        .advise(format!("to see what became of it: vestal logs {job}"))
}

impl From<CallError> for CommandFailure {
    fn from(error: CallError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            CallError::Fault(fault) => fault.into(),
            CallError::Lost { .. }
            | CallError::Protocol { .. }
            | CallError::Deadline { .. }
            | CallError::Unsendable(_) => failure.advise(DOCTOR),
        }
    }
}

impl From<Fault> for CommandFailure {
    fn from(fault: Fault) -> Self {
        let failure = Self::new(fault.message);
        match fault.code {
            FaultCode::NoWorkdir => failure.with_exit(Exit::NoWorkdir),
            FaultCode::NoSuchJob => failure.advise("`vestal jobs --all` lists the jobs on record"),
            FaultCode::NoSpace => failure.advise("free some space and try again"),
            FaultCode::Unsupported => failure
                .advise("the sandbox was started by an older version of vestal; stop it, and the next use restarts it"),
            FaultCode::Internal
            | FaultCode::Invalid
            | FaultCode::WrongInstance
            | FaultCode::Cancelled
            | FaultCode::ShuttingDown
            | FaultCode::Busy
            | FaultCode::NotFound
            | FaultCode::Exists
            | FaultCode::WrongKind
            | FaultCode::Denied
            | FaultCode::Conflict
            | FaultCode::System => failure,
        }
    }
}

impl From<FileError> for CommandFailure {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Call(error) => error.into(),
            other @ (FileError::TooLarge { .. } | FileError::Io(_) | FileError::Invalid(_)) => {
                Self::new(other.to_string())
            }
        }
    }
}

impl From<JobNotFound> for CommandFailure {
    fn from(error: JobNotFound) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            JobNotFound::Ambiguous { count, jobs, .. } => {
                let unnamed = count - jobs.len();
                let failure = jobs.iter().fold(failure, |failure, (id, command)| {
                    failure.advise(format!("{id}  {}", text::printable(command)))
                });
                match unnamed {
                    0 => failure.advise("give more of the id; `vestal jobs --all` lists all jobs"),
                    more => failure.advise(format!(
                        "and {more} older; give more of the id; `vestal jobs --all` lists all jobs"
                    )),
                }
            }
            JobNotFound::Unknown { stopped, .. } => {
                let failure = failure.advise("`vestal jobs --all` lists the jobs on record");
                if stopped.is_empty() {
                    return failure;
                }
                failure.advise(format!(
                    "stopped sandboxes were not searched; to look there: -t {}",
                    stopped.join(" or -t ")
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_may_still_run_is_named_with_what_ends_it() {
        let job: JobId = "j-01".parse().unwrap();
        let source = Box::new(Error::Busy { task: "web".into(), reason: "a copy".into() });
        let failure = CommandFailure::from(Error::LostJob { job, source });
        assert_eq!(
            failure.message(),
            Some(
                "lost sight of job j-01, which may still be running: the sandbox of task \"web\" is \
                 in use: a copy"
            )
        );
        assert_eq!(
            failure.advice(),
            [
                "if it still runs, to end it: vestal kill j-01",
                "to see what became of it: vestal logs j-01"
            ]
        );
    }
}
