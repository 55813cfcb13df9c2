//! What can go wrong with instances.

use vestal_config::ConfigError;

/// A failure of a backend.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Nobody listens there.
    #[error("no guest answers in instance {id}")]
    NotListening {
        /// The instance.
        id: String,
    },
    /// Something listens that is not the guest.
    #[error("the process that answers for instance {id} is not its guest: {reason}")]
    Impostor {
        /// The instance.
        id: String,
        /// How that was noticed.
        reason: String,
    },
    /// The guest did not come up.
    #[error("the guest did not start: {reason}")]
    GuestFailed {
        /// The message of it or of the system.
        reason: String,
    },
    /// The instance can never be started again: nothing of it is left that
    /// another attempt could bring back.
    #[error("the instance cannot be started again: {reason}")]
    Unresumable {
        /// What is missing of it.
        reason: String,
    },
    /// It was made on another system than the settings name now.
    #[error("it was made on {was}, and the settings now say {now}")]
    OtherSystem {
        /// What its own files are changes to.
        was: String,
        /// What they would be laid on.
        now: String,
    },
    /// Something of the instance still runs.
    #[error("instance {id} does not end: {reason}")]
    WontEnd {
        /// The instance.
        id: String,
        /// What is in the way.
        reason: String,
    },
    /// The engine that makes instances cannot be reached.
    #[error("the container engine at {address} cannot be reached: {reason}")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What went wrong.
        reason: String,
        /// What to do about it.
        advice: String,
    },
    /// The machine that instances are on cannot be reached now.
    #[error("{host} cannot be reached: {reason}")]
    HostUnreachable {
        /// The machine.
        host: String,
        /// What went wrong.
        reason: String,
        /// What to do about it.
        advice: String,
    },
    /// The image is not there and cannot be obtained.
    #[error("image {image} is not available: {reason}")]
    NoImage {
        /// The image.
        image: String,
        /// Why.
        reason: String,
        /// What to do about it.
        advice: String,
    },
    /// A limit that the user asked for cannot be enforced here.
    #[error("{key} cannot be enforced here: {reason}")]
    Unenforceable {
        /// The setting.
        key: &'static str,
        /// Why.
        reason: String,
        /// What to do about it.
        advice: String,
    },
    /// A name that is needed belongs to something else.
    #[error("the name {name} is taken by a container that is not this sandbox's")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The engine refused.
    #[error("the container engine could not {action}: {message}")]
    Engine {
        /// What it was asked for.
        action: String,
        /// Its answer.
        message: String,
    },
    /// Changed settings could not be applied. The instance is the one there was.
    #[error(
        "the changed settings {settings} could not be applied, and the sandbox is kept as it was: \
         {source}"
    )]
    NotApplied {
        /// The settings, with the values they had and have.
        settings: String,
        /// Why.
        source: Box<BackendError>,
    },
    /// Something else that the user can mend.
    #[error("{problem}")]
    Advised {
        /// What is wrong.
        problem: String,
        /// What to do about it.
        advice: String,
    },
    /// A setting has a wrong value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl BackendError {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    /// Returns whether another attempt would run into the same: the engine is
    /// not there, or it is a setting that has to be mended.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::HostUnreachable { .. }
                | Self::NoImage { .. }
                | Self::Unenforceable { .. }
                | Self::Advised { .. }
                | Self::NotApplied { .. }
                | Self::Config(_)
        )
    }

    /// Returns whether the guest did not start because what guests kept of
    /// sessions and jobs is none of what it could use, now or later. A journal
    /// of a newer version, or one that cannot be read at this moment, is.
    pub(crate) fn is_unusable_state(&self) -> bool {
        matches!(self, Self::GuestFailed { reason } if reason.contains(vestal_wire::NOT_A_JOURNAL))
    }

    /// Returns whether a disk is full.
    pub fn is_out_of_space(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), StorageFull | QuotaExceeded)
                    || says_out_of_space(&source.to_string())
            }
            // What was done inside an instance, or by an engine, tells it in words.
            Self::Engine { message, .. } => says_out_of_space(message),
            Self::GuestFailed { reason } => says_out_of_space(reason),
            _ => false,
        }
    }

    /// Returns whether an engine answered, and refused.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Engine { .. })
    }

    /// Returns what to do about it, where that is known.
    pub fn advice(&self) -> Option<&str> {
        match self {
            Self::Unreachable { advice, .. }
            | Self::HostUnreachable { advice, .. }
            | Self::NoImage { advice, .. }
            | Self::Unenforceable { advice, .. }
            | Self::Advised { advice, .. } => Some(advice),
            Self::NotApplied { source, .. } => Some(source.advice().unwrap_or(
                "try again, or put the settings back (`vestal config show` says where they come \
                 from)",
            )),
            Self::OtherSystem { .. } => {
                Some("put the setting back (`vestal config show` says where it comes from)")
            }
            Self::NameTaken { .. } => {
                Some("look at it with `docker inspect` and rename or remove it")
            }
            _ => None,
        }
    }
}

fn says_out_of_space(message: &str) -> bool {
    let message = message.to_lowercase();
    ["no space left on device", "disk quota exceeded"].iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known_by_its_error_or_its_words() {
        let io = |error: std::io::Error| BackendError::io("write")(error);
        assert!(io(std::io::ErrorKind::StorageFull.into()).is_out_of_space());
        assert!(io(std::io::Error::other("x: No space left on device")).is_out_of_space());
        assert!(!io(std::io::ErrorKind::PermissionDenied.into()).is_out_of_space());
        let message = "copy: disk quota exceeded".to_owned();
        assert!(BackendError::Engine { action: "start".into(), message }.is_out_of_space());
    }

    #[test]
    fn only_a_guest_that_says_so_has_a_state_that_it_cannot_use() {
        let unusable = |reason: &str| {
            BackendError::GuestFailed { reason: reason.to_owned() }.is_unusable_state()
        };
        let journal = "/.vestal/state/journal is not a journal";
        assert!(unusable(journal));
        assert!(unusable(&format!("its container ended with 1: {journal}")));
        for other in [
            "it was not ready within 30 s",
            "it belongs to another user",
            "it ended before it was ready",
            "journal /.vestal/state/journal: No space left on device (os error 28)",
            "journal /.vestal/state/journal is of version 2, this program knows 1: use a newer one",
        ] {
            assert!(!unusable(other), "{other}");
        }
    }
}
