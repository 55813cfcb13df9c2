//! Copies between this machine and sandboxes: what the two sides of `cp` name, and what may go where.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vestal_sandbox::{InvalidTask, TaskName};

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferEndpoint {
    /// `task:path`.
    Sandbox {
        /// The task; without a name the default one.
        task: TaskName,
        /// The path in its sandbox.
        path: PathBuf,
    },
    /// `ssh://host/path`: a file of a machine that is reached over ssh, in no sandbox.
    Machine {
        /// The machine.
        address: MachineAddress,
        /// The path there, which is absolute.
        path: PathBuf,
    },
    /// A path on this machine.
    Host(PathBuf),
    /// `-`: standard input or standard output.
    Stdio,
}

impl TransferEndpoint {
    /// Reads one side. A `/` before the first `:` makes it a path on this
    /// machine, so `./a:b` names a file here; unless it is that of a task with
    /// its directory, as in `default@/srv/app:file`.
    pub fn parse(text: &OsStr) -> Result<Self, TransferError> {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Ok(Self::Stdio);
        }
        if let Some(rest) = bytes.strip_prefix(b"ssh://") {
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let (address, path) = rest.split_at(end);
            let address = MachineAddress::parse(&String::from_utf8_lossy(address));
            let path = match path {
                [] => PathBuf::from("/"),
                path => PathBuf::from(OsString::from_vec(path.to_vec())),
            };
            return Ok(Self::Machine { address: address.ok_or(TransferError::Address)?, path });
        }
        let find = |wanted: &[u8]| bytes.iter().position(|byte| wanted.contains(byte));
        let colon = match find(b":/") {
            Some(at) if bytes[at] == b':' => Some(at),
            Some(at) if at > 1 && bytes[at - 1] == b'@' => find(b":"),
            _ => None,
        };
        let Some(colon) = colon else {
            return Ok(Self::Host(text.into()));
        };
        let task = match &bytes[..colon] {
            [] => TaskName::default_task(),
            name => String::from_utf8_lossy(name).parse().map_err(TransferError::Task)?,
        };
        let path = match &bytes[colon + 1..] {
            [] => PathBuf::from("."),
            path => PathBuf::from(OsString::from_vec(path.to_vec())),
        };
        Ok(Self::Sandbox { task, path })
    }
}

/// A machine that is reached over ssh, as in `ssh://user@host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineAddress {
    /// The host, as `ssh` takes it.
    pub host: String,
    /// The user; none: as the settings and `ssh_config` say.
    pub user: Option<String>,
    /// The port, likewise.
    pub port: Option<u16>,
}

impl MachineAddress {
    /// Reads an address; nothing if it is none.
    fn parse(text: &str) -> Option<Self> {
        let (user, rest) = match text.rsplit_once('@') {
            Some(("", _)) => return None,
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':')?)),
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map(|port| port.parse().ok().filter(|port| *port > 0));
        let port = match port {
            Some(None) => return None,
            other => other.flatten(),
        };
        (!host.is_empty()).then(|| Self { host: host.to_owned(), user, port })
    }
}

/// Where the side of a copy is that is not simply on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferPlace {
    /// In the sandbox of a task.
    Task(TaskName),
    /// On another machine, in no sandbox.
    Machine(MachineAddress),
}

/// What goes where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferPlan {
    /// From this machine into a sandbox, which is made if there is none, or to another machine.
    Upload {
        /// The file or directory; none: standard input.
        from: Option<PathBuf>,
        /// The other side.
        place: TransferPlace,
        /// The path there.
        to: PathBuf,
    },
    /// From a sandbox, which has to be there, or another machine, to this machine.
    Download {
        /// The other side.
        place: TransferPlace,
        /// The path there.
        from: PathBuf,
        /// The file or directory; none: standard output.
        to: Option<PathBuf>,
    },
}

/// One side of a copy, with its path; none is standard input or output.
enum Side {
    Here(Option<PathBuf>),
    There(TransferPlace, PathBuf),
}

/// Why two sides make no copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferError {
    /// One side names a task that cannot be one.
    Task(InvalidTask),
    /// What follows `ssh://` is no address.
    Address,
    /// Both sides are in a sandbox.
    TwoSandboxes,
    /// Neither side is in a sandbox.
    NoSandbox,
}

impl TransferPlan {
    /// Returns what the two sides of a copy, as they were typed, come to.
    pub fn new(source: &OsStr, destination: &OsStr) -> Result<Self, TransferError> {
        let parse = |text: &OsStr| {
            Ok::<_, TransferError>(match TransferEndpoint::parse(text)? {
                TransferEndpoint::Sandbox { task, path } => {
                    Side::There(TransferPlace::Task(task), path)
                }
                TransferEndpoint::Machine { address, path } => {
                    Side::There(TransferPlace::Machine(address), path)
                }
                TransferEndpoint::Host(path) => Side::Here(Some(path)),
                TransferEndpoint::Stdio => Side::Here(None),
            })
        };
        match (parse(source)?, parse(destination)?) {
            (Side::There(..), Side::There(..)) => Err(TransferError::TwoSandboxes),
            (Side::There(place, from), Side::Here(to)) => Ok(Self::Download { place, from, to }),
            (Side::Here(from), Side::There(place, to)) => Ok(Self::Upload { from, place, to }),
            (Side::Here(_), Side::Here(_)) => Err(TransferError::NoSandbox),
        }
    }

