//! `POST /responses`, as `OpenAI` has it.

mod decode;
mod encode;

pub(crate) use decode::ResponsesDecoder;
pub(crate) use encode::body;
