//! How much a client may ask for at once, and how much waits for it.

use std::time::Duration;

/// Longest message of a client. The pictures of a prompt are in it, in base64.
pub(crate) const MESSAGE_BYTES: usize = 32 << 20;

/// Requests of a client that have no answer yet; one more is refused.
pub(crate) const REQUESTS: usize = 64;

/// Bytes that those requests have together; one that exceeds them is refused.
pub(crate) const REQUEST_BYTES: usize = 64 << 20;

/// Sessions that are open at once. The one that was not used for the longest time gives way.
pub(crate) const SESSIONS: usize = 32;

/// Bytes that wait for a client before it counts as one that does not read.
pub(crate) const WAITING_BYTES: usize = 64 << 20;

/// Bytes that wait for a client before what can wait does.
pub(crate) const BUSY_BYTES: usize = 1 << 20;

/// Words of one message. Some clients read lines of 64 KiB and no longer ones.
pub(crate) const CHUNK_BYTES: usize = 16 << 10;

/// Bytes of changes that one call shows.
pub(crate) const CHANGES_BYTES: usize = 24 << 10;

/// Longest picture in base64 that is shown when a conversation is loaded.
pub(crate) const IMAGE_BYTES: usize = 32 << 10;

/// How much of what a tool printed or returned is shown, its end.
pub(crate) const OUTPUT_BYTES: usize = 16 << 10;

/// How often the output of a tool is shown while it works.
pub(crate) const OUTPUT_EVERY: Duration = Duration::from_millis(200);

/// Bytes of text that the parts of a prompt have together.
pub(crate) const PROMPT_BYTES: usize = 4 << 20;

/// Pictures that a prompt has.
pub(crate) const PROMPT_IMAGES: usize = 16;

/// Sessions on a page of their list.
pub(crate) const LISTED: usize = 50;

/// MCP servers of an editor that a session uses.
pub(crate) const MCP_SERVERS: usize = 32;

/// Models that an editor is offered to choose from.
pub(crate) const MODELS: usize = 500;

/// Messages of a conversation that are shown when it is loaded, the newest.
pub(crate) const REPLAYED: usize = 2000;
