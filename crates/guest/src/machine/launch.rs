//! Starting the guest of an instance, which outlives this process and the connection that
//! asked for it.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vestal_wire::machine::{InstancePlaces, LaunchOrder, MachineReply};
use vestal_wire::{EnvVar, GuestSettings};

use super::enclosed;
use super::instance::{self, IO};
use super::places::{Places, machine_name, make_private_dir, millis};
use crate::orphans::INSTANCE_MARK;

/// Longest time until a guest listens.
const READY_WITHIN: Duration = Duration::from_secs(50);

/// Longest report of a guest that is ready or has failed.
const MAX_READY: u64 = 4096;

/// Variables of a login that jobs get as well. What belongs to the connection does not.
const INHERITED: [&str; 9] =
    ["PATH", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "MAIL", "XDG_DATA_DIRS"];

/// Why there is no guest.
#[derive(Debug, thiserror::Error)]
pub(super) enum GuestLaunchError {
    #[error("it was removed")]
    Removed,
    #[error("it runs, and is isolated in another way than is asked for")]
    OtherIsolation,
    #[error("the caller does not wait for it any more")]
    Abandoned,
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error("{0}")]
    Guest(String),
}

impl GuestLaunchError {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

/// Starts a guest unless it runs. `is_awaited` says whether somebody still waits for it.
pub(super) fn launch(
    places: &Places,
    order: &LaunchOrder,
    is_awaited: impl Fn() -> bool,
) -> Result<MachineReply, GuestLaunchError> {
    let id = order.label.instance.clone();
    let dir = places.instance(&id).map_err(GuestLaunchError::io("instance"))?;
    let lock = places.lock(&id).map_err(GuestLaunchError::io("lock the instance"))?;
    if lock.is_removed().map_err(GuestLaunchError::io("read the mark"))? {
        return Err(GuestLaunchError::Removed);
    }
    let was = instance::read_label(&dir).map_err(GuestLaunchError::io("read the label"))?;
    let here = machine_name();
    if let Some(made_on) = was.as_ref().and_then(|label| label.machine.clone())
        && made_on.id != here.id
    {
        return Ok(MachineReply::Elsewhere(made_on));
    }
    let instance_places =
        places.describe(&order.label.key).map_err(GuestLaunchError::io("the sandbox"))?;
    // A repeated request gets the instance that is there, but never one that is isolated otherwise.
    if instance::is_running(&dir) {
        if instance::is_enclosed(&dir) != order.enclosed.is_some() {
            return Err(GuestLaunchError::OtherIsolation);
        }
        return Ok(MachineReply::Launched(instance_places));
    }
    // The process that asked may be dead, and another may have decided otherwise since.
    if !is_awaited() {
        return Err(GuestLaunchError::Abandoned);
    }
    lay_out(places, &dir, order, was.and_then(|label| label.created_ms))?;
    let report = match &order.enclosed {
        Some(enclosed) => enclosed::start(&dir, order, enclosed)?,
        None => {
            let settings = complete(places, &dir, order, &instance_places)?;
            let bytes = vestal_wire::encode(&settings)
                .map_err(|error| GuestLaunchError::Guest(error.to_string()))?;
            start(&bytes, &id, order.failpoint.as_deref())?
        }
    };
    match report.trim_end() {
        "" => Err(GuestLaunchError::Guest("it ended before it was ready".to_owned())),
        report => match report.strip_prefix("error: ") {
            Some(reason) => Err(GuestLaunchError::Guest(reason.to_owned())),
            None => Ok(MachineReply::Launched(instance_places)),
        },
    }
}

/// Makes the directories of an instance and writes its label.
fn lay_out(
    places: &Places,
    dir: &Path,
    order: &LaunchOrder,
    created_ms: Option<u64>,
) -> Result<(), GuestLaunchError> {
    if order.is_new {
        make_private_dir(&dir.join(IO)).map_err(GuestLaunchError::io("make the instance"))?;
    } else if !dir.is_dir() {
        return Err(GuestLaunchError::Guest("its directory is gone".to_owned()));
    }
    let files = places.sandbox(&order.label.key).map_err(GuestLaunchError::io("the sandbox"))?;
    for name in ["workspace", "home"] {
        make_private_dir(&files.join(name)).map_err(GuestLaunchError::io("make the sandbox"))?;
    }
    let mut label = order.label.clone();
    label.machine = Some(machine_name());
    label.created_ms = created_ms.or_else(|| Some(millis(SystemTime::now())));
    label.is_enclosed = Some(order.enclosed.is_some());
    instance::write_label(dir, &label).map_err(GuestLaunchError::io("write the label"))?;
    // What an earlier start has recorded has ended.
    instance::forget_init(dir).map_err(GuestLaunchError::io("remove an earlier record"))
}

/// Returns the settings with the directories and the environment of this machine.
fn complete(
    places: &Places,
    dir: &Path,
    order: &LaunchOrder,
    instance_places: &InstancePlaces,
) -> Result<GuestSettings, GuestLaunchError> {
    let files = places.sandbox(&order.label.key).map_err(GuestLaunchError::io("the sandbox"))?;
    // What the guest of an instance keeps that ends with its owner does so, too.
    let state = if order.guest.ephemeral { dir } else { &files }.join("state");
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec().into();
    let variable = |name: &[u8], value: &[u8]| EnvVar {
        name: name.to_vec().into(),
        value: value.to_vec().into(),
    };
    let mut env: Vec<EnvVar> = own_environment()
        .filter(|(name, _)| {
            name.starts_with(b"LC_") || INHERITED.iter().any(|own| own.as_bytes() == &**name)
        })
        .map(|(name, value)| variable(&name, &value))
        .collect();
    env.push(variable(b"HOME", &instance_places.home));
    env.retain(|own| !order.guest.env.iter().any(|given| given.name == own.name));
    env.extend(order.guest.env.iter().cloned());
    Ok(GuestSettings {
        socket_dir: bytes(&dir.join(IO)),
        state_dir: bytes(&state),
        home: instance_places.home.clone(),
        start_dir: order.start_dir.clone().unwrap_or_else(|| instance_places.workspace.clone()),
        env,
        ..order.guest.clone()
    })
}

#[expect(clippy::disallowed_methods, reason = "it is that of the login, and no setting")]
fn own_environment() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()))
}

