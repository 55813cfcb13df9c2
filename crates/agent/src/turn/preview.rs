//! What those who watch are shown of a result.

use serde_json::Value;

/// Bytes of a text that are shown.
const TEXT: usize = 400;

/// Bytes of an object that are shown.
const OBJECT: usize = 4 * TEXT;

/// Returns the beginning of a result. Of an object it is an object still, with
/// its long texts cut: an exit code stands behind the output that it belongs to.
pub(crate) fn preview(content: &str) -> String {
    let object = if content.len() > TEXT { serde_json::from_str(content).ok() } else { None };
    match object.map(shortened).filter(|object| object.len() <= OBJECT) {
        Some(object) => object,
        None => beginning(content).to_owned(),
    }
}

fn shortened(mut fields: serde_json::Map<String, Value>) -> String {
    for value in fields.values_mut() {
        match value {
            Value::String(text) => text.truncate(beginning(text).len()),
            Value::Array(_) | Value::Object(_) => *value = Value::Null,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    Value::Object(fields).to_string()
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_exit_code_is_shown_however_much_was_printed() {
        let content = json!({ "output": "é".repeat(5000), "exit_code": 3, "error": null });
        let shown: Value = serde_json::from_str(&preview(&content.to_string())).unwrap();
        let expected = json!({ "output": "é".repeat(200), "exit_code": 3, "error": null });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_preview_is_bounded_whatever_the_result_is() {
        let many: serde_json::Map<String, Value> =
            (0..1000).map(|n| (format!("field {n}"), json!("x"))).collect();
        let nested = json!({ "list": vec!["x"; 1000] });
        for content in [Value::Object(many), nested, json!("y".repeat(5000))] {
            assert!(preview(&content.to_string()).len() <= OBJECT);
        }
        assert_eq!(preview("no object"), "no object");
        assert_eq!(preview(&"z".repeat(401)), "z".repeat(400));
    }
}
