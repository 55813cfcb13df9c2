//! What a server answered to a call, as the model reads it.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use vestal_agent::ToolOutput;
use vestal_model::Image;

use crate::printable::one_line;

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

/// Characters of a name or an address in a description.
const NAME: usize = 200;

/// Kinds of pictures that models take.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Bytes of base64 of a picture that providers take, and pictures of one result.
const LARGEST_PICTURE: usize = 5 << 20;
const MOST_PICTURES: usize = 10;

/// Values of a structured content that are looked for in its text.
const MOST_VALUES: usize = 1000;

/// Returns what the model reads, and the pictures that it sees.
pub(crate) fn output(result: CallToolResult) -> ToolOutput {
    let mut parts: Vec<String> = result.content.iter().map(words).collect();
    if let Some(structured) = &result.structured_content
        && !says_the_same(&result.content, structured)
    {
        parts.push(structured.to_string());
    }
    parts.retain(|part| !part.is_empty());
    let is_error = result.is_error == Some(true);
    let content = match (parts.is_empty(), is_error) {
        (false, _) => parts.join("\n"),
        (true, true) => "the tool failed and did not say why".to_owned(),
        (true, false) => "(done; the tool returned nothing)".to_owned(),
    };
    let images = result.content.into_iter().filter_map(picture).take(MOST_PICTURES).collect();
    ToolOutput { is_error, images, ..ToolOutput::ok(content) }
}

/// Returns a picture, if it is one that models take.
fn picture(block: ContentBlock) -> Option<Image> {
    let ContentBlock::Image(image) = block else { return None };
    let media_type = PICTURES.iter().find(|known| image.mime_type.eq_ignore_ascii_case(known))?;
    // What is no base64 would have the provider refuse the whole conversation.
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let is_fine = (1..=LARGEST_PICTURE).contains(&image.data.len())
        && image.data.len().is_multiple_of(4)
        && image.data.bytes().all(is_base64);
    is_fine.then(|| Image {
        media_type: (*media_type).to_owned(),
        data: image.data,
        optional: false,
    })
}

/// Servers repeat what is structured as text for clients that know only text: as
/// JSON, item by item, or in words. Then each value stands in the text.
fn says_the_same(content: &[ContentBlock], structured: &Value) -> bool {
    let texts = content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let said = texts.collect::<Vec<_>>().join("\n");
    if said.trim().is_empty() {
        return false;
    }
    let mut values = Vec::new();
    collect(structured, &mut values);
    values.iter().all(|value| is_said(&said, value))
}

/// Collects the values at the ends of a structure.
fn collect<'a>(value: &'a Value, values: &mut Vec<&'a Value>) {
    match value {
        _ if values.len() >= MOST_VALUES => {}
        Value::Array(items) => {
            for item in items {
                collect(item, values);
            }
        }
        Value::Object(fields) => {
            for field in fields.values() {
                collect(field, values);
            }
        }
        end => values.push(end),
    }
}

fn is_said(said: &str, value: &Value) -> bool {
    match value {
        Value::String(text) if text.trim().is_empty() => true,
        Value::String(text) => {
            let json = value.to_string();
            said.contains(text.trim()) || said.contains(&json[1..json.len() - 1])
        }
        // As a word of its own: 1 is not said by 10.
        other => {
            let word = other.to_string();
            let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            said.match_indices(&word).any(|(at, _)| {
                !is_part(said[..at].chars().next_back())
                    && !is_part(said[at + word.len()..].chars().next())
            })
        }
    }
}

fn words(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => {
            format!("[image: {}]", size_of(&image.mime_type, &image.data))
        }
        ContentBlock::Audio(audio) => {
            format!(
                "[audio: {}, which cannot be heard here]",
                size_of(&audio.mime_type, &audio.data)
            )
        }
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) => {
            let (name, uri) = (one_line(&link.name, NAME), one_line(&link.uri, NAME));
            let about = link.description.as_deref().map(|about| one_line(about, NAME));
            let about = about.map(|about| format!(": {about}")).unwrap_or_default();
            format!("[resource {name} at {uri}{about}]")
        }
        _ => "[content of a kind that is not known here]".to_owned(),
    }
}

fn resource(resource: &ResourceContents) -> String {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            format!("[resource {}]\n{text}", one_line(uri, NAME))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.as_deref().unwrap_or("application/octet-stream");
            format!("[resource {}: {}]", one_line(uri, NAME), size_of(kind, blob))
        }
        _ => "[resource of a kind that is not known here]".to_owned(),
    }
}

/// Returns the kind and the size of what base64 stands for.
fn size_of(mime_type: &str, base64: &str) -> String {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (base64.len() / 4 * 3).saturating_sub(padding);
    format!("{}, {bytes} bytes", one_line(mime_type, 80))
}