/// Starts the guest and returns its report.
fn start(settings: &[u8], id: &str, failpoint: Option<&str>) -> Result<String, GuestLaunchError> {
    let (ready, ready_end) = ready_pipe()?;
    let input = file_in_memory("vestal-guest-settings", settings)?;
    let nothing = fs::File::open("/dev/null").map_err(GuestLaunchError::io("open /dev/null"))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["serve", "--detach", "--settings-fd", "0", "--ready-fd", "1", "--hold-fd", "2"])
        .env_clear()
        .env(INSTANCE_MARK, id)
        .envs(failpoint.map(|name| ("VESTAL_GUEST_FAILPOINT", name)))
        .current_dir("/")
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(ready_end))
        .stderr(Stdio::from(nothing));
    let mut starter = command.spawn().map_err(GuestLaunchError::io("start the guest"))?;
    // Closes this process's copy of the descriptor.
    drop(command);
    let report = read_report(ready);
    if report.is_err() {
        orphans_of(id);
    }
    starter.wait().map_err(GuestLaunchError::io("wait for the guest's starter"))?;
    report
}

/// Returns a pipe for the report of a guest.
pub(super) fn ready_pipe() -> Result<(OwnedFd, OwnedFd), GuestLaunchError> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| GuestLaunchError::io("make a pipe")(error.into()))
}

/// Returns a file without a name, to be read from its beginning.
pub(super) fn file_in_memory(name: &str, bytes: &[u8]) -> Result<fs::File, GuestLaunchError> {
    let mut file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)
        .map(fs::File::from)
        .map_err(|error| GuestLaunchError::io("make a file in memory")(error.into()))?;
    file.write_all(bytes)
        .and_then(|()| io::Seek::rewind(&mut file))
        .map_err(GuestLaunchError::io("write a file in memory"))?;
    Ok(file)
}

/// Kills a guest that has not become ready, and must not do so later.
fn orphans_of(id: &str) {
    crate::orphans::kill_marked(&[id.to_owned()]);
}

pub(super) fn read_report(ready: OwnedFd) -> Result<String, GuestLaunchError> {
    let failed = GuestLaunchError::io("wait for the guest");
    let deadline = Instant::now() + READY_WITHIN;
    let mut report = Vec::new();
    let mut pipe = fs::File::from(ready);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else {
            return Err(failed(ErrorKind::InvalidInput.into()));
        };
        let mut readable = [PollFd::new(&pipe, PollFlags::IN)];
        match poll(&mut readable, Some(&left)) {
            Ok(0) => {
                let seconds = READY_WITHIN.as_secs();
                return Err(GuestLaunchError::Guest(format!(
                    "it was not ready within {seconds} s"
                )));
            }
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(failed(error.into())),
        }
        let mut chunk = [0; 1024];
        match pipe.read(&mut chunk) {
            Ok(0) => return Ok(String::from_utf8_lossy(&report).into_owned()),
            Ok(count) => report.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
        report.truncate(usize::try_from(MAX_READY).unwrap_or(usize::MAX));
    }
}

/// Returns whether the other end of standard input is open.
pub(super) fn is_input_open(input: &mut impl io::BufRead) -> bool {
    let stdin = rustix::stdio::stdin();
    let mut state = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut state, Some(&at_once)) {
        Ok(0) => true,
        // Reading does not block: there are bytes, or there is the end.
        Ok(_) => input.fill_buf().is_ok_and(|bytes| !bytes.is_empty()),
        Err(_) => false,
    }
}
