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
    /// A path on this machine.
    Host(PathBuf),
    /// `-`: standard input or standard output.
    Stdio,
}

impl TransferEndpoint {
    /// Reads one side. A `/` before the first `:` makes it a path on this
    /// machine, so `./a:b` names a file here; unless it is that of a task with
    /// its directory, as in `default@/srv/app:file`.
    pub fn parse(text: &OsStr) -> Result<Self, InvalidTask> {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Ok(Self::Stdio);
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
            name => String::from_utf8_lossy(name).parse()?,
        };
        let path = match &bytes[colon + 1..] {
            [] => PathBuf::from("."),
            path => PathBuf::from(OsString::from_vec(path.to_vec())),
        };
        Ok(Self::Sandbox { task, path })
    }
}

/// What goes where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferPlan {
    /// From this machine into a sandbox, which is made if there is none.
    Upload {
        /// The file or directory; none: standard input.
        from: Option<PathBuf>,
        /// The task of the sandbox.
        task: TaskName,
        /// The path in it.
        to: PathBuf,
    },
    /// From a sandbox, which has to be there, to this machine.
    Download {
        /// The task of the sandbox.
        task: TaskName,
        /// The path in it.
        from: PathBuf,
        /// The file or directory; none: standard output.
        to: Option<PathBuf>,
    },
}

/// Why two sides make no copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferError {
    /// One side names a task that cannot be one.
    Task(InvalidTask),
    /// Both sides are in a sandbox.
    TwoSandboxes,
    /// Neither side is in a sandbox.
    NoSandbox,
}

impl TransferPlan {
    /// Returns what the two sides of a copy, as they were typed, come to.
    pub fn new(source: &OsStr, destination: &OsStr) -> Result<Self, TransferError> {
        let parse = |text: &OsStr| TransferEndpoint::parse(text).map_err(TransferError::Task);
        match (parse(source)?, parse(destination)?) {
            (TransferEndpoint::Sandbox { .. }, TransferEndpoint::Sandbox { .. }) => {
                Err(TransferError::TwoSandboxes)
            }
            (TransferEndpoint::Sandbox { task, path: from }, TransferEndpoint::Host(to)) => {
                Ok(Self::Download { task, from, to: Some(to) })
            }
            (TransferEndpoint::Sandbox { task, path: from }, TransferEndpoint::Stdio) => {
                Ok(Self::Download { task, from, to: None })
            }
            (TransferEndpoint::Host(from), TransferEndpoint::Sandbox { task, path: to }) => {
                Ok(Self::Upload { from: Some(from), task, to })
            }
            (TransferEndpoint::Stdio, TransferEndpoint::Sandbox { task, path: to }) => {
                Ok(Self::Upload { from: None, task, to })
            }
            (
                TransferEndpoint::Host(_) | TransferEndpoint::Stdio,
                TransferEndpoint::Host(_) | TransferEndpoint::Stdio,
            ) => Err(TransferError::NoSandbox),
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
            Self::NoSandbox => Some("write it as task:path"),
        }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(error) => error.fmt(f),
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
    fn a_copy_has_one_side_in_a_sandbox() {
        let web: TaskName = "web".parse().unwrap();
        let upload = TransferPlan::Upload { from: None, task: web.clone(), to: "a".into() };
        assert_eq!(plan("-", "web:a"), Ok(upload));
        let to = Some(PathBuf::from("b"));
        let download = TransferPlan::Download { task: web, from: "a".into(), to };
        assert_eq!(plan("web:a", "b"), Ok(download));
        assert!(plan("web:a", "-").unwrap().is_printed());
        assert_eq!(plan("web:a", "api:a"), Err(TransferError::TwoSandboxes));
        assert_eq!(plan("a", "-"), Err(TransferError::NoSandbox));
    }
}
