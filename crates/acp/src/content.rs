//! A prompt of the client's becomes a message for the model.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vestal_model::{Image, Part, UserMessage};

use crate::error::AcpError;
use crate::limits::{PROMPT_BYTES, PROMPT_IMAGES};
use crate::paths::SharedFiles;
use crate::protocol::{ContentBlock, EmbeddedResource};

/// The content of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PromptContent {
    pub(crate) message: UserMessage,
}

impl PromptContent {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { message: UserMessage { parts: vec![Part::Text { text: text.into() }] } }
    }

    /// Returns the words, if they are all there is.
    pub(crate) fn only_text(&self) -> Option<String> {
        let is_text = |part: &Part| matches!(part, Part::Text { .. });
        self.message.parts.iter().all(is_text).then(|| self.message.text())
    }

    pub(crate) fn has_images(&self) -> bool {
        self.message.parts.iter().any(|part| matches!(part, Part::Image(_)))
    }

    /// Reads the parts of a prompt.
    pub(crate) fn read(blocks: Vec<ContentBlock>, shared: &SharedFiles) -> Result<Self, AcpError> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut images = Vec::new();
        for block in blocks {
            match block {
                ContentBlock::Text { text: words } => text.push_str(&words),
                ContentBlock::Image { data, .. } => images.push(picture(&data)?),
                ContentBlock::Audio {} => {
                    return Err(AcpError::params("sound is not understood")
                        .advise("say it in words, or attach pictures"));
                }
                // In the middle of a sentence, as editors mention files.
                ContentBlock::ResourceLink { uri, .. } => {
                    text.extend([format!("`{}`", shared.in_sandbox(&uri))]);
                }
                ContentBlock::Resource { resource } => {
                    embedded(resource, shared, &mut text, &mut images)?;
                }
            }
            if text.len() > PROMPT_BYTES || images.len() > PROMPT_IMAGES {
                return Err(AcpError::params(format!(
                    "a prompt has at most {} MiB of text and {PROMPT_IMAGES} pictures",
                    PROMPT_BYTES >> 20
                )));
            }
        }
        if !text.trim().is_empty() {
            parts.push(Part::Text { text });
        }
        let bytes: usize = images.iter().map(|image| image.data.len() / 4 * 3).sum();
        if bytes as u64 > Image::MOST_BYTES {
            let most = Image::MOST_BYTES >> 20;
            return Err(AcpError::params(format!(
                "the pictures of a prompt have at most {most} MiB together"
            )));
        }
        parts.extend(images.into_iter().map(Part::Image));
        if parts.is_empty() {
            return Err(AcpError::params("the prompt is empty"));
        }
        Ok(Self { message: UserMessage { parts } })
    }
}

/// Its content tells what it is, and not the client.
fn picture(data: &str) -> Result<Image, AcpError> {
    let bytes = STANDARD.decode(data.trim());
    let bytes = bytes.map_err(|_| AcpError::params("a picture is not base64"))?;
    Image::from_bytes(&bytes).ok_or_else(|| {
        AcpError::params("not a picture that models read").advise("send PNG, JPEG, GIF or WebP")
    })
}

fn embedded(
    resource: EmbeddedResource,
    shared: &SharedFiles,
    text: &mut String,
    images: &mut Vec<Image>,
) -> Result<(), AcpError> {
    let name = shared.in_sandbox(&resource.uri);
    match (resource.text, resource.blob) {
        (Some(content), _) => {
            // Longer than any in the content, so that it ends where the file does.
            let fence = "`".repeat(longest_run(&content).max(2) + 1);
            let newline = if content.ends_with('\n') { "" } else { "\n" };
            let before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            text.extend([format!(
                "{before}`{name}` has this content in the editor:\n{fence}\n{content}{newline}{fence}\n"
            )]);
        }
        (None, Some(blob)) => match picture(&blob) {
            Ok(image) => images.push(image),
            Err(_) => text.extend([format!("`{name}` (not text; it is not attached)")]),
        },
        (None, None) => {
            let file = Path::new(&name).display();
            return Err(AcpError::params(format!("the resource {file} has neither text nor blob")));
        }
    }
    Ok(())
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest PNG there is a name for.
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";

    fn read(blocks: Vec<ContentBlock>) -> Result<PromptContent, AcpError> {
        PromptContent::read(blocks, &SharedFiles::Mounted("/home/ada/site".into()))
    }

    fn resource(uri: &str, text: Option<&str>, blob: Option<&[u8]>) -> ContentBlock {
        let text = text.map(str::to_owned);
        let blob = blob.map(|bytes| STANDARD.encode(bytes));
        ContentBlock::Resource { resource: EmbeddedResource { uri: uri.to_owned(), text, blob } }
    }

    #[test]
    fn mentioned_and_attached_files_have_the_names_that_the_sandbox_knows() {
        let (uri, name) = ("file:///home/ada/site/a.rs".to_owned(), "a.rs".to_owned());
        let content = read(vec![
            ContentBlock::text("look at "),
            ContentBlock::ResourceLink { uri: uri.clone(), name },
            ContentBlock::text(" please"),
            resource(&uri, Some("```rust\nfn main() {}"), None),
        ]);
        assert_eq!(
            content.unwrap().only_text().unwrap(),
            "look at `/workspace/a.rs` please\n`/workspace/a.rs` has this content in the editor:\n````\n```rust\nfn main() {}\n````\n"
        );
    }

    #[test]
    fn pictures_are_known_by_their_content() {
        let picture =
            ContentBlock::Image { data: STANDARD.encode(PNG), mime_type: "image/jpeg".to_owned() };
        let content = read(vec![picture, resource("file:///x.png", None, Some(PNG))]).unwrap();
        assert!(content.has_images() && content.only_text().is_none());
        let types = content.message.parts.iter().map(|part| match part {
            Part::Image(image) => image.media_type.clone(),
            Part::Text { text } => text.clone(),
        });
        assert_eq!(types.collect::<Vec<_>>(), ["image/png", "image/png"]);
        let data = STANDARD.encode("<svg>");
        let other = ContentBlock::Image { data, mime_type: "image/png".to_owned() };
        assert!(read(vec![other]).unwrap_err().message().contains("PNG, JPEG"));
        let binary = read(vec![resource("file:///x.bin", None, Some(b"\0\0"))]).unwrap();
        assert_eq!(binary.only_text().unwrap(), "`/x.bin` (not text; it is not attached)");
    }

    #[test]
    fn what_says_nothing_or_too_much_is_refused() {
        let too_long = ContentBlock::text("x".repeat(PROMPT_BYTES + 1));
        for (blocks, expected) in [
            (Vec::new(), "empty"),
            (vec![ContentBlock::text("  ")], "empty"),
            (vec![ContentBlock::Audio {}], "sound"),
            (vec![resource("file:///x", None, None)], "neither"),
            (vec![too_long], "at most"),
        ] {
            let error = read(blocks).unwrap_err();
            assert!(error.message().contains(expected), "{error:?}");
        }
    }
}
