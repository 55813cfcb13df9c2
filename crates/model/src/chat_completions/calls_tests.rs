use serde_json::json;

use super::*;

/// Feeds deltas, each a list of pieces, and returns the calls as
/// `id name arguments`, and the names in the order they were announced.
fn put_together(deltas: &[Value]) -> (Vec<String>, Vec<String>) {
    let mut calls = PartialCalls::default();
    let mut names = Vec::new();
    for delta in deltas {
        names.extend(calls.take(delta.as_array().unwrap()));
    }
    let (calls, rest) = calls.end();
    names.extend(rest);
    let lines = calls.iter().map(|call| {
        let id = if call.id.starts_with("call_") { "new" } else { &call.id };
        format!("{id} {} {}", call.name, call.arguments)
    });
    (lines.collect(), names)
}

fn piece(
    index: Option<u64>,
    id: Option<&str>,
    name: Option<&str>,
    arguments: Option<&str>,
) -> Value {
    json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
}

#[test]
fn parallel_calls_with_an_index_may_interleave() {
    let (calls, names) = put_together(&[
        json!([piece(Some(0), Some("a"), Some("ls"), Some(""))]),
        json!([piece(Some(1), Some("b"), Some("cat"), Some(""))]),
        json!([piece(Some(0), None, None, Some("{\"x\"")), piece(Some(1), None, None, Some("{"))]),
        json!([piece(Some(1), None, None, Some("}")), piece(Some(0), None, None, Some(":1}"))]),
    ]);
    assert_eq!(calls, ["a ls {\"x\":1}", "b cat {}"]);
    assert_eq!(names, ["ls", "cat"]);
}

#[test]
fn a_name_in_pieces_is_announced_when_it_is_whole() {
    let (calls, names) = put_together(&[
        json!([piece(Some(0), Some("a"), Some("ter"), None)]),
        json!([piece(Some(0), None, Some("minal"), Some(""))]),
        json!([piece(Some(0), None, None, Some("{}"))]),
    ]);
    assert_eq!(calls, ["a terminal {}"]);
    assert_eq!(names, ["terminal"]);
    let (calls, names) = put_together(&[
        json!([piece(Some(0), Some("a"), Some("ter"), None)]),
        json!([piece(Some(0), None, Some("terminal"), Some("{}"))]),
    ]);
    assert_eq!((calls, names), (vec!["a terminal {}".to_owned()], vec!["terminal".to_owned()]));
}

#[test]
fn calls_without_an_index_are_distinguished_by_their_ids() {
    let (calls, _) = put_together(&[
        json!([
            piece(None, Some("a"), Some("ls"), Some("{")),
            piece(None, Some("b"), Some("ls"), Some("{"))
        ]),
        json!([piece(None, Some("a"), None, Some("}")), piece(None, Some("b"), None, Some("}"))]),
        json!([piece(None, None, None, Some(" "))]),
    ]);
    assert_eq!(calls, ["a ls {}", "b ls {} "]);
}

#[test]
fn calls_without_index_and_id_are_distinguished_by_what_they_say() {
    let whole = |name| piece(None, None, Some(name), Some("{}"));
    let (calls, names) = put_together(&[
        json!([whole("ls"), whole("ls"), piece(None, None, Some("pwd"), None)]),
        json!([whole("cat")]),
    ]);
    // A name that follows a name without arguments continues with it.
    assert_eq!(calls, ["new ls {}", "new ls {}", "new pwdcat {}"]);
    assert_eq!(names, ["ls", "ls", "pwdcat"]);
    let (calls, _) =
        put_together(&[json!([whole("ls")]), json!([whole("ls")]), json!([whole("cat")])]);
    assert_eq!(calls, ["new ls {}", "new ls {}", "new cat {}"]);
}

#[test]
fn a_repeated_name_is_no_second_call_and_no_longer_name() {
    let (calls, _) = put_together(&[
        json!([piece(None, None, Some("ls"), Some("{\"a\""))]),
        json!([piece(None, None, Some("ls"), Some(":1}"))]),
    ]);
    assert_eq!(calls, ["new ls {\"a\":1}"]);
    let (calls, _) = put_together(&[
        json!([piece(Some(0), Some("a"), Some("ls"), Some(""))]),
        json!([piece(Some(0), Some("a"), Some("ls"), Some("{}"))]),
    ]);
    assert_eq!(calls, ["a ls {}"]);
}

#[test]
fn an_index_that_is_always_zero_does_not_merge_calls() {
    let (calls, _) = put_together(&[
        json!([piece(Some(0), Some("a"), Some("ls"), Some("{}"))]),
        json!([piece(Some(0), Some("b"), Some("cat"), Some("{}"))]),
    ]);
    assert_eq!(calls, ["a ls {}", "b cat {}"]);
}

#[test]
fn arguments_are_kept_as_written_and_an_object_is_taken_too() {
    let broken = "{\"path\": \"a\nb\", oops";
    let (calls, _) = put_together(&[json!([piece(Some(0), Some("a"), Some("t"), Some(broken))])]);
    assert_eq!(calls, [format!("a t {broken}")]);
    let object = json!([{"id": "a", "function": {"name": "t", "arguments": {"x": 1}}}]);
    assert_eq!(put_together(&[object]).0, ["a t {\"x\":1}"]);
}

#[test]
fn ids_are_unique_within_a_message() {
    let (calls, _) = put_together(&[
        json!([piece(Some(0), Some("a"), Some("x"), Some("{}"))]),
        json!([piece(Some(1), Some("a"), Some("y"), Some("{}"))]),
        json!([piece(Some(2), None, Some("z"), Some("{}"))]),
    ]);
    assert_eq!(calls, ["a x {}", "new y {}", "new z {}"]);
}
