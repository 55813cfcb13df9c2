//! What the words of a schema may say.

use serde_json::Value;

/// Reports whether a word says what it can say. Older drafts of the standard,
/// and servers that know none, say other things, and providers refuse a whole
/// request because of one.
pub(super) fn fits(word: &str, value: &Value) -> bool {
    match word {
        "description" | "title" | "pattern" | "format" | "contentEncoding" | "contentMediaType" => {
            value.is_string()
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => value.is_u64(),
        "uniqueItems" | "readOnly" | "writeOnly" | "deprecated" | "additionalProperties" => {
            value.is_boolean()
        }
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
        "required" | "examples" => value.is_array(),
        // These have been read already, if they were what they should be.
        "properties" | "patternProperties" | "dependentSchemas" | "anyOf" | "oneOf" | "allOf"
        | "prefixItems" | "not" => false,
        _ => true,
    }
}

/// Returns about how many bytes a value has.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(items) => 8 + items.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            8 + map.iter().map(|(word, value)| word.len() + weight(value)).sum::<usize>()
        }
    }
}
