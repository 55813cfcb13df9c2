use serde_json::json;

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
struct Sample {
    /// A text.
    text: Option<String>,
    flag: bool,
    number: Option<i64>,
    time: Option<SecondsArgument>,
    count: Option<CountArgument<1>>,
    words: Option<NonEmptyString>,
    list: Vec<String>,
    object: Option<Map<String, Value>>,
    kind: Option<Kind>,
    inner: Vec<Inner>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    One,
    TwoWords,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Inner {
    /// Its name.
    id: String,
}

fn sample(arguments: Value) -> Sample {
    parse(arguments).unwrap()
}

fn complaint(arguments: Value) -> String {
    parse::<Sample>(arguments).unwrap_err().to_string()
}

#[test]
fn absent_and_null_are_the_same() {
    for arguments in [json!({}), json!({"text": null, "flag": null, "list": null}), Value::Null] {
        assert_eq!(sample(arguments), Sample::default());
    }
    let missing = parse::<Inner>(json!({"id": null})).unwrap_err();
    assert_eq!(missing.to_string(), "`id` is required");
}

#[test]
fn a_blank_in_a_text_that_may_be_left_out_is_as_good_as_absent() {
    #[derive(Deserialize, JsonSchema)]
    struct Optional {
        #[serde(default, deserialize_with = "blank_as_absent")]
        words: Option<NonEmptyString>,
        #[serde(default, deserialize_with = "blank_as_absent")]
        kind: Option<Kind>,
    }
    for given in [json!({}), json!({"words": null}), json!({"words": "", "kind": " "})] {
        let read = parse::<Optional>(given).unwrap();
        assert_eq!((read.words, read.kind), (None, None));
    }
    let read = parse::<Optional>(json!({"words": "a", "kind": "ONE"})).unwrap();
    assert_eq!((read.words.as_deref(), read.kind), (Some("a"), Some(Kind::One)));
    let refused = parse::<Optional>(json!({"kind": "three"})).map(drop).unwrap_err().to_string();
    assert_eq!(refused, "`kind` must be one or two_words, got \"three\"");
}

#[test]
fn an_argument_that_is_deferred_is_refused_only_when_it_is_read() {
    #[derive(Deserialize, JsonSchema)]
    struct Sometimes {
        #[serde(default)]
        time: Deferred<SecondsArgument>,
    }
    let read = |arguments| parse::<Sometimes>(arguments).unwrap().time.read("time");
    assert_eq!(read(json!({})), Ok(None));
    assert_eq!(read(json!({"time": "2"})), Ok(Some(SecondsArgument(Duration::from_secs(2)))));
    let refused = read(json!({"time": 0})).unwrap_err().to_string();
    assert_eq!(refused, "`time` must be more than 0 seconds");
    let schema = tool_spec::<Sometimes>("sometimes", "").parameters;
    let time = json!({"type": "integer", "minimum": 1});
    assert_eq!(schema, json!({"type": "object", "properties": {"time": time}}));
}

#[test]
fn numbers_flags_and_choices_are_taken_from_strings() {
    let read = sample(json!({"number": "30", "time": " 1.5 ", "flag": "True", "text": 7}));
    assert_eq!(read.number, Some(30));
    assert_eq!(read.time, Some(SecondsArgument(Duration::from_millis(1500))));
    assert_eq!((read.flag, read.text.as_deref()), (true, Some("7")));
    assert_eq!(sample(json!({"number": 2.0})).number, Some(2));
    assert_eq!(sample(json!({"kind": " Two-Words "})).kind, Some(Kind::TwoWords));
}

#[test]
fn lists_and_objects_may_come_as_text_and_one_item_alone() {
    for (given, expected) in
        [(json!(["x", 1]), vec!["x", "1"]), (json!("[\"x\"]"), vec!["x"]), (json!("x"), vec!["x"])]
    {
        assert_eq!(sample(json!({ "list": given })).list, expected);
    }
    let object = json!({"n": 1}).as_object().cloned();
    assert_eq!(sample(json!({"object": "{\"n\": 1}"})).object, object);
    let with_null = json!({"n": null});
    assert_eq!(sample(json!({ "object": with_null })).object, with_null.as_object().cloned());
}

#[test]
fn a_wrong_value_is_named_with_what_was_wanted() {
    for (arguments, expected) in [
        (json!({"time": "abc"}), "`time` must be a number, got \"abc\""),
        (json!({"time": 0}), "`time` must be more than 0 seconds"),
        (json!({"number": 1.5}), "`number` must be a whole number, got 1.5"),
        (json!({"count": -1}), "`count` must be at least 1, got -1"),
        (json!({"text": {}}), "`text` must be a string, got {}"),
        (json!({"words": "  "}), "`words` must not be empty"),
        (json!({"flag": "abc"}), "`flag` must be true or false, got \"abc\""),
        (json!({"kind": "three"}), "`kind` must be one or two_words, got \"three\""),
        (json!({"list": [{}]}), "each of `list` must be a string, got {}"),
        (json!({"inner": "soon"}), "`inner` must be a list, got \"soon\""),
        (json!({"inner": [1]}), "each of `inner` must be an object, got 1"),
        (json!({"inner": [{}]}), "`id` is required"),
        (json!([1]), "`arguments` must be an object, got [1]"),
    ] {
        assert_eq!(complaint(arguments), expected);
    }
    assert!(complaint(json!({"number": "x".repeat(200)})).len() < 130);
    assert!(parse::<Sample>(json!({"time": 1e300, "number": 1e300})).is_err());
}

#[test]
fn the_schema_has_what_the_type_says_and_nothing_that_providers_refuse() {
    let spec = tool_spec::<Sample>("sample", "Shows it.");
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("sample", "Shows it."));
    assert_eq!(
        spec.parameters,
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "A text."},
                "flag": {"type": "boolean", "default": false},
                "number": {"type": "integer"},
                "time": {"type": "integer", "minimum": 1},
                "count": {"type": "integer", "minimum": 1},
                "words": {"type": "string"},
                "list": {"type": "array", "items": {"type": "string"}},
                "object": {"type": "object", "additionalProperties": true},
                "kind": {"type": "string", "enum": ["one", "two_words"]},
                "inner": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"id": {"type": "string", "description": "Its name."}},
                        "required": ["id"]
                    }
                }
            }
        })
    );
}
