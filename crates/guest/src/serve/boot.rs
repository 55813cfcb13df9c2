//! Starts a guest: takes the lock, finds the job user, replays the journal, binds
//! the socket and publishes its identity. Cleans up at the end.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::rand::GetRandomFlags;
use vestal_wire::{DecodeError, GuestSettings};

use super::connections::HostConnections;
use super::guest::{Guest, GuestParts};
use super::jobs::Jobs;
use super::lifetime::IdleClock;
use super::reactor::Signals;
use crate::diagnostics::{self, quoted};
use crate::failpoint::failpoint;
use crate::job_user;
use crate::journal::{GuestStart, JournalError};
use crate::process::tree;
use crate::session::Sessions;
use crate::state_file;
use crate::user::UserError;

/// Default permissions of the socket: only for the guest's own user.
const SOCKET_MODE: u32 = 0o600;

/// Maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 128;

/// How long to wait for the lock of a guest that was killed: a process it was
/// just starting keeps the file open until it executes its program.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// Name of the socket in the socket directory.
pub(crate) const SOCKET_NAME: &str = "guest.sock";

/// Name of the file that identifies the listening guest.
const IDENTITY_NAME: &str = "guest.json";

/// What the guest inherits from the process that started it.
#[derive(Debug)]
pub(crate) struct StartupHandles {
    pub(crate) settings: File,
    /// Receives the ready line, or the reason of a failure.
    pub(crate) ready: Option<File>,
    /// Kept open until the guest can be found.
    pub(crate) hold: Option<OwnedFd>,
}

/// Why a guest could not start or continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuestError {
    #[error("cannot read the settings: {0}")]
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

/// Runs a guest from start to end.
pub(crate) fn run(handles: StartupHandles) -> Result<(), GuestError> {
    let StartupHandles { settings, mut ready, hold } = handles;
    let started = start(settings);
    let (mut guest, dirs) = match started {
        Ok(started) => started,
        Err(error) => {
            if let Some(ready) = &mut ready {
                // If this fails, nobody reads it; the exit code says the same.
                writeln!(ready, "error: {error}").ok();
            }
            return Err(error);
        }
    };
    if let Some(mut ready) = ready {
        // The host may be gone already.
        ready.write_all(guest.identity.ready_line().as_bytes()).ok();
    }
    drop(hold);
    failpoint!("guest.start.after-ready");
    let result = guest.run().map_err(system("event loop"));
    dirs.clean_up();
    failpoint!("guest.shutdown.after-unlink");
    guest.send_final_replies();
    failpoint!("guest.shutdown.before-exit");
    // The lock is released before connections close, so that another guest can
    // start here as soon as they do.
    drop(dirs);
    result
}

/// The directories of a guest, and its files in them.
struct InstanceDirs {
    state_dir: PathBuf,
    socket_dir: PathBuf,
    sockets: OwnedFd,
    made: [OwnFile; 2],
    ephemeral: bool,
    _alive: File,
}

impl InstanceDirs {
    /// Removes the files by which the guest was found.
    fn clean_up(&self) {
        self.made.iter().for_each(|made| made.remove(&self.sockets));
        if self.ephemeral {
            for dir in [&self.socket_dir, &self.state_dir] {
                if let Err(error) = std::fs::remove_dir_all(dir)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    diagnostics::note(&format!("{} cannot be removed: {error}", dir.display()));
                }
            }
            // The parent directory was created for this instance. It is removed
            // if it is empty.
            self.socket_dir.parent().map(std::fs::remove_dir);
        }
    }
}

