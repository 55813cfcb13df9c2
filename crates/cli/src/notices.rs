//! What there is to know about a sandbox, in words.

use vestal_sandbox::{Drift, Notice};

use crate::values::quoted;

/// A sandbox that something is said about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) task: &'a str,
    pub(crate) backend: &'a str,
    /// Whether its workspace and home outlive its instance.
    pub(crate) persistent: bool,
}

impl About<'_> {
    /// Returns a notice in words.
    pub(crate) fn describe(self, notice: &Notice) -> String {
        let Self { task, backend, .. } = self;
        match notice {
            Notice::NoIsolation => format!(
                "sandbox {task} runs on the backend {backend}: commands run as you, without isolation"
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
                "sandbox {task} was {} anew because settings changed: {}",
                if self.is_restarted() { "started" } else { "made" },
                changes(drift),
            ),
            Notice::Recreated { reason } => format!(
                "sandbox {task} could not be started and was made anew, {}: {reason}",
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
    pub(crate) fn remedy(self) -> String {
        let task = quoted(self.task);
        if self.is_restarted() {
            return format!("to apply them: vestal stop {task}");
        }
        let files = if self.persistent { "only workspace and home stay" } else { "no file stays" };
        format!(
            "to make it anew with them ({files}): \
             vestal run -t {task} --set terminal.on_config_change=recreate true"
        )
    }

    /// Returns whether changed settings are taken at the next start. All but
    /// plain processes are made with theirs.
    fn is_restarted(self) -> bool {
        self.backend == "local"
    }
}

/// Returns what has changed from what to what.
pub(crate) fn changes(drift: &[Drift]) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "default".to_owned());
    drift
        .iter()
        .map(|drift| format!("{} ({} → {})", drift.key, value(&drift.was), value(&drift.now)))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(backend: &str, persistent: bool) -> String {
        let drift =
            Drift { key: "terminal.k".into(), was: None, now: Some("1".into()), tightens: false };
        About { task: "a b", backend, persistent }.describe(&Notice::Drift(vec![drift]))
    }

    #[test]
    fn changed_settings_are_told_with_what_applies_them_on_that_backend() {
        let local = drift("local", true);
        assert!(local.contains("terminal.k (default → 1); to apply them: vestal stop 'a b'"));
        let docker = drift("docker", true);
        assert!(docker.contains("was made: terminal.k"), "{docker}");
        assert!(docker.contains("only workspace and home stay"), "{docker}");
        assert!(
            docker.ends_with("vestal run -t 'a b' --set terminal.on_config_change=recreate true")
        );
        assert!(drift("docker", false).contains("no file stays"));
    }
}
