//! Texts that stand for commands: what is forbidden, and what is approved for always.

use std::collections::HashSet;

use globset::{GlobBuilder, GlobMatcher};

use super::shell::{self, Finding};

/// A list of patterns.
#[derive(Debug, Clone, Default)]
pub(super) struct Patterns {
    globs: Vec<(String, Option<GlobMatcher>)>,
    /// Approvals in the form that we write them: `rule:command`.
    keys: HashSet<String>,
}

impl Patterns {
    /// Reads globs of commands.
    pub(super) fn globs(patterns: &[String]) -> Self {
        let glob = |pattern: &String| {
            // A pattern that is no glob still stands for itself.
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
    pub(super) fn approves(&self, finding: &Finding) -> bool {
        self.keys.contains(&key(finding)) || self.matching(&finding.form).is_some()
    }
}

/// Returns what a lasting approval is kept as: the rule, and the command in the
/// form it was approved in, so that `rm -r build` says nothing about `rm -r ~`.
pub(super) fn key(finding: &Finding) -> String {
    format!("{}:{}", finding.rule, finding.subject.as_deref().unwrap_or(&finding.form))
}
