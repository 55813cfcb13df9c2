//! The command line of the guest, and `connect`, which gives backends that only have
//! an exec a byte stream to the guest.

#![expect(unsafe_code, reason = "descriptors given by number are taken over")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vestal_wire::Fault;
use vestal_wire::machine::MachineError;

use crate::machine::Answered;
use crate::prepare::{self, PrepareError, PrepareOptions};
use crate::serve::{self, SOCKET_NAME, StartupHandles};
use crate::{diagnostics, files, machine, process};

const USAGE: &str = "usage: vestal-guest serve (--settings-fd N | --settings PATH) [--ready-fd N] [--hold-fd N] [--detach]
       vestal-guest connect SOCKET_DIR
       vestal-guest machine DIR
       vestal-guest prepare [--user USER] [--fill DIR] [--report FILE]
       vestal-guest erase DIR
       vestal-guest --version";

/// Maximum number of entries that are listed if they could not be removed.
const MAX_NAMED: u64 = 100;

/// Why the program failed.
#[derive(Debug, thiserror::Error)]
enum ProgramError {
    #[error("{0}\n{USAGE}")]
    Usage(String),
    #[error("settings {}: {source}", path.display())]
    Settings { path: PathBuf, source: io::Error },
    #[error("descriptor {fd}: {source}")]
    Descriptor { fd: RawFd, source: io::Error },
    #[error("connect: {0}")]
    Connect(io::Error),
    #[error("machine: {0}")]
    Machine(#[from] MachineError),
    #[error("prepare: {0}")]
    Prepare(#[from] PrepareError),
    #[error("erase: {}", .0.message)]
    Erase(Fault),
    #[error("erase: {0} entries could not be removed")]
    Left(u64),
    #[error("standard output: {0}")]
    Output(io::Error),
    #[error("{0}")]
    Serve(String),
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    limit_arenas();
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next();
    let result = match verb.as_deref().and_then(OsStr::to_str) {
        Some("supervise") => return supervise(),
        Some("serve") => serve(arguments),
        Some("connect") => connect(arguments),
        Some("machine") => machine(arguments),
        Some("prepare") => prepare(arguments),
        Some("erase") => erase(arguments),
        Some("--version" | "-V") => {
            print(concat!("vestal-guest ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        _ => Err(ProgramError::Usage("unknown command".into())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            diagnostics::note(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> ExitCode {
    match process::supervise::inherited_control() {
        Ok(control) => process::supervise::main(control),
        Err(error) => {
            diagnostics::note(&format!("supervise: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn print(line: &str) -> Result<(), ProgramError> {
    rustix::io::write(rustix::stdio::stdout(), line.as_bytes())
        .map(drop)
        .map_err(|error| ProgramError::Output(error.into()))
}

fn prepare(mut arguments: impl Iterator<Item = OsString>) -> Result<(), ProgramError> {
    let mut options = PrepareOptions::default();
    while let Some(name) = arguments.next() {
        let value = value_of(&name, arguments.next())?;
        match name.to_str() {
            Some("--user") => {
                let user = value.into_string();
                options.user = Some(
                    user.map_err(|_| ProgramError::Usage("--user is not valid UTF-8".into()))?,
                );
            }
            Some("--fill") => options.fill = Some(value.into()),
            Some("--report") => options.report = Some(value.into()),
            _ => return Err(unknown(&name)),
        }
    }
    print(&prepare::prepare(&options)?)
}

fn erase(mut arguments: impl Iterator<Item = OsString>) -> Result<(), ProgramError> {
    let (Some(dir), None) = (arguments.next(), arguments.next()) else {
        return Err(ProgramError::Usage("erase needs exactly one directory".into()));
    };
    let mut named = 0;
    let mut report = |line: &str| {
        if named < MAX_NAMED {
            diagnostics::note(line);
        }
        named += 1;
    };
    match files::erase(dir.as_ref(), &mut report).map_err(ProgramError::Erase)? {
        0 => Ok(()),
        left => Err(ProgramError::Left(left)),
    }
}

fn value_of(name: &OsStr, value: Option<OsString>) -> Result<OsString, ProgramError> {
    value.ok_or_else(|| ProgramError::Usage(format!("{} needs a value", name.to_string_lossy())))
}

fn unknown(name: &OsStr) -> ProgramError {
    ProgramError::Usage(format!("unknown option {}", name.to_string_lossy()))
}

fn connect(mut arguments: impl Iterator<Item = OsString>) -> Result<(), ProgramError> {
    match (arguments.next(), arguments.next()) {
        (Some(dir), None) => bridge(dir.as_ref()).map_err(ProgramError::Connect),
        _ => Err(ProgramError::Usage("connect needs exactly one socket directory".into())),
    }
}

fn machine(mut arguments: impl Iterator<Item = OsString>) -> Result<(), ProgramError> {
    let (Some(root), None) = (arguments.next(), arguments.next()) else {
        return Err(ProgramError::Usage("machine needs exactly one directory".into()));
    };
    // The lock ends before the streams are carried: what was read ahead stays in the buffer.
    let answered = machine::answer(root.as_ref(), &mut io::stdin().lock(), &mut io::stdout())?;
    match answered {
        Answered::Done => Ok(()),
        Answered::Connect(socket_dir) => bridge(&socket_dir).map_err(ProgramError::Connect),
        Answered::Connected(socket) => carry(socket).map_err(ProgramError::Connect),
    }
}

fn serve(arguments: impl Iterator<Item = OsString>) -> Result<(), ProgramError> {
    let options = GuestOptions::parse(arguments)?;
    if options.parent == ParentLink::Leave {
        detach();
    }
    let handles = options.open()?;
    serve::run(handles).map_err(|error| ProgramError::Serve(error.to_string()))
}

/// Where the settings are.
#[derive(Debug, PartialEq, Eq)]
enum SettingsSource {
    Descriptor(RawFd),
    File(PathBuf),
}

#[derive(Debug, PartialEq, Eq)]
struct GuestOptions {
    settings: SettingsSource,
    ready: Option<RawFd>,
    hold: Option<RawFd>,
    parent: ParentLink,
}

/// Whether to detach from the process that started this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParentLink {
    Stay,
    Leave,
}

impl GuestOptions {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, ProgramError> {
        let (mut settings, mut ready, mut hold, mut parent) = (None, None, None, ParentLink::Stay);
        while let Some(name) = arguments.next() {
            if name == "--detach" {
                parent = ParentLink::Leave;
                continue;
            }
            let value = value_of(&name, arguments.next())?;
            match name.to_str() {
                Some("--settings-fd") => {
                    settings = Some(SettingsSource::Descriptor(number(&value)?));
                }
                Some("--settings") => settings = Some(SettingsSource::File(value.into())),
                Some("--ready-fd") => ready = Some(number(&value)?),
                Some("--hold-fd") => hold = Some(number(&value)?),
                _ => return Err(unknown(&name)),
            }
        }
        let settings = settings
            .ok_or_else(|| ProgramError::Usage("--settings-fd or --settings is required".into()))?;
        Ok(Self { settings, ready, hold, parent })
    }

    fn open(self) -> Result<StartupHandles, ProgramError> {
        Ok(StartupHandles {
            settings: match self.settings {
                SettingsSource::Descriptor(fd) => take_over(fd)?.into(),
                SettingsSource::File(path) => {
                    File::open(&path).map_err(|source| ProgramError::Settings { path, source })?
                }
            },
            ready: self.ready.map(take_over).transpose()?.map(File::from),
            hold: self.hold.map(take_over).transpose()?,
        })
    }
}

/// Continues as a child without terminal and parent. The caller sees this process
/// exit at once and has nothing to reap later.
fn detach() {
    // SAFETY: this process has only one thread, so the child is a complete copy;
    // the parent exits without running anything else.
    unsafe {
        match libc::fork() {
            // If the fork fails, this process serves itself.
            -1 | 0 => {}
            _ => libc::_exit(0),
        }
    }
    // It fails only for a group leader, which a child is not.
    rustix::process::setsid().ok();
}

fn number(text: &OsStr) -> Result<RawFd, ProgramError> {
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|fd| *fd >= 0);
    number.ok_or_else(|| {
        ProgramError::Usage(format!("{} is not a descriptor number", text.to_string_lossy()))
    })
}

/// Takes over an inherited descriptor. It gets a new number, so that the standard
/// streams can be replaced later.
fn take_over(fd: RawFd) -> Result<OwnedFd, ProgramError> {
    let failed = |source: io::Error| ProgramError::Descriptor { fd, source };
    // SAFETY: fcntl does not touch memory, and fails for a number that is no
    // open descriptor. The duplicate is new, so nobody else owns it.
    let own = unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) {
            -1 => return Err(failed(io::Error::last_os_error())),
            own => OwnedFd::from_raw_fd(own),
        }
    };
    if fd > 2 {
        // SAFETY: the number was given to this process to use and to close, and
        // nothing here refers to it any more.
        unsafe { libc::close(fd) };
    }
    Ok(own)
}

/// Limits the allocator to one arena: the guest's threads are few and
/// short-lived, and memory they free should be reused by others.
fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it is called before any other thread exists.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Copies standard input to the guest's socket and back until the guest closes
/// the connection.
fn bridge(socket_dir: &Path) -> io::Result<()> {
    carry(open_socket(socket_dir)?)
}

/// Does the same with a connection that is there.
fn carry(socket: UnixStream) -> io::Result<()> {
    let mut to_guest = socket.try_clone()?;
    // It ends with the process: reading standard input cannot be cancelled.
    std::thread::spawn(move || {
        copy(&mut io::stdin().lock(), &mut to_guest).ok();
        to_guest.shutdown(Shutdown::Write).ok();
    });
    let mut from_guest = socket;
    copy(&mut from_guest, &mut io::stdout().lock())
}

/// Connects through the directory's descriptor, so the path may be longer than a
/// socket address.
fn open_socket(socket_dir: &Path) -> io::Result<UnixStream> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(socket_dir, flags, Mode::empty())?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET_NAME}", dir.as_raw_fd()))
}

/// Copies bytes as soon as they arrive.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buf = vec![0; 64 << 10];
    loop {
        match from.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                to.write_all(&buf[..n])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<GuestOptions, ProgramError> {
        GuestOptions::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn options_are_understood() {
        let all = ["--settings-fd", "0", "--ready-fd", "1", "--detach", "--hold-fd", "5"];
        let expected = GuestOptions {
            settings: SettingsSource::Descriptor(0),
            ready: Some(1),
            hold: Some(5),
            parent: ParentLink::Leave,
        };
        assert_eq!(parse(&all).unwrap(), expected);
        let options = parse(&["--settings", "/x"]).unwrap();
        assert_eq!(options.settings, SettingsSource::File("/x".into()));
        assert_eq!(options.parent, ParentLink::Stay);
    }

    #[test]
    fn wrong_options_are_reported_as_wrong() {
        for wrong in [&[][..], &["--settings"], &["--settings-fd", "-1"], &["--what", "1"]] {
            assert!(matches!(parse(wrong), Err(ProgramError::Usage(_))), "{wrong:?}");
        }
    }
}
