//! `POST /chat/completions`, as `OpenAI` has it and many others do.

mod calls;
mod decode;
mod encode;
mod reasoning;

pub(crate) use decode::ChatCompletionsDecoder;
pub(crate) use encode::{body, effort};
