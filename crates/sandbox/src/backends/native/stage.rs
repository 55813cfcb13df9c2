//! Running the stage, also for files that only the users of a sandbox may touch.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use vestal_wire::{Enclosure, UserMapping};

use super::backend::all_possible_users;
use super::explain::{HostState, StageFailure, explain};
use crate::backend::BackendError;
use crate::backends::guest_process::{Detached, nameless_file, spawn_retrying};
use crate::backends::scope::ScopePlace;
use crate::embedded::{EmbeddedProgram, GUEST_PROGRAM, STAGE_PROGRAM};
use crate::store::{StoreError, remove_tree};

/// Command line of `enclose`, with the descriptors of the standard streams.
const ENCLOSE: [&str; 7] = ["enclose", "--plan-fd", "0", "--ready-fd", "1", "--hold-fd", "2"];

/// Most characters of standard error that go into an error message.
const MAX_STDERR: usize = 2000;

/// A successful result of the stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StageSuccess {
    /// The guest listens.
    Ready,
    /// The probe built the sandbox.
    TrialPassed,
}

/// A sandbox to build.
#[derive(Debug)]
pub(super) struct Build<'a> {
    pub(super) program: &'a Path,
    pub(super) enclosure: &'a Enclosure,
    /// The systemd scope to start it in.
    pub(super) place: Option<ScopePlace<'a>>,
    /// The lock that the guest holds until it can be found.
    pub(super) hold: OwnedFd,
    /// Where the layers are, for error messages.
    pub(super) layers: &'a Path,
    /// Called when the stage is running; a failpoint of tests.
    pub(super) under_way: fn(),
}

impl Build<'_> {
    /// Runs the stage and waits until the guest listens.
    pub(super) async fn run(self) -> Result<StageSuccess, BackendError> {
        let plan = vestal_wire::encode(self.enclosure)
            .map_err(std::io::Error::other)
            .and_then(|bytes| nameless_file("vestal-enclosure", &bytes))
            .map_err(BackendError::io("prepare the plan of the sandbox"))?;
        let detached = Detached {
            program: self.program,
            arguments: &ENCLOSE,
            place: self.place,
            path_variable: OsStr::new("/usr/sbin:/usr/bin:/sbin:/bin"),
            // The stage records the process that it starts.
            mark: None,
            input: plan,
            hold: self.hold,
            started: self.under_way,
        };
        parse(&detached.start().await?, self.layers)
    }
}

/// Parses the ready line of the stage or of the guest.
fn parse(text: &str, layers: &Path) -> Result<StageSuccess, BackendError> {
    let failed = |reason: &str| BackendError::GuestFailed { reason: reason.to_owned() };
    let line = text.lines().next().unwrap_or_default();
    if let Some(reason) = line.strip_prefix("error: ") {
        // The guest reports text, the stage reports a step and an error number.
        return Err(match serde_json::from_str::<StageFailure>(reason) {
            Ok(failure) => explain(&failure, &HostState::read(layers)),
            Err(_) => failed(reason),
        });
    }
    if line.is_empty() {
        return Err(failed("it exited before it was ready"));
    }
    let line: serde_json::Value =
        serde_json::from_str(line).map_err(|_| failed("its ready line is not valid"))?;
    if line["trial"] == "ok" { Ok(StageSuccess::TrialPassed) } else { Ok(StageSuccess::Ready) }
}

/// Installs one of our programs in the run directory of a home and returns its path.
pub(in crate::backends) fn install(
    program: &EmbeddedProgram,
    name: &str,
    run_dir: &Path,
) -> Result<PathBuf, BackendError> {
    let into = run_dir.display();
    program.install(run_dir).map_err(BackendError::io(format!("install the {name} in {into}")))
}

/// Removes a tree; an absent one is not an error. Where this user lacks permission,
/// the sandbox's root empties it first: it owns the files of all the sandbox's
/// users, and it can open the overlay's work directory, which has mode 0.
pub(in crate::backends) async fn remove_tree_as_root(
    run_dir: &Path,
    dir: &Path,
) -> Result<(), BackendError> {
    let failed = |error: StoreError| BackendError::Io {
        action: format!("remove {}", dir.display()),
        source: std::io::Error::other(error),
    };
    match remove_tree(dir) {
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            empty_as_root(run_dir, dir).await?;
            remove_tree(dir).map_err(failed)
        }
        other => other.map_err(failed),
    }
}

/// Empties a directory as the sandbox's root user.
pub(in crate::backends) async fn empty_as_root(
    run_dir: &Path,
    dir: &Path,
) -> Result<(), BackendError> {
    let action = format!("empty {}", dir.display());
    let words = [OsStr::new("erase"), dir.as_os_str()];
    let stage = install(&STAGE_PROGRAM, "stage", run_dir)?;
    let guest = install(&GUEST_PROGRAM, "guest", run_dir)?;
    run_within(&stage, &all_possible_users(), &guest, &words, &action).await
}

/// Runs a program as root of the sandbox's users, with access to all their files, and
/// waits for its end.
async fn run_within(
    stage: &Path,
    users: &UserMapping,
    program: &Path,
    arguments: &[&OsStr],
    action: &str,
) -> Result<(), BackendError> {
    let plan = vestal_wire::encode(users)
        .map_err(std::io::Error::other)
        .and_then(|bytes| nameless_file("vestal-users", &bytes))
        .map_err(BackendError::io("prepare the users of the sandbox"))?;
    let mut command = Command::new(stage);
    command
        .args(["within", "--plan-fd", "0", "--"])
        .arg(program)
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(plan))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = spawn_retrying(&mut command).await.map_err(BackendError::io(action))?;
    drop(command);
    let output = child.wait_with_output().await.map_err(BackendError::io(action))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr: String = stderr.trim().chars().take(MAX_STDERR).collect();
    let stderr =
        if stderr.is_empty() { output.status.to_string() } else { stderr.replace('\n', "; ") };
    Err(BackendError::Io { action: action.to_owned(), source: std::io::Error::other(stderr) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<StageSuccess, BackendError> {
        parse(text, Path::new("/"))
    }

    #[test]
    fn ready_lines_and_errors_are_parsed() {
        let ready = r#"{"pid":1,"pid_start":2,"boot":"b","incarnation":"i"}"#;
        assert_eq!(read(&format!("{ready}\n")).unwrap(), StageSuccess::Ready);
        assert_eq!(read("{\"trial\":\"ok\"}\n").unwrap(), StageSuccess::TrialPassed);
        let refused =
            "error: {\"step\":\"source\",\"target\":\"/x\",\"errno\":2,\"message\":\"m\"}";
        assert_eq!(read(refused).unwrap_err().to_string(), "/x does not exist");
        let guest = read("error: another guest uses the state directory /s").unwrap_err();
        assert!(guest.to_string().contains("another guest"), "{guest}");
        for garbage in ["", "\n", "hello", "{"] {
            assert!(matches!(read(garbage), Err(BackendError::GuestFailed { .. })), "{garbage}");
        }
    }
}
