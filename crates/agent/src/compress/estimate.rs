//! About how many tokens something takes, where no provider has counted yet.

use vestal_model::{Message, Part, ToolSpec};

/// Characters that make a token, roughly, in the languages models are fed.
const BYTES_PER_TOKEN: u64 = 4;

/// Tokens that a picture takes, roughly, whatever its size on disk.
const TOKENS_PER_IMAGE: u64 = 1_500;

/// Tokens that every message takes for itself.
const TOKENS_PER_MESSAGE: u64 = 8;

/// Returns about how many tokens a request takes.
pub(crate) fn tokens(system: &str, messages: &[Message], tools: &[ToolSpec]) -> u64 {
    let tools: u64 = tools
        .iter()
        .map(|tool| of_bytes(tool.name.len() + tool.description.len()) + of_json(&tool.parameters))
        .sum();
    of_bytes(system.len()) + tools + messages.iter().map(tokens_of).sum::<u64>()
}

/// Returns about how many tokens a message takes.
pub(crate) fn tokens_of(message: &Message) -> u64 {
    let content = match message {
        Message::User(user) => user.parts.iter().map(part).sum(),
        Message::Assistant(said) => {
            let calls = said.calls.iter().map(|call| call.name.len() + call.arguments.len());
            let thoughts = said.reasoning.iter().map(|thought| thought.text.len());
            of_bytes(said.text.len() + calls.sum::<usize>() + thoughts.sum::<usize>())
        }
        Message::Tool(result) => {
            of_bytes(result.content.len()) + result.images.len() as u64 * TOKENS_PER_IMAGE
        }
    };
    content + TOKENS_PER_MESSAGE
}

fn part(part: &Part) -> u64 {
    match part {
        Part::Text { text } => of_bytes(text.len()),
        Part::Image(_) => TOKENS_PER_IMAGE,
    }
}

fn of_json(value: &serde_json::Value) -> u64 {
    of_bytes(value.to_string().len())
}

fn of_bytes(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}
