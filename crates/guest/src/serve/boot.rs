//! From a process to a guest, and back to nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use vestal_wire::{DecodeError, GuestSettings};

use super::clock::IdleClock;
use super::conns::Conns;
use super::guest::{Guest, Parts};
use super::identity::{self, Door, Identity, Made, SOCKET_NAME};
use super::jobs::Jobs;
use super::sessions::Sessions;
use super::signals::Signals;
use super::tenant;
use crate::diagnostics;
use crate::failpoint::failpoint;
use crate::journal::{JournalError, Opened};
use crate::state_file;
use crate::user::UserError;

/// Permissions of the socket where the settings say nothing: for the user who
/// runs the guest alone.
const SOCKET_MODE: u32 = 0o600;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// How long the lock of a guest that was killed may outlive it: a process that it
/// was just starting has the file open until it executes its own program.
const LAST_GASP: Duration = Duration::from_millis(500);

/// What the process that started the guest handed it.
#[derive(Debug)]
pub(crate) struct Inheritance {
    /// Where the settings are read from.
    pub(crate) settings: File,
    /// Where readiness, or why not, is told.
    pub(crate) ready: Option<File>,
    /// Kept open until the guest can be found.
    pub(crate) hold: Option<OwnedFd>,
}

/// Why a guest could not start or go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("settings cannot be read: {0}")]
    Settings(io::Error),
    #[error("settings: {0}")]
    Malformed(#[from] DecodeError),
    #[error("{what} {}: {source}", path.display())]
    Path { what: &'static str, path: PathBuf, source: io::Error },
    #[error("another guest uses the state directory {}", .0.display())]
    InUse(PathBuf),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    User(#[from] UserError),
    #[error("jobs cannot run as {name} (uid {uid}): the guest is uid {own} and not root")]
    OtherUser { name: String, uid: u32, own: u32 },
    #[error("jobs cannot run as {name} (uid {uid}): {source}")]
    Rights { name: String, uid: u32, source: io::Error },
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

/// Runs a guest from its start to its end.
pub(crate) fn run(inheritance: Inheritance) -> Result<(), ServeError> {
    let Inheritance { settings, mut ready, hold } = inheritance;
    let started = start(settings);
    let (mut guest, premises) = match started {
        Ok(started) => started,
        Err(error) => {
            if let Some(ready) = &mut ready {
                // Whoever listened is gone if this fails; the exit code says it too.
                writeln!(ready, "error: {error}").ok();
            }
            return Err(error);
        }
    };
    if let Some(mut ready) = ready {
        // A host that is gone again does not need to know.
        ready.write_all(guest.identity.ready_line().as_bytes()).ok();
    }
    drop(hold);
    failpoint!("guest.start.after-ready");
    let result = guest.run().map_err(system("event loop"));
    premises.leave();
    failpoint!("guest.shutdown.after-unlink");
    guest.say_last_words();
    failpoint!("guest.shutdown.before-exit");
    // The lock is free before connections close: who waited for that can start
    // another guest here.
    drop(premises);
    result
}

/// The directories that a guest lives in, and its marks there.
struct Premises {
    state_dir: PathBuf,
    socket_dir: PathBuf,
    sockets: OwnedFd,
    made: [Made; 2],
    ephemeral: bool,
    _alive: File,
}

impl Premises {
    /// Removes what the guest made to be found by.
    fn leave(&self) {
        self.made.iter().for_each(|made| made.remove(&self.sockets));
        if self.ephemeral {
            for dir in [&self.socket_dir, &self.state_dir] {
                if let Err(error) = std::fs::remove_dir_all(dir)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    diagnostics::note(&format!("{} cannot be removed: {error}", dir.display()));
                }
            }
            // The directory they were in was made for this instance. It goes if
            // nothing else is in it.
            self.socket_dir.parent().map(std::fs::remove_dir);
        }
    }
}

fn start(mut settings: File) -> Result<(Guest, Premises), ServeError> {
    let mut bytes = Vec::new();
    settings.read_to_end(&mut bytes).map_err(ServeError::Settings)?;
    drop(settings);
    let mut settings: GuestSettings = vestal_wire::decode(&bytes)?;
    let signals = Signals::take_over().map_err(system("signals"))?;
    let tenant = tenant::settle(&mut settings)?;
    let state_dir = diagnostics::path_of(&settings.state_dir);
    let socket_dir = diagnostics::path_of(&settings.socket_dir);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&state_dir)
        .map_err(at("state directory", &state_dir))?;
    let alive = lock(&state_dir)?;
    diagnostics::detach(&state_dir.join("guest.log")).map_err(at("log in", &state_dir))?;
    tenant.keep_out(&state_dir);
    tenant.hand_over(settings.hand_over.iter().map(|directory| directory.as_slice()));
    failpoint!("guest.start.after-lock");
    become_reaper().map_err(system("child subreaper"))?;
    let identity = Identity::new().map_err(system("identity"))?;
    tenant.kill_marked(&settings.forebears);
    let opened = Opened { incarnation: identity.incarnation.clone(), boot: identity.boot.clone() };
    let jobs = Jobs::open(&state_dir, opened, settings.log_bytes, settings.jobs_kept)?;
    failpoint!("guest.start.after-replay");
    let sessions = Sessions::new(state_dir.join("sessions"));
    let sockets = identity::open_dir(&socket_dir).map_err(at("socket directory", &socket_dir))?;
    let published = identity::publish(&sockets, &identity, &settings)
        .map_err(at("identity in", &socket_dir))?;
    failpoint!("guest.start.after-identity");
    let mode = settings.socket_mode.unwrap_or(SOCKET_MODE) & 0o777;
    let listener = listen(&sockets, mode, &identity).map_err(at("socket in", &socket_dir))?;
    let bound = Made::at(&sockets, SOCKET_NAME).map_err(at("socket in", &socket_dir))?;
    let own = sockets.try_clone().map_err(at("socket directory", &socket_dir))?;
    let door = Door::new(own, bound.clone());
    failpoint!("guest.start.after-bind");
    let clock = IdleClock::new(settings.retention_ms.map(Duration::from_millis));
    let premises = Premises {
        state_dir,
        socket_dir,
        sockets,
        made: [bound, published],
        ephemeral: settings.ephemeral,
        _alive: alive,
    };
    let conns = Conns::new(clock);
    let standing = tenant.standing;
    let parts =
        Parts { settings, standing, identity, listener, door, signals, conns, jobs, sessions };
    let guest = Guest::new(parts).map_err(system("event loop"))?;
    Ok((guest, premises))
}

/// Takes the lock that a guest holds on its state directory for life.
fn lock(state_dir: &Path) -> Result<File, ServeError> {
    let path = state_dir.join("alive");
    let file = state_file::make(&path, OpenOptions::new().read(true).write(true))
        .map_err(at("lock", &path))?;
    let deadline = Instant::now() + LAST_GASP;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(ServeError::InUse(state_dir.into())),
            Err(error) => return Err(at("lock", &path)(error.into())),
        }
    }
}

