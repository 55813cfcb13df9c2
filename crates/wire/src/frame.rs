//! The frame, a ten-byte header and a payload, and the encoding of messages.
//!
//! ```text
//! 0        4          8      9        10
//! | length | channel  | kind | stream | payload … |
//! | u32 LE | u32 LE   | u8   | u8     |           |
//! ```
//!
//! Messages are CBOR with numbered fields and variants. A reader skips unknown
//! numbers and treats missing optional fields as absent, so that every minor version
//! of a major version can talk to every other.

use std::io::{self, Read, Write};

use crate::limits::{MAX_DATA, MAX_MESSAGE};

/// Length of a frame's header in bytes.
pub const HEADER_LEN: usize = 10;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Host to guest, first frame on a connection: a [`crate::Hello`].
    Hello = 1,
    /// Guest to host, the answer to hello: a [`crate::Welcome`] or a
    /// [`crate::Fault`].
    Welcome = 2,
    /// Host to guest: a [`crate::CallRequest`] that opens the channel.
    Open = 3,
    /// Guest to host: a [`crate::CallEvent`] on an open channel.
    Event = 4,
    /// Guest to host: the [`crate::CallReply`] that closes the channel.
    Reply = 5,
    /// Both directions: bytes of a stream.
    Data = 6,
    /// Both directions: the stream has ended.
    End = 7,
    /// Both directions: the receiver accepts this many more bytes of a stream
    /// (u32 LE).
    Credit = 8,
    /// Host to guest: nobody listens to this channel any more. The guest still
    /// sends a [`crate::CallReply`], so that ids can be reused.
    Cancel = 9,
}

/// The stream of a data, end or credit frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stream {
    /// Bytes to the guest: standard input of a job, content of a file.
    Input = 0,
    /// Standard output of a job.
    Stdout = 1,
    /// Standard error of a job.
    Stderr = 2,
    /// Shell text that is too long for the start message.
    Text = 3,
    /// Content of a file, to the host.
    Content = 4,
}

/// The header of a frame, checked against the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Length of the payload in bytes.
    pub len: u32,
    /// The channel; 0 for the hello and the welcome.
    pub channel: u32,
    /// The kind of the payload.
    pub kind: FrameKind,
    /// The stream of a data, end or credit frame; [`Stream::Input`] otherwise.
    pub stream: Stream,
}

/// A frame that violates the protocol, or could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The header contains an unknown kind.
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    /// The header contains an unknown stream.
    #[error("unknown stream {0}")]
    UnknownStream(u8),
    /// The payload is longer than its kind allows.
    #[error("frame of {len} bytes is over the limit of {limit}")]
    TooLong {
        /// The announced length.
        len: u32,
        /// The limit.
        limit: usize,
    },
    /// The transport failed or ended inside a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl FrameKind {
    fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Open,
            4 => Self::Event,
            5 => Self::Reply,
            6 => Self::Data,
            7 => Self::End,
            8 => Self::Credit,
            9 => Self::Cancel,
            other => return Err(FrameError::UnknownKind(other)),
        })
    }

    /// Returns the largest payload a frame of this kind may have.
    pub const fn max_len(self) -> usize {
        match self {
            Self::Hello | Self::Welcome | Self::Open | Self::Event | Self::Reply => MAX_MESSAGE,
            Self::Data => MAX_DATA,
            Self::Credit => 4,
            Self::End | Self::Cancel => 0,
        }
    }
}

impl Stream {
    fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            0 => Self::Input,
            1 => Self::Stdout,
            2 => Self::Stderr,
            3 => Self::Text,
            4 => Self::Content,
            other => return Err(FrameError::UnknownStream(other)),
        })
    }
}

impl Header {
    /// Encodes the header.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.channel.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[9] = self.stream as u8;
        bytes
    }

    /// Decodes a header and checks it against the limits, so that a caller may
    /// allocate `len` bytes safely.
    pub fn from_bytes(bytes: [u8; HEADER_LEN]) -> Result<Self, FrameError> {
        let [l0, l1, l2, l3, c0, c1, c2, c3, kind, stream] = bytes;
        let header = Self {
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            channel: u32::from_le_bytes([c0, c1, c2, c3]),
            kind: FrameKind::from_byte(kind)?,
            stream: Stream::from_byte(stream)?,
        };
        let limit = header.kind.max_len();
        if header.len as usize > limit {
            return Err(FrameError::TooLong { len: header.len, limit });
        }
        Ok(header)
    }
}

/// Reads one frame. Blocks.
pub fn read_frame(reader: &mut impl Read) -> Result<(Header, Vec<u8>), FrameError> {
    let mut bytes = [0; HEADER_LEN];
    reader.read_exact(&mut bytes)?;
    let header = Header::from_bytes(bytes)?;
    let mut payload = vec![0; header.len as usize];
    reader.read_exact(&mut payload)?;
    Ok((header, payload))
}

/// Writes one frame. Blocks.
pub fn write_frame(
    writer: &mut impl Write,
    channel: u32,
    kind: FrameKind,
    stream: Stream,
    payload: &[u8],
) -> Result<(), FrameError> {
    let limit = kind.max_len();
    let len = u32::try_from(payload.len())
        .ok()
        .filter(|len| *len as usize <= limit)
        .ok_or(FrameError::TooLong { len: u32::MAX, limit })?;
    let header = Header { len, channel, kind, stream };
    writer.write_all(&header.to_bytes())?;
    writer.write_all(payload)?;
    Ok(())
}

/// A message that could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The message is larger than the protocol allows.
    #[error("message of {size} bytes is over the limit of {MAX_MESSAGE}")]
    TooLarge {
        /// The encoded size in bytes.
        size: usize,
    },
    /// The encoder refused the value.
    #[error("message cannot be encoded: {0}")]
    Encoder(String),
}

/// A message that could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not a valid message.
    #[error("malformed message: {0}")]
    Malformed(#[from] minicbor::decode::Error),
    /// Bytes follow the message.
    #[error("{count} stray bytes after the message")]
    Trailing {
        /// Number of bytes that follow.
        count: usize,
    },
}

/// Encodes a message.
pub fn encode<T: minicbor::Encode<()>>(message: &T) -> Result<Vec<u8>, EncodeError> {
    let bytes =
        minicbor::to_vec(message).map_err(|error| EncodeError::Encoder(error.to_string()))?;
    if bytes.len() > MAX_MESSAGE {
        return Err(EncodeError::TooLarge { size: bytes.len() });
    }
    Ok(bytes)
}

/// Decodes a message that fills `bytes` exactly.
pub fn decode<'b, T: minicbor::Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, DecodeError> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let message = decoder.decode()?;
    match bytes.len() - decoder.position() {
        0 => Ok(message),
        count => Err(DecodeError::Trailing { count }),
    }
}
