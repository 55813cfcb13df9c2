//! What went wrong, and at which step.

use std::fmt::Write as _;
use std::io;

use crate::json::quoted;

/// Longest text of a failure: what is said of one fits the reader's line.
const MAX_TEXT: usize = 1024;

/// A step of building a sandbox. The names are part of the interface: the host
/// tells by them what is missing and what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Plan,
    Descriptors,
    UserNamespace,
    MapUsers,
    Namespaces,
    Cgroup,
    Record,
    PrivateMounts,
    Source,
    Target,
    Root,
    Bind,
    Layers,
    Memory,
    Processes,
    Devices,
    Link,
    Hostname,
    Loopback,
    Pivot,
    Credentials,
    MaxProcesses,
    Capabilities,
    NoNewPrivileges,
    Landlock,
    Seccomp,
    Exec,
    Ended,
}

impl Step {
    /// Returns its name in what the stage says.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Descriptors => "descriptors",
            Self::UserNamespace => "user-namespace",
            Self::MapUsers => "map-users",
            Self::Namespaces => "namespaces",
            Self::Cgroup => "cgroup",
            Self::Record => "record",
            Self::PrivateMounts => "private-mounts",
            Self::Source => "source",
            Self::Target => "target",
            Self::Root => "mount-root",
            Self::Bind => "mount-bind",
            Self::Layers => "mount-layers",
            Self::Memory => "mount-memory",
            Self::Processes => "mount-proc",
            Self::Devices => "mount-dev",
            Self::Link => "link",
            Self::Hostname => "hostname",
            Self::Loopback => "loopback",
            Self::Pivot => "pivot",
            Self::Credentials => "credentials",
            Self::MaxProcesses => "max-processes",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no-new-privileges",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Exec => "exec",
            Self::Ended => "ended",
        }
    }
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    step: Step,
    target: Option<String>,
    errno: Option<i32>,
    message: String,
}

impl Failure {
    /// Returns a failure that the kernel knows nothing of.
    pub(crate) fn new(step: Step, message: impl Into<String>) -> Self {
        Self { step, target: None, errno: None, message: message.into() }
    }

    /// Returns the failure of a call.
    pub(crate) fn of(step: Step, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self { step, target: None, errno: error.raw_os_error(), message: error.to_string() }
    }

    /// Says what it happened to: a path of the sandbox, or of the host.
    pub(crate) fn at(mut self, target: &[u8]) -> Self {
        self.target = Some(String::from_utf8_lossy(target).into_owned());
        self
    }

    /// Says more than the kernel's number does.
    pub(crate) fn because(mut self, words: &str) -> Self {
        write!(self.message, ": {words}").ok();
        self
    }

    /// Returns it as a line of JSON, without its end.
    pub(crate) fn json(&self) -> String {
        let target = self.target.as_deref().map_or_else(|| "null".into(), cut);
        let errno = self.errno.map_or_else(|| "null".into(), |errno| errno.to_string());
        format!(
            "{{\"step\":{},\"target\":{target},\"errno\":{errno},\"message\":{}}}",
            quoted(self.step.name()),
            cut(&self.message),
        )
    }
}

/// A failure in the words of the process that it happened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told(String);

impl Told {
    /// Takes over what another process said.
    pub(crate) fn by(said: &[u8]) -> Self {
        Self(String::from_utf8_lossy(said).into_owned())
    }

    /// Returns the line for whoever started the stage.
    pub(crate) fn line(&self) -> String {
        format!("error: {}\n", self.0)
    }
}

impl From<Failure> for Told {
    fn from(failure: Failure) -> Self {
        Self(failure.json())
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    quoted(&text[..end])
}

/// Returns what makes a failed call the failure of a step.
pub(crate) fn failed<E: Into<io::Error>>(step: Step) -> impl FnOnce(E) -> Failure {
    move |error| Failure::of(step, error)
}

/// Returns what makes a failed call the failure of a step with a path.
pub(crate) fn failed_at<E: Into<io::Error>>(
    step: Step,
    target: &[u8],
) -> impl FnOnce(E) -> Failure {
    move |error| Failure::of(step, error).at(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_line_of_json() {
        let denied = Failure::of(Step::Processes, io::Error::from_raw_os_error(1)).at(b"/proc");
        assert_eq!(
            denied.json(),
            "{\"step\":\"mount-proc\",\"target\":\"/proc\",\"errno\":1,\
             \"message\":\"Operation not permitted (os error 1)\"}"
        );
        let plain = Failure::new(Step::Plan, "no\nplan").because("it is \"empty\"");
        assert_eq!(
            plain.json(),
            "{\"step\":\"plan\",\"target\":null,\"errno\":null,\
             \"message\":\"no\\u000aplan: it is \\\"empty\\\"\"}"
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = Failure::new(Step::Plan, "\u{e4}".repeat(5000)).at(&[b'x'; 5000]);
        assert!(long.json().len() < 4096, "{}", long.json().len());
        let odd = Failure::new(Step::Plan, format!("x{}", "\u{e4}".repeat(5000)));
        assert!(odd.json().contains('\u{e4}'));
    }
}
