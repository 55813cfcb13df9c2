//! Guests in namespaces of their own. The stage builds them from a plan that the host has made
//! of what this machine told it.
//!
//! What runs in there is not believed: who the guest is stands where only the stage writes, and
//! a connection to its socket follows no link and counts only if that process listens.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use vestal_wire::machine::{EnclosedLaunch, LaunchOrder, MachineReply, PlannedDir};

use super::instance::{self, IO};
use super::launch::{GuestLaunchError, file_in_memory, read_report, ready_pipe};
use super::places::{Places, checked, make_private_dir};
use crate::serve::SOCKET_NAME;

/// Where what the sandbox starts from is, below the directory of its instance.
const BOOT: &str = "boot";

/// Name of the snapshot of `/etc` there.
const ETC: &str = "etc";

/// Longest survey of this machine.
const MAX_SURVEY: u64 = 1 << 20;

/// Most that a failed stage says.
const MAX_WORDS: u64 = 4096;

/// The commands of the stage that build a sandbox, with the descriptors of the standard streams.
const ENCLOSE: [&str; 7] = ["enclose", "--plan-fd", "0", "--ready-fd", "1", "--hold-fd", "2"];

/// Returns what a sandbox here is planned from.
pub(super) fn survey(places: &Places, stage: &str) -> io::Result<MachineReply> {
    let Some(stage) = stage_program(stage)? else {
        return Ok(MachineReply::NoStage);
    };
    make_private_dir(places.root())?;
    let mut command = stage_command(&stage);
    command.arg("survey").stdin(Stdio::null());
    let survey = output(command, MAX_SURVEY)?;
    let root = fs::canonicalize(places.root())?.into_os_string().into_vec();
    Ok(MachineReply::Surveyed { survey: survey.into(), root: root.into() })
}

/// Builds a sandbox and removes it again.
pub(super) fn rehearse(
    places: &Places,
    name: &str,
    enclosed: &EnclosedLaunch,
) -> Result<(), GuestLaunchError> {
    let failed = || GuestLaunchError::io("make a directory");
    let dir = places.rehearsal(name).map_err(failed())?;
    make_private_dir(&dir).map_err(failed())?;
    let built = build_parts(&dir, enclosed).and_then(|()| run_stage(enclosed));
    let removed = instance::remove_tree(&dir);
    let report = built?;
    removed.map_err(GuestLaunchError::io("remove a directory"))?;
    match report.trim_end().strip_prefix("error: ") {
        Some(reason) => Err(GuestLaunchError::Guest(reason.to_owned())),
        None => Ok(()),
    }
}

/// Starts the guest of an instance in namespaces, and returns its report or the stage's.
pub(super) fn start(
    dir: &Path,
    order: &LaunchOrder,
    enclosed: &EnclosedLaunch,
) -> Result<String, GuestLaunchError> {
    build_parts(dir, enclosed)?;
    let boot = dir.join(BOOT);
    lay_out(&boot, order).map_err(GuestLaunchError::io("write what the guest starts from"))?;
    let socket = dir.join(IO).join(SOCKET_NAME);
    match fs::remove_file(&socket) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(GuestLaunchError::io("remove an earlier socket")(error));
        }
        _ => {}
    }
    let report = run_stage(enclosed);
    if report.is_err() {
        // What has not become ready must not do so later.
        instance::end(dir, &order.label.instance).map_err(GuestLaunchError::io("end it"))?;
    }
    report
}

/// Makes the directories that the plan names, and the snapshot of `/etc`.
fn build_parts(dir: &Path, enclosed: &EnclosedLaunch) -> Result<(), GuestLaunchError> {
    for wanted in &enclosed.dirs {
        make_dir(wanted).map_err(GuestLaunchError::io("make a directory of the sandbox"))?;
    }
    let failed = || GuestLaunchError::io("make a snapshot of /etc");
    let etc = dir.join(ETC);
    instance::remove_tree(&etc).map_err(failed())?;
    let mut command = stage_command(&stage_of(enclosed)?);
    command.arg("etc").arg(&etc).stdin(Stdio::null());
    output(command, MAX_WORDS).map_err(failed())?;
    let boot = dir.join(BOOT);
    make_open_dir(&boot).map_err(GuestLaunchError::io("make a directory of the sandbox"))
}

/// Makes a directory. One that exists keeps its owner and mode, which users of the sandbox may
/// have changed.
fn make_dir(wanted: &PlannedDir) -> io::Result<()> {
    let path = PathBuf::from(std::ffi::OsString::from_vec(wanted.path.to_vec()));
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    if let Some(owner) = wanted.owner {
        chown(&path, Some(owner), Some(owner))?;
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(wanted.mode))
}

