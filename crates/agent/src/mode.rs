//! How a conversation works: on the task, or on a plan for it that a person approves first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

/// How a conversation works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationMode {
    /// It does what it is asked.
    #[default]
    Work,
    /// It only reads, and presents a plan: calls that change something are refused.
    Plan,
}

impl ConversationMode {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Work, Self::Plan];

    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Plan => "plan",
        }
    }

    /// Returns the mode that a word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }

    /// Says in a line what it means, for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Work => "the agent does what it is asked",
            Self::Plan => "the agent only reads, and presents a plan for approval",
        }
    }
}

impl std::fmt::Display for ConversationMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The mode of a conversation, shared with its tools and its children. It can be
/// switched while a turn runs: the next call is judged by it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ModeSwitch(Arc<AtomicBool>);

impl ModeSwitch {
    /// Returns a switch that is in this mode.
    pub fn new(mode: ConversationMode) -> Self {
        Self(Arc::new(AtomicBool::new(mode == ConversationMode::Plan)))
    }

    /// Returns the mode.
    pub fn get(&self) -> ConversationMode {
        if self.0.load(Ordering::SeqCst) { ConversationMode::Plan } else { ConversationMode::Work }
    }

    /// Switches to a mode. The conversation keeps it on disk and tells the model with
    /// the next message; [`crate::Conversation::set_mode`] keeps it at once.
    pub fn set(&self, mode: ConversationMode) {
        self.0.store(mode == ConversationMode::Plan, Ordering::SeqCst);
    }
}

/// The mode as the store has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredMode {
    /// The mode.
    pub(crate) mode: ConversationMode,
    /// The mode that the model was told of last.
    #[serde(default)]
    pub(crate) told: ConversationMode,
}

/// The key of the mode in the store.
pub(crate) const MODE: &str = "mode";

/// What the model is told when a person has turned plan mode on.
pub(crate) const PLAN_ON: &str = "\
Plan mode is on: the user wants a plan before anything is changed. Look around with the tools that only read; calls that \
change files, run commands with effects or act elsewhere are refused. Ask what you need to know. When the plan is \
complete, call present_plan with it: concrete steps, the files and commands they touch, and how the result is checked. \
Work on it only once that call says it is approved.";

/// What a child is told that begins in plan mode.
pub(crate) const PLAN_ON_FOR_CHILD: &str = "\
Plan mode is on: nothing may be changed yet. Use the tools that only read; calls that change something are refused. \
Report what you found.";

/// What the model is told when a person has turned plan mode off.
pub(crate) const PLAN_OFF: &str = "\
Plan mode is off: the user lets you make changes again. If a plan was presented, they agree to it as far as they do not \
say otherwise.";

/// Returns the result of a call that plan mode does not let run.
pub(crate) fn refusal(tool: &str) -> String {
    format!(
        "refused: plan mode is on, and this call of {tool} may change something. Nothing was done. \
         Use tools that only read (read_file, search_files, terminal with commands such as ls, cat, grep \
         or git diff), and call present_plan when the plan is complete; it can be carried out once the \
         user has approved it."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_shared_by_its_clones() {
        let switch = ModeSwitch::default();
        let clone = switch.clone();
        clone.set(ConversationMode::Plan);
        assert_eq!(switch.get(), ConversationMode::Plan);
        switch.set(ConversationMode::Work);
        assert_eq!(clone.get(), ConversationMode::Work);
    }

    #[test]
    fn a_word_stands_for_its_mode() {
        for mode in ConversationMode::ALL {
            assert_eq!(ConversationMode::from_word(mode.as_str()), Some(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert_eq!(ConversationMode::from_word("both"), None);
    }
}
