//! Podman's API service, started when it is needed. It exits after a while without
//! connections; containers keep running.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use vestal_config::Environment;

use super::address::{Address, AddressSource, EngineTransport};
use super::context::find_program;
use super::error::{self, one_line};
use super::socket::{PING_TIMEOUT, Ping, PingError, make_private, ping, private_dir};
use crate::backend::BackendError;
use crate::store::KeyLock;

/// Seconds without a connection after which the service exits.
const IDLE_SECONDS: &str = "30";

/// Longest time until the service answers. It takes half a second; the rest is for
/// slow machines and for the first start.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

const SOCKET: &str = "podman.sock";
const LOCK: &str = "podman.lock";
const LOG: &str = "podman.log";

/// Podman's API service, running or not.
#[derive(Debug, Clone)]
pub(super) struct PodmanService {
    program: PathBuf,
    /// The `setsid` program, if there is one.
    setsid: Option<PathBuf>,
    dir: PathBuf,
    variables: Variables,
}

/// The service's environment. Debug output shows only the names.
#[derive(Clone)]
struct Variables(Vec<(OsString, OsString)>);

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl PodmanService {
    /// Returns the service with its socket in `run_dir`.
    pub(super) fn new(program: PathBuf, run_dir: &Path, environment: &Environment) -> Self {
        let variables = environment
            .iter()
            .filter(|(name, _)| is_podman_variable(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self {
            program,
            setsid: find_program(Path::new("setsid"), environment),
            dir: private_dir(run_dir, SOCKET.len(), environment),
            variables: Variables(variables),
        }
    }

    pub(super) fn address(&self) -> Address {
        Address { transport: EngineTransport::Unix(self.socket()), source: AddressSource::Started }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET)
    }

    /// Starts the service unless it answers. Any number of processes may call this at
    /// once; one of them starts it.
    pub(super) async fn ensure(&self) -> Result<Ping, BackendError> {
        match ping(&self.socket(), PING_TIMEOUT).await {
            Err(PingError::NotListening(_)) => {}
            other => return self.check(other),
        }
        make_private(&self.dir).map_err(BackendError::io(format!(
            "create {} for this user only",
            self.dir.display()
        )))?;
        let _lock = KeyLock::acquire(&self.dir.join(LOCK), READY_TIMEOUT)
            .await
            .map_err(|error| error::connection_failed(&self.address(), error.to_string()))?;
        match ping(&self.socket(), PING_TIMEOUT).await {
            Err(PingError::NotListening(_)) => self.start().await,
            other => self.check(other),
        }
    }

    fn check(&self, outcome: Result<Ping, PingError>) -> Result<Ping, BackendError> {
        outcome.map_err(|why| error::ping_failed(&self.address(), &why))
    }

    /// Starts the service. The caller holds the lock and has checked that nothing
    /// listens.
    async fn start(&self) -> Result<Ping, BackendError> {
        self.remove_stale_socket().map_err(BackendError::io("remove a stale socket"))?;
        let mut log = self.open_log().map_err(BackendError::io("open the log of podman"))?;
        let mut child = self
            .spawn(&log)
            .map_err(BackendError::io(format!("start {}", self.program.display())))?;
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut pause = Duration::from_millis(10);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match ping(&self.socket(), left).await {
                Err(PingError::NotListening(_)) if !left.is_zero() => {}
                Err(PingError::NotListening(_)) => {
                    return self.check(Err(PingError::TimedOut(READY_TIMEOUT)));
                }
                other => return self.check(other),
            }
            tokio::select! {
                ended = child.wait() => {
                    let status = ended.map_or_else(|e| e.to_string(), |status| status.to_string());
                    return Err(self.ended(&status, &mut log));
                }
                () = sleep(pause) => pause = (pause * 2).min(Duration::from_millis(100)),
            }
        }
    }

    /// Removes the socket that a service has left behind.
    fn remove_stale_socket(&self) -> io::Result<()> {
        match std::fs::symlink_metadata(self.socket()) {
            Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(self.socket()),
            Ok(_) => Err(io::Error::new(
                ErrorKind::AlreadyExists,
                format!("{} is not a socket", self.socket().display()),
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens an empty log for the service's standard error.
    fn open_log(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(self.dir.join(LOG))
            .and_then(|file| file.set_len(0).map(|()| file))
    }

    fn spawn(&self, log: &File) -> io::Result<Child> {
        // The service must not get the signals of this process's terminal.
        let mut command = match &self.setsid {
            Some(setsid) => {
                let mut command = Command::new(setsid);
                command.arg(&self.program);
                command
            }
            None => {
                let mut command = Command::new(&self.program);
                command.process_group(0);
                command
            }
        };
        let mut socket = OsString::from("unix://");
        socket.push(self.socket());
        command
            .args(["--log-level", "error", "system", "service", "--time", IDLE_SECONDS])
            .arg(socket)
            .env_clear()
            .envs(self.variables.0.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(log.try_clone()?))
            .spawn()
    }

    fn ended(&self, status: &str, log: &mut File) -> BackendError {
        let mut text = String::new();
        let read = log.seek(SeekFrom::Start(0)).and_then(|_| {
            let mut bytes = Vec::new();
            log.take(64 << 10).read_to_end(&mut bytes)?;
            text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(())
        });
        let last = match read {
            Ok(()) => text.lines().rfind(|line| !line.trim().is_empty()),
            Err(_) => None,
        };
        let output = last.map(|line| format!(": {}", one_line(line))).unwrap_or_default();
        BackendError::Unreachable {
            address: self.address().to_string(),
            reason: format!("{} exited at once ({status}){output}", self.program.display()),
            advice: "make sure that `podman info` works, or select another engine with DOCKER_HOST"
                .to_owned(),
        }
    }
}

/// Returns whether Podman needs a variable. The service gets no other variable of
/// the caller, which may hold secrets.
fn is_podman_variable(name: &OsStr) -> bool {
    const NAMES: &[&str] = &[
        "HOME",
        "PATH",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "TZ",
        "TMPDIR",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_CONFIG",
        "REGISTRY_AUTH_FILE",
        "GODEBUG",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
    ];
    const PREFIXES: &[&str] =
        &["XDG_", "LC_", "CONTAINERS_", "_CONTAINERS_", "STORAGE_", "PODMAN_", "SSL_CERT_"];
    let Some(name) = name.to_str() else { return false };
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
#[path = "podman_tests.rs"]
mod tests;
