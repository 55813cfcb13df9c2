//! Pictures that go with a question.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vestal_model::Image;

use crate::console::text;
use crate::error::Failure;

/// Larger than any provider takes.
const MOST: u64 = 20 << 20;

/// Reads a picture, whose kind its content tells, whatever it is called.
pub(super) fn read(path: &Path) -> Result<Image, Failure> {
    let name = path.display();
    let unreadable = |error| {
        Failure::io(&format!("read the image {name}"), &error).with_exit(crate::exit::Exit::Usage)
    };
    let file = File::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(Failure::usage(format!("the image {name} is not a file")));
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST {
        return Err(Failure::usage(format!(
            "the image {name} has {}, and {} is the most that can be sent",
            text::bytes(found.len()),
            text::bytes(MOST)
        ))
        .advise("make it smaller first"));
    }
    let Some(media_type) = media_type(&bytes) else {
        return Err(Failure::usage(format!("{name} is none of the images that models read"))
            .advise("they read PNG, JPEG, GIF and WebP"));
    };
    Ok(Image { media_type: media_type.to_owned(), data: STANDARD.encode(&bytes) })
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
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\n...."), Some("image/png"));
        assert_eq!(media_type(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(media_type(b"GIF89a"), Some("image/gif"));
        assert_eq!(media_type(b"RIFF\x00\x00\x00\x00WEBPVP8 "), Some("image/webp"));
        for other in [&b""[..], b"%PDF-1.7", b"RIFF\x00\x00\x00\x00WAVE", b"RIFF", b"\x89PN"] {
            assert_eq!(media_type(other), None);
        }
    }
}
