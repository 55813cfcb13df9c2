//! What takes long enough to be shown.

use std::fmt;
use std::sync::Arc;

/// A step that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An image is being fetched.
    Pulling {
        /// Its name.
        image: String,
        /// Layers that are there.
        layers_done: usize,
        /// Layers known so far.
        layers: usize,
        /// Bytes that have come.
        bytes: u64,
        /// Bytes to come in all, as far as known.
        total: u64,
    },
    /// An image has been fetched.
    Pulled {
        /// Its name.
        image: String,
    },
    /// Files are being copied.
    Copying {
        /// What is being copied, for people.
        what: String,
        /// Files that are there.
        files: u64,
        /// Bytes that are there.
        bytes: u64,
        /// Bytes in all, once that is known.
        total: Option<u64>,
    },
    /// Processes that jobs left behind when they ended are about to be ended.
    EndingProcesses {
        /// How many.
        processes: u64,
        /// The commands that left them, the oldest first.
        commands: Vec<String>,
    },
    /// A container is being prepared or started.
    Starting {
        /// What is being done, for people.
        what: String,
    },
}

/// Whom to tell. Cloning is cheap.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressSink {
    /// Returns a sink that calls `tell`, which must not block.
    pub fn new(tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Tells of a step.
    pub fn tell(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl Default for ProgressSink {
    /// Returns a sink that nobody listens to.
    fn default() -> Self {
        Self::new(drop)
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}
