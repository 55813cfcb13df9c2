//! What is wrong with a request in the words of this server: the libraries that read it name their own
//! types, which mean nothing to a client.

use std::error::Error;

/// Returns which member of a body is wrong, and how.
pub(super) fn of_data(error: &(dyn Error + 'static)) -> (Option<String>, String) {
    let Some(found) = find(error) else {
        return (None, "the body is not what this route takes; see /openapi.json".to_owned());
    };
    let path = found.path().to_string();
    // The root, or a place that is not known.
    let path = if path == "." || path == "?" { None } else { Some(path) };
    let text = found.inner().to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    describe("member", path, text)
}

/// Returns where a body is not JSON.
pub(super) fn of_syntax(error: &(dyn Error + 'static)) -> String {
    match find(error) {
        Some(found) => {
            let at = found.inner();
            format!("the body is not JSON: line {}, column {}", at.line(), at.column())
        }
        None => "the body is not JSON: something follows its end".to_owned(),
    }
}

/// Returns which parameter of a query is wrong, and how.
pub(super) fn of_query(text: &str) -> (Option<String>, String) {
    let text = text.split_once("query string: ").map_or(text, |(_, rest)| rest);
    match text.split_once(": ") {
        Some((path, text)) if !path.contains(' ') => {
            describe("parameter", Some(path.to_owned()), text)
        }
        _ => describe("parameter", None, text),
    }
}

type DataError = serde_path_to_error::Error<serde_json::Error>;

fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a DataError> {
    let mut error = Some(error);
    while let Some(at) = error {
        if let Some(found) = at.downcast_ref::<DataError>() {
            return Some(found);
        }
        error = at.source();
    }
    None
}

/// Says what is wrong; `kind` is what the request consists of.
fn describe(kind: &str, path: Option<String>, text: &str) -> (Option<String>, String) {
    let below = |name: &str| match &path {
        Some(path) => format!("{path}.{name}"),
        None => name.to_owned(),
    };
    if let Some(name) = text.strip_prefix("missing field ").map(unquoted) {
        let param = below(name);
        return (Some(param.clone()), format!("the {kind} {param} is missing"));
    }
    if let Some(rest) = text.strip_prefix("unknown field ") {
        let (name, known) = rest.split_once(", ").unwrap_or((rest, ""));
        // The place of an unknown member is its own name already.
        let param = path.unwrap_or_else(|| unquoted(name).to_owned());
        let known = options(known);
        let known = if known.is_empty() { known } else { format!("; known are {known}") };
        return (Some(param.clone()), format!("there is no {kind} {param}{known}"));
    }
    let subject = path.clone().unwrap_or_else(|| "the body".to_owned());
    let wrong = if let Some(rest) = text.strip_prefix("unknown variant ") {
        let (given, known) = rest.split_once(", ").unwrap_or((rest, ""));
        format!("must be one of {}, not {}", options(known), unquoted(given))
    } else if let Some((given, wanted)) = mismatch(text) {
        format!("must be {}, not {}", plain(wanted), given_type(given))
    } else if let Some((_, wanted)) =
        text.strip_prefix("invalid length ").and_then(|rest| rest.split_once(", expected "))
    {
        format!("must be {}", plain(wanted))
    } else if text.contains("invalid digit") || text.contains("number too") {
        "must be a whole number that is not too large".to_owned()
    } else if text.contains("`true` or `false`") {
        "must be true or false".to_owned()
    } else if text.starts_with("must ") {
        text.to_owned()
    } else {
        format!("cannot be read: {text}")
    };
    (path, format!("{subject} {wrong}"))
}

/// Returns what was given and what was wanted.
fn mismatch(text: &str) -> Option<(&str, &str)> {
    let rest = ["invalid type: ", "invalid value: "];
    let rest = rest.into_iter().find_map(|start| text.strip_prefix(start))?;
    rest.split_once(", expected ")
}

/// Returns a type in words.
fn plain(wanted: &str) -> &str {
    match wanted {
        "a string" | "a borrowed string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        _ if wanted.starts_with("struct ") => "an object",
        _ => wanted,
    }
}

/// Returns what was given in words.
fn given_type(given: &str) -> &str {
    match given {
        "sequence" => "a list",
        "map" => "an object",
        "unit value" => "null",
        _ => given,
    }
}

fn unquoted(name: &str) -> &str {
    name.trim_matches('`')
}

/// Returns the names of a list as "expected one of `a`, `b`".
fn options(text: &str) -> String {
    let names = text.trim_start_matches("expected ").trim_start_matches("one of ");
    names.replace('`', "").replace(" or ", ", ").replace("there are no fields", "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(path: &str, text: &str) -> String {
        describe("member", Some(path.to_owned()), text).1
    }

    #[test]
    fn what_is_wrong_names_the_member_and_no_type_of_the_program() {
        let none = |text| describe("member", None, text).1;
        assert_eq!(none("missing field `input`"), "the member input is missing");
        assert_eq!(
            member("time_out", "unknown field `time_out`, expected one of `command`, `argv`"),
            "there is no member time_out; known are command, argv"
        );
        assert_eq!(
            member("choice", "unknown variant `perhaps`, expected one of `once`, `deny`"),
            "choice must be one of once, deny, not perhaps"
        );
        assert_eq!(
            member("n", "invalid type: string \"x\", expected u32"),
            "n must be a whole number that is not negative, not string \"x\""
        );
        assert_eq!(
            none("invalid type: sequence, expected struct RunRequest"),
            "the body must be an object, not a list"
        );
        assert_eq!(member("input", "must be text or a list"), "input must be text or a list");
        let query =
            of_query("Failed to deserialize query string: limit: invalid digit found in string");
        let words = "limit must be a whole number that is not too large".to_owned();
        assert_eq!(query, (Some("limit".to_owned()), words));
    }
}
