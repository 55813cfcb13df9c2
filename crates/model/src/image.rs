//! Pictures that models read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A picture, whole.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What it is: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Its bytes in base64.
    pub data: String,
    /// Whether it may be left out for a model that takes no pictures, because the
    /// words beside it do without. A person's own pictures may not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl Image {
    /// Bytes of a picture that are sent at most. Larger than any provider takes.
    pub const MOST_BYTES: u64 = 20 << 20;
    /// Bytes at the beginning that tell what a picture is.
    pub const HEAD: usize = 12;

    /// Reports whether what begins with these bytes is a picture that models read;
    /// [`Image::HEAD`] bytes tell.
    pub fn begins_with(head: &[u8]) -> bool {
        media_type(head).is_some()
    }

    /// Returns the picture that bytes are, by their content; none when they are
    /// none of the kinds that models read.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let media_type = media_type(bytes)?.to_owned();
        Some(Self { media_type, data: STANDARD.encode(bytes), optional: false })
    }
}

/// Shows what kind of picture it is and how large, not the picture.
impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({}, {} bytes of base64)", self.media_type, self.data.len())
    }
}

fn media_type(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some("image/png");
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        return Some("image/jpeg");
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Some("image/gif");
    }
    (bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")).then_some("image/webp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_tells_what_a_picture_is() {
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\n rest"), Some("image/png"));
        assert_eq!(media_type(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(media_type(b"GIF89a"), Some("image/gif"));
        assert_eq!(media_type(b"RIFF\x00\x00\x00\x00WEBPVP8 "), Some("image/webp"));
        for other in [&b""[..], b"%PDF-1.7", b"RIFF\x00\x00\x00\x00WAVE", b"RIFF", b"\x89PN"] {
            assert_eq!(media_type(other), None);
        }
    }
}
