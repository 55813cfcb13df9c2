//! The one connection to a host that all processes of a home share.
//!
//! It is made by the first process that needs it, goes on in the background, and ends by itself
//! when nobody has used it for a while. No process ever ends it: others may be using it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use vestal_config::Environment;

use super::failure::{Failure, classify};
use super::login::{ControlPath, HostLogin};
use super::session::SshStderr;
use crate::backend::BackendError;
use crate::backends::docker::{find_program, make_private, private_dir};

/// Longest name of the control socket: the name and what `ssh` adds while it makes it.
const CONTROL_NAME: usize = 48;

/// Longest time for a login: a key may wait to be touched.
const LOGIN_TIMEOUT: Duration = Duration::from_mins(1);

/// Longest time for the answer of the process that holds the shared connection.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before another look at a lock that another process holds.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The `ssh` of this machine, and a login with it.
#[derive(Debug)]
pub(super) struct Multiplexed {
    program: PathBuf,
    environment: Environment,
    pub(super) login: HostLogin,
    control: ControlPath,
}

impl Multiplexed {
    /// Returns what it takes to log in. Nothing is started.
    pub(super) fn new(
        login: HostLogin,
        run_dir: &Path,
        environment: &Environment,
    ) -> Result<Self, BackendError> {
        let program =
            find_program(Path::new("ssh"), environment).ok_or_else(|| BackendError::Advised {
                problem: format!("{login} cannot be reached: ssh is not on PATH"),
                advice: "install an OpenSSH client".to_owned(),
            })?;
        let dir = private_dir(run_dir, CONTROL_NAME, environment);
        // A path that `ssh` cannot take is replaced by one that it can.
        let dir = if dir.to_str().is_some_and(|dir| !dir.contains(['"', '\\', '\n'])) {
            dir
        } else {
            private_dir(&run_dir.join("x".repeat(CONTROL_NAME * 2)), CONTROL_NAME, environment)
        };
        make_private(&dir)
            .map_err(BackendError::io(format!("create {} for this user only", dir.display())))?;
        let control = ControlPath { path: dir.join(login.control_name()) };
        Ok(Self { program, environment: environment.clone(), login, control })
    }

    /// Starts a command over there by the shared connection, which may not be there.
    pub(super) fn spawn_shared(&self, command: &str) -> Result<Child, BackendError> {
        self.spawn(self.login.shared(&self.control, command))
    }

    /// Starts a command over there by a connection of its own.
    pub(super) fn spawn_direct(&self, command: &str) -> Result<Child, BackendError> {
        self.spawn(self.login.direct(command))
    }

    fn command(&self, arguments: Vec<OsString>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Signals of the terminal must not end the shared connection.
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    fn spawn(&self, arguments: Vec<OsString>) -> Result<Child, BackendError> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().map_err(BackendError::io("run ssh"))
    }

    /// Makes the shared connection unless it is there. Of several processes one makes it, and
    /// the others wait for it.
    pub(super) async fn connect(&self) -> Result<Result<(), Failure>, BackendError> {
        let _turn = self.turn().await?;
        if self.is_connected().await? {
            return Ok(Ok(()));
        }
        // The process that listened there is gone.
        match std::fs::remove_file(&self.control.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let action = format!("remove {}", self.control.path.display());
                return Err(BackendError::io(action)(error));
            }
            _ => {}
        }
        let mut command = self.command(self.login.master(&self.control));
        let mut child = command.spawn().map_err(BackendError::io("run ssh"))?;
        let stderr = child.stderr.take().map(SshStderr::follow);
        let status = match timeout(LOGIN_TIMEOUT, child.wait()).await {
            Ok(status) => status.map_err(BackendError::io("wait for ssh"))?,
            Err(_) => return Ok(Err(Failure::Silent(LOGIN_TIMEOUT))),
        };
        if status.success() {
            return Ok(Ok(()));
        }
        let stderr = match stderr {
            Some(stderr) => stderr.text().await,
            None => String::new(),
        };
        Ok(Err(classify(&self.login, &stderr, status.code())))
    }

    async fn is_connected(&self) -> Result<bool, BackendError> {
        if !self.control.path.exists() {
            return Ok(false);
        }
        let mut command = self.command(self.login.check(&self.control));
        command.stderr(Stdio::null());
        let mut child = command.spawn().map_err(BackendError::io("run ssh"))?;
        match timeout(CHECK_TIMEOUT, child.wait()).await {
            Ok(status) => Ok(status.map_err(BackendError::io("wait for ssh"))?.success()),
            // It is stopped, say. Its socket makes way for another one.
            Err(_) => Ok(false),
        }
    }

    /// Waits until no other process is making the connection.
    async fn turn(&self) -> Result<File, BackendError> {
        let mut path = self.control.path.clone().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed = || BackendError::io(format!("lock {}", path.display()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(failed())?;
        let take = async {
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(std::fs::TryLockError::WouldBlock) => sleep(LOCK_INTERVAL).await,
                    Err(std::fs::TryLockError::Error(error)) => return Err(error),
                }
            }
        };
        match timeout(LOGIN_TIMEOUT, take).await {
            Ok(taken) => taken.map_err(failed())?,
            Err(_) => return Err(failed()(io::ErrorKind::TimedOut.into())),
        }
        Ok(file)
    }
}
