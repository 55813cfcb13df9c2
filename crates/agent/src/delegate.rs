//! Work that is given to others.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::event::EventSink;

/// A part of the work, to be done by a child with a conversation of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// What is to be reached.
    pub goal: String,
    /// What the child has to know.
    pub context: Option<String>,
    /// The toolsets it may use; none: those of its parent.
    pub toolsets: Vec<String>,
}

/// What a child came to.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Report {
    /// How it ended, in a word: see [`crate::Outcome`].
    pub status: String,
    /// What it has to say.
    pub summary: String,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Calls of the model it made.
    pub api_calls: u32,
    /// The child's conversation.
    pub conversation: Option<String>,
    /// How long it took.
    pub duration_seconds: f64,
}

/// Who has children work.
#[async_trait]
pub trait Delegates: Send + Sync {
    /// Has all parts done, as many at once as the settings allow, and returns
    /// what each came to, in order; or why none was begun.
    async fn delegate(
        &self,
        parts: Vec<Assignment>,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<Vec<Report>, String>;
}

/// Nobody to give work to.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDelegates;

#[async_trait]
impl Delegates for NoDelegates {
    async fn delegate(
        &self,
        _: Vec<Assignment>,
        _: &EventSink,
        _: &CancellationToken,
    ) -> Result<Vec<Report>, String> {
        Err("nobody is there to give work to".to_owned())
    }
}
