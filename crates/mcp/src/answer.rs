//! What a server answered to a call, as the model reads it.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use vestal_agent::{Oversized, ToolOutput};

use crate::printable::one_line;

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

/// Characters of a name or an address in a description.
const NAME: usize = 200;

/// Returns what the model reads.
pub(crate) fn output(result: &CallToolResult) -> ToolOutput {
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
    ToolOutput { content, is_error, oversized: Oversized::Spill }
}

/// Servers repeat what is structured as text for clients that know only text.
fn says_the_same(content: &[ContentBlock], structured: &Value) -> bool {
    content.iter().any(|block| match block {
        ContentBlock::Text(text) => {
            let said: Value = serde_json::from_str(&text.text)
                .unwrap_or_else(|_| Value::from(text.text.as_str()));
            // Some put what is no object into one, under this name.
            let wrapped = structured.as_object().filter(|all| all.len() == 1);
            said == *structured || wrapped.and_then(|all| all.get("result")) == Some(&said)
        }
        _ => false,
    })
}

fn words(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => described("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => described("audio", &audio.mime_type, &audio.data),
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

fn described(noun: &str, mime_type: &str, base64: &str) -> String {
    format!("[{noun}: {}, which cannot be shown here]", size_of(mime_type, base64))
}

/// Returns the kind and the size of what base64 stands for.
fn size_of(mime_type: &str, base64: &str) -> String {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (base64.len() / 4 * 3).saturating_sub(padding);
    format!("{}, {bytes} bytes", one_line(mime_type, 80))
}
