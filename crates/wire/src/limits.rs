//! Bounds that both sides keep, and that each side checks of the other.

/// Largest payload of a frame that carries a message.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Largest payload of a frame that carries bytes of a stream.
pub const MAX_DATA: usize = 64 << 10;

/// Bytes of one stream that may be under way before the receiver grants more.
pub const WINDOW: u32 = 1 << 20;

/// Channels that may be open on one connection.
pub const MAX_CHANNELS: usize = 1024;

/// Longest shell text carried inside the start message; longer text is streamed.
pub const MAX_INLINE_TEXT: usize = 64 << 10;

/// Longest session name, in bytes.
pub const MAX_SESSION_NAME: usize = 128;

/// Longest piece of a command shown in job listings, in bytes.
pub const MAX_SUMMARY: usize = 200;
