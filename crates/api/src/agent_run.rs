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
    /// What it took: `input_tokens`, `output_tokens`, `total_tokens`.
    pub usage: Option<Value>,
    /// Why there is no answer: `message`, `type`, `code`.
    pub error: Option<Value>,
    /// The number of its last event.
    pub last_event_id: i64,
    /// Questions that wait for an answer.
    pub questions: Vec<Value>,
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
