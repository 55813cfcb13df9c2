//! Runs of an agent: what clients of the API start, watch and stop.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentRunStatus {
    /// It was begun just now.
    Started,
    /// It is in progress.
    Running,
    /// It is in progress and waits for an answer: see `questions`.
    Waiting,
    /// The agent has answered.
    Completed,
    /// It could not be carried on; `error` says why.
    Failed,
    /// Somebody stopped it.
    Cancelled,
    /// The gateway ended while it was in progress.
    Interrupted,
}

impl AgentRunStatus {
    /// Returns the word for it, as JSON has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns what a word means; a word that nobody knows is a failure.
    pub fn parse(word: &str) -> Self {
        let known = [Self::Started, Self::Running, Self::Waiting, Self::Completed, Self::Cancelled];
        let known = known.into_iter().chain([Self::Interrupted]);
        known.into_iter().find(|status| status.as_str() == word).unwrap_or(Self::Failed)
    }
}

/// What a run has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRunUsage {
    /// Tokens read, those from the provider's cache not included.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// All tokens, those from the provider's cache included.
    pub total_tokens: u64,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRunView {
    /// `run`.
    pub object: String,
    /// Its id.
    pub run_id: String,
    /// How it is.
    pub status: AgentRunStatus,
    /// The conversation it is a turn of.
    pub session_id: String,
    /// The name of the model, as the client has it.
    pub model: String,
    /// When it was begun.
    pub created_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// What the agent answered, once it has.
    pub output: Option<String>,
    /// What it has used, also before a restart of the gateway.
    pub usage: Option<AgentRunUsage>,
    /// Why there is no answer.
    #[schemars(with = "Option<AgentRunError>")]
    pub error: Option<Value>,
    /// The number of its last event.
    pub last_event_id: i64,
    /// Questions that wait for an answer.
    #[schemars(with = "Vec<AgentRunQuestion>")]
    pub questions: Vec<Value>,
}

/// Why a run has no answer. It describes what is stored with the run as it was reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRunError {
    /// What happened and what to do.
    pub message: String,
    /// The kind of it, as `server_error`.
    pub r#type: String,
    /// A name for it that stays the same.
    pub code: String,
    /// The member of the request that is wrong.
    pub param: Option<String>,
}

/// A question that waits for an answer. It describes what the runtime asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRunQuestion {
    /// Its id in the run.
    pub id: String,
    /// What is asked.
    #[serde(flatten)]
    pub kind: AgentRunQuestionKind,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AgentRunQuestionKind {
    /// Whether something dangerous may be done.
    Approval {
        /// What it is: the command, secrets masked.
        action: String,
        /// Why it is dangerous.
        reason: String,
        /// What a lasting approval would be remembered as.
        pattern: String,
        /// Whether it may be approved for always.
        may_last: bool,
    },
    /// A question of the model.
    Clarification {
        /// The question.
        question: String,
        /// Answers to choose from; none: any words will do. Other words always do.
        choices: Vec<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_was_written() {
        use AgentRunStatus as S;
        let all = [
            S::Started,
            S::Running,
            S::Waiting,
            S::Completed,
            S::Failed,
            S::Cancelled,
            S::Interrupted,
        ];
        for status in all {
            assert_eq!(S::parse(status.as_str()), status);
            assert_eq!(serde_json::json!(status), status.as_str());
        }
    }
}
