use proptest::prelude::*;

use super::*;

fn repair(schema: &Value) -> Repaired {
    repaired(schema.as_object().unwrap())
}

#[test]
fn a_schema_that_is_right_stays_as_it_is() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where"},
            "lines": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            "mode": {"enum": ["a", "b"]},
            "description": {"type": "string"},
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    assert_eq!(repair(&schema), Repaired { schema: schema.clone(), note: None });
}

#[test]
fn what_providers_refuse_is_repaired() {
    for (given, expected) in [
        (json!({}), json!({"type": "object", "properties": {}})),
        (json!({"type": "string"}), json!({"type": "object", "properties": {}})),
        (
            json!({"$schema": "x", "type": "object", "properties": {"a": true, "l": {"type": "array"}}, "required": ["a", "gone"]}),
            json!({"type": "object", "properties": {"a": {}, "l": {"type": "array", "items": {}}}, "required": ["a"]}),
        ),
        (
            json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/P", "description": "own"}},
                   "$defs": {"P": {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}}, "X": {"type": "number"}}}),
            json!({"type": "object", "properties": {"p": {"type": "object", "description": "own", "properties": {"x": {"type": "number"}}}}}),
        ),
        (
            json!({"type": "object", "properties": {"t": {"$ref": "#/definitions/T"}},
                   "definitions": {"T": {"type": "object", "properties": {"next": {"$ref": "#/definitions/T"}}}}}),
            json!({"type": "object", "properties": {"t": {"type": "object", "properties": {"next": {}}}}}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "http://elsewhere/x"}}}),
            json!({"type": "object", "properties": {"a": {}}}),
        ),
        (
            json!({"anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}},
            ]}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        ),
        (
            json!({"type": "object", "allOf": [{"properties": {"a": {}}, "required": ["a"]}]}),
            json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}),
        ),
        (
            json!({"type": "object", "properties": [], "required": "a"}),
            json!({"type": "object", "properties": {}}),
        ),
    ] {
        assert_eq!(repair(&given), Repaired { schema: expected, note: None }, "{given}");
    }
}

#[test]
fn names_that_no_provider_takes_are_left_out_and_reported() {
    let given =
        json!({"type": "object", "properties": {"a b": {}, "c": {}}, "required": ["a b", "c"]});
    let repaired = repair(&given);
    assert_eq!(
        repaired.schema,
        json!({"type": "object", "properties": {"c": {}}, "required": ["c"]})
    );
    assert!(repaired.note.unwrap().contains("left out"));
}

#[test]
fn a_schema_that_is_too_large_loses_its_words_first_and_then_everything() {
    let property = json!({"type": "string", "description": "w".repeat(500)});
    let many = |count: usize| {
        let all = (0..count).map(|n| (format!("p{n}"), property.clone()));
        json!({"type": "object", "properties": Value::Object(all.collect())})
    };
    let wordy = repair(&many(100));
    assert_eq!(wordy.note, None);
    assert_eq!(wordy.schema["properties"]["p7"], json!({"type": "string"}));
    let huge = repair(&many(5000));
    assert_eq!(huge.schema["additionalProperties"], true);
    assert!(huge.note.unwrap().contains("too large"));
}

#[test]
fn references_that_multiply_end() {
    let mut definitions = Map::new();
    for n in 0..15 {
        let next = format!("#/$defs/d{}", n + 1);
        let properties: Map<String, Value> =
            (0..10).map(|p| (format!("p{p}"), json!({"$ref": next}))).collect();
        definitions.insert(format!("d{n}"), json!({"type": "object", "properties": properties}));
    }
    let bomb = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    assert!(size(&repair(&bomb).schema) <= LARGEST);
}

#[test]
fn a_reference_to_something_large_is_not_put_in_place_a_thousand_times() {
    let word = "w".repeat(20 << 10);
    let definitions =
        json!({"L": {"enum": [word]}, "D": {"default": {"a": [word]}}, "W": {word.clone(): 1}});
    for name in ["L", "D", "W"] {
        let reference = json!({"$ref": format!("#/$defs/{name}")});
        let properties: Map<String, Value> =
            (0..1000).map(|n| (format!("p{n}"), reference.clone())).collect();
        let whole = json!({"type": "object", "properties": properties, "$defs": definitions});
        let mut repair =
            SchemaRepair { root: &whole, budget: MOST_WORK, cut: false, renamed: false };
        let made = repair.schema(&whole, &mut Vec::new(), 0);
        assert!(repair.cut && size(&made) <= 2 * MOST_WORK, "{}", size(&made));
        assert!(repaired(whole.as_object().unwrap()).note.unwrap().contains("too large"));
    }
}

#[test]
fn what_a_word_cannot_say_is_left_out() {
    let given = json!({"type": "object", "properties": {"a": {
        "type": ["string", "any", "string", "null"],
        "description": {"hidden": "x"},
        "title": 5,
        "minimum": 1,
        "exclusiveMinimum": true,
        "multipleOf": 0,
        "maxLength": -1,
        "minItems": "two",
        "uniqueItems": "yes",
        "enum": [],
        "properties": [],
        "anyOf": [],
        "oneOf": "x",
        "not": false,
        "additionalProperties": "no",
        "$dynamicRef": "#meta",
        "x-own": {"kept": true},
    }, "b": {"type": "file", "maximum": 2, "maxLength": 3}}});
    let expected = json!({"type": "object", "properties": {
        "a": {"type": ["string", "null"], "minimum": 1, "x-own": {"kept": true}},
        "b": {"maximum": 2, "maxLength": 3},
    }});
    assert_eq!(repair(&given), Repaired { schema: expected, note: None });
}

#[test]
fn words_beside_a_reference_lose_what_nobody_sees_too() {
    let given = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "x\u{202e}\u{e0041}y", "title": 3}},
        "$defs": {"A": {"type": "string", "title": "t\u{200b}u"}},
    });
    let expected = json!({"type": "string", "description": "xy", "title": "tu"});
    assert_eq!(repair(&given).schema["properties"]["a"], expected);
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        Just("type"),
        Just("properties"),
        Just("required"),
        Just("items"),
        Just("$ref"),
        Just("anyOf"),
        Just("allOf"),
        Just("$defs"),
        Just("enum"),
        Just("a"),
        Just("x y"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(json!("object")),
        Just(json!("array")),
        Just(json!("#")),
        Just(json!("#/properties/a")),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(words.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_a_server_sends_becomes_a_schema_of_an_object(value in any_json()) {
        let Value::Object(map) = value else { return Ok(()) };
        let Repaired { schema, .. } = repaired(&map);
        prop_assert_eq!(&schema["type"], "object");
        prop_assert!(schema["properties"].is_object());
        prop_assert!(!schema.to_string().contains("$ref\":\"#"));
        for word in ["anyOf", "oneOf", "allOf", "$defs"] {
            prop_assert!(schema.get(word).is_none());
        }
        if let Some(required) = schema.get("required") {
            let known = schema["properties"].as_object().unwrap();
            prop_assert!(required.as_array().unwrap().iter().all(|n| known.contains_key(n.as_str().unwrap())));
        }
    }
}