fn make_open_dir(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

/// Writes the guest's program and settings.
fn lay_out(boot: &Path, order: &LaunchOrder) -> io::Result<()> {
    let own = fs::read("/proc/self/exe")?;
    let program = boot.join("guest");
    if !fs::read(&program).is_ok_and(|there| there == own) {
        replace(&program, &own, 0o755)?;
    }
    let settings = vestal_wire::encode(&order.guest).map_err(io::Error::other)?;
    replace(&boot.join("settings"), &settings, 0o644)?;
    let failpoint = boot.join("failpoint");
    match &order.failpoint {
        Some(name) => replace(&failpoint, name.as_bytes(), 0o644),
        None => match fs::remove_file(&failpoint) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
}

fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let written = options.open(&fresh).and_then(|mut file| file.write_all(content));
    // The umask may have removed bits.
    let written = written
        .and_then(|()| fs::set_permissions(&fresh, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        fs::remove_file(&fresh).ok();
    }
    written
}

/// Has the stage carry out a plan, and returns what is reported when it is done or has failed.
fn run_stage(enclosed: &EnclosedLaunch) -> Result<String, GuestLaunchError> {
    let (ready, ready_end) = ready_pipe()?;
    let plan = file_in_memory("vestal-enclosure", &enclosed.plan)?;
    let nothing = fs::File::open("/dev/null").map_err(GuestLaunchError::io("open /dev/null"))?;
    let mut command = stage_command(&stage_of(enclosed)?);
    command
        .args(ENCLOSE)
        .stdin(Stdio::from(plan))
        .stdout(Stdio::from(ready_end))
        .stderr(Stdio::from(nothing));
    let mut stage = command.spawn().map_err(GuestLaunchError::io("start the stage"))?;
    // Closes this process's copy of the descriptor.
    drop(command);
    let report = read_report(ready);
    if report.is_err() {
        stage.kill().map_err(GuestLaunchError::io("end the stage"))?;
    }
    stage.wait().map_err(GuestLaunchError::io("wait for the stage"))?;
    report
}

fn stage_of(enclosed: &EnclosedLaunch) -> Result<PathBuf, GuestLaunchError> {
    let found = stage_program(&enclosed.stage).map_err(GuestLaunchError::io("find the stage"))?;
    found.ok_or_else(|| GuestLaunchError::Guest("the stage's program is gone".to_owned()))
}

/// Returns the stage's program with this sha256, which is put beside this one.
fn stage_program(hash: &str) -> io::Result<Option<PathBuf>> {
    let own = fs::read_link("/proc/self/exe")?;
    let path = own.with_file_name(format!("stage-{}", checked(hash)?));
    Ok(path.is_file().then_some(path))
}

fn stage_command(stage: &Path) -> Command {
    let mut command = Command::new(stage);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/");
    command
}

/// Returns what a command prints. That it fails is an error with its words.
fn output(mut command: Command, limit: u64) -> io::Result<Vec<u8>> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(limit).read_to_end(&mut bytes)?;
    }
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(MAX_WORDS).read_to_string(&mut words)?;
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(bytes);
    }
    Err(io::Error::other(format!("{status}: {}", words.trim())))
}

/// Connects to the guest of an instance; nothing if it does not listen.
pub(super) fn connect(dir: &Path) -> io::Result<Option<UnixStream>> {
    let Some(guest) = instance::living(dir) else {
        return Ok(None);
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let io_dir = rustix::fs::open(dir.join(IO), flags | OFlags::DIRECTORY, Mode::empty())?;
    let socket = match rustix::fs::openat(&io_dir, SOCKET_NAME, flags, Mode::empty()) {
        Ok(socket) => socket,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&socket)?.st_mode);
    if kind != rustix::fs::FileType::Socket {
        return Err(io::Error::other("what is in the place of the guest's socket is none"));
    }
    let stream = match UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd())) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(error),
    };
    let listener = rustix::net::sockopt::socket_peercred(&stream)?;
    let is_guest = u32::try_from(listener.pid.as_raw_nonzero().get()) == Ok(guest);
    // The number is that of the same process if it lives now.
    if is_guest && instance::living(dir) == Some(guest) {
        return Ok(Some(stream));
    }
    Err(io::Error::other("what listens at the guest's socket is not the guest"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::process::tree;

    /// An instance whose guest, by its record, is this process.
    fn instance() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("i1");
        fs::create_dir_all(dir.join(IO)).unwrap();
        record(&dir, std::process::id());
        (root, dir)
    }

    fn record(dir: &Path, pid: u32) {
        let start = tree::start_time(pid).unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let text = format!("{{\"pid\":{pid},\"pid_start\":{start},\"boot\":\"{}\"}}", boot.trim());
        fs::write(dir.join(instance::INIT), text).unwrap();
    }

    #[test]
    fn a_socket_that_a_sandbox_put_in_place_of_its_guests_is_refused() {
        let (root, dir) = instance();
        let socket = dir.join(IO).join(SOCKET_NAME);
        assert!(connect(&dir).unwrap().is_none());
        let other = root.path().join("other.sock");
        let _listener = UnixListener::bind(&other).unwrap();
        symlink(&other, &socket).unwrap();
        assert!(connect(&dir).unwrap_err().to_string().contains("is none"));
        fs::remove_file(&socket).unwrap();
        let _own = UnixListener::bind(&socket).unwrap();
        assert!(connect(&dir).unwrap().is_some());
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        record(&dir, child.id());
        let refused = connect(&dir).unwrap_err().to_string();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(refused.contains("not the guest"), "{refused}");
        assert!(connect(&dir).unwrap().is_none(), "the guest is dead");
    }

    #[test]
    fn what_a_sandbox_writes_beside_its_socket_names_nobody() {
        let (_root, dir) = instance();
        fs::remove_file(dir.join(instance::INIT)).unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let start = tree::start_time(child.id()).unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let forged = format!(
            "{{\"pid\":{},\"pid_start\":{start},\"boot\":\"{}\"}}",
            child.id(),
            boot.trim()
        );
        fs::write(dir.join(IO).join("guest.json"), forged).unwrap();
        assert!(instance::is_running(&dir), "without namespaces it is believed");
        record(&dir, std::process::id());
        fs::write(dir.join(instance::INIT), "{}").unwrap();
        assert!(!instance::is_running(&dir));
        instance::end(&dir, "no-such-instance").unwrap();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
