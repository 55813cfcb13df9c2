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
