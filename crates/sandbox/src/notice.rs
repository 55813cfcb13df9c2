//! Notices for a caller: what it should know about a sandbox it was given, and which long
//! steps are under way.

use std::fmt;
use std::sync::Arc;

use crate::Drift;
use crate::backend::Remedy;
use crate::key::quoted;

/// Something that a caller should know about a sandbox it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The sandbox was just made on a backend that does not isolate.
    NoIsolation,
    /// Settings have changed since the instance was made.
    Drift(Vec<Drift>),
    /// The instance could not be started and was rebuilt.
    Recreated {
        /// Why the start failed.
        reason: String,
    },
    /// Settings had changed and the instance was made, or started, with them:
    /// again, or because it was not running.
    Applied(Vec<Drift>),
    /// Another instance of the same sandbox runs and has jobs; it was left
    /// alone.
    Duplicate {
        /// What its backend knows it by.
        name: String,
    },
    /// The backend has something to say about the new instance.
    Remark(String),
}

/// What the sentences about one sandbox depend on. Every front end uses the same
/// sentences: [`Engine::wording`](crate::Engine::wording), [`Sandbox::notice_texts`](crate::Sandbox::notice_texts).
#[derive(Debug, Clone, Copy)]
pub struct Wording<'a> {
    task: &'a str,
    backend: &'a str,
    /// How changed settings reach it.
    remedy: Remedy,
    /// Whether its workspace and home outlive its instance.
    persistent: bool,
}

impl<'a> Wording<'a> {
    pub(crate) fn new(task: &'a str, backend: &'a str, remedy: Remedy, persistent: bool) -> Self {
        Self { task, backend, remedy, persistent }
    }
    /// Returns a notice as a sentence.
    #[must_use]
    pub fn describe(self, notice: &Notice) -> String {
        let Self { task, backend, .. } = self;
        match notice {
            Notice::NoIsolation => format!(
                "sandbox {task} runs on the backend {backend}: commands run as you, without isolation; \
                 `vestal doctor` says what isolation takes here"
            ),
            Notice::Drift(drift) => {
                let made = if self.is_restarted() { "started" } else { "made" };
                format!(
                    "settings changed since sandbox {task} was {made}: {}; {}",
                    changes(drift),
                    self.remedy(),
                )
            }
            Notice::Applied(drift) => format!(
                "sandbox {task} was {} with changed settings: {}{}",
                if self.is_restarted() { "started" } else { "rebuilt" },
                changes(drift),
                loosened(drift),
            ),
            Notice::Recreated { reason } => format!(
                "sandbox {task} could not be started and was rebuilt, {}: {reason}",
                if self.persistent { "its workspace and home kept" } else { "its files lost" },
            ),
            Notice::Duplicate { name } => format!(
                "another instance of sandbox {task} has jobs running and was left alone: {name}; \
                 it is stopped at the next use after they have ended"
            ),
            Notice::Remark(text) => text.clone(),
        }
    }

    /// Returns what applies changed settings.
    #[must_use]
    pub fn remedy(self) -> String {
        let task = quoted(self.task);
        if self.is_restarted() {
            let lost = " (workspace and home are in memory and go)";
            let lost = if self.persistent { "" } else { lost };
            return format!("to apply them{lost}: vestal stop {task}");
        }
        let files = if self.persistent { "only workspace and home stay" } else { "no file stays" };
        format!("to rebuild it with them ({files}): vestal rebuild {task}")
    }

    /// Returns whether changed settings are taken at the next start.
    fn is_restarted(self) -> bool {
        self.remedy == Remedy::Restart
    }
}

/// Says which changes isolate less.
fn loosened(drift: &[Drift]) -> String {
    let keys: Vec<&str> =
        drift.iter().filter(|drift| drift.loosens).map(|drift| drift.key.as_str()).collect();
    if keys.is_empty() {
        return String::new();
    }
    format!("; it may be isolated less than before: {}", keys.join(", "))
}

/// Lists settings with the values they had and have.
fn changes(drift: &[Drift]) -> String {
    drift.iter().map(Drift::to_string).collect::<Vec<_>>().join(", ")
}

/// A step that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An image is being fetched.
    Pulling {
        /// Its name.
        image: String,
        /// Layers that are there.
        layers_done: usize,
        /// Layers known so far.
        layers: usize,
        /// Bytes that have come.
        bytes: u64,
        /// Bytes to come in all, as far as known.
        total: u64,
    },
    /// An image has been fetched.
    Pulled {
        /// Its name.
        image: String,
    },
    /// Files are being copied.
    Copying {
        /// What is being copied, for people.
        what: String,
        /// Files that are there.
        files: u64,
        /// Bytes that are there.
        bytes: u64,
        /// Bytes in all, once that is known.
        total: Option<u64>,
    },
    /// Processes that jobs left behind when they ended are about to be ended.
    EndingProcesses {
        /// How many.
        processes: u64,
        /// The commands that left them, the oldest first.
        commands: Vec<String>,
    },
    /// A container is being prepared or started.
    Starting {
        /// What is being done, for people.
        what: String,
    },
}

/// Whom to tell. Cloning is cheap.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressSink {
    /// Returns a sink that calls `tell`, which must not block.
    pub fn new(report: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    /// Reports a step.
    pub fn report(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl Default for ProgressSink {
    /// Returns a sink that nobody listens to.
    fn default() -> Self {
        Self::new(drop)
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(loosens: bool) -> Drift {
        let now = Some("1".into());
        Drift { key: "terminal.k".into(), was: None, now, tightens: false, loosens }
    }

    fn drift(remedy: Remedy, persistent: bool) -> String {
        let drift = change(false);
        let about = Wording { task: "a b", backend: "any", remedy, persistent };
        about.describe(&Notice::Drift(vec![drift]))
    }

    #[test]
    fn changed_settings_are_reported_with_what_applies_them() {
        let restarted = drift(Remedy::Restart, true);
        assert!(
            restarted.ends_with(
                "was started: terminal.k (default → 1); to apply them: vestal stop 'a b'"
            ),
            "{restarted}"
        );
        let made = drift(Remedy::Recreate, true);
        assert!(made.contains("was made: terminal.k"), "{made}");
        assert!(made.contains("only workspace and home stay"), "{made}");
        assert!(made.ends_with(": vestal rebuild 'a b'"), "{made}");
        assert!(drift(Remedy::Recreate, false).contains("no file stays"));
        let in_memory = drift(Remedy::Restart, false);
        assert!(
            in_memory.ends_with("(workspace and home are in memory and go): vestal stop 'a b'"),
            "{in_memory}"
        );
    }

    #[test]
    fn settings_taken_at_a_start_are_reported_and_those_that_isolate_less_are_named() {
        let (remedy, persistent) = (Remedy::Restart, true);
        let about = Wording { task: "web", backend: "any", remedy, persistent };
        let reported = |loosens| about.describe(&Notice::Applied(vec![change(loosens)]));
        let taken = "sandbox web was started with changed settings: terminal.k (default → 1)";
        assert_eq!(reported(false), taken);
        let less = "; it may be isolated less than before: terminal.k";
        assert_eq!(reported(true), format!("{taken}{less}"));
    }
}