/// Has orphans of this process's descendants come to it. Process 1 gets them
/// anyway.
fn become_reaper() -> io::Result<()> {
    let own = rustix::process::getpid();
    if own.as_raw_nonzero().get() != 1 {
        rustix::process::set_child_subreaper(Some(own))?;
    }
    Ok(())
}

/// Binds the socket through the directory's descriptor, so that its path may be
/// longer than the address of a socket.
fn listen(sockets: &OwnedFd, mode: u32, identity: &Identity) -> io::Result<OwnedFd> {
    identity::make_way(sockets, SOCKET_NAME, identity)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", sockets.as_fd().as_raw_fd());
    // No moment passes in which more may connect than are to.
    let before = rustix::process::umask(Mode::from_raw_mode(!mode & 0o777));
    let bound = rustix::net::bind(&socket, &SocketAddrUnix::new(path)?);
    rustix::process::umask(before);
    bound?;
    permit(sockets, mode)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Gives the socket its permissions where the mask could not: an access list of
/// the directory comes before it.
fn permit(sockets: &OwnedFd, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = rustix::fs::openat(sockets, SOCKET_NAME, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&socket)?.st_mode;
    if FileType::from_raw_mode(found) != FileType::Socket {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    if found & 0o777 != mode {
        let handle = format!("/proc/self/fd/{}", socket.as_raw_fd());
        rustix::fs::chmod(handle, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ServeError {
    let path = path.to_owned();
    move |source| ServeError::Path { what, path, source }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::System { what, source }
}
