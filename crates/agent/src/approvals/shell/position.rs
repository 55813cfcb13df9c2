//! Where a walk through one script is.

use super::invocation::Feed;
use super::places::Doubt;

/// Where a walk through one script is.
#[derive(Default)]
pub(super) struct Position {
    /// What the next command reads.
    pub(super) feed: Feed,
    /// What the last one prints.
    pub(super) printed: Feed,
    /// Programs of the pipeline so far.
    pub(super) pipeline: Vec<String>,
    /// The function whose body is about to begin.
    pub(super) named: Option<String>,
    /// Functions whose bodies are open, and groups without a name.
    pub(super) inside: Vec<Option<String>>,
    /// Directories to come back to after subshells.
    pub(super) dirs: Vec<(Option<String>, Doubt)>,
    /// Where the list of commands began, and the pipeline.
    pub(super) list_began: Option<String>,
    pub(super) pipe_began: Option<String>,
    /// Whether a pipe came before.
    pub(super) piped: bool,
    /// Whether `&&` or `||` came before.
    pub(super) depends: bool,
}

impl Position {
    pub(super) fn end(&mut self) {
        self.feed = Feed::Nothing;
        self.pipeline.clear();
    }

    /// What a group prints is what all of its commands do.
    pub(super) fn end_group(&mut self, fetched: bool) {
        self.printed = if fetched { Feed::Fetched } else { Feed::Other };
    }
}
