//! Tells files that are no text.

/// How much of the start of a file decides.
pub(super) const LOOKED_AT: usize = 8 << 10;

/// What the start of a file says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Text,
    Image,
    Binary,
}

/// Images by how they begin.
const IMAGES: &[&[u8]] = &[b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"BM"];

/// Looks at the start of a file.
pub(super) fn content(start: &[u8]) -> Content {
    let start = &start[..start.len().min(LOOKED_AT)];
    if !is_binary(start) {
        return Content::Text;
    }
    let webp = start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP");
    if webp || IMAGES.iter().any(|magic| start.starts_with(magic)) {
        Content::Image
    } else {
        Content::Binary
    }
}

/// A NUL, or almost a third of control characters, is in no text.
fn is_binary(start: &[u8]) -> bool {
    let is_control = |byte: u8| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    let controls = start.iter().filter(|byte| is_control(**byte)).count();
    start.contains(&0) || controls * 10 > start.len() * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_any_encoding_without_nul_is_text() {
        for text in [&b""[..], b"plain\n", b"caf\xe9\n", "żółć".as_bytes(), b"\x1b[31mred\x1b[0m\n"]
        {
            assert_eq!(content(text), Content::Text, "{text:?}");
        }
    }

    #[test]
    fn images_are_told_from_other_binary_files() {
        assert_eq!(content(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), Content::Image);
        assert_eq!(content(b"RIFF\0\0\0\0WEBPVP8 "), Content::Image);
        assert_eq!(content(b"\x7fELF\x02\x01\x01\0\0"), Content::Binary);
        assert_eq!(content(b"\x01\x02\x03\x04abc"), Content::Binary);
        assert_eq!(content(b"BM is how this text begins"), Content::Text);
    }
}
