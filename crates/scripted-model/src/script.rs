//! What a server says over its life.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::reply::ScriptedReply;
use crate::rule::ReplyRule;

/// The replies of a server: rules, tried first, and an ordered list.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub(crate) replies: VecDeque<ScriptedReply>,
    pub(crate) rules: Vec<ReplyRule>,
    pub(crate) echo: bool,
    pub(crate) models: Vec<Model>,
    pub(crate) models_reply: Option<ScriptedReply>,
    pub(crate) strict: bool,
    pub(crate) keep_bodies: bool,
}

/// A model the server lists.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its id.
    pub id: String,
    /// How many tokens fit into its context, where the server tells.
    #[serde(default)]
    pub context_length: Option<u64>,
}

impl Model {
    /// Returns a model of which only the id is listed.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), context_length: None }
    }

    /// Reports how many tokens fit into its context.
    #[must_use]
    pub fn context_length(mut self, tokens: u64) -> Self {
        self.context_length = Some(tokens);
        self
    }
}

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The text is not a script.
    #[error("not a script: {0}")]
    Parse(#[from] serde_json::Error),
}

impl Default for Script {
    fn default() -> Self {
        Self {
            replies: VecDeque::new(),
            rules: Vec::new(),
            echo: false,
            models: vec![Model::new("scripted")],
            models_reply: None,
            strict: false,
            keep_bodies: true,
        }
    }
}

impl Script {
    /// Returns a script without a word: every request finds it exhausted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a script that gives these replies, one per request, in order.
    pub fn replies(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self { replies: replies.into_iter().collect(), ..Self::default() }
    }

    /// Returns a script that answers by rules, the first that applies.
    pub fn rules(rules: impl IntoIterator<Item = ReplyRule>) -> Self {
        Self { rules: rules.into_iter().collect(), ..Self::default() }
    }

    /// Returns the script of the model that runs `$ command` and repeats
    /// everything else.
    pub fn echo() -> Self {
        Self::default().or_echo()
    }

    /// Reads a script from a JSON file.
    pub fn from_file(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Read { path: path.to_owned(), source })?;
        Self::from_json(&text)
    }

    /// Reads a script from JSON.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        Ok(serde_json::from_str(text)?)
    }

    /// Adds a rule, to be tried after the ones already there.
    #[must_use]
    pub fn rule(mut self, rule: ReplyRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds a reply to the end of the ordered list.
    #[must_use]
    pub fn then(mut self, reply: ScriptedReply) -> Self {
        self.replies.push_back(reply);
        self
    }

    /// Echoes when nothing else is left to say.
    #[must_use]
    pub fn or_echo(mut self) -> Self {
        self.echo = true;
        self
    }

    /// Lists these models.
    #[must_use]
    pub fn models(mut self, models: impl IntoIterator<Item = Model>) -> Self {
        self.models = models.into_iter().collect();
        self
    }

    /// Answers lists of models with `reply`, mostly an error, instead of a list.
    #[must_use]
    pub fn models_reply(mut self, reply: ScriptedReply) -> Self {
        self.models_reply = Some(reply);
        self
    }

    /// Refuses with status 400 what the real APIs refuse: histories whose tool
    /// calls and results do not belong together, and fields that are missing.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Records requests without their bodies, so that a benchmark's memory is
    /// not the record of what it sent.
    #[must_use]
    pub fn forget_bodies(mut self) -> Self {
        self.keep_bodies = false;
        self
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
