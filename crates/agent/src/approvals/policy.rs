//! The settings for approvals, and what a guard decides.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};

use super::shell::{self, ShellFinding};

/// When a person is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GuardMode {
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

/// The settings for approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// When a person is asked (`approvals.mode`).
    pub mode: GuardMode,
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

impl Default for ApprovalPolicy {
    fn default() -> Self {
        Self {
            mode: GuardMode::default(),
            timeout: Duration::from_mins(1),
            deny: Vec::new(),
            unattended: Unattended::default(),
            allowlist: Vec::new(),
            user_home: None,
            vestal_home: None,
        }
    }
}

/// A list of patterns.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandPatterns {
    globs: Vec<(String, Option<GlobMatcher>)>,
    /// Approvals in the form that we write them: `rule:command`.
    keys: HashSet<String>,
}

impl CommandPatterns {
    /// Reads globs of commands.
    pub(super) fn globs(patterns: &[String]) -> Self {
        let glob = |pattern: &String| {
            // A pattern that is not a glob still stands for itself.
            let built = GlobBuilder::new(pattern.trim()).build();
            (pattern.trim().to_owned(), built.ok().map(|glob| glob.compile_matcher()))
        };
        Self { globs: patterns.iter().map(glob).collect(), keys: HashSet::new() }
    }

    /// Reads a list of approvals: what begins with a rule's name and a colon
    /// stands for itself, the rest are globs.
    pub(super) fn approvals(patterns: &[String]) -> Self {
        let is_key = |pattern: &&String| {
            pattern.split_once(':').is_some_and(|(rule, _)| shell::is_rule(rule))
        };
        let (keys, globs): (Vec<&String>, Vec<&String>) = patterns.iter().partition(is_key);
        let globs: Vec<String> = globs.into_iter().cloned().collect();
        Self { keys: keys.into_iter().cloned().collect(), ..Self::globs(&globs) }
    }

    /// Returns the first pattern that a text matches.
    pub(super) fn matching(&self, text: &str) -> Option<&str> {
        let matches = |(pattern, glob): &&(String, Option<GlobMatcher>)| {
            pattern == text || glob.as_ref().is_some_and(|glob| glob.is_match(text))
        };
        self.globs.iter().find(matches).map(|(pattern, _)| pattern.as_str())
    }

    /// Reports whether there is a pattern that is this very text.
    pub(super) fn has(&self, text: &str) -> bool {
        self.globs.iter().any(|(pattern, _)| pattern == text)
    }

    /// Reports whether something is approved.
    pub(super) fn approves(&self, finding: &ShellFinding) -> bool {
        self.keys.contains(&approval_key(finding)) || self.matching(&finding.form).is_some()
    }
}

/// Returns what a lasting approval is kept as: the rule, and the command in the
/// form it was approved in, so that `rm -r build` says nothing about `rm -r ~`.
pub(super) fn approval_key(finding: &ShellFinding) -> String {
    format!("{}:{}", finding.rule, finding.subject.as_deref().unwrap_or(&finding.form))
}

/// It may be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clearance {
    /// What a person said to it, for the result; none if nobody was asked.
    pub approved_by_person: Option<String>,
}

/// It may not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApprovalRefusal {
    /// Who refused.
    pub status: RefusalStatus,
    /// What the model reads: what happened, and what to do instead.
    pub message: String,
}

/// Who refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalStatus {
    /// A rule that no approval lifts.
    Blocked,
    /// A person, by word or by silence.
    Denied,
    /// Nobody: there was no one to ask.
    Unattended,
}

impl RefusalStatus {
    /// Returns the word for it that results carry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Denied => "denied",
            Self::Unattended => "unattended",
        }
    }
}