fn start(mut settings: File) -> Result<(Guest, InstanceDirs), GuestError> {
    let mut bytes = Vec::new();
    settings.read_to_end(&mut bytes).map_err(GuestError::Settings)?;
    drop(settings);
    let mut settings: GuestSettings = vestal_wire::decode(&bytes)?;
    let signals = Signals::take_over().map_err(system("signals"))?;
    let job_user = job_user::find_job_user(&mut settings)?;
    let state_dir = diagnostics::path_of(&settings.state_dir);
    let socket_dir = diagnostics::path_of(&settings.socket_dir);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&state_dir)
        .map_err(at("state directory", &state_dir))?;
    let alive = lock(&state_dir)?;
    diagnostics::detach(&state_dir.join("guest.log")).map_err(at("log in", &state_dir))?;
    job_user.protect_state_dir(&state_dir);
    job_user.give_directories(settings.hand_over.iter().map(|directory| directory.as_slice()));
    failpoint!("guest.start.after-lock");
    become_reaper().map_err(system("child subreaper"))?;
    let identity = GuestIdentity::new().map_err(system("identity"))?;
    job_user.kill_marked(&settings.previous_instances);
    let opened =
        GuestStart { incarnation: identity.incarnation.clone(), boot: identity.boot.clone() };
    let jobs = Jobs::open(&state_dir, opened, settings.log_bytes, settings.jobs_kept)?;
    failpoint!("guest.start.after-replay");
    let sessions = Sessions::new(state_dir.join("sessions"));
    let sockets = open_dir(&socket_dir).map_err(at("socket directory", &socket_dir))?;
    let published =
        publish(&sockets, &identity, &settings).map_err(at("identity in", &socket_dir))?;
    failpoint!("guest.start.after-identity");
    let mode = settings.socket_mode.unwrap_or(SOCKET_MODE) & 0o777;
    let listener = listen(&sockets, mode, &identity).map_err(at("socket in", &socket_dir))?;
    let bound = OwnFile::at(&sockets, SOCKET_NAME).map_err(at("socket in", &socket_dir))?;
    let own = sockets.try_clone().map_err(at("socket directory", &socket_dir))?;
    let socket_file = SocketFile::new(own, bound.clone());
    failpoint!("guest.start.after-bind");
    let clock = IdleClock::new(settings.retention_ms.map(Duration::from_millis));
    let dirs = InstanceDirs {
        state_dir,
        socket_dir,
        sockets,
        made: [bound, published],
        ephemeral: settings.ephemeral,
        _alive: alive,
    };
    let connections = HostConnections::new(clock);
    let rights = job_user.rights;
    let parts = GuestParts {
        settings,
        rights,
        identity,
        listener,
        socket_file,
        signals,
        connections,
        jobs,
        sessions,
    };
    let guest = Guest::new(parts).map_err(system("event loop"))?;
    Ok((guest, dirs))
}

/// Locks the state directory for the lifetime of the guest.
fn lock(state_dir: &Path) -> Result<File, GuestError> {
    let path = state_dir.join("alive");
    let file = state_file::make(&path, OpenOptions::new().read(true).write(true))
        .map_err(at("lock", &path))?;
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(GuestError::InUse(state_dir.into())),
            Err(error) => return Err(at("lock", &path)(error.into())),
        }
    }
}

/// Makes this process the parent of orphaned descendants. Process 1 already is.
fn become_reaper() -> io::Result<()> {
    let own = rustix::process::getpid();
    if own.as_raw_nonzero().get() != 1 {
        rustix::process::set_child_subreaper(Some(own))?;
    }
    Ok(())
}

/// Binds the socket through the directory's descriptor, so the path may be longer
/// than a socket address.
fn listen(sockets: &OwnedFd, mode: u32, identity: &GuestIdentity) -> io::Result<OwnedFd> {
    free_name(sockets, SOCKET_NAME, identity)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", sockets.as_fd().as_raw_fd());
    // The umask ensures that the socket never has wider permissions.
    let before = rustix::process::umask(Mode::from_raw_mode(!mode & 0o777));
    let bound = rustix::net::bind(&socket, &SocketAddrUnix::new(path)?);
    rustix::process::umask(before);
    bound?;
    set_socket_mode(sockets, mode)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Sets the socket's permissions where the umask had no effect, because the
/// directory has a default access list.
fn set_socket_mode(sockets: &OwnedFd, mode: u32) -> io::Result<()> {
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

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GuestError {
    let path = path.to_owned();
    move |source| GuestError::Path { what, path, source }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> GuestError {
    move |source| GuestError::System { what, source }
}

/// Identifies this process uniquely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuestIdentity {
    pub(super) pid: u32,
    pub(super) pid_start: u64,
    pub(super) boot: String,
    /// Random, new at every start.
    pub(super) incarnation: String,
}

impl GuestIdentity {
    /// Returns the identity of this process.
    pub(super) fn new() -> io::Result<Self> {
        let pid = std::process::id();
        let pid_start = tree::start_time(pid).ok_or_else(|| {
            io::Error::other("cannot read the start time of this process in /proc")
        })?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let mut random = [0; 16];
        rustix::rand::getrandom(&mut random, GetRandomFlags::empty())?;
        let incarnation = random.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").ok();
            text
        });
        Ok(Self { pid, pid_start, boot: boot.trim().to_owned(), incarnation })
    }

    /// Returns the ready line for the process that started the guest.
    fn ready_line(&self) -> String {
        format!("{{{}}}\n", self.fields())
    }

    fn file_content(&self, settings: &GuestSettings) -> String {
        format!(
            "{{{},\"instance\":{},\"generation\":{}}}\n",
            self.fields(),
            quoted(&settings.instance),
            settings.generation,
        )
    }

    fn fields(&self) -> String {
        format!(
            "\"pid\":{},\"pid_start\":{},\"boot\":{},\"incarnation\":{}",
            self.pid,
            self.pid_start,
            quoted(&self.boot),
            quoted(&self.incarnation),
        )
    }
}

