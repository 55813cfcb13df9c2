//! Schemas of arguments and results, derived from their types.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::Value;

/// Returns the schema of a type. Clients and models read it, so it stands in one piece: without
/// definitions to look up, and without formats of numbers that validators don't know.
pub(crate) fn of<T: JsonSchema>() -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(plain).transform(&mut schema);
    match schema.to_value() {
        Value::Object(mut object) => {
            // The name of a Rust type says nothing to a client.
            object.remove("title");
            object.entry("type").or_insert_with(|| "object".into());
            // A tool without arguments has none.
            object.entry("properties").or_insert_with(|| Value::Object(JsonObject::new()));
            Arc::new(object)
        }
        _ => Arc::default(),
    }
}

/// Returns the schema of a tool's arguments. What may be left out may be null, too, which many
/// models send; but it is not said, since many clients take one type only.
pub(crate) fn of_arguments<T: JsonSchema>() -> JsonObject {
    let mut schema = (*of::<T>()).clone();
    // Of the arguments' own type; the tool has its description.
    schema.remove("description");
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return schema };
    properties.values_mut().for_each(without_null);
    schema
}

fn without_null(schema: &mut Value) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            schema["type"] = only.clone();
        }
    }
    if let Some(Value::Object(properties)) = schema.pointer_mut("/items/properties") {
        properties.values_mut().for_each(without_null);
    }
    if let Some(items) = schema.get_mut("items") {
        without_null(items);
    }
}

fn plain(schema: &mut schemars::Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    // Broken where the source is.
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    let is_numeric = object
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| format.starts_with("uint") || format.starts_with("int"));
    if is_numeric {
        object.remove("format");
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Arguments {
        /// A count
        /// of lines.
        lines: Option<u32>,
        all: Vec<Item>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Item {
        name: Option<String>,
    }

    #[test]
    fn arguments_have_one_type_each_and_stand_in_one_piece() {
        let schema = Value::Object(of_arguments::<Arguments>());
        let lines = json!({ "description": "A count of lines.", "type": "integer", "minimum": 0 });
        assert_eq!(schema["properties"]["lines"], lines);
        let item = &schema["properties"]["all"]["items"]["properties"]["name"];
        assert_eq!(item, &json!({ "type": "string" }));
        assert_eq!(schema["required"], json!(["all"]));
        assert!(!schema.to_string().contains("$ref"), "{schema}");
    }
}
