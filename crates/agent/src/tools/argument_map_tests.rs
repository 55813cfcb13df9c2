use serde_json::json;

use super::*;

fn arguments(value: Value) -> Arguments {
    Arguments::new(value).unwrap()
}

fn complaint<T: std::fmt::Debug>(result: Result<T, BadArgument>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn absent_and_null_are_the_same() {
    for given in [json!({}), json!({"a": null}), Value::Null] {
        let given = arguments(given);
        assert_eq!(given.optional_text("a"), Ok(None));
        assert_eq!(given.flag("a"), Ok(false));
        assert_eq!(given.integer("a"), Ok(None));
        assert_eq!(given.seconds("a"), Ok(None));
        assert_eq!(given.texts("a"), Ok(vec![]));
        assert_eq!(given.list("a"), Ok(None));
        assert_eq!(complaint(given.text("a")), "`a` is required");
    }
}

#[test]
fn numbers_and_flags_are_taken_from_strings() {
    let given = arguments(json!({"n": "30", "f": 2.0, "s": " 1.5 ", "yes": "True", "no": 0}));
    assert_eq!(given.integer("n"), Ok(Some(30)));
    assert_eq!(given.integer("f"), Ok(Some(2)));
    assert_eq!(given.seconds("s"), Ok(Some(Duration::from_millis(1500))));
    assert_eq!(given.flag("yes"), Ok(true));
    assert_eq!(given.flag("no"), Ok(false));
    assert_eq!(given.optional_text("n"), Ok(Some("30".into())));
    assert_eq!(arguments(json!({"id": 7})).text("id"), Ok("7".into()));
}

#[test]
fn lists_may_come_as_text_or_alone() {
    let given = arguments(json!({"a": ["x", 1], "b": "[\"x\"]", "c": "x"}));
    assert_eq!(given.texts("a"), Ok(vec!["x".into(), "1".into()]));
    assert_eq!(given.texts("b"), Ok(vec!["x".into()]));
    assert_eq!(given.texts("c"), Ok(vec!["x".into()]));
    assert_eq!(complaint(given.list("c")), "`c` must be a list, got \"x\"");
}

#[test]
fn a_wrong_value_is_named_with_what_was_wanted() {
    let given = arguments(json!({"t": "abc", "n": 1.5, "s": {}, "w": "  ", "big": 1e300}));
    assert_eq!(complaint(given.seconds("t")), "`t` must be a number of seconds, got \"abc\"");
    assert_eq!(complaint(given.integer("n")), "`n` must be a whole number, got 1.5");
    assert_eq!(complaint(given.text("s")), "`s` must be a string, got {}");
    assert_eq!(complaint(given.words("w")), "`w` must not be empty");
    assert_eq!(complaint(given.flag("t")), "`t` must be true or false, got \"abc\"");
    assert!(given.seconds("big").is_err() && given.integer("big").is_err());
    let wrong = arguments(json!({"n": -1, "z": 0, "l": "x".repeat(200)}));
    assert_eq!(complaint(wrong.count("n", 1)), "`n` must be at least 1, got -1");
    assert_eq!(complaint(wrong.seconds("z")), "`z` must be more than 0 seconds");
    assert!(complaint(wrong.integer("l")).len() < 120);
    assert_eq!(complaint(Arguments::new(json!([1]))), "`arguments` must be an object, got [1]");
}

#[test]
fn an_object_may_come_as_a_string_of_json() {
    let given = json!({"plain": {"n": 1}, "text": "{\"n\": 1}", "list": [1], "none": null});
    let given = Arguments::new(given).unwrap();
    let object = json!({"n": 1}).as_object().cloned();
    assert_eq!(given.object("plain").unwrap(), object);
    assert_eq!(given.object("text").unwrap(), object);
    assert_eq!(given.object("none").unwrap(), None);
    assert!(given.object("list").is_err());
}
