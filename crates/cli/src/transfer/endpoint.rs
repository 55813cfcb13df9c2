//! The two sides of a copy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use vestal_sandbox::{InvalidTask, Task};

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `task:path`.
    Sandbox { task: Task, path: PathBuf },
    /// A path on this machine.
    Host(PathBuf),
    /// `-`: standard input or standard output.
    Stdio,
}

impl Endpoint {
    /// Reads one side. A `/` before the first `:` makes it a path on this
    /// machine, so `./a:b` names a file here; unless it is that of a task with
    /// its directory, as in `default@/srv/app:file`.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, InvalidTask> {
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
            [] => Task::default_task(),
            name => String::from_utf8_lossy(name).parse()?,
        };
        let path = match &bytes[colon + 1..] {
            [] => PathBuf::from("."),
            path => PathBuf::from(OsString::from_vec(path.to_vec())),
        };
        Ok(Self::Sandbox { task, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Endpoint {
        Endpoint::parse(OsStr::new(text)).unwrap()
    }

    #[test]
    fn a_name_before_a_colon_is_a_task() {
        let sandbox = |task: &str, path: &str| Endpoint::Sandbox {
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
        assert_eq!(parse("file"), Endpoint::Host("file".into()));
        assert_eq!(parse("./a:b"), Endpoint::Host("./a:b".into()));
        assert_eq!(parse("/x:y"), Endpoint::Host("/x:y".into()));
        for path in ["web@/srv/a", "@/x:y", "./web@/srv/a:b"] {
            assert_eq!(parse(path), Endpoint::Host(path.into()));
        }
        assert_eq!(parse("-"), Endpoint::Stdio);
    }
}
