//! Talking to the stage.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use vestal_wire::{Enclosure, Users};

use super::explain::{Failure, Ground, explain};
use crate::backend::BackendError;
use crate::backends::scope::Place;
use crate::backends::spawn::{Detached, nameless_file, spawn_retrying};

/// How the stage is told of its three standard descriptors.
const ENCLOSE: [&str; 7] = ["enclose", "--plan-fd", "0", "--ready-fd", "1", "--hold-fd", "2"];

/// Longest part of a program's last words that is passed on.
const MAX_WORDS: usize = 2000;

/// What the stage answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The guest listens.
    Ready,
    /// It could be built, which was all that was to be seen.
    TrialPassed,
}

/// A sandbox to be built.
#[derive(Debug)]
pub(super) struct Build<'a> {
    /// The stage's program.
    pub(super) program: &'a Path,
    /// What is to be built.
    pub(super) enclosure: &'a Enclosure,
    /// Where systemd is to have it.
    pub(super) place: Option<Place<'a>>,
    /// What it is to keep open until its guest can be found.
    pub(super) hold: OwnedFd,
    /// Where its layers are, for those who have to be told that they cannot be.
    pub(super) layers: &'a Path,
    /// What a test may want to interrupt: the moment at which it is under way.
    pub(super) under_way: fn(),
}

impl Build<'_> {
    /// Has the stage build the sandbox and waits until its guest listens.
    pub(super) async fn carry_out(self) -> Result<Answer, BackendError> {
        let plan = vestal_wire::encode(self.enclosure)
            .map_err(std::io::Error::other)
            .and_then(|bytes| nameless_file("vestal-enclosure", &bytes))
            .map_err(BackendError::io("prepare the plan of the sandbox"))?;
        let detached = Detached {
            program: self.program,
            arguments: &ENCLOSE,
            place: self.place,
            path_variable: OsStr::new("/usr/sbin:/usr/bin:/sbin:/bin"),
            // The stage writes down who it starts.
            mark: None,
            input: plan,
            hold: self.hold,
            started: self.under_way,
        };
        parse(&detached.start().await?, self.layers)
    }
}

/// Reads what the stage, or the guest after it, has said.
fn parse(text: &str, layers: &Path) -> Result<Answer, BackendError> {
    let failed = |reason: &str| BackendError::GuestFailed { reason: reason.to_owned() };
    let line = text.lines().next().unwrap_or_default();
    if let Some(reason) = line.strip_prefix("error: ") {
        // The guest says it in words, the stage by step and number.
        return Err(match serde_json::from_str::<Failure>(reason) {
            Ok(failure) => explain(&failure, &Ground::look(layers)),
            Err(_) => failed(reason),
        });
    }
    if line.is_empty() {
        return Err(failed("it ended before it was ready"));
    }
    let said: serde_json::Value =
        serde_json::from_str(line).map_err(|_| failed("it said something unexpected"))?;
    if said["trial"] == "ok" { Ok(Answer::TrialPassed) } else { Ok(Answer::Ready) }
}

/// Runs a program among the users of a sandbox, who may do what its user out
/// here may not, and waits for its end.
pub(super) async fn run_within(
    stage: &Path,
    users: &Users,
    program: &Path,
    arguments: &[&OsStr],
    action: &str,
) -> Result<(), BackendError> {
    let told = vestal_wire::encode(users)
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
        .stdin(Stdio::from(told))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = spawn_retrying(&mut command).await.map_err(BackendError::io(action))?;
    drop(command);
    let output = child.wait_with_output().await.map_err(BackendError::io(action))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.trim().chars().take(MAX_WORDS).collect();
    let words =
        if words.is_empty() { output.status.to_string() } else { words.replace('\n', "; ") };
    Err(BackendError::Io { action: action.to_owned(), source: std::io::Error::other(words) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Answer, BackendError> {
        parse(text, Path::new("/"))
    }

    #[test]
    fn what_the_stage_and_the_guest_say_is_understood() {
        let ready = r#"{"pid":1,"pid_start":2,"boot":"b","incarnation":"i"}"#;
        assert_eq!(read(&format!("{ready}\n")).unwrap(), Answer::Ready);
        assert_eq!(read("{\"trial\":\"ok\"}\n").unwrap(), Answer::TrialPassed);
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
