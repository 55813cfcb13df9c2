//! Limits of the protocol. Each side keeps them and checks that the other does.

/// Maximum payload of a frame with a message.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Maximum payload of a frame with bytes of a stream.
pub const MAX_DATA: usize = 64 << 10;

/// Bytes of a stream that may be sent before the receiver grants more.
pub const WINDOW: u32 = 1 << 20;

/// Maximum number of open channels of a connection.
pub const MAX_CHANNELS: usize = 1024;

/// Maximum length of shell text in the start message; longer text is streamed.
pub const MAX_INLINE_TEXT: usize = 64 << 10;

/// Maximum number of listening ports in one reply.
pub const MAX_PORTS: usize = 1000;

/// Maximum length of a session name, in bytes.
pub const MAX_SESSION_NAME: usize = 128;

/// Maximum length of a command in job listings, in bytes.
pub const MAX_SUMMARY: usize = 200;

/// Maximum number of entries in one listing of a directory; more come in further ones.
pub const MAX_LISTED: usize = 1000;

/// Maximum number of names in the path of a file below the root of a tree.
pub const MAX_DEPTH: usize = 256;
