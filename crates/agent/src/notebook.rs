//! State of a conversation beside its messages: todo list and watched jobs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The notes of one conversation. Cheap to clone; the loop stores them when
/// they have changed and brings them back when the conversation is resumed.
#[derive(Debug, Clone, Default)]
pub struct Notebook(Arc<Mutex<Notes>>);

/// The notes themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// What is to be done.
    #[serde(default)]
    pub todos: Vec<Todo>,
    /// Background jobs that the model watches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<Watched>,
}

/// A background job that the model watches. The job itself is in the
/// sandbox, so a process that resumes the conversation can still report on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The job's id.
    pub job: String,
    /// What a line of its output has to contain to be reported; none: only its
    /// end is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// Bytes of its output that have been looked at.
    #[serde(default)]
    pub seen: u64,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// The name the model gave it.
    pub id: String,
    /// What it is.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
    /// Not to be done any more.
    Cancelled,
}

impl Notebook {
    /// Returns a notebook with these notes.
    pub fn new(notes: Notes) -> Self {
        Self(Arc::new(Mutex::new(notes)))
    }

    /// Returns the notes as they are.
    pub fn read(&self) -> Notes {
        self.lock().clone()
    }

    /// Changes the notes.
    pub fn write<T>(&self, change: impl FnOnce(&mut Notes) -> T) -> T {
        change(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        // A panic in a change of plain values leaves nothing half-done worth refusing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
