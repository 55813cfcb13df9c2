//! The command line.

#![expect(unsafe_code, reason = "descriptors given by number are taken over")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::ExitCode;

use vestal_wire::Fault;

use crate::prepare::{Order, PrepareError};
use crate::serve::{self, Inheritance};
use crate::{connect, diagnostics, files, prepare, process};

const USAGE: &str = "usage: vestal-guest serve (--settings-fd N | --settings PATH) [--ready-fd N] [--hold-fd N] [--detach]
       vestal-guest connect SOCKET_DIR
       vestal-guest prepare [--user USER] [--fill DIR] [--report FILE]
       vestal-guest erase DIR
       vestal-guest --version";

/// Most things that could not be removed that are named.
const MAX_NAMED: u64 = 100;

/// Why the program ended badly.
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
    #[error("prepare: {0}")]
    Prepare(#[from] PrepareError),
    #[error("erase: {}", .0.message)]
    Erase(Fault),
    #[error("erase: {0} could not be removed")]
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
    let mut order = Order::default();
    while let Some(name) = arguments.next() {
        let value = value_of(&name, arguments.next())?;
        match name.to_str() {
            Some("--user") => {
                let user = value.into_string();
                order.user = Some(user.map_err(|_| ProgramError::Usage("bad user".into()))?);
            }
            Some("--fill") => order.fill = Some(value.into()),
            Some("--report") => order.report = Some(value.into()),
            _ => return Err(unknown(&name)),
        }
    }
    print(&prepare::prepare(&order)?)
}

fn erase(mut arguments: impl Iterator<Item = OsString>) -> Result<(), ProgramError> {
    let (Some(dir), None) = (arguments.next(), arguments.next()) else {
        return Err(ProgramError::Usage("erase takes a directory".into()));
    };
    let mut named = 0;
    let mut tell = |line: &str| {
        if named < MAX_NAMED {
            diagnostics::note(line);
        }
        named += 1;
    };
    match files::erase(dir.as_ref(), &mut tell).map_err(ProgramError::Erase)? {
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
        (Some(dir), None) => connect::run(dir.as_ref()).map_err(ProgramError::Connect),
        _ => Err(ProgramError::Usage("connect takes the socket's directory".into())),
    }
}

fn serve(arguments: impl Iterator<Item = OsString>) -> Result<(), ProgramError> {
    let options = Options::parse(arguments)?;
    if options.parent == Parent::Leave {
        detach();
    }
    let inheritance = options.open()?;
    serve::run(inheritance).map_err(|error| ProgramError::Serve(error.to_string()))
}

/// Where the settings are.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    Descriptor(RawFd),
    File(PathBuf),
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    settings: Source,
    ready: Option<RawFd>,
    hold: Option<RawFd>,
    parent: Parent,
}

/// What becomes of the tie to the process that started this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    Stay,
    Leave,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, ProgramError> {
        let (mut settings, mut ready, mut hold, mut parent) = (None, None, None, Parent::Stay);
        while let Some(name) = arguments.next() {
            if name == "--detach" {
                parent = Parent::Leave;
                continue;
            }
            let value = value_of(&name, arguments.next())?;
            match name.to_str() {
                Some("--settings-fd") => settings = Some(Source::Descriptor(number(&value)?)),
                Some("--settings") => settings = Some(Source::File(value.into())),
                Some("--ready-fd") => ready = Some(number(&value)?),
                Some("--hold-fd") => hold = Some(number(&value)?),
                _ => return Err(unknown(&name)),
            }
        }
        let settings = settings.ok_or_else(|| ProgramError::Usage("no settings given".into()))?;
        Ok(Self { settings, ready, hold, parent })
    }

    fn open(self) -> Result<Inheritance, ProgramError> {
        Ok(Inheritance {
            settings: match self.settings {
                Source::Descriptor(fd) => take_over(fd)?.into(),
                Source::File(path) => {
                    File::open(&path).map_err(|source| ProgramError::Settings { path, source })?
                }
            },
            ready: self.ready.map(take_over).transpose()?.map(File::from),
            hold: self.hold.map(take_over).transpose()?,
        })
    }
}

/// Goes on as a child that belongs to no terminal and no parent: whoever
/// started this process sees it end at once and has nothing to reap later.
fn detach() {
    // SAFETY: this process has one thread still, so the child is a whole copy
    // of it; the parent ends without running anything of its own.
    unsafe {
        match libc::fork() {
            // Without a child of its own it serves as it is.
            -1 | 0 => {}
            _ => libc::_exit(0),
        }
    }
    // It fails only for the leader of a group, which a child is not.
    rustix::process::setsid().ok();
}

fn number(text: &OsStr) -> Result<RawFd, ProgramError> {
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|fd| *fd >= 0);
    number
        .ok_or_else(|| ProgramError::Usage(format!("{} is no descriptor", text.to_string_lossy())))
}

/// Takes over a descriptor that this process was started with. It gets a number
/// of its own, so that one of the standard streams can be replaced later.
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

/// Keeps the allocator to one arena: a guest's threads are few and short-lived,
/// and memory they free should serve the others.
fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it is called before any other thread exists.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, ProgramError> {
        Options::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn options_are_understood() {
        let all = ["--settings-fd", "0", "--ready-fd", "1", "--detach", "--hold-fd", "5"];
        let expected = Options {
            settings: Source::Descriptor(0),
            ready: Some(1),
            hold: Some(5),
            parent: Parent::Leave,
        };
        assert_eq!(parse(&all).unwrap(), expected);
        let options = parse(&["--settings", "/x"]).unwrap();
        assert_eq!(options.settings, Source::File("/x".into()));
        assert_eq!(options.parent, Parent::Stay);
    }

    #[test]
    fn wrong_options_are_said_to_be_wrong() {
        for wrong in [&[][..], &["--settings"], &["--settings-fd", "-1"], &["--what", "1"]] {
            assert!(matches!(parse(wrong), Err(ProgramError::Usage(_))), "{wrong:?}");
        }
    }
}
