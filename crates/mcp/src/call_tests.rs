use serde_json::json;

use super::*;

fn read(result: Value) -> ToolOutput {
    output(serde_json::from_value(result).unwrap())
}

#[test]
fn text_is_joined_and_everything_else_described() {
    let result = read(json!({"content": [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two\nthree"},
        {"type": "image", "mimeType": "image/png", "data": "AAAAAA=="},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "image/gif", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "a\u{1b}file"},
    ]}));
    assert_eq!(
        result.content,
        "one\ntwo\nthree\n[image: image/png, 4 bytes]\n\
         [audio: audio/wav, 3 bytes, which cannot be played here]\n[resource file:///a]\ninside\n\
         [resource file:///b: image/gif, 3 bytes]\n[resource c at file:///c: afile]"
    );
    assert!(!result.is_error);
    let picture =
        Image { media_type: "image/png".to_owned(), data: "AAAAAA==".to_owned(), optional: false };
    assert_eq!(result.images, [picture]);
}

#[test]
fn a_picture_that_no_provider_takes_is_only_described() {
    let blocks = [
        json!({"type": "image", "mimeType": "image/svg+xml", "data": "AAAA"}),
        json!({"type": "image", "mimeType": "image/png", "data": "not base64"}),
        json!({"type": "image", "mimeType": "image/png", "data": ""}),
        json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(6 << 20)}),
    ];
    for block in blocks {
        let result = read(json!({"content": [block]}));
        assert_eq!(result.images, []);
        assert!(result.content.starts_with("[image: image/"), "{}", result.content);
    }
}

#[test]
fn structured_content_is_reported_once() {
    let both = json!({
        "content": [{"type": "text", "text": "{\"b\": 2, \"a\": 1}"}],
        "structuredContent": {"a": 1, "b": 2},
    });
    assert_eq!(read(both).content, "{\"b\": 2, \"a\": 1}");
    for (text, value) in [("5", json!(5)), ("sunny", json!("sunny"))] {
        let wrapped = json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": {"result": value},
        });
        assert_eq!(read(wrapped).content, text);
    }
    // Item by item, and in words.
    let items = json!({
        "content": [{"type": "text", "text": "ash"}, {"type": "text", "text": "a \"birch\""}],
        "structuredContent": {"result": ["ash", "a \"birch\""]},
    });
    assert_eq!(read(items).content, "ash\na \"birch\"");
    let in_words = json!({
        "content": [{"type": "text", "text": "Rain in Bern: 12 degrees (verified: true)"}],
        "structuredContent": {"city": "Bern", "sky": "Rain", "degrees": 12, "verified": true},
    });
    assert_eq!(read(in_words).content, "Rain in Bern: 12 degrees (verified: true)");
    let more = json!({
        "content": [{"type": "text", "text": "10 found"}],
        "structuredContent": {"found": 10, "page": 1},
    });
    assert_eq!(read(more).content, "10 found\n{\"found\":10,\"page\":1}");
    let other = json!({
        "content": [{"type": "text", "text": "sunny"}],
        "structuredContent": {"degrees": 21},
    });
    assert_eq!(read(other).content, "sunny\n{\"degrees\":21}");
    let alone = json!({"content": [], "structuredContent": {"a": 1}});
    assert_eq!(read(alone).content, "{\"a\":1}");
}

#[test]
fn a_failure_without_words_is_still_a_failure() {
    let failed =
        read(json!({"content": [{"type": "text", "text": "no such city"}], "isError": true}));
    assert_eq!((failed.content.as_str(), failed.is_error), ("no such city", true));
    let silent = read(json!({"content": [], "isError": true}));
    assert_eq!(
        (silent.content.as_str(), silent.is_error),
        ("the tool failed and did not say why", true)
    );
    assert_eq!(read(json!({"content": []})).content, "(done; the tool returned nothing)");
}
