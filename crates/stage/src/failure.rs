//! What went wrong and at which step, as a line of JSON.

use std::fmt::Write as _;
use std::io;

/// Maximum length of a text, so that a failure fits into one line of the reader.
const MAX_TEXT: usize = 1024;

/// A step of building a sandbox. The names are part of the interface: the host
/// uses them to explain what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuildStep {
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
    Overlay,
    Tmpfs,
    Proc,
    Dev,
    Symlink,
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

impl BuildStep {
    /// Returns the name used in results.
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
            Self::Overlay => "mount-layers",
            Self::Tmpfs => "mount-memory",
            Self::Proc => "mount-proc",
            Self::Dev => "mount-dev",
            Self::Symlink => "link",
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
pub(crate) struct StepFailure {
    step: BuildStep,
    target: Option<String>,
    errno: Option<i32>,
    message: String,
}

impl StepFailure {
    /// Returns a failure without a system error.
    pub(crate) fn new(step: BuildStep, message: impl Into<String>) -> Self {
        Self { step, target: None, errno: None, message: message.into() }
    }

    /// Returns the failure of a system call.
    pub(crate) fn of(step: BuildStep, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self { step, target: None, errno: error.raw_os_error(), message: error.to_string() }
    }

    /// Adds the path concerned, in the sandbox or on the host.
    pub(crate) fn at(mut self, target: &[u8]) -> Self {
        self.target = Some(String::from_utf8_lossy(target).into_owned());
        self
    }

    /// Adds a detail to the message.
    pub(crate) fn with_detail(mut self, words: &str) -> Self {
        write!(self.message, ": {words}").ok();
        self
    }

    /// Returns the failure as JSON.
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

/// A failure as reported by the process in which it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedFailure(String);

impl ReportedFailure {
    /// Takes the JSON of another process.
    pub(crate) fn from_json(json: &[u8]) -> Self {
        Self(String::from_utf8_lossy(json).into_owned())
    }

    /// Returns the result line.
    pub(crate) fn line(&self) -> String {
        format!("error: {}\n", self.0)
    }
}

impl From<StepFailure> for ReportedFailure {
    fn from(failure: StepFailure) -> Self {
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

/// Returns a function that turns an error into the failure of a step.
pub(crate) fn failed<E: Into<io::Error>>(step: BuildStep) -> impl FnOnce(E) -> StepFailure {
    move |error| StepFailure::of(step, error)
}

/// Returns a function that turns an error into the failure of a step with a path.
pub(crate) fn failed_at<E: Into<io::Error>>(
    step: BuildStep,
    target: &[u8],
) -> impl FnOnce(E) -> StepFailure {
    move |error| StepFailure::of(step, error).at(target)
}

/// Returns text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c.is_control() => {
                write!(json, "\\u{:04x}", u32::from(c)).ok();
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_line_of_json() {
        let denied = StepFailure::of(BuildStep::Proc, io::Error::from_raw_os_error(1)).at(b"/proc");
        assert_eq!(
            denied.json(),
            "{\"step\":\"mount-proc\",\"target\":\"/proc\",\"errno\":1,\
             \"message\":\"Operation not permitted (os error 1)\"}"
        );
        let plain = StepFailure::new(BuildStep::Plan, "no\nplan").with_detail("it is \"empty\"");
        assert_eq!(
            plain.json(),
            "{\"step\":\"plan\",\"target\":null,\"errno\":null,\
             \"message\":\"no\\u000aplan: it is \\\"empty\\\"\"}"
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = StepFailure::new(BuildStep::Plan, "\u{e4}".repeat(5000)).at(&[b'x'; 5000]);
        assert!(long.json().len() < 4096, "{}", long.json().len());
        let odd = StepFailure::new(BuildStep::Plan, format!("x{}", "\u{e4}".repeat(5000)));
        assert!(odd.json().contains('\u{e4}'));
    }

    #[test]
    fn texts_are_quoted_as_json() {
        assert_eq!(quoted("a\"b\\c\n\u{e4}"), "\"a\\\"b\\\\c\\u000a\u{e4}\"");
        assert_eq!(quoted("d\u{1}\u{e9}"), "\"d\\u0001\u{e9}\"");
    }
}