    /// Returns the machine that the other side is on, where that is in no sandbox.
    pub fn machine(&self) -> Option<&MachineAddress> {
        match self {
            Self::Upload { place, .. } | Self::Download { place, .. } => match place {
                TransferPlace::Machine(address) => Some(address),
                TransferPlace::Task(_) => None,
            },
        }
    }

    /// Reports whether what is copied goes to standard output.
    pub fn is_printed(&self) -> bool {
        matches!(self, Self::Download { to: None, .. })
    }
}

impl TransferError {
    /// Returns what to do about it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Task(_) => None,
            Self::TwoSandboxes => Some(
                "from sandbox to sandbox, through here: vestal cp a:file - | vestal cp - b:file",
            ),
            Self::NoSandbox => Some("write it as task:path, or as ssh://host/path"),
            Self::Address => Some("write it as ssh://host/path or ssh://user@host:port/path"),
        }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(error) => error.fmt(f),
            Self::Address => f.write_str("what follows ssh:// is not the address of a machine"),
            Self::TwoSandboxes => f.write_str("one side must be on this machine"),
            Self::NoSandbox => f.write_str("neither side is in a sandbox"),
        }
    }
}

impl std::error::Error for TransferError {}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedView {
    /// How many files and links.
    pub files: u64,
    /// How many bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> TransferEndpoint {
        TransferEndpoint::parse(OsStr::new(text)).unwrap()
    }

    fn plan(source: &str, destination: &str) -> Result<TransferPlan, TransferError> {
        TransferPlan::new(OsStr::new(source), OsStr::new(destination))
    }

    #[test]
    fn a_name_before_a_colon_is_a_task() {
        let sandbox = |task: &str, path: &str| TransferEndpoint::Sandbox {
            task: task.parse().unwrap(),
            path: path.into(),
        };
        assert_eq!(parse("web:/etc/hosts"), sandbox("web", "/etc/hosts"));
        assert_eq!(parse(":a:b"), sandbox("default", "a:b"));
        assert_eq!(parse("web:"), sandbox("web", "."));
        assert_eq!(parse("web:~/x"), sandbox("web", "~/x"));
        assert_eq!(parse("web@/srv/a:b/c:d"), sandbox("web@/srv/a", "b/c:d"));
    }

    #[test]
    fn everything_else_is_a_path_here() {
        assert_eq!(parse("file"), TransferEndpoint::Host("file".into()));
        assert_eq!(parse("./a:b"), TransferEndpoint::Host("./a:b".into()));
        assert_eq!(parse("/x:y"), TransferEndpoint::Host("/x:y".into()));
        for path in ["web@/srv/a", "@/x:y", "./web@/srv/a:b"] {
            assert_eq!(parse(path), TransferEndpoint::Host(path.into()));
        }
        assert_eq!(parse("-"), TransferEndpoint::Stdio);
    }

    #[test]
    fn a_machine_is_named_by_its_address() {
        let machine = |user: Option<&str>, host: &str, port: Option<u16>, path: &str| {
            let user = user.map(str::to_owned);
            let address = MachineAddress { host: host.to_owned(), user, port };
            TransferEndpoint::Machine { address, path: path.into() }
        };
        assert_eq!(parse("ssh://cellar/var/x"), machine(None, "cellar", None, "/var/x"));
        assert_eq!(
            parse("ssh://me@cellar:2222/a:b"),
            machine(Some("me"), "cellar", Some(2222), "/a:b")
        );
        assert_eq!(parse("ssh://[fe80::1]:22/x"), machine(None, "fe80::1", Some(22), "/x"));
        assert_eq!(parse("ssh://cellar"), machine(None, "cellar", None, "/"));
        for wrong in
            ["ssh://", "ssh:///x", "ssh://@h/x", "ssh://h:0/x", "ssh://h:ssh/x", "ssh://me@/x"]
        {
            let refused = TransferEndpoint::parse(OsStr::new(wrong));
            assert_eq!(refused, Err(TransferError::Address), "{wrong}");
        }
        // A task of that name is still one.
        let task = TransferEndpoint::Sandbox { task: "ssh".parse().unwrap(), path: "/x".into() };
        assert_eq!(parse("ssh:/x"), task);
    }

    #[test]
    fn a_copy_has_one_side_in_a_sandbox() {
        let web: TaskName = "web".parse().unwrap();
        let web = TransferPlace::Task(web);
        let upload = TransferPlan::Upload { from: None, place: web.clone(), to: "a".into() };
        assert_eq!(plan("-", "web:a"), Ok(upload));
        let to = Some(PathBuf::from("b"));
        let download = TransferPlan::Download { place: web, from: "a".into(), to };
        assert_eq!(plan("web:a", "b"), Ok(download));
        assert!(plan("web:a", "-").unwrap().is_printed());
        assert_eq!(plan("web:a", "api:a"), Err(TransferError::TwoSandboxes));
        assert_eq!(plan("a", "-"), Err(TransferError::NoSandbox));
    }
}