/// A file that this guest created, identified by its inode.
#[derive(Debug, Clone)]
pub(super) struct OwnFile {
    name: &'static str,
    inode: u64,
}

impl OwnFile {
    /// Remembers the file of this name.
    pub(super) fn at(dir: impl AsFd, name: &'static str) -> io::Result<Self> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Self { name, inode: stat.st_ino })
    }

    /// Returns whether the file is still this guest's.
    fn is_in_place(&self, dir: impl AsFd) -> bool {
        let current = rustix::fs::statat(dir, self.name, AtFlags::SYMLINK_NOFOLLOW);
        current.is_ok_and(|stat| stat.st_ino == self.inode)
    }

    /// Removes the file, unless another guest has replaced it.
    pub(super) fn remove(&self, dir: impl AsFd) {
        let dir = dir.as_fd();
        if self.is_in_place(dir) {
            // If it cannot be removed, the next guest replaces it.
            rustix::fs::unlinkat(dir, self.name, AtFlags::empty()).ok();
        }
    }
}

/// The socket file by which hosts find the guest.
#[derive(Debug)]
pub(super) struct SocketFile {
    dir: OwnedFd,
    socket: OwnFile,
}

impl SocketFile {
    pub(super) fn new(dir: OwnedFd, socket: OwnFile) -> Self {
        Self { dir, socket }
    }

    /// Returns whether hosts can find the guest. They cannot if the sandbox's
    /// files were deleted or another guest has replaced the socket.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_in_place(&self.dir)
    }
}

/// Writes the file that identifies this guest.
fn publish(
    dir: impl AsFd,
    identity: &GuestIdentity,
    settings: &GuestSettings,
) -> io::Result<OwnFile> {
    const FRESH: &str = "guest.json.new";
    let dir = dir.as_fd();
    // If others can write to the directory, an existing entry may be a trap.
    free_name(dir, FRESH, identity)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let file = rustix::fs::openat(dir, FRESH, flags, mode)?;
    io::Write::write_all(
        &mut std::fs::File::from(file),
        identity.file_content(settings).as_bytes(),
    )?;
    move_directory_aside(dir, IDENTITY_NAME, identity)?;
    rustix::fs::renameat(dir, FRESH, dir, IDENTITY_NAME)?;
    OwnFile::at(dir, IDENTITY_NAME)
}

/// Frees a name in the socket directory.
fn free_name(dir: impl AsFd, name: &str, identity: &GuestIdentity) -> io::Result<()> {
    let dir = dir.as_fd();
    move_directory_aside(dir, name, identity)?;
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Renames a directory that has one of the guest's names. Only a job can have put
/// it there. Deleting it could take arbitrarily long while the host waits; it is
/// deleted with the instance.
fn move_directory_aside(dir: impl AsFd, name: &str, identity: &GuestIdentity) -> io::Result<()> {
    let dir = dir.as_fd();
    let found = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    if found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory) {
        let aside = format!("{name}.aside-{}", identity.incarnation);
        rustix::fs::renameat(dir, name, dir, aside)?;
    }
    Ok(())
}

/// Opens a directory, so that later changes of its path do not matter.
fn open_dir(path: &Path) -> io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_guest_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(IDENTITY_NAME);
        std::fs::write(&path, "mine").unwrap();
        let fd = open_dir(dir.path()).unwrap();
        let made = OwnFile::at(&fd, IDENTITY_NAME).unwrap();
        std::fs::write(dir.path().join("other"), "theirs").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        made.remove(&fd);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        OwnFile::at(&fd, IDENTITY_NAME).unwrap().remove(&fd);
        assert!(!path.exists());
    }

    #[test]
    fn directories_at_the_names_of_a_guest_make_way_and_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for name in [SOCKET_NAME, IDENTITY_NAME, "guest.json.new"] {
            std::fs::create_dir_all(dir.path().join(name).join("deeper")).unwrap();
        }
        let (fd, identity) = (open_dir(dir.path()).unwrap(), GuestIdentity::new().unwrap());
        for name in [SOCKET_NAME, "guest.json.new"] {
            free_name(&fd, name, &identity).unwrap();
            assert!(!dir.path().join(name).exists());
        }
        move_directory_aside(&fd, IDENTITY_NAME, &identity).unwrap();
        assert!(!dir.path().join(IDENTITY_NAME).exists());
        let kept = std::fs::read_dir(dir.path()).unwrap().flatten();
        let kept = kept.filter(|entry| entry.path().join("deeper").is_dir());
        assert_eq!(kept.count(), 3);
    }

    #[test]
    fn every_start_is_another_incarnation() {
        let (a, b) = (GuestIdentity::new().unwrap(), GuestIdentity::new().unwrap());
        assert_ne!(a.incarnation, b.incarnation);
        assert_eq!((a.pid, a.pid_start, &a.boot), (b.pid, b.pid_start, &b.boot));
    }
}
