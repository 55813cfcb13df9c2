//! Values as JSON that a terminal shows and does not obey.

use std::io::IsTerminal as _;

use serde::Serialize;

use crate::error::Failure;

/// How JSON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// On one line, for programs.
    Line,
    /// Indented, for people.
    Indented,
}

/// Returns a value as JSON: on one line for programs, indented for people.
pub(crate) fn shown(value: &impl Serialize) -> Result<String, Failure> {
    let form = if std::io::stdout().is_terminal() { Form::Indented } else { Form::Line };
    in_form(value, form)
}

/// Returns a value as JSON.
pub(crate) fn in_form(value: &impl Serialize, form: Form) -> Result<String, Failure> {
    let json = match form {
        Form::Indented => serde_json::to_string_pretty(value),
        Form::Line => serde_json::to_string(value),
    };
    Ok(inert(&json.map_err(|error| unwritable(&error))?))
}

/// Returns a value as one line of JSON.
pub(crate) fn line(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(value).map_err(|error| unwritable(&error))?;
    Ok(format!("{}\n", inert(&json)))
}

fn unwritable(error: &serde_json::Error) -> Failure {
    Failure::new(format!("cannot be put into JSON: {error}"))
}

/// Escapes the control characters that JSON lets through and terminals obey.
fn inert(json: &str) -> String {
    if !json.chars().any(|c| c.is_control() && c != '\n') {
        return json.to_owned();
    }
    let escaped = json.chars().map(|c| match c {
        // Ends of lines stand between values only.
        '\n' => c.to_string(),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_hostile_text_is_inert_and_says_the_same() {
        let text = "a\u{1b}[2J\u{7f}\u{9b}31m\nb";
        let line = line(&text).unwrap();
        assert_eq!(line, "\"a\\u001b[2J\\u007f\\u009b31m\\nb\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }
}
