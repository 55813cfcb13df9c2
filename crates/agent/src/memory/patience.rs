//! How long a memory is waited for.

use std::time::Duration;

/// How long a memory is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For what it has to say when a conversation begins.
    pub recall: Duration,
    /// For what it has to say about a message.
    pub prefetch: Duration,
    /// For it to take in one thing that it is told. Nobody waits meanwhile, but
    /// what is told after it.
    pub hearing: Duration,
    /// For it to take in the rest when a conversation is closed.
    pub parting: Duration,
    /// Characters of what it has to say about a message.
    pub prefetch_chars: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            recall: Duration::from_secs(2),
            prefetch: Duration::from_secs(2),
            hearing: Duration::from_mins(1),
            parting: Duration::from_secs(10),
            prefetch_chars: 8_000,
        }
    }
}
