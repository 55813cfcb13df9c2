//! The program that builds containers: where it is, which one it is, and running it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use vestal_config::{AnyKey as _, Settings};

use super::image::{TEMPORARY_DIRECTORY, reason};
use super::settings::SINGULARITY_BINARY;
use crate::backend::BackendError;
use crate::backends::guest_process::spawn_retrying;

/// The names it is looked for by, the best first.
const NAMES: [&str; 2] = ["apptainer", "singularity"];

/// Where programs are if the environment does not say so.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Longest time for an answer about itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Most that is read of what it prints.
const MAX_PRINTED: u64 = 64 << 10;

/// The oldest version that has what a sandbox needs.
const OLDEST: (u32, u32) = (1, 1);

/// The same of `SingularityCE`.
const OLDEST_SINGULARITY: (u32, u32) = (4, 0);

/// The program of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApptainerProgram {
    pub(super) path: PathBuf,
    /// What it says of its version.
    pub(super) version: String,
    /// How it gets the rights to mount.
    pub(super) rights: MountRights,
    /// Its environment.
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// How the program gets the rights to mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountRights {
    /// It is run by root.
    Root,
    /// By a user namespace of the user who runs it.
    UserNamespace,
    /// By a program that is root's (set-uid). It takes the configuration of the machine
    /// and no other.
    SetUid,
}

impl MountRights {
    /// Returns what that means, for people.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Root => "run by root: root in a sandbox is root of this machine with five rights",
            Self::UserNamespace => "run in a user namespace: commands run as you",
            Self::SetUid => {
                "installed set-uid: commands run as you; /tmp, /var/tmp and /run together hold \
                 what the machine's apptainer.conf says (`sessiondir max size`, 64 MB)"
            }
        }
    }
}

impl ApptainerProgram {
    /// Finds the program and asks which one it is.
    pub(super) async fn find(settings: &Settings) -> Result<Self, BackendError> {
        let environment = environment(settings);
        let path = locate(settings, &environment)?;
        let unknown = Self { path, version: String::new(), rights: MountRights::Root, environment };
        let version = unknown.ask(&["--version"]).await?.trim().to_owned();
        check_version(&version)?;
        let rights = if rustix::process::geteuid().is_root() {
            MountRights::Root
        } else {
            match unknown.ask(&["buildcfg", "APPTAINER_SUID_INSTALL"]).await {
                Ok(answer) if answer.trim().ends_with('0') => MountRights::UserNamespace,
                Ok(_) | Err(_) => MountRights::SetUid,
            }
        };
        Ok(Self { version, rights, ..unknown })
    }

    /// Returns a command of the program, in its own environment.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().envs(self.environment.iter().cloned()).current_dir("/");
        command
    }

    async fn ask(&self, arguments: &[&str]) -> Result<String, BackendError> {
        let action = format!("ask {} for {}", self.path.display(), arguments.join(" "));
        let mut command = self.command();
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child =
            spawn_retrying(&mut command).await.map_err(BackendError::io(action.clone()))?;
        let answered = tokio::time::timeout(ANSWER_WITHIN, async {
            let (mut answer, mut complaint) = (Vec::new(), Vec::new());
            if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
                // Small enough to be in the pipe whoever is read first.
                stdout.take(MAX_PRINTED).read_to_end(&mut answer).await?;
                stderr.take(MAX_PRINTED).read_to_end(&mut complaint).await?;
            }
            Ok::<_, std::io::Error>((child.wait().await?, answer, complaint))
        });
        match answered.await {
            Ok(Ok((status, answer, _))) if status.success() => {
                Ok(String::from_utf8_lossy(&answer).into_owned())
            }
            Ok(Ok((status, _, complaint))) => {
                let reason = reason(&complaint).unwrap_or_else(|| status.to_string());
                Err(BackendError::io(action)(std::io::Error::other(reason)))
            }
            Ok(Err(error)) => Err(BackendError::io(action)(error)),
            Err(_) => Err(BackendError::io(action)(std::io::ErrorKind::TimedOut.into())),
        }
    }
}

/// Returns the environment of the program: what it needs to find its own helpers and
/// files. Nothing else of the caller's gets there.
fn environment(settings: &Settings) -> Vec<(OsString, OsString)> {
    let caller = settings.environment();
    let path = caller.non_empty("PATH").unwrap_or(OsStr::new(USUAL_PATH));
    let mut environment = vec![(OsString::from("PATH"), path.to_owned())];
    for name in ["HOME", "XDG_RUNTIME_DIR", "APPTAINER_CACHEDIR", TEMPORARY_DIRECTORY] {
        environment.extend(caller.non_empty(name).map(|value| (name.into(), value.to_owned())));
    }
    environment
}

fn locate(
    settings: &Settings,
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, BackendError> {
    let named = settings.get(&SINGULARITY_BINARY)?.value;
    let named = named.resolve(settings.environment().user_home().as_deref());
    let names: Vec<&Path> = match &named {
        Some(named) => vec![named],
        None => NAMES.map(Path::new).to_vec(),
    };
    let dirs = environment.iter().find(|(name, _)| name == "PATH").map(|(_, dirs)| dirs);
    for name in &names {
        if name.is_absolute() {
            if name.is_file() {
                return Ok(name.to_path_buf());
            }
            continue;
        }
        let dirs = dirs.map(|dirs| dirs.as_bytes().split(|byte| *byte == b':'));
        for dir in dirs.into_iter().flatten() {
            let candidate = Path::new(OsStr::from_bytes(dir)).join(name);
            if candidate.is_absolute()
                && candidate.is_file()
                && rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok()
            {
                return Ok(candidate);
            }
        }
    }
    let sought: Vec<String> = names.iter().map(|name| name.display().to_string()).collect();
    Err(BackendError::Advised {
        problem: format!("there is no {} here", sought.join(" and no ")),
        advice: format!(
            "install Apptainer (https://apptainer.org), or set {} to where it is",
            SINGULARITY_BINARY.name()
        ),
    })
}

/// Refuses a version that does not have what a sandbox needs.
fn check_version(version: &str) -> Result<(), BackendError> {
    let oldest = match version.split_whitespace().next() {
        Some("apptainer") => OLDEST,
        Some("singularity" | "singularity-ce") => OLDEST_SINGULARITY,
        _ => return Err(too_old(version)),
    };
    let number = version.split_whitespace().last().unwrap_or_default();
    let mut parts = number.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found >= oldest { Ok(()) } else { Err(too_old(version)) }
}

fn too_old(version: &str) -> BackendError {
    let shown: String = version.chars().take(80).collect();
    BackendError::Advised {
        problem: format!("{shown:?} cannot build sandboxes"),
        advice: format!(
            "install Apptainer {}.{} or newer, or SingularityCE {}.{} or newer",
            OLDEST.0, OLDEST.1, OLDEST_SINGULARITY.0, OLDEST_SINGULARITY.1
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_programs_and_others_are_refused() {
        for good in [
            "apptainer version 1.4.5",
            "apptainer version 1.1.0-rc.1",
            "singularity-ce version 4.1.0",
        ] {
            check_version(good).unwrap();
        }
        for bad in ["apptainer version 1.0.3", "singularity version 3.8.7", "", "docker 28"] {
            assert!(check_version(bad).unwrap_err().is_final(), "{bad}");
        }
    }
}
