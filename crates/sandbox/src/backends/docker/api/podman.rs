//! Podman's service, started when it is needed. It ends by itself when nobody
//! has used it for a while; containers do not notice.

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

use super::address::{Address, Origin, Transport};
use super::context::find_program;
use super::error;
use super::error::one_line;
use super::socket::{ANSWER_WITHIN, Greeting, NoGreeting, greet};
use super::socket::{make_private, private_dir};
use crate::backend::BackendError;
use crate::store::KeyLock;

/// Seconds without a connection after which the service ends.
const IDLE_SECONDS: &str = "30";

/// How long the service may take to answer. It does so in half a second; the
/// rest is for machines that are slow and busy, and for its first start.
const READY_WITHIN: Duration = Duration::from_mins(1);

const SOCKET: &str = "podman.sock";
const LOCK: &str = "podman.lock";
const LOG: &str = "podman.log";

/// Podman's service, running or not.
#[derive(Debug, Clone)]
pub(super) struct Service {
    program: PathBuf,
    /// A program that starts another in a session of its own, where there is one.
    setsid: Option<PathBuf>,
    dir: PathBuf,
    variables: Variables,
}

/// The service's environment; shown by names only.
#[derive(Clone)]
struct Variables(Vec<(OsString, OsString)>);

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Service {
    /// Returns the service of a home whose sockets are in `run_dir`.
    pub(super) fn new(program: PathBuf, run_dir: &Path, environment: &Environment) -> Self {
        let variables = environment
            .iter()
            .filter(|(name, _)| is_podmans(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self {
            program,
            setsid: find_program(Path::new("setsid"), environment),
            dir: private_dir(run_dir, SOCKET.len(), environment),
            variables: Variables(variables),
        }
    }

    /// Returns where it listens.
    pub(super) fn address(&self) -> Address {
        Address { transport: Transport::Unix(self.socket()), origin: Origin::Started }
    }

    /// Returns its socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET)
    }

    /// Makes sure that it answers, and starts it if it does not. Any number of
    /// processes may ask at once; one of them starts it.
    pub(super) async fn ensure(&self) -> Result<Greeting, BackendError> {
        match greet(&self.socket(), ANSWER_WITHIN).await {
            Err(NoGreeting::Absent(_)) => {}
            other => return self.judge(other),
        }
        make_private(&self.dir).map_err(BackendError::io(format!(
            "make {} for this user alone",
            self.dir.display()
        )))?;
        let _lock = KeyLock::acquire(&self.dir.join(LOCK), READY_WITHIN)
            .await
            .map_err(|error| error::lost(&self.address(), error.to_string()))?;
        match greet(&self.socket(), ANSWER_WITHIN).await {
            Err(NoGreeting::Absent(_)) => self.start().await,
            other => self.judge(other),
        }
    }

    fn judge(&self, outcome: Result<Greeting, NoGreeting>) -> Result<Greeting, BackendError> {
        outcome.map_err(|why| error::no_greeting(&self.address(), &why))
    }

    /// Starts the service. The caller holds the lock and has seen that nobody
    /// listens.
    async fn start(&self) -> Result<Greeting, BackendError> {
        self.remove_stale_socket().map_err(BackendError::io("remove a stale socket"))?;
        let mut log = self.open_log().map_err(BackendError::io("open the log of podman"))?;
        let mut child = self
            .spawn(&log)
            .map_err(BackendError::io(format!("start {}", self.program.display())))?;
        let deadline = Instant::now() + READY_WITHIN;
        let mut pause = Duration::from_millis(10);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match greet(&self.socket(), left).await {
                Err(NoGreeting::Absent(_)) if !left.is_zero() => {}
                Err(NoGreeting::Absent(_)) => {
                    return self.judge(Err(NoGreeting::Slow(READY_WITHIN)));
                }
                other => return self.judge(other),
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

    /// Removes the socket of a service that is gone; it would be in the way.
    fn remove_stale_socket(&self) -> io::Result<()> {
        match std::fs::symlink_metadata(self.socket()) {
            Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(self.socket()),
            Ok(_) => Err(io::Error::new(
                ErrorKind::AlreadyExists,
                format!("{} is no socket", self.socket().display()),
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens an empty log, for the words of a service that fails.
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
        // The service belongs to nobody's terminal: what interrupts this
        // process, or hangs up on it, is not meant for the service.
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
        let mut said = String::new();
        let read = log.seek(SeekFrom::Start(0)).and_then(|_| {
            let mut bytes = Vec::new();
            log.take(64 << 10).read_to_end(&mut bytes)?;
            said = String::from_utf8_lossy(&bytes).into_owned();
            Ok(())
        });
        let last = match read {
            Ok(()) => said.lines().rfind(|line| !line.trim().is_empty()),
            Err(_) => None,
        };
        let said = last.map(|line| format!(": {}", one_line(line))).unwrap_or_default();
        BackendError::Unreachable {
            address: self.address().to_string(),
            reason: format!("{} ended at once ({status}){said}", self.program.display()),
            advice: "see that `podman info` works, or name another engine with DOCKER_HOST"
                .to_owned(),
        }
    }
}

/// Returns whether Podman has a use for a variable. The rest of the caller's
/// environment, with its secrets, is none of a service's business.
fn is_podmans(name: &OsStr) -> bool {
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
