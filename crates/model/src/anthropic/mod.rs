//! `POST /messages`, as Anthropic has it.

mod decode;
mod encode;

pub(crate) use decode::AnthropicDecoder;
pub(crate) use encode::body;

/// The version of the API that is spoken.
pub(crate) const VERSION: &str = "2023-06-01";
