//! Encoding of messages: CBOR with numbered fields.
//!
//! Fields and variants carry fixed numbers. A reader skips numbers it does not
//! know and takes missing optional ones as absent, which is what lets every
//! minor version of a major talk to every other.

use crate::limits::MAX_MESSAGE;

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
    /// The bytes are no such message.
    #[error("malformed message: {0}")]
    Malformed(#[from] minicbor::decode::Error),
    /// Bytes follow the message.
    #[error("{count} stray bytes after the message")]
    Trailing {
        /// How many bytes follow.
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
