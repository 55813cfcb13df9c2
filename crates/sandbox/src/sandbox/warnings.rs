//! What a caller must know of an ended command besides its output and exit code.

use std::fmt;

use vestal_wire::{JobInfo, JobState};

use super::Sandbox;

/// The exit code of what SIGKILL has ended.
const KILLED: u32 = 137;

/// Something that the result of a command does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWarning {
    /// It was killed, and the kernel has killed processes of its sandbox for want of memory.
    OutOfMemory {
        /// How many, since the sandbox was started.
        kills: u64,
    },
    /// What it changed in its session was not saved.
    NotSaved {
        /// Why.
        reason: String,
    },
}

impl Sandbox {
    /// Returns what must be known of an ended command besides its result.
    pub async fn warnings(
        &self,
        code: Option<u32>,
        session_error: Option<&str>,
    ) -> Vec<JobWarning> {
        let kills = if code == Some(KILLED) { self.memory_kills().await } else { None };
        warnings(kills, session_error)
    }

    /// Returns what must be known of a job besides its result; nothing while it runs.
    pub async fn job_warnings(&self, job: &JobInfo) -> Vec<JobWarning> {
        match job.state {
            JobState::Ended(exit) => {
                self.warnings(exit.code.map(Into::into), job.session_error.as_deref()).await
            }
            _ => Vec::new(),
        }
    }
}

/// `kills` is known of a command that was killed only.
fn warnings(kills: Option<u64>, session_error: Option<&str>) -> Vec<JobWarning> {
    let kills = kills.filter(|kills| *kills > 0);
    let killed = kills.map(|kills| JobWarning::OutOfMemory { kills });
    let unsaved = session_error.map(|reason| JobWarning::NotSaved { reason: reason.to_owned() });
    killed.into_iter().chain(unsaved).collect()
}

impl fmt::Display for JobWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { kills } => {
                let processes = if *kills == 1 { "process" } else { "processes" };
                write!(
                    f,
                    "the command was killed; the sandbox has run into its memory limit since it was \
                     started ({kills} {processes} killed by the kernel); terminal.container_memory \
                     sets the limit"
                )
            }
            Self::NotSaved { reason } => write!(
                f,
                "what the command changed in its session was not kept: {reason}; the next command \
                 starts from what was saved before"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_killed_for_want_of_memory_and_a_session_not_saved_are_told() {
        let texts = |kills, error| -> Vec<String> {
            warnings(kills, error).iter().map(ToString::to_string).collect()
        };
        assert_eq!(texts(None, None), [""; 0]);
        assert_eq!(texts(Some(0), None), [""; 0], "it was killed by somebody");
        let both = texts(Some(1), Some("No space left on device"));
        assert_eq!(both.len(), 2);
        assert!(both[0].contains("(1 process killed by the kernel)"), "{both:?}");
        assert!(both[1].contains("was not kept: No space left on device"), "{both:?}");
    }
}
