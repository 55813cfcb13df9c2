//! What the settings say about approvals.

use std::path::PathBuf;
use std::time::Duration;

/// When a person is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Before anything dangerous.
    #[default]
    Manual,
    /// Never, except in a sandbox without isolation that nobody chose.
    Off,
}

/// What happens to something dangerous when nobody can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unattended {
    /// It is refused.
    #[default]
    Deny,
    /// It is done, except in a sandbox without isolation that nobody chose.
    Allow,
}

/// What the settings say about approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// When a person is asked (`approvals.mode`).
    pub mode: Mode,
    /// How long a person has to answer (`approvals.timeout`).
    pub timeout: Duration,
    /// Globs of commands that never run, anywhere (`approvals.deny`).
    pub deny: Vec<String>,
    /// What happens when nobody can be asked (`approvals.unattended`).
    pub unattended: Unattended,
    /// What is approved for always (`command_allowlist`).
    pub allowlist: Vec<String>,
    /// The user's home directory on this machine, if it is known.
    pub user_home: Option<PathBuf>,
    /// The directory of Vestal's own files on this machine.
    pub vestal_home: Option<PathBuf>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            timeout: Duration::from_mins(1),
            deny: Vec::new(),
            unattended: Unattended::default(),
            allowlist: Vec::new(),
            user_home: None,
            vestal_home: None,
        }
    }
}
