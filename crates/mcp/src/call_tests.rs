use serde_json::json;

use super::*;

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async fn read(result: Value) -> ToolOutput {
    output(serde_json::from_value(result).unwrap()).await
}

#[tokio::test]
async fn text_is_joined_and_everything_else_described() {
    let result = read(json!({"content": [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two\nthree"},
        {"type": "image", "mimeType": "image/png", "data": PIXEL},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "image/gif", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "a\u{1b}file"},
    ]})).await;
    assert_eq!(
        result.content,
        "one\ntwo\nthree\n[image: image/png, 1x1]\n\
         [audio: audio/wav, 3 bytes, which cannot be played here]\n[resource file:///a]\ninside\n\
         [image: image/gif, 3 bytes, which is not shown: it is no picture that models take (PNG, JPEG, GIF or WebP)]\n[resource c at file:///c: afile]"
    );
    assert!(!result.is_error);
    let picture = vestal_model::Image {
        media_type: "image/png".to_owned(),
        data: PIXEL.to_owned(),
        optional: false,
    };
    assert_eq!(result.images, [picture]);
}

#[tokio::test]
async fn a_picture_that_no_provider_takes_is_only_described() {
    let blocks = [
        json!({"type": "image", "mimeType": "image/svg+xml", "data": "AAAA"}),
        json!({"type": "image", "mimeType": "image/png", "data": "not base64"}),
        json!({"type": "image", "mimeType": "image/png", "data": ""}),
        json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(33 << 20)}),
    ];
    for block in blocks {
        let result = read(json!({"content": [block]})).await;
        assert_eq!(result.images, []);
        assert!(result.content.starts_with("[image: image/"), "{}", result.content);
    }
}

#[tokio::test]
async fn structured_content_is_reported_once() {
    let both = json!({
        "content": [{"type": "text", "text": "{\"b\": 2, \"a\": 1}"}],
        "structuredContent": {"a": 1, "b": 2},
    });
    assert_eq!(read(both).await.content, "{\"b\": 2, \"a\": 1}");
    for (text, value) in [("5", json!(5)), ("sunny", json!("sunny"))] {
        let wrapped = json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": {"result": value},
        });
        assert_eq!(read(wrapped).await.content, text);
    }
    // Item by item, and in words.
    let items = json!({
        "content": [{"type": "text", "text": "ash"}, {"type": "text", "text": "a \"birch\""}],
        "structuredContent": {"result": ["ash", "a \"birch\""]},
    });
    assert_eq!(read(items).await.content, "ash\na \"birch\"");
    let in_words = json!({
        "content": [{"type": "text", "text": "Rain in Bern: 12 degrees (verified: true)"}],
        "structuredContent": {"city": "Bern", "sky": "Rain", "degrees": 12, "verified": true},
    });
    assert_eq!(read(in_words).await.content, "Rain in Bern: 12 degrees (verified: true)");
    let more = json!({
        "content": [{"type": "text", "text": "10 found"}],
        "structuredContent": {"found": 10, "page": 1},
    });
    assert_eq!(read(more).await.content, "10 found\n{\"found\":10,\"page\":1}");
    let other = json!({
        "content": [{"type": "text", "text": "sunny"}],
        "structuredContent": {"degrees": 21},
    });
    assert_eq!(read(other).await.content, "sunny\n{\"degrees\":21}");
    let alone = json!({"content": [], "structuredContent": {"a": 1}});
    assert_eq!(read(alone).await.content, "{\"a\":1}");
}

#[tokio::test]
async fn a_failure_without_words_is_still_a_failure() {
    let failed =
        read(json!({"content": [{"type": "text", "text": "no such city"}], "isError": true})).await;
    assert_eq!((failed.content.as_str(), failed.is_error), ("no such city", true));
    let silent = read(json!({"content": [], "isError": true})).await;
    assert_eq!(
        (silent.content.as_str(), silent.is_error),
        ("the tool failed and did not say why", true)
    );
    assert_eq!(read(json!({"content": []})).await.content, "(done; the tool returned nothing)");
}
